//! Numbers of metrics, which may be NaN or infinite.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The values of a metric event by name, in the order they were given.
pub type MetricValues = IndexMap<String, MetricValue>;

/// A number of a metric. In JSON a number, or one of the texts `NaN`, `Infinity`, `-Infinity`.
#[derive(Debug, Clone, Copy, Default)]
pub struct MetricValue(pub f64);

impl MetricValue {
    /// Returns the number.
    pub const fn get(self) -> f64 {
        self.0
    }

    /// Returns the text for a number that JSON has no digits for.
    fn word(self) -> Option<&'static str> {
        if self.0.is_nan() {
            Some("NaN")
        } else if self.0 == f64::INFINITY {
            Some("Infinity")
        } else if self.0 == f64::NEG_INFINITY {
            Some("-Infinity")
        } else {
            None
        }
    }
}

impl PartialEq for MetricValue {
    /// NaN equals NaN here: it is the same thing to log.
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || (self.0.is_nan() && other.0.is_nan())
    }
}

impl From<f64> for MetricValue {
    fn from(value: f64) -> Self {
        Self(value)
    }
}

impl From<MetricValue> for f64 {
    fn from(value: MetricValue) -> Self {
        value.0
    }
}

impl fmt::Display for MetricValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.word() {
            Some(word) => f.write_str(word),
            None => write!(f, "{}", self.0),
        }
    }
}

impl Serialize for MetricValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.word() {
            Some(word) => serializer.serialize_str(word),
            None => serializer.serialize_f64(self.0),
        }
    }
}

impl<'de> Deserialize<'de> for MetricValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = MetricValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, \"NaN\", \"Infinity\" or \"-Infinity\"")
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<MetricValue, E> {
                Ok(MetricValue(value))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<MetricValue, E> {
                Ok(MetricValue(value as f64))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<MetricValue, E> {
                Ok(MetricValue(value as f64))
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<MetricValue, E> {
                match word {
                    "NaN" => Ok(MetricValue(f64::NAN)),
                    "Infinity" => Ok(MetricValue(f64::INFINITY)),
                    "-Infinity" => Ok(MetricValue(f64::NEG_INFINITY)),
                    _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
                }
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}
