//! Evaluation: the mean loss over the valid tokens of the held-back rows.

use std::time::Instant;

use run_protocol::events::Phase;
use trainer_data::{Example, eval_batches};
use trainer_parallel::{LossSums, ModelView, Objective, Strategy};

use crate::error::EngineError;
use crate::recorder::EventSink;
use crate::step::micro_batch;
use crate::stop::StopFlag;

/// What an evaluation found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Evaluation {
    /// Values by Hugging Face's names.
    pub values: Vec<(String, f64)>,
    /// How long it took.
    pub seconds: f64,
}

/// Evaluates all `rows`, or returns `None` where the run is asked to stop on the way.
pub(crate) fn evaluate(
    strategy: &dyn Strategy,
    objective: &dyn Objective,
    rows: &[Example],
    batch_size: usize,
    events: &EventSink,
    stop: &StopFlag,
) -> Result<Option<Evaluation>, EngineError> {
    let started = Instant::now();
    let batches = eval_batches(rows.len(), batch_size, 0, 1);
    let total = batches.len() as u64;
    let mut sums = LossSums::default();
    events.stage(Phase::Evaluating, Some(0), Some(total))?;
    let mut last_event = Instant::now();
    for (done, batch) in (1_u64..).zip(&batches) {
        if stop.is_requested() {
            return Ok(None);
        }
        let batch = micro_batch(rows, batch, strategy.model().device())?;
        sums.add(strategy.evaluate(&batch, objective, ModelView::Trained)?);
        if last_event.elapsed().as_secs() >= 1 {
            last_event = Instant::now();
            events.stage(Phase::Evaluating, Some(done), Some(total))?;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let values = vec![
        ("eval_loss".to_owned(), sums.mean()),
        (
            "eval_samples_per_second".to_owned(),
            rows.len() as f64 / seconds.max(1e-9),
        ),
    ];
    Ok(Some(Evaluation { values, seconds }))
}
