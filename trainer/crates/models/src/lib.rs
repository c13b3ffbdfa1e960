//! Language models for one device, and the Hugging Face folders they come from and go to.
//!
//! A [`Model`] is `embed`, a list of blocks and `head`; whoever runs it drives these parts one by one and may cut the
//! autograd graph between them. All hidden states are flat, `[tokens, hidden]`: sequences of a micro-batch stand one
//! after the other, told apart by the segment lengths of the [`Pass`]. LoRA lives in the `Linear` type; PEFT's names
//! exist only in files. Nothing here knows of ranks, losses, optimizers or configurations.

mod adapter;
mod config;
mod decoder;
mod error;
mod folder;
mod llama;
mod lora;
mod model;
mod nn;
mod parameter;
mod pass;
mod precision;
mod qwen;
mod registry;
mod save;
pub mod weights;

pub use config::{ModelConfig, RopeScaling};
pub use error::ModelError;
pub use lora::{Lora, Tuning};
pub use model::{LoadOptions, Model};
pub use nn::{Attention, FusedAttention};
pub use parameter::{Parameter, Unit};
pub use pass::Pass;
pub use precision::Precision;
pub use registry::{known_architectures, read_config};
pub use save::copy_companions;
