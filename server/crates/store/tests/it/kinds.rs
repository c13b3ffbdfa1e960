use board_store::Store;
use run_protocol::EventKind;
use run_protocol::events::{Alert, Finished, Level, MetricValue, Phase, StageProgress, System};
use sqlx::SqlitePool;

use crate::support::{create, event, ingest, metric};

fn stage(stage: Phase) -> EventKind {
    EventKind::Stage(StageProgress {
        stage,
        done: None,
        total: None,
    })
}

fn reading(rank: u32, step: Option<u64>, rss_bytes: f64) -> EventKind {
    let values = [("rss_bytes".to_owned(), MetricValue(rss_bytes))];
    EventKind::System(System {
        rank,
        step,
        values: values.into_iter().collect(),
    })
}

#[sqlx::test(migrator = "board_store::MIGRATOR")]
async fn newest_events_of_a_kind_come_alone(pool: SqlitePool) {
    let store = Store::from_pool(pool).await.unwrap();
    let (run, other) = (create(&store, "a").await.id, create(&store, "b").await.id);
    let alert = |seq: u64| {
        let alert = Alert {
            level: Level::Warn,
            code: "odd".into(),
            message: format!("alert {seq}"),
            hint: None,
            step: Some(seq),
        };
        event(seq, 1, EventKind::Alert(alert))
    };
    let events = (1..=9).map(|seq| {
        if seq % 3 == 0 {
            alert(seq)
        } else {
            metric(seq, &[("loss", 1.0)])
        }
    });
    ingest(&store, run, events.collect()).await.unwrap();
    ingest(&store, other, vec![alert(1)]).await.unwrap();
    let newest = store.newest_events(run, "alert", 2).await.unwrap();
    let seqs: Vec<_> = newest.iter().map(|event| event.seq.unwrap()).collect();
    assert_eq!(seqs, [9, 6]);
    assert!(newest[0].body.contains("alert 9"));
    assert!(
        store
            .newest_events(run, "sample", 9)
            .await
            .unwrap()
            .is_empty()
    );
}

#[sqlx::test(migrator = "board_store::MIGRATOR")]
async fn phases_are_timed_over_attempts_without_the_pause_between_them(pool: SqlitePool) {
    let store = Store::from_pool(pool).await.unwrap();
    let run = create(&store, "a").await.id;
    let finished = |stopped| {
        EventKind::Finished(Finished {
            stopped,
            ..Finished::default()
        })
    };
    let first = vec![
        event(10, 1, stage(Phase::Loading)),
        event(30, 1, stage(Phase::Training)),
        event(70, 1, stage(Phase::Evaluating)),
        event(80, 1, stage(Phase::Training)),
        event(100, 1, finished(true)),
    ];
    ingest(&store, run, first).await.unwrap();
    let second = vec![
        event(5000, 2, stage(Phase::Loading)),
        event(5010, 2, stage(Phase::Training)),
    ];
    ingest(&store, run, second).await.unwrap();
    let times = store.stage_times(run).await.unwrap();
    let times: Vec<_> = times
        .iter()
        .map(|time| (time.stage.as_str(), time.time_ms, time.since_ms))
        .collect();
    let wanted = [
        ("loading", 30, None),
        ("training", 60, Some(15_010)),
        ("evaluating", 10, None),
    ];
    assert_eq!(times, wanted);
}

#[sqlx::test(migrator = "board_store::MIGRATOR")]
async fn memory_is_thinned_and_keeps_every_peak(pool: SqlitePool) {
    let store = Store::from_pool(pool).await.unwrap();
    let run = create(&store, "a").await.id;
    let mut events = vec![event(1, 1, reading(0, None, 5.0))];
    for step in 1..=1000_u64 {
        let rss = if step == 333 { 900.0 } else { 100.0 };
        events.push(event(2 * step, 1, reading(0, Some(step), rss)));
        events.push(event(2 * step + 1, 1, reading(1, Some(step), f64::NAN)));
    }
    ingest(&store, run, events).await.unwrap();
    let points = store.memory(run, 50).await.unwrap();
    assert!((40..=50).contains(&points.len()), "{}", points.len());
    assert!(
        points.iter().all(|point| point.rank == 0),
        "NaN is no reading"
    );
    assert!(points.windows(2).all(|pair| pair[0].step < pair[1].step));
    let peak = points
        .iter()
        .map(|point| point.rss_bytes)
        .fold(0.0, f64::max);
    assert!((peak - 900.0).abs() < f64::EPSILON);
    let all = store.memory(run, 5000).await.unwrap();
    assert_eq!(all.len(), 1001);
}
