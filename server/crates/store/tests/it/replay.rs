use board_store::{Store, StoredEvent};
use run_protocol::events::Level;
use run_protocol::{EventKind, RunId};
use sqlx::SqlitePool;

use crate::support::{Dice, create, event, ingest, metric};

async fn replay(store: &Store, after: i64, run: Option<RunId>, limit: usize) -> Vec<StoredEvent> {
    let mut events: Vec<StoredEvent> = Vec::new();
    loop {
        let last = events.last().map_or(after, |event| event.id);
        let more = store.events_after(last, run, limit).await.unwrap();
        if more.is_empty() {
            return events;
        }
        assert!(more.len() <= limit);
        events.extend(more);
    }
}

/// What a replay must give back. The number of the trainer is not kept in chunks.
fn facts(event: &StoredEvent) -> (i64, RunId, u32, i64, String, serde_json::Value) {
    let body = serde_json::from_str(&event.body).unwrap();
    (
        event.id,
        event.run,
        event.attempt,
        event.time_ms,
        event.kind.clone(),
        body,
    )
}

#[sqlx::test(migrator = "board_store::MIGRATOR")]
async fn replay_after_any_gap_gives_what_was_broadcast(pool: SqlitePool) {
    let store = Store::from_pool(pool).await.unwrap();
    let mut live = store.subscribe();
    let mut sent = Vec::new();
    let mut dice = Dice(77);
    let runs = [create(&store, "a").await.id, create(&store, "b").await.id];
    let mut seqs = [0_u64; 2];
    for _ in 0..60 {
        let which = usize::try_from(dice.below(2)).unwrap();
        let mut events = Vec::new();
        for _ in 0..=dice.below(200) {
            seqs[which] += 1;
            let seq = seqs[which];
            events.push(match dice.below(20) {
                0 => event(
                    seq,
                    1,
                    EventKind::log(Level::Info, 0, format!("line {seq}")),
                ),
                1 => metric(seq, &[("eval_loss", f64::NAN), ("loss", 0.1)]),
                _ => metric(seq, &[("grad_norm", seq as f64 / 3.0), ("loss", 1e-7)]),
            });
        }
        ingest(&store, runs[which], events).await.unwrap();
        sent.extend(std::iter::from_fn(|| live.try_recv().ok()));
    }
    assert!(
        sent.iter()
            .map(|event| event.id)
            .eq(1..=i64::try_from(sent.len()).unwrap())
    );
    let same = |got: &[StoredEvent], expected: Vec<&StoredEvent>| {
        assert_eq!(got.len(), expected.len());
        for (got, expected) in got.iter().zip(expected) {
            assert_eq!(facts(got), facts(expected));
        }
    };
    for after in [0, 1, 777, 3000, sent.len() - 3, sent.len()] {
        for limit in [100, 5000] {
            let after_id = i64::try_from(after).unwrap();
            let got = replay(&store, after_id, None, limit).await;
            same(&got, sent.iter().skip(after).map(AsRef::as_ref).collect());
            let got = replay(&store, after_id, Some(runs[1]), limit).await;
            let of_run = sent.iter().skip(after).filter(|event| event.run == runs[1]);
            same(&got, of_run.map(AsRef::as_ref).collect());
        }
    }
}
