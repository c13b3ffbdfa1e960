//! The models against reference values, and against files that lie.
#![expect(
    clippy::unwrap_used,
    clippy::semicolon_if_nothing_returned,
    reason = "a test fails by panicking and says how near it came"
)]

mod bad_input;
mod golden;
mod lora;
mod saving;
mod support;
