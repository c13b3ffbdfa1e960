//! The loop over optimizer steps: data, step, update, log, evaluate, save, stop.
//!
//! It sees a [`Strategy`] and an [`Objective`] only, so a new backend or stage changes nothing here.

use std::path::Path;
use std::time::Instant;

use run_protocol::events::{Alert, CheckpointSaved, EventKind, Level, Phase};
use run_protocol::{EvalStrategy, RunConfig, RunDir, SaveStrategy};
use trainer_data::{Example, Sampler};
use trainer_parallel::{LossSums, MicroBatch, Objective, Strategy};

use crate::checkpoint::{self, OPTIMIZER_FILE, Progress};
use crate::error::EngineError;
use crate::evaluation::{Evaluation, evaluate};
use crate::monitor::Monitor;
use crate::outputs::{Artifacts, trainer_state};
use crate::recorder::{Recorder, StepNumbers};
use crate::schedule::Schedule;
use crate::step::micro_batch;
use crate::stop::StopFlag;

/// Steps in a row without a finite loss and gradient after which a run is given up: the weights no longer move, so only
/// the rows differ.
const MAX_SKIPPED_STEPS: u64 = 100;

/// How the loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All steps are done.
    Finished,
    /// The run was asked to stop; a checkpoint was saved.
    Stopped,
}

/// What the loop works with.
pub(crate) struct Trainer<'a> {
    /// What the run was asked for.
    pub config: &'a RunConfig,
    /// Where it writes.
    pub run_dir: &'a RunDir,
    /// Runs the model.
    pub strategy: Box<dyn Strategy>,
    /// The stage's loss for training.
    pub objective: Box<dyn Objective>,
    /// The stage's loss for evaluation.
    pub eval_objective: Box<dyn Objective>,
    /// Rows to train on.
    pub train: Vec<Example>,
    /// Rows to evaluate on; may be empty.
    pub eval: Vec<Example>,
    /// Which rows each step takes.
    pub sampler: Sampler,
    /// The learning rate's curve.
    pub schedule: Schedule,
    /// Steps of the whole run.
    pub total_steps: u64,
    /// Where the run stands.
    pub progress: Progress,
    /// Writes everything down.
    pub recorder: Recorder,
    /// Reads what the process uses.
    pub monitor: Monitor,
    /// Saves the tokenizer beside the model.
    pub artifacts: Artifacts,
    /// Whether to stop.
    pub stop: StopFlag,
    /// The newest evaluation and its step.
    pub last_evaluation: Option<(u64, Evaluation)>,
    /// Step of the newest checkpoint.
    pub last_saved: Option<u64>,
    /// Steps in a row, up to now, whose loss or gradient was no number.
    pub num_skipped: u64,
}

impl Trainer<'_> {
    /// Runs the remaining steps.
    pub(crate) fn run(&mut self) -> Result<Outcome, EngineError> {
        self.recorder
            .start(self.total_steps, self.progress.num_input_tokens_seen);
        self.stage_training()?;
        if self.config.evaluation.eval_on_start && self.progress.step == 0 {
            let numbers = StepNumbers {
                step: 0,
                ..StepNumbers::default()
            };
            self.evaluate(&numbers)?;
        }
        while self.progress.step < self.total_steps {
            if self.stop.is_requested() {
                return self.stop();
            }
            let numbers = self.step()?;
            let is_epoch_end = self.is_epoch_end();
            if self.is_due_for_log(numbers.step) {
                self.recorder.log(&numbers)?;
            }
            self.progress.pending_loss = self.recorder.pending();
            if self.is_due_for_evaluation(numbers.step, is_epoch_end) {
                self.evaluate(&numbers)?;
            }
            self.give_up_on_non_finite()?;
            if self.is_due_for_checkpoint(numbers.step, is_epoch_end) {
                self.save()?;
            }
        }
        Ok(Outcome::Finished)
    }

    /// Ends a run that learns nothing any more, or has learned nothing at all.
    fn give_up_on_non_finite(&self) -> Result<(), EngineError> {
        let step = self.progress.step;
        // Only this attempt's steps are counted, so a resumed run, which has learned something, is never meant.
        let is_whole_run = step == self.total_steps && self.num_skipped == step;
        if self.num_skipped >= MAX_SKIPPED_STEPS || is_whole_run {
            return Err(EngineError::NonFinite {
                steps: self.num_skipped,
                step,
            });
        }
        Ok(())
    }

    /// Runs one optimizer step and writes its numbers down.
    fn step(&mut self) -> Result<StepNumbers, EngineError> {
        let started = Instant::now();
        let step = self.progress.step + 1;
        self.monitor.set_step(step);
        let batches = self.next_batches()?;
        let num_tokens: i64 = batches.iter().map(MicroBatch::num_tokens).sum();
        let sums = self
            .strategy
            .accumulate(step, &batches, self.objective.as_ref())?;
        let grad_norm = self
            .strategy
            .clip_grad_norm(self.config.training.max_grad_norm)?;
        let learning_rate = self.config.training.learning_rate * self.schedule.factor(step - 1);
        let loss = self.finish_step(step, sums, grad_norm, learning_rate)?;
        let num_tokens = u64::try_from(num_tokens).unwrap_or(0);
        let seconds = started.elapsed().as_secs_f64();
        self.progress.step = step;
        self.progress.sampler = self.sampler.state();
        self.progress.epoch = self.sampler.order().epoch_after(
            step,
            self.config.training.per_device_train_batch_size,
            1,
        );
        self.progress.num_input_tokens_seen += num_tokens;
        self.progress.seconds += seconds;
        if loss.is_finite() {
            self.progress.total_loss += loss;
        } else {
            self.progress.num_non_finite_losses += 1;
        }
        let numbers = StepNumbers {
            step,
            epoch: self.progress.epoch,
            loss,
            learning_rate,
            grad_norm,
            num_tokens,
            seconds,
            num_tokens_seen: self.progress.num_input_tokens_seen,
        };
        self.recorder.step(&numbers)?;
        Ok(numbers)
    }

    fn next_batches(&mut self) -> Result<Vec<MicroBatch>, EngineError> {
        let rows = self.sampler.next_step();
        let device = self.strategy.model().device();
        rows.micro_batches(self.config.training.per_device_train_batch_size, 0, 1)
            .iter()
            .map(|rows| micro_batch(&self.train, rows, device))
            .collect()
    }

    /// Updates the parameters, unless a number is not finite, and returns the loss.
    fn finish_step(
        &mut self,
        step: u64,
        sums: LossSums,
        grad_norm: f64,
        learning_rate: f64,
    ) -> Result<f64, EngineError> {
        if sums.weight <= 0.0 {
            self.strategy.skip();
            self.alert(
                step,
                "no_labels",
                "no row of this step has a label; the step changed nothing".into(),
                None,
            )?;
            return Ok(0.0);
        }
        let loss = sums.mean();
        if loss.is_finite() && grad_norm.is_finite() {
            let rates = vec![learning_rate; self.strategy.groups().len()];
            self.strategy.update(&rates)?;
            self.num_skipped = 0;
        } else {
            self.strategy.skip();
            self.num_skipped += 1;
            let what = if loss.is_finite() {
                ("non_finite_grad_norm", grad_norm)
            } else {
                ("non_finite_loss", loss)
            };
            self.alert(
                step,
                what.0,
                format!(
                    "step {step} gave {} = {}; the weights were left as they were",
                    &what.0[11..],
                    what.1
                ),
                Some("lower `learning_rate`, or look for damaged rows in the data".into()),
            )?;
        }
        Ok(loss)
    }

    fn alert(
        &self,
        step: u64,
        code: &str,
        message: String,
        hint: Option<String>,
    ) -> Result<(), EngineError> {
        tracing::warn!(step, code, "{message}");
        let alert = Alert {
            level: Level::Warn,
            code: code.to_owned(),
            message,
            hint,
            step: Some(step),
        };
        self.recorder.events().emit(EventKind::Alert(alert))
    }

    fn is_epoch_end(&self) -> bool {
        self.progress
            .step
            .is_multiple_of(self.sampler.order().steps_per_epoch())
    }

    fn is_due_for_log(&self, step: u64) -> bool {
        let logging = &self.config.logging;
        step.is_multiple_of(logging.logging_steps.max(1))
            || (logging.logging_first_step && step == 1)
    }

    fn is_due_for_evaluation(&self, step: u64, is_epoch_end: bool) -> bool {
        let evaluation = &self.config.evaluation;
        match evaluation.eval_strategy {
            EvalStrategy::No => false,
            EvalStrategy::Steps => step.is_multiple_of(
                evaluation
                    .eval_steps
                    .unwrap_or(self.config.logging.logging_steps)
                    .max(1),
            ),
            EvalStrategy::Epoch => is_epoch_end,
        }
    }

    fn is_due_for_checkpoint(&self, step: u64, is_epoch_end: bool) -> bool {
        let saving = &self.config.checkpoint;
        match saving.save_strategy {
            SaveStrategy::No | SaveStrategy::Best => false,
            SaveStrategy::Steps => {
                step.is_multiple_of(saving.save_steps.max(1)) || step == self.total_steps
            }
            SaveStrategy::Epoch => is_epoch_end,
        }
    }

    /// Evaluates after the step of `numbers` and keeps the result.
    pub(crate) fn evaluate(&mut self, numbers: &StepNumbers) -> Result<(), EngineError> {
        if self.eval.is_empty() {
            return Ok(());
        }
        let batch_size = self.config.evaluation.per_device_eval_batch_size;
        let found = evaluate(
            self.strategy.as_ref(),
            self.eval_objective.as_ref(),
            &self.eval,
            batch_size,
            self.recorder.events(),
            &self.stop,
        )?;
        if let Some(found) = found {
            self.recorder
                .evaluation(numbers, &found.values, found.seconds)?;
            self.last_evaluation = Some((numbers.step, found));
        }
        self.stage_training()
    }

    fn stage_training(&self) -> Result<(), EngineError> {
        self.recorder.events().stage(
            Phase::Training,
            Some(self.progress.step),
            Some(self.total_steps),
        )
    }

    /// Saves what the run needs to go on, then says that it was stopped.
    fn stop(&mut self) -> Result<Outcome, EngineError> {
        tracing::info!(step = self.progress.step, "stopping");
        if self.progress.step > 0 && self.last_saved != Some(self.progress.step) {
            self.save()?;
        }
        Ok(Outcome::Stopped)
    }

    /// Writes a checkpoint of the current step and removes old ones.
    pub(crate) fn save(&mut self) -> Result<(), EngineError> {
        let step = self.progress.step;
        let started = Instant::now();
        let events = self.recorder.events().clone();
        events.stage(Phase::Saving, None, None)?;
        let state = trainer_state(
            self.config,
            &self.progress,
            self.total_steps,
            self.recorder.history(),
        );
        let (folder, size_bytes) =
            checkpoint::save(self.run_dir, &self.progress, &state, |folder| {
                self.write_tensors(folder)
            })?;
        self.last_saved = Some(step);
        events.emit(EventKind::Checkpoint(CheckpointSaved {
            step,
            path: folder.display().to_string(),
            size_bytes: Some(size_bytes),
        }))?;
        checkpoint::rotate(self.run_dir, self.config.checkpoint.save_total_limit, step)?;
        tracing::info!(
            step,
            size_bytes,
            seconds = started.elapsed().as_secs_f64(),
            "saved a checkpoint"
        );
        self.stage_training()
    }

    fn write_tensors(&self, folder: &Path) -> Result<(), EngineError> {
        self.artifacts
            .write_model(self.strategy.model(), folder, None)?;
        if !self.config.checkpoint.save_only_model {
            self.strategy.save_optimizer(&folder.join(OPTIMIZER_FILE))?;
        }
        Ok(())
    }
}
