//! Writes down what a run does: events, `trainer_log.jsonl` and the history for `trainer_state.json`.
//!
//! Every line goes out by one write, so a file never ends in the middle of one while the run lives.
//! The module knows nothing of models; numbers come in as they are.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use run_protocol::events::{EventKind, EventWriter, MetricValue, Phase};
use run_protocol::{RunDir, TrainerLogLine};
use serde_json::{Map, Value, json};

use crate::error::EngineError;

/// A handle on the event file that threads may share.
#[derive(Debug, Clone)]
pub struct EventSink {
    writer: Arc<Mutex<EventWriter>>,
}

impl EventSink {
    /// Opens the event file of a run for its attempt, from 1; a torn last line of an earlier one is cut away.
    pub fn open(run_dir: &RunDir, attempt: u32) -> Result<Self, EngineError> {
        let writer = EventWriter::open_attempt(run_dir.events(), attempt)?;
        Ok(Self {
            writer: Arc::new(Mutex::new(writer)),
        })
    }

    /// Returns the number of this attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.lock().attempt()
    }

    /// Appends one event.
    pub fn emit(&self, kind: EventKind) -> Result<(), EngineError> {
        self.lock().write(kind)?;
        Ok(())
    }

    /// Appends a `stage` event.
    pub fn stage(
        &self,
        phase: Phase,
        done: Option<u64>,
        total: Option<u64>,
    ) -> Result<(), EngineError> {
        self.emit(EventKind::stage(phase, done, total))
    }

    fn lock(&self) -> MutexGuard<'_, EventWriter> {
        // A thread that panicked while it held the lock left whole lines behind: the writer stays usable.
        self.writer
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The numbers of one optimizer step.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct StepNumbers {
    /// The step, from 1.
    pub step: u64,
    /// Passes over the data, done after this step.
    pub epoch: f64,
    /// Mean loss over the valid tokens of the step.
    pub loss: f64,
    /// Rate used in the step.
    pub learning_rate: f64,
    /// Norm of the gradients before clipping.
    pub grad_norm: f64,
    /// Input tokens of the step over all ranks.
    pub num_tokens: u64,
    /// Wall time of the step.
    pub seconds: f64,
    /// Input tokens of the run so far.
    pub num_tokens_seen: u64,
}

/// Writes the numbers of a run to its files.
#[derive(Debug)]
pub(crate) struct Recorder {
    events: EventSink,
    trainer_log: File,
    history: Vec<Value>,
    started: Instant,
    total_steps: u64,
    first_step: u64,
    tokens_before: u64,
    /// Finite losses summed and counted since the last line of the log.
    pending: (f64, u64),
}

impl Recorder {
    /// Opens the log. `first_step` steps were done by earlier attempts; what was logged after them is
    /// dropped from the log, since it is done again (the event file keeps all of it).
    pub(crate) fn open(
        run_dir: &RunDir,
        events: EventSink,
        history: Vec<Value>,
        first_step: u64,
    ) -> Result<Self, EngineError> {
        let path = run_dir.trainer_log();
        keep_lines_up_to(&path, first_step)?;
        let trainer_log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(|error| EngineError::io("open", &path, error))?;
        Ok(Self {
            events,
            trainer_log,
            history,
            started: Instant::now(),
            total_steps: 0,
            first_step,
            tokens_before: 0,
            pending: (0.0, 0),
        })
    }

    /// Begins to count time, once everything is loaded.
    pub(crate) fn start(&mut self, total_steps: u64, tokens_before: u64) {
        self.started = Instant::now();
        self.total_steps = total_steps;
        self.tokens_before = tokens_before;
    }

    /// Goes on with what an earlier attempt had not logged yet.
    pub(crate) fn set_pending(&mut self, pending: (f64, u64)) {
        self.pending = pending;
    }

    /// Returns the finite losses, summed and counted, since the last line of the log.
    pub(crate) fn pending(&self) -> (f64, u64) {
        self.pending
    }

    /// Returns the event file.
    pub(crate) fn events(&self) -> &EventSink {
        &self.events
    }

    /// Returns the seconds since [`Recorder::start`].
    pub(crate) fn elapsed_seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Returns the entries for `trainer_state.json`.
    pub(crate) fn history(&self) -> &[Value] {
        &self.history
    }

    /// Writes the `metric` event of a step and keeps its loss for the next line of the log.
    pub(crate) fn step(&mut self, numbers: &StepNumbers) -> Result<(), EngineError> {
        // JSON has no word for NaN: a checkpoint with one in its sum could not be read again.
        if numbers.loss.is_finite() {
            self.pending.0 += numbers.loss;
            self.pending.1 += 1;
        }
        let per_second = if numbers.seconds > 0.0 {
            numbers.num_tokens as f64 / numbers.seconds
        } else {
            0.0
        };
        self.events.emit(EventKind::metric(
            numbers.step,
            Some(numbers.epoch),
            [
                ("loss", numbers.loss),
                ("learning_rate", numbers.learning_rate),
                ("grad_norm", numbers.grad_norm),
                ("train_tokens_per_second", per_second),
                ("num_input_tokens_seen", numbers.num_tokens_seen as f64),
                ("step_time_ms", numbers.seconds * 1e3),
            ],
        ))
    }

    /// Writes a line of the log: the mean of the finite losses since the last line, or the step's own where none was.
    pub(crate) fn log(&mut self, numbers: &StepNumbers) -> Result<(), EngineError> {
        let (sum, count) = std::mem::take(&mut self.pending);
        let loss = if count == 0 {
            numbers.loss
        } else {
            sum / count as f64
        };
        let mut line = self.line(numbers);
        line.loss = Some(MetricValue(loss));
        line.lr = Some(numbers.learning_rate);
        self.history.push(json!({
            "epoch": numbers.epoch,
            "grad_norm": MetricValue(numbers.grad_norm),
            "learning_rate": numbers.learning_rate,
            "loss": MetricValue(loss),
            "num_input_tokens_seen": numbers.num_tokens_seen,
            "step": numbers.step,
        }));
        tracing::info!(
            step = numbers.step,
            total_steps = self.total_steps,
            loss,
            grad_norm = numbers.grad_norm,
            learning_rate = numbers.learning_rate,
            tokens_per_second = line.throughput,
            remaining = line.remaining_time,
            "trained"
        );
        self.append(&line)
    }

    /// Writes event, line and history entry of an evaluation.
    pub(crate) fn evaluation(
        &mut self,
        numbers: &StepNumbers,
        values: &[(String, f64)],
        seconds: f64,
    ) -> Result<(), EngineError> {
        self.events.emit(EventKind::metric(
            numbers.step,
            Some(numbers.epoch),
            values.iter().cloned(),
        ))?;
        let mut entry = Map::new();
        entry.insert("epoch".into(), json!(numbers.epoch));
        for (name, value) in values {
            entry.insert(name.clone(), json!(MetricValue(*value)));
        }
        entry.insert("eval_runtime".into(), json!(seconds));
        entry.insert("step".into(), json!(numbers.step));
        self.history.push(Value::Object(entry));
        let mut line = self.line(numbers);
        line.eval_loss = values
            .iter()
            .find(|(name, _)| name == "eval_loss")
            .map(|(_, value)| MetricValue(*value));
        tracing::info!(
            step = numbers.step,
            eval_loss = line.eval_loss.map(MetricValue::get),
            seconds,
            "evaluated"
        );
        self.append(&line)
    }

    /// Writes the closing line and history entry with the results.
    pub(crate) fn results(
        &mut self,
        numbers: &StepNumbers,
        results: &Map<String, Value>,
    ) -> Result<(), EngineError> {
        let mut entry = results.clone();
        entry.insert("step".into(), json!(numbers.step));
        self.history.push(Value::Object(entry));
        let line = self.line(numbers);
        self.append(&line)
    }

    /// Makes a line with everything but losses and rate.
    fn line(&self, numbers: &StepNumbers) -> TrainerLogLine {
        let elapsed = self.elapsed_seconds();
        let steps_here = numbers.step.saturating_sub(self.first_step);
        let tokens_here = numbers.num_tokens_seen.saturating_sub(self.tokens_before) as f64;
        TrainerLogLine {
            epoch: Some(numbers.epoch),
            throughput: Some((tokens_here / elapsed.max(1e-9) * 100.0).round() / 100.0),
            total_tokens: Some(numbers.num_tokens_seen),
            ..TrainerLogLine::at(numbers.step, self.total_steps, elapsed, steps_here)
        }
    }

    fn append(&mut self, line: &TrainerLogLine) -> Result<(), EngineError> {
        let mut text = serde_json::to_string(line).map_err(EngineError::json)?;
        text.push('\n');
        let whole = self.trainer_log.metadata().map(|file| file.len());
        self.trainer_log
            .write_all(text.as_bytes())
            .map_err(|error| {
                // A full disk may have taken a part of the line: what stands before it stays readable.
                if let Ok(whole) = whole
                    && let Err(error) = self.trainer_log.set_len(whole)
                {
                    tracing::warn!(%error, "cannot cut a torn line off trainer_log.jsonl");
                }
                EngineError::io("write", Path::new("trainer_log.jsonl"), error)
            })
    }
}

/// Rewrites the log without the lines of later steps, and without a torn last one.
fn keep_lines_up_to(path: &Path, step: u64) -> Result<(), EngineError> {
    let Ok(file) = File::open(path) else {
        return Ok(());
    };
    let fail = |error| EngineError::io("read", path, error);
    let mut kept = String::new();
    for line in BufReader::new(file).lines() {
        let line = line.map_err(fail)?;
        let is_kept = serde_json::from_str::<TrainerLogLine>(&line)
            .is_ok_and(|line| line.current_steps <= step);
        if is_kept {
            kept.push_str(&line);
            kept.push('\n');
        }
    }
    run_protocol::exit::replace_file(path, kept.as_bytes())
        .map_err(|error| EngineError::io("write", path, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::{self, Progress};

    #[test]
    fn a_checkpoint_after_a_loss_that_is_no_number_reads_back() {
        let temp = tempfile::tempdir().unwrap();
        let run_dir = RunDir::create(temp.path()).unwrap();
        let events = EventSink::open(&run_dir, 1).unwrap();
        let mut recorder = Recorder::open(&run_dir, events, Vec::new(), 0).unwrap();
        for (step, loss) in [(1, f64::NAN), (2, 2.5), (3, f64::INFINITY)] {
            let numbers = StepNumbers {
                step,
                loss,
                ..StepNumbers::default()
            };
            recorder.step(&numbers).unwrap();
        }
        assert_eq!(recorder.pending(), (2.5, 1));
        let progress = Progress {
            pending_loss: recorder.pending(),
            ..checkpoint::tests::progress(3)
        };
        let (folder, _) = checkpoint::save(&run_dir, &progress, &Value::Null, |folder| {
            let path = folder.join(checkpoint::OPTIMIZER_FILE);
            std::fs::write(&path, b"").map_err(|error| EngineError::io("write", &path, error))
        })
        .unwrap();
        assert_eq!(Progress::read(&folder).unwrap(), progress);
    }
}
