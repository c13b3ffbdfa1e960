//! Typed access to a configuration file, with errors that name the field.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use crate::ModelError;

/// More than any configuration file needs; a larger one is not read.
const MAX_BYTES: u64 = 4 << 20;

/// The fields of a JSON object of a file, or of an object within it.
#[derive(Debug, Clone)]
pub(crate) struct RawConfig {
    pub(crate) path: PathBuf,
    pub(crate) fields: Map<String, Value>,
}

impl RawConfig {
    /// Reads a file that holds one JSON object.
    pub(crate) fn read(path: &Path) -> Result<Self, ModelError> {
        let length = fs::metadata(path)
            .map_err(ModelError::io("read", path))?
            .len();
        let invalid = |message: String| ModelError::Json {
            path: path.to_owned(),
            message,
        };
        if length > MAX_BYTES {
            return Err(invalid(format!(
                "{length} bytes are more than the {MAX_BYTES} that are read"
            )));
        }
        let text = fs::read(path).map_err(ModelError::io("read", path))?;
        match serde_json::from_slice(&text) {
            Ok(Value::Object(fields)) => Ok(Self {
                path: path.to_owned(),
                fields,
            }),
            Ok(_) => Err(invalid("expected an object".to_owned())),
            Err(error) => Err(invalid(error.to_string())),
        }
    }

    /// Returns a field that is there and not null.
    pub(crate) fn get(&self, field: &str) -> Option<&Value> {
        self.fields.get(field).filter(|value| !value.is_null())
    }

    /// Makes the error of a field.
    pub(crate) fn wrong(&self, field: &str, message: impl Into<String>) -> ModelError {
        ModelError::Config {
            path: self.path.clone(),
            field: field.to_owned(),
            message: message.into(),
        }
    }

    fn typed<T>(
        &self,
        field: &str,
        expected: &str,
        take: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>, ModelError> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        take(value)
            .map(Some)
            .ok_or_else(|| self.wrong(field, format!("is `{value}`, expected {expected}")))
    }

    /// Returns a number, if the field is there.
    pub(crate) fn number(&self, field: &str) -> Result<Option<f64>, ModelError> {
        self.typed(field, "a number", Value::as_f64)
    }

    /// Returns a truth value, or the default.
    pub(crate) fn flag(&self, field: &str, default: bool) -> Result<bool, ModelError> {
        Ok(self
            .typed(field, "true or false", Value::as_bool)?
            .unwrap_or(default))
    }

    /// Returns a text, if the field is there.
    pub(crate) fn text(&self, field: &str) -> Result<Option<String>, ModelError> {
        self.typed(field, "a text", |value| value.as_str().map(str::to_owned))
    }

    /// Returns a size from 1 to 2^31, if the field is there.
    pub(crate) fn optional_size(&self, field: &str) -> Result<Option<i64>, ModelError> {
        let in_range = |value: &Value| {
            value
                .as_i64()
                .filter(|size| (1..=i64::from(i32::MAX)).contains(size))
        };
        self.typed(field, "a whole number above 0", in_range)
    }

    /// Returns a size that must be there.
    pub(crate) fn size(&self, field: &str) -> Result<i64, ModelError> {
        self.optional_size(field)?
            .ok_or_else(|| self.wrong(field, "is missing"))
    }

    /// Returns an object within, if the field is there.
    pub(crate) fn object(&self, field: &str) -> Result<Option<Self>, ModelError> {
        let fields = self.typed(field, "an object", |value| value.as_object().cloned())?;
        Ok(fields.map(|fields| Self {
            path: self.path.clone(),
            fields,
        }))
    }
}
