//! Measures the store: `cargo run --release -p board-store --example store_speed`.
//!
//! Prints points and events per second at ingest, and how long the reads of the board's pages take on a large database.
#![expect(clippy::print_stdout, reason = "its figures are its output")]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use board_store::{Ingest, NewRun, ReadMark, RunFilter, RunTexts, SeriesQuery, Store};
use run_protocol::events::EventReader;
use run_protocol::{Event, EventKind, RunId, RunState};

const NAMES: [&str; 6] = [
    "loss",
    "learning_rate",
    "grad_norm",
    "train_tokens_per_second",
    "step_time_ms",
    "num_input_tokens_seen",
];
const NUM_STEPS: u64 = 1_000_000;
const BATCH: usize = 4096;
const NUM_LIVE: u64 = 50;
const NUM_RUNS: u64 = 10_000;

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let folder = tempfile::tempdir()?;
    tokio::runtime::Runtime::new()?.block_on(measure(folder.path()))
}

async fn measure(folder: &Path) -> Outcome {
    let path = folder.join("board.sqlite");
    let store = Store::open(&path).await?;
    from_file(&store, folder).await?;
    let long = one_long_series(&store).await?;
    read_long_series(&store, long).await?;
    many_live_runs(&store).await?;
    many_runs(&store).await?;
    println!("database: {} MiB", std::fs::metadata(&path)?.len() >> 20);
    store.close().await;
    drop(store);
    let start = Instant::now();
    let store = Store::open(&path).await?;
    println!("open with {NUM_RUNS} runs: {:.0?}", start.elapsed());
    store.close().await;
    Ok(())
}

fn new_run(number: u64) -> NewRun {
    NewRun {
        id: RunId::new(),
        name: format!("run {number}"),
        stage: "sft".to_owned(),
        backend: "single".to_owned(),
        finetuning_type: "lora".to_owned(),
        model: format!("/models/model-{}", number % 17),
        datasets: vec!["demo".to_owned()],
        texts: RunTexts {
            input_yaml: "x: 1\n".repeat(100),
            config_yaml: "x: 1\n".repeat(300),
            config_hash: format!("{number:064x}"),
        },
        steps_total: Some(1000),
        tags: Vec::new(),
        created_ms: i64::try_from(number).unwrap_or(0),
    }
}

fn metric(seq: u64, num_values: usize) -> Event {
    let wave = (seq as f64 / 500.0).sin() / 3.0 + 2.0;
    let values = NAMES[..num_values]
        .iter()
        .zip(1_u8..)
        .map(|(name, number)| (*name, wave / f64::from(number)));
    let kind = EventKind::metric(seq, Some(seq as f64 / 1e4), values);
    Event {
        v: 1,
        seq,
        attempt: 1,
        time: i64::try_from(seq).unwrap_or(0) * 137,
        kind,
    }
}

fn rate(what: &str, count: u64, start: Instant) {
    let elapsed = start.elapsed();
    println!(
        "{what}: {count} in {elapsed:.2?}, {:.0} a second",
        count as f64 / elapsed.as_secs_f64()
    );
}

/// The way of a live run: lines of a file, parsed and stored, six points an event.
async fn from_file(store: &Store, folder: &Path) -> Outcome {
    const NUM_EVENTS: u64 = 200_000;
    let path = folder.join("events.jsonl");
    let mut text = String::new();
    for seq in 1..=NUM_EVENTS {
        text.push_str(&metric(seq, NAMES.len()).to_line()?);
        text.push('\n');
    }
    std::fs::write(&path, text)?;
    let run = store.create_run(new_run(0)).await?.id;
    let mut reader = EventReader::new(&path, 0);
    let start = Instant::now();
    loop {
        let batch = reader.read(BATCH)?;
        let mark = Some(ReadMark {
            file: "events.jsonl".to_owned(),
            offset: batch.offset,
        });
        store
            .ingest(Ingest {
                run,
                events: batch.events,
                mark,
            })
            .await?;
        if batch.is_at_end {
            break;
        }
    }
    rate(
        "points from an event file",
        NUM_EVENTS * NAMES.len() as u64,
        start,
    );
    Ok(())
}

async fn one_long_series(store: &Store) -> Result<RunId, Box<dyn Error>> {
    let run = store.create_run(new_run(1)).await?.id;
    let events: Vec<Event> = (1..=NUM_STEPS).map(|seq| metric(seq, 1)).collect();
    let start = Instant::now();
    for batch in events.chunks(BATCH) {
        store
            .ingest(Ingest {
                run,
                events: batch.to_vec(),
                mark: None,
            })
            .await?;
    }
    rate("points of one series", NUM_STEPS, start);
    Ok(run)
}

async fn read_long_series(store: &Store, run: RunId) -> Outcome {
    // The first look opens a connection; those after it are what a page waits for.
    for max_points in [500, 500, 2000, 2000, 5000, 5000] {
        let start = Instant::now();
        let query = SeriesQuery {
            max_points,
            ..SeriesQuery::default()
        };
        let series = store.series(run, &query).await?;
        let num_points: usize = series.series.iter().map(|series| series.points.len()).sum();
        let elapsed = start.elapsed();
        println!("{NUM_STEPS} points as {num_points}: {elapsed:.1?}");
    }
    let start = Instant::now();
    let window = SeriesQuery {
        max_points: 2000,
        from_step: Some(400_000),
        to_step: Some(401_000),
        ..SeriesQuery::default()
    };
    store.series(run, &window).await?;
    println!("1000 steps in the middle: {:.1?}", start.elapsed());
    let start = Instant::now();
    let mut export = store.export(run).await?;
    let mut num_rows = 0;
    while let Some(rows) = export.next().await? {
        num_rows += rows.len() as u64;
    }
    rate("points exported", num_rows, start);
    let start = Instant::now();
    let last = store.last_event_id().await?;
    let replayed = store.events_after(last - 500_000, Some(run), 1000).await?;
    println!(
        "replay of {} events out of chunks: {:.1?}",
        replayed.len(),
        start.elapsed()
    );
    Ok(())
}

/// Every run sends a small batch in turn, all at once.
async fn many_live_runs(store: &Store) -> Outcome {
    const NUM_BATCHES: u64 = 100;
    const EVENTS: u64 = 20;
    let mut tasks = Vec::new();
    let mut runs = Vec::new();
    for number in 0..NUM_LIVE {
        runs.push(store.create_run(new_run(100 + number)).await?.id);
    }
    let start = Instant::now();
    for run in runs {
        let store = store.clone();
        tasks.push(tokio::spawn(async move {
            for batch in 0..NUM_BATCHES {
                let seqs = batch * EVENTS + 1..=(batch + 1) * EVENTS;
                let events = seqs.map(|seq| metric(seq, NAMES.len())).collect();
                store
                    .ingest(Ingest {
                        run,
                        events,
                        mark: None,
                    })
                    .await?;
            }
            Ok::<_, board_store::StoreError>(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    rate(
        "events over 50 live runs",
        NUM_LIVE * NUM_BATCHES * EVENTS,
        start,
    );
    Ok(())
}

async fn many_runs(store: &Store) -> Outcome {
    let start = Instant::now();
    let mut tasks = Vec::new();
    for number in 0..NUM_RUNS {
        let store = store.clone();
        tasks.push(tokio::spawn(async move {
            store.create_run(new_run(number)).await
        }));
    }
    for task in tasks {
        task.await??;
    }
    rate("runs made", NUM_RUNS, start);
    let filters = [
        ("all", RunFilter::default()),
        (
            "by text",
            RunFilter {
                text: Some("model-13".to_owned()),
                ..RunFilter::default()
            },
        ),
        (
            "by a text that none has",
            RunFilter {
                text: Some("absent".to_owned()),
                ..RunFilter::default()
            },
        ),
        (
            "by state",
            RunFilter {
                states: vec![RunState::Failed],
                ..RunFilter::default()
            },
        ),
    ];
    for (name, filter) in filters {
        let start = Instant::now();
        let page = store.list_runs(&filter, None, 50).await?;
        println!(
            "list of {NUM_RUNS} runs, {name}: {} in {:.1?}",
            page.runs.len(),
            start.elapsed()
        );
    }
    let start = Instant::now();
    store.count_runs().await?;
    println!("counts by state: {:.1?}", start.elapsed());
    Ok(())
}
