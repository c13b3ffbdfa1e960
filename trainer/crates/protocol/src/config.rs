//! The one configuration: the form, the YAML, the command line and the API all end in it.

mod canonical;
mod paths;
pub mod sections;

use std::{collections::BTreeMap, sync::LazyLock};

pub use canonical::show_value;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    check,
    choices::{Backend, DistName, Stage},
    error::{Code, ConfigError, ConfigErrors},
    parse,
};
use sections::{
    CheckpointSection, DataSection, DistributedSection, EvaluationSection, LoggingSection,
    MethodSection, ModelSection, PreferenceSection, TrainingSection,
};

/// Everything a run depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunConfig {
    /// What the run teaches the model.
    pub stage: Stage,
    /// The model it starts from.
    pub model: ModelSection,
    /// The data.
    pub data: DataSection,
    /// Which parameters change.
    pub method: MethodSection,
    /// Optimization.
    pub training: TrainingSection,
    /// Losses of preference stages.
    pub preference: PreferenceSection,
    /// Evaluation.
    pub evaluation: EvaluationSection,
    /// Checkpoints.
    pub checkpoint: CheckpointSection,
    /// Logs.
    pub logging: LoggingSection,
    /// Ranks.
    pub distributed: DistributedSection,
}

/// A config that was read, with what the reader should be told.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The config, every key filled in.
    pub config: RunConfig,
    /// Keys that were given but change nothing here, in the order of the text.
    pub accepted_without_effect: Vec<AcceptedKey>,
    /// Line and column of each key that the text gives.
    pub places: BTreeMap<String, (usize, usize)>,
    /// How the text spells each key that it gives.
    pub written_as: BTreeMap<String, String>,
}

impl Parsed {
    /// Checks the config and adds lines and columns to what is found.
    pub fn check(&self) -> Report {
        self.check_with(&Facts::default())
    }

    /// Checks the config together with what is known about the run.
    pub fn check_with(&self, facts: &Facts) -> Report {
        let mut report = self.config.check_with(facts);
        for error in &mut report.errors {
            let head = error.field.split('.').next().unwrap_or_default();
            if error.line.is_none()
                && let Some((line, column)) = self
                    .places
                    .get(&error.field)
                    .or_else(|| self.places.get(head))
            {
                (error.line, error.column) = (Some(*line), Some(*column));
            }
        }
        report
    }
}

/// A key that was given but changes nothing here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedKey {
    /// The key.
    pub key: String,
    /// Why it changes nothing.
    pub reason: String,
}

/// A key whose value differs from its default.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangedKey {
    /// The key.
    pub key: &'static str,
    /// Its value.
    pub value: Value,
    /// Its default.
    pub default: Value,
}

/// Something in a config that works but is probably not meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// The key.
    pub field: String,
    /// What is odd.
    pub message: String,
    /// What the user can do.
    pub hint: Option<String>,
}

/// What `check` found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Why the run must not start.
    pub errors: Vec<ConfigError>,
    /// What is probably not meant.
    pub warnings: Vec<Warning>,
}

/// What is known about a run beside its config. The more is given, the more is checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Facts {
    /// Number of ranks.
    pub world_size: Option<usize>,
    /// Rows of the training data.
    pub num_examples: Option<u64>,
}

impl Report {
    /// Whether the run may start.
    pub fn is_ok(&self) -> bool {
        self.errors.is_empty()
    }

    /// Returns the errors as one, if there are any.
    pub fn into_result(self) -> Result<Vec<Warning>, ConfigErrors> {
        if self.errors.is_empty() {
            Ok(self.warnings)
        } else {
            Err(ConfigErrors(self.errors))
        }
    }
}

impl Default for RunConfig {
    /// Returns the classic dialect's defaults. The model and the dataset are empty, so `check` refuses it.
    fn default() -> Self {
        static DEFAULTS: LazyLock<RunConfig> = LazyLock::new(parse::defaults);
        DEFAULTS.clone()
    }
}

impl RunConfig {
    /// Reads YAML (JSON is YAML too) in either dialect, then applies `key=value` overrides, nested keys dotted.
    /// Reports every fault at once.
    pub fn from_yaml(text: &str, overrides: &[String]) -> Result<Parsed, ConfigErrors> {
        parse::from_yaml(text, overrides)
    }

    /// Reads flat keys with texts or JSON values, as a form or a JSON request gives them; nested keys dotted or nested.
    pub fn from_pairs(pairs: &BTreeMap<String, Value>) -> Result<Parsed, ConfigErrors> {
        parse::from_pairs(pairs)
    }

    /// Checks what the config says by itself.
    pub fn check(&self) -> Report {
        self.check_with(&Facts::default())
    }

    /// Checks the config together with what is known about the run.
    pub fn check_with(&self, facts: &Facts) -> Report {
        check::check(self, facts)
    }

    /// Returns the backend that the config asks for: the named one, else what the other keys and the world size imply.
    pub fn backend(&self, world_size: Option<usize>) -> Backend {
        let distributed = &self.distributed;
        if let Some(backend) = distributed.backend {
            return backend;
        }
        match distributed.dist_config.as_ref().map(|dist| dist.name) {
            Some(DistName::Deepspeed) => Backend::Deepspeed,
            _ if distributed.cp_size > 1 => Backend::Ulysses,
            Some(DistName::Fsdp2) => Backend::Fsdp2,
            Some(DistName::Fsdpturbo) => Backend::Fsdpturbo,
            None if world_size.is_some_and(|ranks| ranks > 1) => Backend::Ddp,
            None => Backend::Single,
        }
    }

    /// Whether there is something to evaluate on.
    pub fn has_eval_data(&self) -> bool {
        self.data.val_size > 1e-6 || !self.data.eval_dataset.is_empty()
    }

    /// Returns the micro-batches of one optimizer step on `dp_size` ranks with different data.
    pub fn accumulation_steps(&self, dp_size: usize) -> Result<usize, Box<ConfigError>> {
        let training = &self.training;
        let Some(global) = training.global_batch_size else {
            return Ok(training.gradient_accumulation_steps);
        };
        let rows = dp_size * training.per_device_train_batch_size;
        if rows > 0 && global > 0 && global.is_multiple_of(rows) {
            return Ok(global / rows);
        }
        let reason = format!(
            "Global batch size must be divisible by DP size and micro batch size. Got {global} % ({dp_size} * {}) != 0.",
            training.per_device_train_batch_size
        );
        let error = ConfigError::new(Code::Conflict, "global_batch_size", reason)
            .value(global.to_string())
            .with_related("per_device_train_batch_size")
            .with_hint(format!("choose a multiple of {rows}"));
        Err(Box::new(error))
    }
}
