//! Runs and events to test with.

use board_store::{
    Ingest, IngestReport, MetricRow, NewRun, ReadMark, Run, RunTexts, StateChange, Store,
    StoreError,
};
use run_protocol::{Event, EventKind, RunId, RunState};

pub(crate) fn new_run(name: &str) -> NewRun {
    NewRun {
        id: RunId::new(),
        name: name.to_owned(),
        stage: "sft".to_owned(),
        backend: "single".to_owned(),
        finetuning_type: "lora".to_owned(),
        model: "/models/tiny-llama".to_owned(),
        datasets: vec!["demo".to_owned()],
        texts: RunTexts {
            input_yaml: "stage: sft\n".to_owned(),
            config_yaml: "stage: sft\n".to_owned(),
            config_hash: "abc".to_owned(),
        },
        steps_total: None,
        tags: Vec::new(),
        created_ms: 1_000,
    }
}

pub(crate) async fn create(store: &Store, name: &str) -> Run {
    store.create_run(new_run(name)).await.unwrap()
}

pub(crate) async fn begin(store: &Store, id: RunId) -> Run {
    let starting = StateChange {
        attempt: Some(1),
        ..StateChange::new(&[RunState::Queued], RunState::Starting, 2_000)
    };
    store.change_state(id, starting).await.unwrap()
}

pub(crate) fn event(seq: u64, attempt: u32, kind: EventKind) -> Event {
    let time = 10_000 + i64::try_from(seq).unwrap();
    Event {
        v: 1,
        seq,
        attempt,
        time,
        kind,
    }
}

/// A metric event of the first attempt whose step is its number.
pub(crate) fn metric(seq: u64, values: &[(&str, f64)]) -> Event {
    metric_of(1, seq, seq, values)
}

pub(crate) fn metric_of(attempt: u32, seq: u64, step: u64, values: &[(&str, f64)]) -> Event {
    let values = values.iter().map(|(name, value)| (*name, *value));
    event(
        seq,
        attempt,
        EventKind::metric(step, Some(step as f64 / 100.0), values),
    )
}

pub(crate) async fn ingest(
    store: &Store,
    run: RunId,
    events: Vec<Event>,
) -> Result<IngestReport, StoreError> {
    store
        .ingest(Ingest {
            run,
            events,
            mark: None,
        })
        .await
}

pub(crate) fn mark(offset: u64) -> ReadMark {
    ReadMark {
        file: "events.jsonl".to_owned(),
        offset,
    }
}

pub(crate) async fn export_all(store: &Store, run: RunId) -> Vec<MetricRow> {
    let mut export = store.export(run).await.unwrap();
    let mut rows = Vec::new();
    while let Some(batch) = export.next().await.unwrap() {
        rows.extend(batch);
    }
    rows
}

/// A small generator of pseudo-random numbers, the same every time.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
