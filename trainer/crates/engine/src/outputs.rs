//! What a run leaves behind: model files, results, state and the loss curve.

use std::fs;
use std::path::{Path, PathBuf};

use run_protocol::events::MetricValue;
use run_protocol::{RunConfig, RunDir, SaveStrategy};
use serde_json::{Map, Value, json};
use tch::Kind;
use trainer_data::Tokenizer;
use trainer_models::{Model, copy_companions};

use crate::checkpoint::{EXPORT_PART, Progress, write_json};
use crate::error::EngineError;
use crate::plot::curve_svg;

/// What is saved beside the weights.
#[derive(Debug)]
pub(crate) struct Artifacts {
    /// The tokenizer with the template's changes.
    pub tokenizer: Tokenizer,
    /// The base model's folder, which an adapter names.
    pub base: PathBuf,
    /// Whether the run trains an adapter.
    pub is_adapter: bool,
}

impl Artifacts {
    /// Writes model or adapter and tokenizer into `folder`; `kind` converts the weights of a model.
    ///
    /// An adapter is always written in the type that it is trained in.
    pub(crate) fn write_model(
        &self,
        model: &Model,
        folder: &Path,
        kind: Option<Kind>,
    ) -> Result<(), EngineError> {
        if self.is_adapter {
            model.save_adapter(folder, &self.base)?;
        } else {
            model.save(folder, kind)?;
        }
        // A resumed model was read from a checkpoint, which rotation may have removed since.
        copy_companions(&self.base, folder)?;
        self.tokenizer.save(folder)?;
        Ok(())
    }

    /// Writes the same into the run directory, beside first: a full disk leaves no half model under its name.
    pub(crate) fn export_model(&self, model: &Model, run_dir: &RunDir) -> Result<(), EngineError> {
        let beside = run_dir.root().join(EXPORT_PART);
        if beside.exists() {
            fs::remove_dir_all(&beside)
                .map_err(|error| EngineError::io("remove", &beside, error))?;
        }
        fs::create_dir(&beside).map_err(|error| EngineError::io("make", &beside, error))?;
        let moved = self
            .write_model(model, &beside, Some(final_kind(model)))
            .and_then(|()| move_files(&beside, run_dir.root()));
        if let Err(error) = fs::remove_dir_all(&beside) {
            tracing::warn!(%error, "cannot remove `.export.part`");
        }
        moved
    }
}

/// Returns the type of a finished model's weights: that of the computation, which the masters exist for.
fn final_kind(model: &Model) -> Kind {
    model.precision().compute()
}

fn move_files(from: &Path, to: &Path) -> Result<(), EngineError> {
    for entry in fs::read_dir(from).map_err(|error| EngineError::io("list", from, error))? {
        let entry = entry.map_err(|error| EngineError::io("list", from, error))?;
        let target = to.join(entry.file_name());
        fs::rename(entry.path(), &target)
            .map_err(|error| EngineError::io("rename", &target, error))?;
    }
    Ok(())
}

/// Returns `trainer_state.json` in Hugging Face's form.
pub(crate) fn trainer_state(
    config: &RunConfig,
    progress: &Progress,
    max_steps: u64,
    history: &[Value],
) -> Value {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a number of epochs is small"
    )]
    let num_train_epochs = match config.training.max_steps {
        Some(_) => progress.epoch.ceil() as i64,
        None => config.training.num_train_epochs.ceil() as i64,
    };
    json!({
        "best_global_step": null,
        "best_metric": null,
        "best_model_checkpoint": null,
        "epoch": progress.epoch,
        "eval_steps": config.evaluation.eval_steps.unwrap_or(config.logging.logging_steps),
        "global_step": progress.step,
        "is_hyper_param_search": false,
        "is_local_process_zero": true,
        "is_world_process_zero": true,
        "log_history": history,
        "logging_steps": config.logging.logging_steps,
        "max_steps": max_steps,
        "num_input_tokens_seen": progress.num_input_tokens_seen,
        "num_train_epochs": num_train_epochs,
        "save_steps": if config.checkpoint.save_strategy == SaveStrategy::Steps { config.checkpoint.save_steps } else { 0 },
        "train_batch_size": config.training.per_device_train_batch_size,
        "trial_name": null,
        "trial_params": null,
    })
}

/// Returns the results of training by Hugging Face's names.
pub(crate) fn train_results(
    progress: &Progress,
    first_step: u64,
    seconds: f64,
    rows_per_step: f64,
) -> Map<String, Value> {
    let steps = progress.step.saturating_sub(first_step) as f64;
    let num_losses = progress.step.saturating_sub(progress.num_non_finite_losses);
    let seconds = seconds.max(1e-9);
    let mut results = Map::new();
    let mut put = |name: &str, value: Value| results.insert(name.to_owned(), value);
    put("epoch", json!(progress.epoch));
    put(
        "num_input_tokens_seen",
        json!(progress.num_input_tokens_seen),
    );
    put(
        "train_loss",
        json!(MetricValue(progress.total_loss / num_losses.max(1) as f64)),
    );
    put("train_runtime", json!(round(seconds)));
    put(
        "train_samples_per_second",
        json!(round(steps * rows_per_step / seconds)),
    );
    put("train_steps_per_second", json!(round(steps / seconds)));
    results
}

/// Rounds to four decimals, as Hugging Face does for speeds.
fn round(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// Writes the results of training, of the newest evaluation, and both together.
pub(crate) fn write_results(
    run_dir: &RunDir,
    train: &Map<String, Value>,
    eval: Option<&Map<String, Value>>,
) -> Result<(), EngineError> {
    write_json(&run_dir.train_results(), train)?;
    let mut all = train.clone();
    if let Some(eval) = eval {
        write_json(&run_dir.eval_results(), eval)?;
        all.extend(eval.clone());
    }
    all.sort_keys();
    write_json(&run_dir.all_results(), &all)
}

/// Draws the loss over the steps.
pub(crate) fn write_loss_curve(
    run_dir: &RunDir,
    name: &str,
    history: &[Value],
) -> Result<(), EngineError> {
    let points: Vec<(u64, f64)> = history
        .iter()
        .filter_map(|entry| Some((entry.get("step")?.as_u64()?, entry.get("loss")?.as_f64()?)))
        .collect();
    let path = run_dir.training_loss();
    fs::write(
        &path,
        curve_svg(&format!("Training loss of {name}"), "loss", &points),
    )
    .map_err(|error| EngineError::io("write", &path, error))
}
