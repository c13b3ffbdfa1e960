//! Safetensors files: read without trusting them, written atomically.

mod header;
mod reader;
mod writer;

pub use reader::{Safetensors, read_all};
pub use writer::write;
pub(crate) use writer::{copy_file, write_text};
