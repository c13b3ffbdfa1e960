//! One point of a metric series.

use serde::{Serialize, Serializer};

/// One value of one metric at one step.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Point {
    /// Board-wide id of the event it came with.
    #[serde(skip)]
    pub id: i64,
    /// Optimizer step.
    pub step: i64,
    /// When the trainer wrote it, in milliseconds since 1970.
    #[serde(rename = "time")]
    pub time_ms: i64,
    /// Epoch at that step, where the trainer told it.
    pub epoch: Option<f64>,
    /// The value; NaN and the infinities are legal and become strings in JSON.
    #[serde(serialize_with = "value_as_json")]
    pub value: f64,
}

/// Writes a value as a number, or as `"NaN"`, `"Infinity"`, `"-Infinity"`.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn value_as_json<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    match non_finite_name(*value) {
        None => serializer.serialize_f64(*value),
        Some(name) => serializer.serialize_str(name),
    }
}

/// Returns the word for a value that is no finite number.
pub fn non_finite_name(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("NaN")
    } else if value == f64::INFINITY {
        Some("Infinity")
    } else if value == f64::NEG_INFINITY {
        Some("-Infinity")
    } else {
        None
    }
}
