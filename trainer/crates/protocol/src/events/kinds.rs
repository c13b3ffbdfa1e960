//! What an event can say.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::value::MetricValues;
use crate::{config::AcceptedKey, limits::MAX_MESSAGE_BYTES};

/// What happened. The name of a variant is the event's `kind`.
#[derive(Debug, Clone, PartialEq)]
pub enum EventKind {
    /// The ranks are there and the config is resolved.
    Started(Box<Started>),
    /// The run entered or moved on within a phase.
    Stage(StageProgress),
    /// Numbers of one step.
    Metric(Metric),
    /// Numbers of one rank's machine.
    System(System),
    /// A checkpoint is complete.
    Checkpoint(CheckpointSaved),
    /// A text that the model wrote.
    Sample(Sample),
    /// Something that a person should see.
    Alert(Alert),
    /// A line for the log.
    Log(LogMessage),
    /// The run ends by a fault.
    Failed(Failed),
    /// The run ends by itself or because it was stopped.
    Finished(Finished),
    /// A kind of a later version, kept as it came.
    Unknown(Unknown),
}

/// `started`: what runs where.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Started {
    /// Number of ranks.
    pub world_size: u32,
    /// Backend by name.
    pub backend: String,
    /// Sizes of each mesh's axes, by mesh and axis.
    pub meshes: BTreeMap<String, BTreeMap<String, u32>>,
    /// Device of each rank, in the order of ranks.
    pub devices: Vec<String>,
    /// Number format.
    pub precision: String,
    /// The resolved config as flat keys.
    pub config: Map<String, Value>,
    /// Hash of the canonical config.
    pub config_hash: String,
    /// Keys that were given but change nothing here.
    pub accepted_without_effect: Vec<AcceptedKey>,
    /// What a reader of the results should know, e.g. which attention code runs.
    pub notes: Vec<String>,
    /// Parameters that the run changes.
    pub trainable_parameters: u64,
    /// Parameters of the whole model.
    pub total_parameters: u64,
    /// Optimizer steps of the whole run.
    pub total_steps: Option<u64>,
    /// Rows of the training data.
    pub num_examples: Option<u64>,
    /// Step of the checkpoint that this attempt continues.
    pub resumed_from: Option<u64>,
    /// Version of the trainer.
    pub trainer_version: String,
}

/// Part of a run's life, as `stage` events name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Reading model and tokenizer.
    Loading,
    /// Turning rows into tokens.
    Tokenizing,
    /// Optimizing.
    Training,
    /// Evaluating.
    Evaluating,
    /// Writing a checkpoint.
    Saving,
    /// Writing the results.
    Exporting,
}

impl Phase {
    /// Returns the word in the event.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Tokenizing => "tokenizing",
            Self::Training => "training",
            Self::Evaluating => "evaluating",
            Self::Saving => "saving",
            Self::Exporting => "exporting",
        }
    }
}

/// `stage`: which phase the run is in and how far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageProgress {
    /// The phase.
    pub stage: Phase,
    /// What is done, where it can be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<u64>,
    /// Of how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

/// `metric`: the numbers of one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Optimizer step, from 1. Step 0 is before the first.
    pub step: u64,
    /// Passes over the data done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<f64>,
    /// Values by Hugging Face's names.
    pub values: MetricValues,
}

/// `system`: the numbers of one rank's machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct System {
    /// The rank.
    pub rank: u32,
    /// Step at which they were taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Values by name with their unit at the end, e.g. `rss_bytes`.
    pub values: MetricValues,
}

/// `checkpoint`: a checkpoint is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointSaved {
    /// Its step.
    pub step: u64,
    /// Its folder.
    pub path: String,
    /// Its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

/// `sample`: a text that the model wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Step at which it was written.
    pub step: u64,
    /// What the model was asked.
    pub prompt: String,
    /// What it answered.
    pub output: String,
    /// What the data answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

/// How grave a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// An event of the run.
    Info,
    /// Something is worse than it should be.
    Warn,
    /// Somebody must act.
    Error,
}

/// `alert`: something that a person should see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alert {
    /// How grave it is.
    pub level: Level,
    /// A stable word for it, e.g. `non_finite_loss`.
    pub code: String,
    /// What happened.
    pub message: String,
    /// What the user can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Step at which it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
}

/// `log`: a line for the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogMessage {
    /// How grave it is.
    pub level: Level,
    /// Which rank says it.
    #[serde(default)]
    pub rank: u32,
    /// What it says.
    pub message: String,
}

/// `failed`: the run ends by a fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The class of `exit.json`.
    pub class: String,
    /// Which rank failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// What happened.
    pub message: String,
    /// What the user can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// `finished`: the run ends by itself or because it was stopped.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// Steps done.
    pub step: u64,
    /// Whether it was told to stop before its end.
    #[serde(default)]
    pub stopped: bool,
    /// The results by name, as in `all_results.json`.
    #[serde(default)]
    pub results: MetricValues,
}

/// A kind of a later version.
#[derive(Debug, Clone, PartialEq)]
pub struct Unknown {
    /// Its name.
    pub kind: String,
    /// Its fields.
    pub fields: Map<String, Value>,
}

impl EventKind {
    /// Returns the event's `kind`.
    pub fn name(&self) -> &str {
        match self {
            Self::Started(_) => "started",
            Self::Stage(_) => "stage",
            Self::Metric(_) => "metric",
            Self::System(_) => "system",
            Self::Checkpoint(_) => "checkpoint",
            Self::Sample(_) => "sample",
            Self::Alert(_) => "alert",
            Self::Log(_) => "log",
            Self::Failed(_) => "failed",
            Self::Finished(_) => "finished",
            Self::Unknown(unknown) => &unknown.kind,
        }
    }

    /// Returns the fields beside the common ones.
    pub fn fields(&self) -> Result<Map<String, Value>, serde_json::Error> {
        let value = match self {
            Self::Started(event) => serde_json::to_value(event)?,
            Self::Stage(event) => serde_json::to_value(event)?,
            Self::Metric(event) => serde_json::to_value(event)?,
            Self::System(event) => serde_json::to_value(event)?,
            Self::Checkpoint(event) => serde_json::to_value(event)?,
            Self::Sample(event) => serde_json::to_value(event)?,
            Self::Alert(event) => serde_json::to_value(event)?,
            Self::Log(event) => serde_json::to_value(event)?,
            Self::Failed(event) => serde_json::to_value(event)?,
            Self::Finished(event) => serde_json::to_value(event)?,
            Self::Unknown(unknown) => return Ok(unknown.fields.clone()),
        };
        serde_json::from_value(value)
    }

    pub(super) fn from_fields(
        kind: String,
        fields: Map<String, Value>,
    ) -> Result<Self, serde_json::Error> {
        let value = |fields| Value::Object(fields);
        Ok(match kind.as_str() {
            "started" => Self::Started(serde_json::from_value(value(fields))?),
            "stage" => Self::Stage(serde_json::from_value(value(fields))?),
            "metric" => Self::Metric(serde_json::from_value(value(fields))?),
            "system" => Self::System(serde_json::from_value(value(fields))?),
            "checkpoint" => Self::Checkpoint(serde_json::from_value(value(fields))?),
            "sample" => Self::Sample(serde_json::from_value(value(fields))?),
            "alert" => Self::Alert(serde_json::from_value(value(fields))?),
            "log" => Self::Log(serde_json::from_value(value(fields))?),
            "failed" => Self::Failed(serde_json::from_value(value(fields))?),
            "finished" => Self::Finished(serde_json::from_value(value(fields))?),
            _ => Self::Unknown(Unknown { kind, fields }),
        })
    }

    /// Cuts texts that are longer than a field may be.
    pub(super) fn bounded(mut self) -> Self {
        let texts: Vec<&mut String> = match &mut self {
            Self::Sample(event) => [&mut event.prompt, &mut event.output]
                .into_iter()
                .chain(&mut event.reference)
                .collect(),
            Self::Alert(event) => std::iter::once(&mut event.message)
                .chain(&mut event.hint)
                .collect(),
            Self::Failed(event) => std::iter::once(&mut event.message)
                .chain(&mut event.hint)
                .collect(),
            Self::Log(event) => vec![&mut event.message],
            _ => Vec::new(),
        };
        for text in texts {
            if text.len() > MAX_MESSAGE_BYTES {
                text.truncate(text.floor_char_boundary(MAX_MESSAGE_BYTES));
                text.push('…');
            }
        }
        self
    }

    /// Makes a metric event.
    pub fn metric<N: Into<String>>(
        step: u64,
        epoch: Option<f64>,
        values: impl IntoIterator<Item = (N, f64)>,
    ) -> Self {
        let values = values
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        Self::Metric(Metric {
            step,
            epoch,
            values,
        })
    }

    /// Makes a stage event.
    pub const fn stage(stage: Phase, done: Option<u64>, total: Option<u64>) -> Self {
        Self::Stage(StageProgress { stage, done, total })
    }

    /// Makes a log event.
    pub fn log(level: Level, rank: u32, message: impl Into<String>) -> Self {
        Self::Log(LogMessage {
            level,
            rank,
            message: message.into(),
        })
    }
}
