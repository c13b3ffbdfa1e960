//! What is wrong with a configuration: every fault with its key, value, reason and hint, all at once.

use std::fmt;

use serde::Serialize;

/// The kind of a fault; its word is part of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The text is not YAML or JSON, or not a map.
    Syntax,
    /// The text is larger than the limit or nests too deep.
    TooLarge,
    /// No such key.
    UnknownKey,
    /// The same key twice.
    DuplicateKey,
    /// The value has another type.
    WrongType,
    /// The number is outside its range.
    OutOfRange,
    /// The word is not in the list.
    NotAChoice,
    /// A key that must be given is not.
    Missing,
    /// Two keys contradict each other.
    Conflict,
    /// The key or value is refused for good.
    Refused,
    /// The key or value comes in a later version.
    NotAvailable,
}

impl Code {
    /// Returns the word of the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::TooLarge => "too_large",
            Self::UnknownKey => "unknown_key",
            Self::DuplicateKey => "duplicate_key",
            Self::WrongType => "wrong_type",
            Self::OutOfRange => "out_of_range",
            Self::NotAChoice => "not_a_choice",
            Self::Missing => "missing",
            Self::Conflict => "conflict",
            Self::Refused => "refused",
            Self::NotAvailable => "not_available",
        }
    }
}

/// One fault of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
pub struct ConfigError {
    /// The key, dotted where nested; empty for a fault of the whole text.
    pub field: String,
    /// Other keys that take part in the fault.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<String>,
    /// The offending value as text.
    pub value: Option<String>,
    /// What is wrong.
    pub reason: String,
    /// What the user can do.
    pub hint: Option<String>,
    /// The kind of fault.
    pub code: Code,
    /// Line in the text, from 1.
    pub line: Option<usize>,
    /// Column in the text, from 1.
    pub column: Option<usize>,
}

impl ConfigError {
    /// Makes a fault without value, hint or place.
    pub fn new(code: Code, field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            related: Vec::new(),
            value: None,
            reason: reason.into(),
            hint: None,
            code,
            line: None,
            column: None,
        }
    }

    /// Adds the offending value.
    #[must_use]
    pub fn value(mut self, value: impl Into<String>) -> Self {
        self.value = Some(value.into());
        self
    }

    /// Adds what the user can do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds another key that takes part.
    #[must_use]
    pub fn with_related(mut self, key: impl Into<String>) -> Self {
        self.related.push(key.into());
        self
    }

    /// Adds the place in the text.
    #[must_use]
    pub fn at(mut self, place: Option<(usize, usize)>) -> Self {
        if let Some((line, column)) = place {
            self.line = Some(line);
            self.column = Some(column);
        }
        self
    }

    /// Returns what the user can do.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, "line {line}, column {column}: ")?;
        }
        if !self.field.is_empty() {
            write!(f, "{}", self.field)?;
            if let Some(value) = &self.value {
                write!(f, " = `{value}`")?;
            }
            write!(f, ": ")?;
        }
        write!(f, "{}", self.reason)
    }
}

/// Every fault of a configuration, in the order of the text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl ConfigErrors {
    /// Returns the faults.
    pub fn iter(&self) -> std::slice::Iter<'_, ConfigError> {
        self.0.iter()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl std::error::Error for ConfigErrors {}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self(vec![error])
    }
}

impl IntoIterator for ConfigErrors {
    type Item = ConfigError;
    type IntoIter = std::vec::IntoIter<ConfigError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a ConfigErrors {
    type Item = &'a ConfigError;
    type IntoIter = std::slice::Iter<'a, ConfigError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{error}")?;
            if let Some(hint) = &error.hint {
                write!(f, "\n  hint: {hint}")?;
            }
        }
        Ok(())
    }
}
