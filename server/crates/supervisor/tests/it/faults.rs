use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use board_store::{Ingest, NewRun, RunTexts, Store, StoreError};
use board_supervisor::{Settings, Supervisor, SupervisorError};
use run_protocol::events::Level;
use run_protocol::{Event, EventKind, RunId, RunState};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

use crate::support::{Board, create, steps, submission, wait_for_state, wait_for_step, wait_until};

#[tokio::test]
async fn missing_trainer_is_told_before_a_run_is_made() {
    let board = Board::new("");
    let (store, supervisor) = board.start().await;
    fs::set_permissions(board.trainer(), fs::Permissions::from_mode(0o644)).unwrap();
    let error = supervisor.create_run(submission("a")).await.unwrap_err();
    assert!(
        matches!(error, SupervisorError::TrainerNotExecutable { .. }),
        "{error}"
    );
    fs::remove_file(board.trainer()).unwrap();
    let error = supervisor.create_run(submission("a")).await.unwrap_err();
    assert!(
        matches!(error, SupervisorError::TrainerMissing { .. }),
        "{error}"
    );
    assert!(error.hint().unwrap().contains("BOARD_TRAINER"));
    assert_eq!(store.count_runs().await.unwrap().total(), 0);
    assert_eq!(fs::read_dir(board.path().join("runs")).unwrap().count(), 0);
}

#[tokio::test]
async fn trainer_that_vanished_fails_the_run_and_the_queue_goes_on() {
    let board =
        Board::new("started; while [ ! -e \"$dir/go\" ]; do sleep 0.02; done; leave 0 finished");
    let (store, supervisor) = board.start().await;
    let first = create(&supervisor).await;
    let second = create(&supervisor).await;
    let third = create(&supervisor).await;
    wait_for_state(&store, first, RunState::Running).await;
    fs::rename(board.trainer(), board.path().join("away")).unwrap();
    fs::write(supervisor.run_dir(first).root().join("go"), "").unwrap();
    for id in [second, third] {
        let run = wait_for_state(&store, id, RunState::Failed).await;
        let exit = run.exit.unwrap();
        assert_eq!(exit.class.as_deref(), Some("not_started"));
        assert!(exit.message.unwrap().starts_with("there is no trainer at"));
        assert!(exit.hint.is_some());
    }
}

#[tokio::test]
async fn failure_is_told_in_the_trainers_words() {
    let board = Board::new(
        "started; leave 13 out_of_memory '\"no room for the batch\"' '\"halve the batch\"'",
    );
    let (store, supervisor) = board.start().await;
    let id = create(&supervisor).await;
    let exit = wait_for_state(&store, id, RunState::Failed)
        .await
        .exit
        .unwrap();
    assert_eq!(
        (exit.code, exit.class.as_deref()),
        (Some(13), Some("out_of_memory"))
    );
    assert_eq!(exit.message.as_deref(), Some("no room for the batch"));
    assert_eq!(exit.hint.as_deref(), Some("halve the batch"));
}

#[tokio::test]
async fn trainer_without_a_word_of_its_own_is_told_by_its_log() {
    let board = Board::new("echo 'libtorch_cpu.so: cannot open shared object file' >&2; exit 127");
    let (store, supervisor) = board.start().await;
    let id = create(&supervisor).await;
    let exit = wait_for_state(&store, id, RunState::Failed)
        .await
        .exit
        .unwrap();
    let message =
        "the trainer ended with code 127: libtorch_cpu.so: cannot open shared object file";
    assert_eq!(exit.message.as_deref(), Some(message));
}

#[tokio::test]
async fn folder_that_cannot_be_made_is_told() {
    let board = Board::new("");
    let settings = Settings {
        runs_dir: "/proc/runs".into(),
        ..board.settings()
    };
    let error = Supervisor::start(board.store().await, settings)
        .await
        .unwrap_err();
    assert!(matches!(error, SupervisorError::RunDir { .. }), "{error}");
    // A file stands where the folder of runs was.
    let (store, supervisor) = board.start().await;
    let runs = board.path().join("runs");
    fs::remove_dir(&runs).unwrap();
    fs::write(&runs, "").unwrap();
    let error = supervisor.create_run(submission("a")).await.unwrap_err();
    assert!(matches!(error, SupervisorError::RunDir { .. }), "{error}");
    assert!(error.hint().is_some());
    assert_eq!(store.count_runs().await.unwrap().total(), 0);
}

/// `SQLite` says the same when a page more is forbidden as when the disk has none left.
async fn store_with_limit(board: &Board, limit: Arc<AtomicI64>) -> Store {
    let path = board.path().join("board.sqlite");
    Store::open(&path).await.unwrap().close().await;
    let pool = SqlitePoolOptions::new()
        .max_connections(3)
        .after_connect(move |connection, _| {
            let pragma = format!("PRAGMA max_page_count = {}", limit.load(Ordering::Relaxed));
            Box::pin(async move {
                sqlx::raw_sql(sqlx::AssertSqlSafe(pragma))
                    .execute(connection)
                    .await
                    .map(drop)
            })
        });
    let pool = pool
        .connect_with(SqliteConnectOptions::new().filename(&path))
        .await
        .unwrap();
    Store::from_pool(pool).await.unwrap()
}

/// Stores events of a run that never begins until nothing more fits.
async fn fill(store: &Store) -> RunId {
    let texts = RunTexts {
        input_yaml: String::new(),
        config_yaml: String::new(),
        config_hash: String::new(),
    };
    let id = RunId::new();
    let word = || "filler".to_owned();
    let filler = NewRun {
        id,
        name: word(),
        stage: word(),
        backend: word(),
        finetuning_type: word(),
        model: word(),
        datasets: Vec::new(),
        texts,
        steps_total: None,
        tags: Vec::new(),
        created_ms: 1,
    };
    store.create_run(filler).await.unwrap();
    for seq in 1.. {
        let kind = EventKind::log(Level::Info, 0, "x".repeat(1000));
        let event = Event {
            v: 1,
            seq,
            attempt: 1,
            time: 1,
            kind,
        };
        let ingest = Ingest {
            run: id,
            events: vec![event],
            mark: None,
        };
        match store.ingest(ingest).await {
            Ok(_) => {}
            Err(StoreError::DiskFull) => break,
            Err(error) => panic!("{error}"),
        }
    }
    id
}

#[tokio::test]
async fn full_disk_delays_events_and_loses_none() {
    const NUM_STEPS: i64 = 6000;
    let board = Board::new(
        r#"started; metric 1; while [ ! -e "$dir/go" ]; do sleep 0.02; done
        awk -v seq="$seq" 'BEGIN { for (step = 2; step <= 6000; step++)
            printf "{\"v\":1,\"seq\":%d,\"attempt\":1,\"time\":5,\"kind\":\"metric\",\"step\":%d,\"values\":{\"loss\":1}}\n", ++seq, step
        }' >> "$events"
        : > "$dir/written"; leave 0 finished"#,
    );
    let limit = Arc::new(AtomicI64::new(120));
    let store = store_with_limit(&board, Arc::clone(&limit)).await;
    let supervisor = Supervisor::start(store.clone(), board.settings())
        .await
        .unwrap();
    let id = create(&supervisor).await;
    wait_for_step(&store, id, 1).await;
    let filler = fill(&store).await;
    let dir = supervisor.run_dir(id);
    fs::write(dir.root().join("go"), "").unwrap();
    wait_until("all is written", async || {
        dir.root().join("written").exists()
    })
    .await;
    limit.store(1_000_000, Ordering::Relaxed);
    wait_for_step(&store, id, 6000).await;
    store.delete_run(filler, 2).await.unwrap();
    wait_for_state(&store, id, RunState::Finished).await;
    assert!(steps(&store, id).await.into_iter().eq(1..=NUM_STEPS));
    supervisor.shutdown().await;
}
