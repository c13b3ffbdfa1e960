use board_store::{Ingest, IngestReport, SeriesQuery, Store, StoreError};
use run_protocol::events::{Started, Unknown};
use run_protocol::{EventKind, RunId, RunState};
use sqlx::SqlitePool;

use crate::support::{begin, create, event, export_all, ingest, mark, metric};

#[sqlx::test(migrator = "board_store::MIGRATOR")]
async fn second_arrival_of_a_seq_changes_nothing(pool: SqlitePool) {
    let store = Store::from_pool(pool).await.unwrap();
    let run = create(&store, "a").await.id;
    let events = vec![metric(1, &[("loss", 2.0)]), metric(2, &[("loss", 1.0)])];
    let report = ingest(&store, run, events.clone()).await.unwrap();
    assert_eq!(
        report,
        IngestReport {
            num_stored: 2,
            num_known: 0
        }
    );
    let before = (
        store.last_event_id().await.unwrap(),
        store.find_run(run).await.unwrap(),
    );
    let mut changed = events;
    changed[1] = metric(2, &[("loss", 99.0)]);
    let report = ingest(&store, run, changed).await.unwrap();
    assert_eq!(
        report,
        IngestReport {
            num_stored: 0,
            num_known: 2
        }
    );
    assert_eq!(
        (
            store.last_event_id().await.unwrap(),
            store.find_run(run).await.unwrap()
        ),
        before
    );
    let values: Vec<f64> = export_all(&store, run)
        .await
        .iter()
        .map(|row| row.point.value)
        .collect();
    assert_eq!(values, [2.0, 1.0]);
}

#[sqlx::test(migrator = "board_store::MIGRATOR")]
async fn offset_is_stored_with_the_events(pool: SqlitePool) {
    let store = Store::from_pool(pool).await.unwrap();
    let run = create(&store, "a").await.id;
    assert_eq!(store.read_offset(run, "events.jsonl").await.unwrap(), 0);
    let batch = Ingest {
        run,
        events: vec![metric(1, &[("loss", 2.0)])],
        mark: Some(mark(77)),
    };
    store.ingest(batch).await.unwrap();
    assert_eq!(store.read_offset(run, "events.jsonl").await.unwrap(), 77);
    let batch = Ingest {
        run: RunId::new(),
        events: Vec::new(),
        mark: Some(mark(5)),
    };
    assert!(matches!(
        store.ingest(batch).await,
        Err(StoreError::RunNotFound(_))
    ));
}

#[sqlx::test(migrator = "board_store::MIGRATOR")]
async fn run_shows_how_far_it_is(pool: SqlitePool) {
    let store = Store::from_pool(pool).await.unwrap();
    let run = create(&store, "a").await.id;
    begin(&store, run).await;
    let started = Started {
        total_steps: Some(40),
        ..Started::default()
    };
    let phase = run_protocol::events::Phase::Training;
    let events = vec![
        event(1, 1, EventKind::Started(Box::new(started))),
        event(2, 1, EventKind::stage(phase, Some(3), Some(40))),
        metric(3, &[("loss", f64::NAN), ("eval_loss", 0.5)]),
    ];
    ingest(&store, run, events).await.unwrap();
    let run = store.find_run(run).await.unwrap().unwrap();
    assert_eq!(run.state, RunState::Running);
    assert_eq!((run.steps_done, run.steps_total), (3, Some(40)));
    assert!(run.last_loss.is_some_and(f64::is_nan));
    assert_eq!(run.last_eval_loss, Some(0.5));
    let phase = run.phase.unwrap();
    assert_eq!(
        (phase.name.as_str(), phase.done, phase.total),
        ("training", Some(3), Some(40))
    );
    let kinds = |events: Vec<board_store::StoredEvent>| {
        events
            .into_iter()
            .map(|event| event.kind)
            .collect::<Vec<_>>()
    };
    let events = store.events_after(0, Some(run.id), 10).await.unwrap();
    assert_eq!(
        kinds(events),
        ["state", "state", "started", "stage", "metric", "state"]
    );
}

#[sqlx::test(migrator = "board_store::MIGRATOR")]
async fn unknown_kind_is_kept_with_its_fields(pool: SqlitePool) {
    let store = Store::from_pool(pool).await.unwrap();
    let run = create(&store, "a").await.id;
    let fields = serde_json::json!({"x": [1, "ä\u{0}\n\"", null], "y": {"z": 1e300}});
    let unknown = Unknown {
        kind: "profile".to_owned(),
        fields: fields.as_object().unwrap().clone(),
    };
    ingest(&store, run, vec![event(1, 1, EventKind::Unknown(unknown))])
        .await
        .unwrap();
    let stored = store
        .events_after(1, Some(run), 10)
        .await
        .unwrap()
        .pop()
        .unwrap();
    assert_eq!(stored.kind, "profile");
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&stored.body).unwrap(),
        fields
    );
}

#[sqlx::test(migrator = "board_store::MIGRATOR")]
async fn hostile_metric_names_are_names(pool: SqlitePool) {
    let store = Store::from_pool(pool).await.unwrap();
    let run = create(&store, "a").await.id;
    let names = [
        "",
        "a\"b",
        "'; DROP TABLE runs; --",
        "rewards/chosen",
        "$.x[0]",
        "名\u{202e}",
    ];
    // Enough of them to be sealed into chunks, and a few that are not.
    for range in [1..2100_u64, 2100..2110] {
        let values: Vec<(&str, f64)> = names.iter().map(|name| (*name, 1.5)).collect();
        let events = range.map(|seq| metric(seq, &values)).collect();
        ingest(&store, run, events).await.unwrap();
    }
    let mut sorted = names;
    sorted.sort_unstable();
    assert_eq!(store.metric_names(run).await.unwrap(), sorted);
    let series = store
        .series(run, &SeriesQuery::default())
        .await
        .unwrap()
        .series;
    assert!(series.iter().all(|series| series.num_points == 2109));
    assert_eq!(export_all(&store, run).await.len(), 2109 * names.len());
}

#[sqlx::test(migrator = "board_store::MIGRATOR")]
async fn runs_that_write_at_once_do_not_mix(pool: SqlitePool) {
    let store = Store::from_pool(pool).await.unwrap();
    let mut tasks = Vec::new();
    for number in 0..20_u32 {
        let run = create(&store, &format!("run {number}")).await.id;
        let store = store.clone();
        tasks.push(tokio::spawn(async move {
            for batch in 0..30_u64 {
                let seqs = batch * 10 + 1..=batch * 10 + 10;
                let events = seqs
                    .map(|seq| metric(seq, &[("loss", f64::from(number))]))
                    .collect();
                ingest(&store, run, events).await.unwrap();
            }
            (number, run)
        }));
    }
    for task in tasks {
        let (number, run) = task.await.unwrap();
        let rows = export_all(&store, run).await;
        assert!(rows.iter().map(|row| row.point.step).eq(1..=300));
        assert!(rows.iter().all(|row| row.point.value == f64::from(number)));
    }
}
