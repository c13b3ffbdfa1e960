//! A config back to text: canonical YAML, the flat dialect, and its hash.

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::{ChangedKey, RunConfig};
use crate::keys::{self, Dialect, KEYS, Key, Section};

impl RunConfig {
    /// Returns every key with its value, in the table's order.
    pub fn to_flat_json(&self) -> Map<String, Value> {
        let nested = serde_json::to_value(self).unwrap_or_default();
        KEYS.iter()
            .filter(|key| key.is_stored)
            .map(|key| (key.name.to_owned(), value_of(&nested, key).clone()))
            .collect()
    }

    /// Returns the canonical YAML: every key with its value, in the table's order.
    /// `from_yaml` reads it back unchanged, whatever the dialect it came from.
    pub fn to_yaml(&self) -> String {
        let flat = self.to_flat_json();
        let mut text = String::new();
        for section in Section::ALL {
            text.push_str("# ");
            text.push_str(section.as_str());
            text.push('\n');
            for key in keys::of_section(*section) {
                write_key(
                    &mut text,
                    key,
                    &flat,
                    self.training.global_batch_size.is_some(),
                );
            }
        }
        text
    }

    /// Returns flat YAML in LLaMA-Factory's classic dialect; with `only_changed`, what differs from the defaults.
    /// Model, data and stage are always there, so that the file can be read by itself.
    pub fn to_flat_yaml(&self, only_changed: bool) -> String {
        let flat = self.to_flat_json();
        let defaults = Self::default().to_flat_json();
        let mut text = String::new();
        for key in KEYS
            .iter()
            .filter(|key| key.is_stored && key.dialect != Dialect::V1)
        {
            let is_always = matches!(
                key.name,
                "stage" | "model_name_or_path" | "finetuning_type" | "dataset" | "template"
            );
            let value = &flat[key.name];
            let is_default = *value == defaults[key.name];
            // Nothing is worth a line only where the default is something.
            let is_wanted = !is_default || (is_always || !only_changed) && !is_empty(value);
            if is_wanted {
                write_key(&mut text, key, &flat, false);
            }
        }
        text
    }

    /// Returns the keys whose values differ from the classic defaults.
    pub fn changed_keys(&self) -> Vec<ChangedKey> {
        let flat = self.to_flat_json();
        let defaults = Self::default().to_flat_json();
        KEYS.iter()
            .filter(|key| key.is_stored && flat[key.name] != defaults[key.name])
            .map(|key| ChangedKey {
                key: key.name,
                value: flat[key.name].clone(),
                default: defaults[key.name].clone(),
            })
            .collect()
    }

    /// Returns the SHA-256 of the canonical YAML in hexadecimal digits.
    pub fn hash(&self) -> String {
        format!("{:x}", Sha256::digest(self.to_yaml()))
    }
}

fn value_of<'a>(nested: &'a Value, key: &Key) -> &'a Value {
    match key.section {
        Section::Task => &nested[key.name],
        section => &nested[section.as_str()][key.name],
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

fn write_key(text: &mut String, key: &Key, flat: &Map<String, Value>, has_global_batch: bool) {
    let value = &flat[key.name];
    // One of the two decides; see `RunConfig::accumulation_steps`.
    let is_derived = key.name == "gradient_accumulation_steps" && has_global_batch;
    // A key of the v1 dialect would make the file look like one.
    if is_derived || key.dialect == Dialect::V1 && value.is_null() {
        return;
    }
    text.push_str(key.name);
    text.push(':');
    write_value(text, value, 1);
}

fn write_value(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(map) => {
            text.push('\n');
            for (name, value) in map {
                text.push_str(&"  ".repeat(depth));
                text.push_str(name);
                text.push(':');
                write_value(text, value, depth + 1);
            }
        }
        value => {
            text.push(' ');
            text.push_str(&inline(value));
            text.push('\n');
        }
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => match number.as_f64() {
            Some(value) if number.is_f64() => float(value),
            _ => number.to_string(),
        },
        Value::String(text) => word(text),
        Value::Array(items) => {
            let texts: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            let is_plain =
                |text: &&str| !text.is_empty() && text.trim() == *text && !text.contains(',');
            if !texts.is_empty() && texts.iter().all(is_plain) && !texts[0].starts_with('[') {
                return word(&texts.join(","));
            }
            let words: Vec<String> = texts.into_iter().map(quoted).collect();
            format!("[{}]", words.join(", "))
        }
        Value::Object(_) => value.to_string(),
    }
}

/// Writes a float so that every YAML reader takes it as one: a whole number without a point, else with point and signed
/// exponent.
fn float(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    let text = format!("{value:?}");
    match text.split_once('e') {
        None => text,
        Some((digits, exponent)) => {
            let point = if digits.contains('.') { "" } else { ".0" };
            let sign = if exponent.starts_with('-') { "" } else { "+" };
            format!("{digits}{point}e{sign}{exponent}")
        }
    }
}

/// Writes a text plain where no reader can take it for something else, else in quotes.
fn word(text: &str) -> String {
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"_./,+@-".contains(&byte);
    let starts_well = text
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'/' || byte == b'_');
    let lower = text.to_ascii_lowercase();
    let is_word_of_yaml = matches!(
        lower.as_str(),
        "null"
            | "true"
            | "false"
            | "yes"
            | "no"
            | "on"
            | "off"
            | "y"
            | "n"
            | "nan"
            | "inf"
            | "infinity"
    );
    if starts_well && text.bytes().all(is_safe) && !is_word_of_yaml {
        text.to_owned()
    } else {
        quoted(text)
    }
}

/// Writes a text in double quotes, with everything escaped that is not plainly printable.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if (c as u32) < 0xA0 && (c.is_control() || c as u32 == 0x7F)
                || matches!(
                    c,
                    '\u{2028}' | '\u{2029}' | '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}'
                ) =>
            {
                out.push_str("\\u");
                let code = c as u32;
                for shift in [12, 8, 4, 0] {
                    out.push(char::from_digit(code >> shift & 0xF, 16).unwrap_or('0'));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Returns the value of a key as a form shows it: no quotes, names with commas between.
pub fn show_value(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(","),
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map_or_else(String::new, plain_float)
        }
        other => other.to_string(),
    }
}

/// Returns a float as a person writes it, e.g. `5e-5`.
fn plain_float(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value:.0}")
    } else {
        format!("{value:?}")
    }
}
