use std::fs;
use std::time::Duration;

use board_store::{ProcessKey, Run, StateChange, Store};
use board_supervisor::{Settings, Supervisor};
use run_protocol::{RunId, RunState};

use crate::support::{
    Board, create, is_process_there, steps, wait_for_state, wait_for_step, wait_until,
};

const WAITS_FOR_GO: &str = "trap 'leave 130 stopped' TERM
started; metric 1; metric 2
while [ ! -e \"$dir/go\" ]; do sleep 0.02; done
metric 3; metric 4
[ -e \"$dir/die\" ] && exit 1
leave 0 finished";

/// Starts a run and then lets the board go, its launcher at work.
async fn left_by_its_board(board: &Board) -> (RunId, Run) {
    let (store, supervisor) = board.start().await;
    let id = create(&supervisor).await;
    let run = wait_for_step(&store, id, 2).await;
    supervisor.shutdown().await;
    drop(supervisor);
    store.close().await;
    (id, run)
}

fn put(board: &Board, id: RunId, name: &str) {
    fs::write(
        board.path().join("runs").join(id.to_string()).join(name),
        "",
    )
    .unwrap();
}

fn exists(board: &Board, id: RunId, name: &str) -> bool {
    board
        .path()
        .join("runs")
        .join(id.to_string())
        .join(name)
        .exists()
}

#[tokio::test]
async fn living_run_is_taken_up_without_a_loss() {
    let board = Board::new(WAITS_FOR_GO);
    let (id, before) = left_by_its_board(&board).await;
    let (store, supervisor) = board.start().await;
    let run = store.find_run(id).await.unwrap().unwrap();
    assert_eq!(
        (run.state, run.process),
        (RunState::Running, before.process)
    );
    // It takes the only place.
    let waiting = create(&supervisor).await;
    assert_eq!(supervisor.queue().await.unwrap(), [waiting]);
    put(&board, id, "go");
    wait_for_state(&store, id, RunState::Finished).await;
    assert_eq!(steps(&store, id).await, [1, 2, 3, 4]);
    supervisor.kill_run(waiting).await.unwrap();
}

#[tokio::test]
async fn run_taken_up_can_be_stopped() {
    let board = Board::new(WAITS_FOR_GO);
    let (id, _) = left_by_its_board(&board).await;
    let (store, supervisor) = board.start().await;
    supervisor.stop_run(id).await.unwrap();
    let run = wait_for_state(&store, id, RunState::Stopped).await;
    assert_eq!(run.exit.unwrap().code, Some(130));
}

#[tokio::test]
async fn run_that_ended_meanwhile_ends_as_it_did() {
    let board = Board::new(WAITS_FOR_GO);
    let (id, _) = left_by_its_board(&board).await;
    put(&board, id, "go");
    wait_until("the run ended", async || exists(&board, id, "exit.json")).await;
    let (store, _supervisor) = board.start().await;
    wait_for_state(&store, id, RunState::Finished).await;
    assert_eq!(steps(&store, id).await, [1, 2, 3, 4]);
}

#[tokio::test]
async fn run_that_was_killed_meanwhile_has_failed_with_all_its_points() {
    let board = Board::new(WAITS_FOR_GO);
    let (id, run) = left_by_its_board(&board).await;
    put(&board, id, "die");
    put(&board, id, "go");
    let pid = run.process.unwrap().pid;
    wait_until("the run is gone", async || !is_process_there(pid)).await;
    let (store, _supervisor) = board.start().await;
    let exit = wait_for_state(&store, id, RunState::Failed)
        .await
        .exit
        .unwrap();
    assert_eq!(
        exit.message.as_deref(),
        Some("killed by SIGKILL or the machine restarted")
    );
    assert_eq!(steps(&store, id).await, [1, 2, 3, 4]);
}

/// Makes the store say that a run of the last board has this launcher.
async fn rewrite_process(store: &Store, id: RunId, process: Option<ProcessKey>) {
    let all = RunState::ALL;
    store
        .change_state(id, StateChange::new(all, RunState::Queued, 1))
        .await
        .unwrap();
    let starting = StateChange {
        process,
        attempt: Some(1),
        ..StateChange::new(all, RunState::Starting, 2)
    };
    store.change_state(id, starting).await.unwrap();
}

#[tokio::test]
async fn reused_pid_is_not_taken_for_the_launcher() {
    let board = Board::new(WAITS_FOR_GO);
    let (id, run) = left_by_its_board(&board).await;
    put(&board, id, "die");
    put(&board, id, "go");
    let pid = run.process.unwrap().pid;
    wait_until("the run is gone", async || !is_process_there(pid)).await;
    // Another program has the pid by now: this one, which would not survive being taken for the launcher.
    let mut other = std::process::Command::new("sleep")
        .arg("1000")
        .spawn()
        .unwrap();
    let store = board.store().await;
    let reused = ProcessKey {
        pid: other.id(),
        start_time: 1,
    };
    rewrite_process(&store, id, Some(reused)).await;
    let supervisor = Supervisor::start(store.clone(), board.settings())
        .await
        .unwrap();
    wait_for_state(&store, id, RunState::Failed).await;
    assert!(
        other.try_wait().unwrap().is_none(),
        "the other program lives"
    );
    assert!(supervisor.stop_run(id).await.is_err());
    other.kill().unwrap();
    other.wait().unwrap();
}

#[tokio::test]
async fn launcher_whose_pid_nobody_wrote_down_is_found() {
    let board = Board::new(WAITS_FOR_GO);
    let (id, before) = left_by_its_board(&board).await;
    fs::remove_file(
        board
            .path()
            .join("runs")
            .join(id.to_string())
            .join("launcher.json"),
    )
    .unwrap();
    let store = board.store().await;
    rewrite_process(&store, id, None).await;
    let supervisor = Supervisor::start(store.clone(), board.settings())
        .await
        .unwrap();
    assert!(supervisor.queue().await.unwrap().is_empty());
    supervisor.stop_run(id).await.unwrap();
    wait_for_state(&store, id, RunState::Stopped).await;
    assert!(!is_process_there(before.process.unwrap().pid));
}

#[tokio::test]
async fn run_that_was_never_started_waits_again() {
    let board = Board::new("started; metric 1; leave 0 finished");
    let (store, supervisor) = board.start().await;
    let id = create(&supervisor).await;
    wait_for_state(&store, id, RunState::Finished).await;
    supervisor.shutdown().await;
    let dir = board.path().join("runs").join(id.to_string());
    for name in ["launcher.json", "exit.json", "events.jsonl"] {
        fs::remove_file(dir.join(name)).unwrap();
    }
    rewrite_process(&store, id, None).await;
    let supervisor = Supervisor::start(store.clone(), board.settings())
        .await
        .unwrap();
    let run = wait_for_state(&store, id, RunState::Finished).await;
    assert_eq!(run.attempt, 1);
    supervisor.shutdown().await;
}

#[tokio::test]
async fn time_to_stop_goes_on_while_no_board_is_there() {
    let board = Board::new("trap '' TERM; started; metric 1; while :; do sleep 0.02; done");
    let settings = Settings {
        grace: Duration::from_millis(400),
        ..board.settings()
    };
    let store = board.store().await;
    let supervisor = Supervisor::start(store.clone(), settings.clone())
        .await
        .unwrap();
    let id = create(&supervisor).await;
    wait_for_step(&store, id, 1).await;
    supervisor.stop_run(id).await.unwrap();
    supervisor.shutdown().await;
    let run = store.find_run(id).await.unwrap().unwrap();
    assert_eq!(run.state, RunState::Stopping);
    let supervisor = Supervisor::start(store.clone(), settings).await.unwrap();
    let run = wait_for_state(&store, id, RunState::Stopped).await;
    let message = run.exit.unwrap().message.unwrap();
    assert_eq!(message, "it did not stop within 0.4 s and was killed");
    supervisor.shutdown().await;
}

#[tokio::test]
async fn ranks_that_outlived_their_launcher_are_ended() {
    let board = Board::new(
        "sleep 1000 & echo $! > \"$dir/rank\"; started; metric 1; metric 2
        while [ ! -e \"$dir/go\" ]; do sleep 0.02; done; kill -9 $$",
    );
    let (id, run) = left_by_its_board(&board).await;
    let rank = board.path().join("runs").join(id.to_string()).join("rank");
    let rank: u32 = fs::read_to_string(rank).unwrap().trim().parse().unwrap();
    put(&board, id, "go");
    let pid = run.process.unwrap().pid;
    wait_until("the launcher is gone", async || !is_process_there(pid)).await;
    assert!(is_process_there(rank));
    let (store, _supervisor) = board.start().await;
    wait_for_state(&store, id, RunState::Failed).await;
    wait_until("the rank is gone", async || !is_process_there(rank)).await;
}

#[tokio::test]
async fn rewritten_event_file_doubles_nothing() {
    let board = Board::new(WAITS_FOR_GO);
    let (id, _) = left_by_its_board(&board).await;
    let events = board
        .path()
        .join("runs")
        .join(id.to_string())
        .join("events.jsonl");
    // The same lines again, shorter than what was read before: the file is read from its start.
    let text = fs::read_to_string(&events).unwrap();
    let shorter = text.replace(r#""attempt":1,"time":1001,"#, r#""attempt":1,"time":1,"#);
    assert!(shorter.len() < text.len());
    fs::write(&events, shorter).unwrap();
    let (store, _supervisor) = board.start().await;
    put(&board, id, "go");
    wait_for_state(&store, id, RunState::Finished).await;
    assert_eq!(steps(&store, id).await, [1, 2, 3, 4]);
}
