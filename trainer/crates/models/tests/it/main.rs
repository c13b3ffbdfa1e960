//! The models against reference values, and against files that lie.

mod bad_input;
mod golden;
mod lora;
mod saving;
mod support;
