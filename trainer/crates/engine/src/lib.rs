//! The training loop and all around it: stages, schedules, evaluation, checkpoints, logs, results.
//!
//! [`run`] takes a checked configuration to its results on one rank. How the ranks divide the work is the
//! business of `trainer-parallel`, what a model is that of `trainer-models`, and what a row is that of `trainer-data`.

pub mod checkpoint;
mod error;
mod evaluation;
mod loading;
mod monitor;
mod outputs;
mod plot;
mod recorder;
mod run;
mod schedule;
mod stage;
mod step;
mod stop;
mod system;
mod trainer;

pub use error::EngineError;
pub use recorder::EventSink;
pub use run::{RankOptions, run};
pub use schedule::{Schedule, Shape};
pub use stop::StopFlag;
pub use system::{Usage, UsageMeter};
pub use trainer::Outcome;
