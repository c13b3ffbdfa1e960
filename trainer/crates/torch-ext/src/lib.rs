//! What tch lacks of libtorch, behind safe functions: fused optimizer and norm over tensor lists, backward from given
//! output gradients, storage control, random numbers from a generator of one's own, and fused model operations.
//!
//! A small C++ shim turns every C++ exception into a [`TorchError`]. With `c10d` this is the only crate with `unsafe`
//! code; it knows nothing of models, ranks or configurations.
#![expect(unsafe_code, reason = "this crate is the boundary to C++")]

mod autograd;
mod ffi;
mod fused;
mod memory;
mod optim;
mod random;

pub use autograd::{backward, grad, set_grad};
pub use fused::{attention, cross_entropy, lora_linear, rms_norm, rotate, swiglu};
pub use memory::{
    keep_freed_memory, num_threads, read_bytes, release_memory, storage_bytes, storage_resize,
    write_bytes,
};
pub use optim::{AdamW, foreach_norm, foreach_scale, fused_adamw};
pub use random::{dropout_mask, fill_uniform};

/// A C++ exception of libtorch, or arguments that do not fit together.
#[derive(Debug, thiserror::Error)]
#[error("`{operation}` failed: {message}")]
pub struct TorchError {
    /// The function that failed.
    pub operation: &'static str,
    /// What libtorch said, without its backtrace.
    pub message: String,
}

impl TorchError {
    /// Wraps an error of tch.
    pub fn from_tch(operation: &'static str, error: &tch::TchError) -> Self {
        Self {
            operation,
            message: error.to_string(),
        }
    }
}
