//! Runs a model by blocks and keeps parameters, gradients and optimizer state, over one rank or many.
//!
//! The training loop talks to a [`Strategy`]; today there is [`Single`]. The order in which techniques are
//! applied is fixed: seams of the model, LoRA freezing, activation checkpointing, then the strategy.
//! Nothing here knows of configurations, datasets or files other than the optimizer's.

mod batch;
mod error;
mod executor;
mod objective;
mod seed;
mod single;
mod state_file;
mod strategy;

pub use batch::MicroBatch;
pub use error::ParallelError;
pub use objective::{CHUNK_ROWS, CrossEntropy, HeadPass, LossSums, Objective};
pub use seed::dropout_seed;
pub use single::{OptimizerOptions, RunOptions, Single};
pub use strategy::{ModelView, ParameterGroup, Strategy};
