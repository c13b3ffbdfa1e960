//! The contract between the board and the trainer: one configuration, one event file, one run directory.
//!
//! Both programs link this crate and nothing else of each other. It must not know tensors, sockets, databases or pages.

pub mod availability;
mod check;
pub mod choices;
pub mod config;
pub mod error;
pub mod events;
pub mod exit;
pub mod keys;
pub mod limits;
mod parse;
pub mod run;
pub mod run_dir;
pub mod trainer_log;

pub use availability::{Availability, Choice};
pub use choices::{
    AttentionKind, Backend, DistName, EvalStrategy, FinetuningType, LrScheduler, Precision,
    PrefLoss, SaveStrategy, Stage, Template, TokenCount,
};
pub use config::{
    AcceptedKey, ChangedKey, Facts, Parsed, Report, RunConfig, Warning,
    sections::{
        CheckpointSection, DataSection, DistConfig, DistributedSection, EvaluationSection,
        LoggingSection, MethodSection, ModelSection, PreferenceSection, TrainingSection,
    },
    show_value,
};
pub use error::{Code, ConfigError, ConfigErrors};
pub use events::{Event, EventKind, EventReader, EventWriter, MetricValue};
pub use exit::{ExitCode, ExitRecord};
pub use run::{LauncherRecord, RunId, RunState};
pub use run_dir::RunDir;
pub use trainer_log::TrainerLogLine;
