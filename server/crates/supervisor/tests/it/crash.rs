//! A board that is killed by SIGKILL at random moments while its runs go on.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use board_supervisor::Supervisor;
use run_protocol::RunState;

use crate::support::{Board, settings, steps, submission, wait_for_state, wait_for_step};

/// Names the data folder to the process that plays the board.
const FOLDER: &str = "BOARD_CRASH_TEST_FOLDER";
const NUM_RUNS: usize = 4;
const NUM_KILLS: u32 = 8;
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

    for round in 0..NUM_KILLS {
        let mut child = start_board(&board);
        // The moment is what is tested, so nothing is waited for here; it differs from round to round.
        let moment = Duration::from_millis(u64::from(40 + (round * 97) % 240));
        tokio::time::sleep(moment).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }

    let store = board.store().await;
    for id in &ids {
        let run = store.find_run(*id).await.unwrap().unwrap();
        eprintln!("{} {}", run.state, run.steps_done);
    }
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
