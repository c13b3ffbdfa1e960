use std::time::Duration;

use board_supervisor::{Settings, Supervisor, SupervisorError};
use run_protocol::RunState;

use crate::support::{
    Board, create, is_process_there, steps, wait_for, wait_for_state, wait_for_step, wait_until,
};

#[tokio::test]
async fn stopped_run_saves_and_says_so() {
    let board = Board::new(
        "trap 'metric 2; leave 130 stopped' TERM; started; metric 1; while :; do sleep 0.02; done",
    );
    let (store, supervisor) = board.start().await;
    let id = create(&supervisor).await;
    wait_for_step(&store, id, 1).await;
    let run = supervisor.stop_run(id).await.unwrap();
    assert_eq!(run.state, RunState::Stopping);
    assert!(run.stop_requested_ms.is_some());
    let run = wait_for_state(&store, id, RunState::Stopped).await;
    assert_eq!(run.exit.unwrap().code, Some(130));
    assert_eq!(steps(&store, id).await, [1, 2]);
    let error = supervisor.stop_run(id).await.unwrap_err();
    assert!(matches!(error, SupervisorError::NotRunning(_)));
}

#[tokio::test]
async fn run_that_does_not_stop_is_killed_with_all_its_ranks() {
    let board = Board::new(
        "trap '' TERM; sleep 1000 & echo $! > \"$dir/rank\"; started; metric 1; while :; do sleep 0.02; done",
    );
    let store = board.store().await;
    let settings = Settings {
        grace: Duration::from_millis(300),
        ..board.settings()
    };
    let supervisor = Supervisor::start(store.clone(), settings).await.unwrap();
    let id = create(&supervisor).await;
    let run = wait_for_step(&store, id, 1).await;
    let rank = std::fs::read_to_string(supervisor.run_dir(id).root().join("rank")).unwrap();
    let rank: u32 = rank.trim().parse().unwrap();
    assert!(is_process_there(rank));
    supervisor.stop_run(id).await.unwrap();
    let ended = wait_for_state(&store, id, RunState::Stopped).await;
    let message = ended.exit.unwrap().message.unwrap();
    assert_eq!(message, "it did not stop within 0.3 s and was killed");
    wait_until("the ranks are gone", async || !is_process_there(rank)).await;
    assert!(!is_process_there(run.process.unwrap().pid));
}

#[tokio::test]
async fn killed_run_ends_at_once() {
    let board = Board::new("trap '' TERM; started; metric 1; while :; do sleep 0.02; done");
    let (store, supervisor) = board.start().await;
    let id = create(&supervisor).await;
    wait_for_step(&store, id, 1).await;
    supervisor.stop_run(id).await.unwrap();
    supervisor.kill_run(id).await.unwrap();
    let run = wait_for_state(&store, id, RunState::Stopped).await;
    assert_eq!(
        run.exit.unwrap().message.as_deref(),
        Some("it was killed as asked")
    );
}

#[tokio::test]
async fn run_that_is_stopped_at_once_ends_as_stopped() {
    let board = Board::new("trap 'leave 130 stopped' TERM; started; while :; do sleep 0.02; done");
    let (store, supervisor) = board.start().await;
    for _ in 0..10 {
        let id = create(&supervisor).await;
        supervisor.stop_run(id).await.unwrap();
        let run = wait_for(&store, id, |run| run.state.is_final()).await;
        assert_eq!(run.state, RunState::Stopped);
    }
}

#[tokio::test]
async fn launcher_killed_from_outside_is_told_and_its_ranks_go_too() {
    let board = Board::new(
        "sleep 1000 & echo $! > \"$dir/rank\"; started; metric 1; while :; do sleep 0.02; done",
    );
    let (store, supervisor) = board.start().await;
    let id = create(&supervisor).await;
    let run = wait_for_step(&store, id, 1).await;
    let rank = std::fs::read_to_string(supervisor.run_dir(id).root().join("rank")).unwrap();
    let pid = i32::try_from(run.process.unwrap().pid).unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::SIGKILL).unwrap();
    let run = wait_for_state(&store, id, RunState::Failed).await;
    let exit = run.exit.unwrap();
    assert_eq!(
        exit.message.as_deref(),
        Some("the launcher was killed by SIGKILL")
    );
    assert!(exit.hint.is_some());
    let rank = rank.trim().parse().unwrap();
    wait_until("the ranks are gone", async || !is_process_there(rank)).await;
    assert_eq!(steps(&store, id).await, [1]);
}
