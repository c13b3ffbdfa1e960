//! Numbers and words between `SQLite`, which has i64 and TEXT, and our types.

use std::str::FromStr;

use crate::error::StoreError;

/// Reads a count, which no writer of ours makes negative.
pub(crate) fn count(value: i64) -> u64 {
    value.max(0).cast_unsigned()
}

/// Returns a count as SQL has it; a count beyond i64 stays at its end.
pub(crate) fn sql_count(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Reads a small count.
pub(crate) fn small(value: i64) -> u32 {
    u32::try_from(value.max(0)).unwrap_or(u32::MAX)
}

/// Reads a word of a fixed set.
pub(crate) fn word<T: FromStr>(column: &str, text: &str) -> Result<T, StoreError> {
    text.parse().map_err(|_| StoreError::Corrupt {
        reason: format!("`{text}` in the column `{column}`"),
    })
}

/// Reads a list of texts from its JSON.
pub(crate) fn texts(json: &str) -> Result<Vec<String>, StoreError> {
    serde_json::from_str(json).map_err(|_| StoreError::Corrupt {
        reason: format!("`{json}` is not a list of texts"),
    })
}

/// Returns a list of texts as JSON.
pub(crate) fn texts_json(texts: &[String]) -> String {
    serde_json::Value::from(texts).to_string()
}

/// Joins a REAL and the mark beside it that says that it is NaN.
pub(crate) fn real(value: Option<f64>, is_nan: i64) -> Option<f64> {
    if is_nan == 1 { Some(f64::NAN) } else { value }
}
