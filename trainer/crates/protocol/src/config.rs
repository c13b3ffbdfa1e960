//! The one configuration: the form, the YAML, the command line and the API all end in it.

pub mod sections;

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    choices::{Backend, Stage},
    error::{ConfigError, ConfigErrors},
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
        todo!("defaults")
    }
}

impl RunConfig {
    /// Reads YAML (JSON is YAML too) in either dialect, then applies `key=value` overrides, nested keys dotted.
    /// Reports every fault at once.
    pub fn from_yaml(text: &str, overrides: &[String]) -> Result<Parsed, ConfigErrors> {
        todo!("{text} {overrides:?}")
    }

    /// Reads flat keys with texts or JSON values, as a form or a JSON request gives them; nested keys dotted or nested.
    pub fn from_pairs(pairs: &BTreeMap<String, Value>) -> Result<Parsed, ConfigErrors> {
        todo!("{pairs:?}")
    }

    /// Checks what the config says by itself.
    pub fn check(&self) -> Report {
        self.check_with(&Facts::default())
    }

    /// Checks the config together with what is known about the run.
    pub fn check_with(&self, facts: &Facts) -> Report {
        todo!("{facts:?}")
    }

    /// Makes every path absolute, relative ones against `base`.
    pub fn resolve_paths(&mut self, base: &Path) {
        todo!("{base:?}")
    }

    /// Returns the canonical YAML: every key with its value, in the table's order. `from_yaml` reads it back unchanged.
    pub fn to_yaml(&self) -> String {
        todo!()
    }

    /// Returns flat YAML in LLaMA-Factory's classic dialect; with `only_changed`, what differs from the defaults.
    pub fn to_flat_yaml(&self, only_changed: bool) -> String {
        todo!("{only_changed}")
    }

    /// Returns every key with its value, in the table's order.
    pub fn to_flat_json(&self) -> serde_json::Map<String, Value> {
        todo!()
    }

    /// Returns the keys whose values differ from the defaults.
    pub fn changed_keys(&self) -> Vec<ChangedKey> {
        todo!()
    }

    /// Returns the SHA-256 of the canonical YAML in hexadecimal digits.
    pub fn hash(&self) -> String {
        todo!()
    }

    /// Returns the backend that the config asks for: the named one, else what the other keys and the world size imply.
    pub fn backend(&self, world_size: Option<usize>) -> Backend {
        todo!("{world_size:?}")
    }
}
