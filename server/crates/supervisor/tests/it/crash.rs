//! A board that is killed by SIGKILL at random moments while its runs go on.

use std::process::{Child, Command, Stdio};

use board_supervisor::Supervisor;
use run_protocol::RunState;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

use crate::support::{
    Board, settings, steps, submission, wait_for_state, wait_for_step, wait_until,
};

/// Names the data folder to the process that plays the board.
const FOLDER: &str = "BOARD_CRASH_TEST_FOLDER";
const NUM_RUNS: usize = 4;
const NUM_KILLS: i64 = 8;
/// Each run writes so many steps, in bursts, some of them torn in the middle of a line.
const NUM_STEPS: i64 = 3000;
const STUB: &str = r#"
started
awk -v seq="$seq" 'BEGIN {
    for (step = 1; step <= 3000; step++) {
        line = sprintf("{\"v\":1,\"seq\":%d,\"attempt\":1,\"time\":5,\"kind\":\"metric\",\"step\":%d,\"values\":{\"loss\":1.5}}", ++seq, step)
        cut = step % 90
        printf "%s", substr(line, 1, cut); if (step % 10 == 0) fflush()
        print substr(line, cut + 1); if (step % 7 == 0) fflush()
        if (step % 25 == 0) system("sleep 0.02")
    }
}' >> "$events"
leave 0 finished
"#;

/// Not a test: the board of the test below, in a process of its own.
#[tokio::test]
#[ignore = "plays the board for another test"]
async fn play_board() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let folder = std::path::PathBuf::from(folder);
    let store = board_store::Store::open(&folder.join("board.sqlite"))
        .await
        .unwrap();
    let settings = board_supervisor::Settings {
        max_running: NUM_RUNS,
        ..settings(&folder)
    };
    let _supervisor = Supervisor::start(store, settings).await.unwrap();
    std::future::pending::<()>().await;
}

fn start_board(board: &Board) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "crash::play_board"])
        .env(FOLDER, board.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Asks the database beside the board that has it open.
async fn last_event_id(board: &Board) -> i64 {
    let options = SqliteConnectOptions::new().filename(board.path().join("board.sqlite"));
    let mut connection = options.read_only(true).connect().await.unwrap();
    let last = sqlx::query_scalar("SELECT last_id FROM event_ids");
    let last = last.fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    last
}

#[tokio::test]
async fn board_killed_at_random_moments_loses_and_doubles_nothing() {
    let board = Board::new(STUB);
    let (store, supervisor) = {
        let store = board.store().await;
        let settings = board_supervisor::Settings {
            max_running: NUM_RUNS,
            ..board.settings()
        };
        (
            store.clone(),
            Supervisor::start(store, settings).await.unwrap(),
        )
    };
    let mut ids = Vec::new();
    for _ in 0..NUM_RUNS {
        ids.push(supervisor.create_run(submission("a")).await.unwrap().id);
    }
    wait_for_step(&store, ids[NUM_RUNS - 1], 1).await;
    supervisor.shutdown().await;
    drop(supervisor);
    store.close().await;
    drop(store);

    let mut num_cut = 0;
    for round in 0..NUM_KILLS {
        let before = last_event_id(&board).await;
        let mut child = start_board(&board);
        // Killed in the middle of its work: once it has stored some more events, another number each time.
        let is_over = || ids.iter().all(|id| board.exit_record(*id).exists());
        wait_until("the board has stored some events", async || {
            is_over() || last_event_id(&board).await > before + (round * 97) % 240
        })
        .await;
        num_cut += u32::from(!is_over());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(num_cut > 1, "the boards were killed while runs went on");

    let store = board.store().await;
    let settings = board_supervisor::Settings {
        max_running: NUM_RUNS,
        ..board.settings()
    };
    let supervisor = Supervisor::start(store.clone(), settings).await.unwrap();
    for id in ids {
        wait_for_state(&store, id, RunState::Finished).await;
        assert!(steps(&store, id).await.into_iter().eq(1..=NUM_STEPS));
    }
    supervisor.shutdown().await;
}
