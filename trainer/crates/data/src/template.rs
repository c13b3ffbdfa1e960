//! Chat templates.
use jiff::civil::Date;

use crate::error::DataError;

/// The templates there are.
pub const NAMES: &[&str] =
    &["alpaca", "chatml", "default", "empty", "llama3", "qwen", "qwen3", "qwen3_nothink", "smollm2"];

/// What a run sets about its template.
#[derive(Debug, Clone)]
pub struct TemplateOptions {
    /// Takes the place of the template's default system prompt.
    pub default_system: Option<String>,
    /// Whether answers begin with a thought; see the module's table.
    pub enable_thinking: Option<bool>,
    /// Keep thoughts in earlier turns.
    pub preserve_thinking: bool,
    /// The date that llama3 writes with tools.
    pub today: Date,
}

/// A chat template.
#[derive(Debug, Clone)]
pub struct ChatTemplate {}

impl ChatTemplate {
    /// Returns the template `name`.
    pub fn named(name: &str, options: &TemplateOptions) -> Result<Self, DataError> {
        let _ = options;
        Err(DataError::UnknownTemplate { name: name.into() })
    }
}
