use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use board_supervisor::SupervisorError;
use run_protocol::{LauncherRecord, RunDir, RunState};

use crate::support::{Board, create, steps, submission, wait_for_state, wait_for_step, wait_until};

#[tokio::test]
async fn run_goes_from_the_queue_to_its_end() {
    let board = Board::new(
        "started; for step in 1 2 3 4 5; do metric $step; done; echo said; emit finished ',\"step\":5'; leave 0 finished",
    );
    let (store, supervisor) = board.start().await;
    let mut events = store.subscribe();
    let id = create(&supervisor).await;
    let run = wait_for_state(&store, id, RunState::Finished).await;
    assert_eq!(
        (run.attempt, run.steps_done, run.steps_total),
        (1, 5, Some(100))
    );
    assert_eq!(run.exit.unwrap().code, Some(0));
    assert_eq!(run.last_loss, Some(5.5));
    assert!(run.started_ms.is_some() && run.ended_ms >= run.started_ms);
    assert_eq!(steps(&store, id).await, [1, 2, 3, 4, 5]);
    let states: Vec<String> = std::iter::from_fn(|| events.try_recv().ok())
        .filter(|event| event.kind == "state")
        .map(|event| event.body.split('"').nth(3).unwrap().to_owned())
        .collect();
    assert_eq!(states, ["queued", "starting", "running", "finished"]);

    let dir = supervisor.run_dir(id);
    assert_eq!(
        fs::read_to_string(dir.training_args()).unwrap(),
        "# as given\nstage: sft\n"
    );
    let texts = store.find_texts(id).await.unwrap().unwrap();
    assert_eq!(fs::read_to_string(dir.config()).unwrap(), texts.config_yaml);
    assert_eq!(fs::read_to_string(dir.launcher_log()).unwrap(), "said\n");
    let record = LauncherRecord::read(&dir.launcher()).unwrap().unwrap();
    assert_eq!(record.attempt, 1);
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(dir.root()), 0o700);
    for path in [
        dir.training_args(),
        dir.config(),
        dir.launcher_log(),
        dir.events(),
    ] {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[tokio::test]
async fn launcher_is_isolated() {
    let board = Board::new(
        "started; env > \"$dir/env\"; ls -l /proc/$$/fd > \"$dir/fd\"; pwd > \"$dir/cwd\"; umask > \"$dir/umask\"
        cut -d' ' -f5 /proc/$$/stat > \"$dir/group\"; echo $$ > \"$dir/pid\"; leave 0 finished",
    );
    let store = board.store().await;
    let mut settings = board.settings();
    settings
        .environment
        .push(("BOARD_SECRET".into(), "hidden".into()));
    settings
        .environment
        .push(("OMP_NUM_THREADS".into(), "1".into()));
    let supervisor = board_supervisor::Supervisor::start(store.clone(), settings)
        .await
        .unwrap();
    let id = create(&supervisor).await;
    wait_for_state(&store, id, RunState::Finished).await;
    let dir = supervisor.run_dir(id);
    let read = |name: &str| fs::read_to_string(dir.root().join(name)).unwrap();
    let environment = read("env");
    assert!(environment.contains("OMP_NUM_THREADS=1") && environment.contains("PATH="));
    assert!(!environment.contains("hidden") && !environment.contains("CARGO"));
    let open = read("fd");
    assert!(
        open.contains("/dev/null") && open.contains("launcher.log"),
        "{open}"
    );
    assert!(
        !open.contains("socket:") && !open.contains("sqlite"),
        "{open}"
    );
    assert_eq!(read("cwd").trim(), dir.root().to_str().unwrap());
    assert_eq!(read("umask").trim(), "0077");
    assert_eq!(read("group"), read("pid"));
}

#[tokio::test]
async fn queue_is_worked_through_in_order() {
    let board = Board::new(
        "started; metric 1; while [ ! -e \"$dir/go\" ]; do sleep 0.02; done; leave 0 finished",
    );
    let (store, supervisor) = board.start().await;
    let mut ids = Vec::new();
    for name in ["one", "two", "three"] {
        ids.push(supervisor.create_run(submission(name)).await.unwrap().id);
    }
    wait_for_step(&store, ids[0], 1).await;
    assert_eq!(supervisor.queue().await.unwrap(), ids[1..]);
    let stopped = supervisor.stop_run(ids[1]).await.unwrap();
    assert_eq!(stopped.state, RunState::Stopped);
    assert_eq!(
        stopped.exit.unwrap().message.as_deref(),
        Some("stopped before it began")
    );
    let go = |id| fs::write(supervisor.run_dir(id).root().join("go"), "").unwrap();
    go(ids[0]);
    wait_for_state(&store, ids[0], RunState::Finished).await;
    wait_for_step(&store, ids[2], 1).await;
    assert!(supervisor.queue().await.unwrap().is_empty());
    go(ids[2]);
    wait_for_state(&store, ids[2], RunState::Finished).await;
    assert!(!supervisor.run_dir(ids[1]).events().exists());
}

#[tokio::test]
async fn run_is_made_even_if_nobody_waits_for_it() {
    let board = Board::new("started; leave 0 finished");
    let (store, supervisor) = board.start().await;
    let mut making = Box::pin(supervisor.create_run(submission("a run")));
    let waker = std::task::Waker::noop();
    let polled = making
        .as_mut()
        .poll(&mut std::task::Context::from_waker(waker));
    assert!(polled.is_pending());
    drop(making);
    let finished = async || {
        let counts = store.count_runs().await.unwrap();
        counts.finished == 1
    };
    wait_until("the run is finished", finished).await;
}

#[tokio::test]
async fn places_bound_how_many_run_at_once() {
    let board = Board::new(
        "started; metric 1; while [ ! -e \"$dir/go\" ]; do sleep 0.02; done; leave 0 finished",
    );
    let store = board.store().await;
    let settings = board_supervisor::Settings {
        max_running: 2,
        ..board.settings()
    };
    let supervisor = board_supervisor::Supervisor::start(store.clone(), settings)
        .await
        .unwrap();
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(create(&supervisor).await);
    }
    for id in &ids[..2] {
        wait_for_step(&store, *id, 1).await;
    }
    assert_eq!(supervisor.queue().await.unwrap(), ids[2..]);
    for id in &ids {
        fs::write(supervisor.run_dir(*id).root().join("go"), "").unwrap();
        wait_for_state(&store, *id, RunState::Finished).await;
    }
}

#[tokio::test]
async fn line_counts_once_it_is_whole() {
    let board = Board::new(
        "started; metric 1
        printf '{\"v\":1,\"seq\":3,\"attempt\":1,\"time\":5,\"ki' >> \"$events\"
        while [ ! -e \"$dir/go\" ]; do sleep 0.02; done
        printf 'nd\":\"metric\",\"step\":2,\"values\":{\"loss\":\"NaN\"}}\\n' >> \"$events\"
        echo 'no event at all' >> \"$events\"
        seq=3; metric 3
        printf '{\"v\":1,\"seq\":5,\"attempt\":1,\"time\":5,\"kind\":\"metric\",\"step\":4,\"val' >> \"$events\"
        leave 0 finished",
    );
    let (store, supervisor) = board.start().await;
    let id = create(&supervisor).await;
    wait_for_step(&store, id, 1).await;
    fs::write(supervisor.run_dir(id).root().join("go"), "").unwrap();
    wait_for_state(&store, id, RunState::Finished).await;
    assert_eq!(steps(&store, id).await, [1, 2, 3]);
}

#[tokio::test]
async fn resumed_run_continues_the_series() {
    let board = Board::new(
        "echo \"$@\" > \"$dir/arguments\"; started
        if [ \"$attempt\" = 1 ]; then metric 1; metric 2; metric 3; leave 13 out_of_memory; fi
        metric 3; metric 4; leave 0 finished",
    );
    let (store, supervisor) = board.start().await;
    let id = create(&supervisor).await;
    let run = wait_for_state(&store, id, RunState::Failed).await;
    assert_eq!(run.exit.unwrap().class.as_deref(), Some("out_of_memory"));
    let refused = supervisor.resume_run(id, None).await.unwrap_err();
    assert!(matches!(refused, SupervisorError::NoCheckpoint(_)));
    let checkpoint = supervisor.run_dir(id).checkpoint(3);
    fs::create_dir(&checkpoint).unwrap();
    fs::write(RunDir::checkpoint_mark(&checkpoint), "").unwrap();
    let refused = supervisor.resume_run(id, None).await.unwrap_err();
    assert!(
        matches!(refused, SupervisorError::NoCheckpoint(_)),
        "of the model alone"
    );
    fs::write(checkpoint.join("optimizer.safetensors"), "").unwrap();
    let run = supervisor.resume_run(id, None).await.unwrap();
    assert_eq!(run.state, RunState::Queued);
    let run = wait_for_state(&store, id, RunState::Finished).await;
    assert_eq!(run.attempt, 2);
    assert_eq!(steps(&store, id).await, [1, 2, 3, 4]);
    let arguments = fs::read_to_string(supervisor.run_dir(id).root().join("arguments")).unwrap();
    assert!(arguments.trim().ends_with("--resume auto"), "{arguments}");
    let refused = supervisor.resume_run(id, None).await.unwrap_err();
    assert!(matches!(refused, SupervisorError::Finished(_)));
    supervisor.delete_run(id).await.unwrap();
    assert!(!supervisor.run_dir(id).root().exists());
    assert_eq!(store.find_run(id).await.unwrap(), None);
}
