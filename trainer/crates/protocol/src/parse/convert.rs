//! A node to the type that its key wants.

use serde_json::{Map, Value};

use super::tree::{Data, Entry, Node};
use crate::{
    availability::{Availability, Choice},
    error::{Code, ConfigError},
    keys::{Key, Kind, nearest_of},
};

/// Converts a node for a key. `Ok(None)`: nothing is given, the default holds.
/// `path` is the key's name as written, dotted where nested.
pub(super) fn convert(
    key: &Key,
    path: &str,
    node: &Node,
) -> Result<Option<Value>, Vec<ConfigError>> {
    if node.is_null() {
        return Ok(key.is_optional.then_some(Value::Null));
    }
    let value = match key.kind {
        Kind::Names | Kind::Paths => names(key, path, node)?,
        Kind::Map(keys) => return map(key, keys, path, node),
        // Hugging Face's switch: true is the newest checkpoint.
        Kind::Text
            if key.name == "resume_from_checkpoint" && node.text().is_some_and(is_switch) =>
        {
            let is_on = node.text().and_then(boolean) == Some(true);
            return Ok(Some(if is_on {
                Value::from("auto")
            } else {
                Value::Null
            }));
        }
        Kind::Any => return Ok(None),
        _ => scalar(key, path, node)?,
    };
    Ok(Some(value))
}

fn fault(code: Code, path: &str, node: &Node, reason: impl Into<String>) -> ConfigError {
    ConfigError::new(code, path, reason)
        .value(node.show())
        .at(node.place)
}

fn wrong_type(key: &Key, path: &str, node: &Node) -> ConfigError {
    fault(
        Code::WrongType,
        path,
        node,
        format!("expected {}", key.kind.expected()),
    )
}

fn scalar(key: &Key, path: &str, node: &Node) -> Result<Value, Vec<ConfigError>> {
    let Some(text) = node.text() else {
        return Err(vec![wrong_type(key, path, node)]);
    };
    let value = match key.kind {
        Kind::Bool => boolean(text).map(Value::Bool),
        Kind::Integer => return integer(key, path, node, text).map_err(|error| vec![*error]),
        Kind::Number => return number(key, path, node, text).map_err(|error| vec![*error]),
        Kind::Choice(choices) => {
            return choice(choices, path, node, text).map_err(|error| vec![*error]);
        }
        _ => Some(Value::from(text)),
    };
    value.ok_or_else(|| vec![wrong_type(key, path, node)])
}

/// Reads the words that YAML 1.1 and forms use for yes and no.
pub(super) fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Some(true),
        "false" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

fn is_switch(text: &str) -> bool {
    matches!(text.to_ascii_lowercase().as_str(), "true" | "false")
}

fn finite(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|value| value.is_finite())
}

/// Largest whole number up to which a float counts exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;

fn integer(key: &Key, path: &str, node: &Node, text: &str) -> Result<Value, Box<ConfigError>> {
    let exact: Option<i64> = text.parse().ok();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "only whole numbers that a float holds exactly"
    )]
    let whole = exact.or_else(|| {
        finite(text)
            .filter(|value| value.fract() == 0.0 && value.abs() <= EXACT)
            .map(|value| value as i64)
    });
    let Some(value) = whole else {
        let error = wrong_type(key, path, node);
        return Err(Box::new(match finite(text) {
            Some(ratio) if ratio > 0.0 && ratio < 1.0 && key.unit == Some("steps") => {
                error.with_hint("a share of the run is not read here; write the number of steps")
            }
            _ => error,
        }));
    };
    // Hugging Face writes -1 for "not set".
    if value <= 0 && matches!(key.name, "max_steps") || value == -1 && key.is_optional {
        return Ok(Value::Null);
    }
    in_range(key, path, node, value as f64)?;
    Ok(Value::from(value))
}

fn number(key: &Key, path: &str, node: &Node, text: &str) -> Result<Value, Box<ConfigError>> {
    let Some(value) = finite(text) else {
        return Err(wrong_type(key, path, node).into());
    };
    in_range(key, path, node, value)?;
    // Minus zero would write itself differently and mean the same.
    Ok(Value::from(value + 0.0))
}

fn in_range(key: &Key, path: &str, node: &Node, value: f64) -> Result<(), Box<ConfigError>> {
    match key.range {
        Some(range) if !range.contains(value) => {
            let unit = key.unit.map_or_else(String::new, |unit| format!(" {unit}"));
            Err(fault(
                Code::OutOfRange,
                path,
                node,
                format!("must be {}{unit}", range.describe()),
            )
            .into())
        }
        _ => Ok(()),
    }
}

fn choice(
    choices: &[Choice],
    path: &str,
    node: &Node,
    text: &str,
) -> Result<Value, Box<ConfigError>> {
    if let Some(choice) = choices.iter().find(|choice| choice.is_named(text)) {
        return Ok(Value::from(choice.value));
    }
    let available = |choice: &&Choice| choice.availability == Availability::Available;
    let all = choices.iter().map(|choice| choice.value);
    let list: Vec<String> = match choices.iter().filter(available).count() {
        0 => all.clone().map(|value| format!("`{value}`")).collect(),
        _ => choices
            .iter()
            .filter(available)
            .map(|choice| format!("`{}`", choice.value))
            .collect(),
    };
    let mut hint = format!("choose {}", list.join(", "));
    if let Some(near) = nearest_of(&text.to_lowercase(), all) {
        let is_all = list.len() == 1 && list[0] == format!("`{near}`");
        hint = if is_all {
            format!("did you mean `{near}`?")
        } else {
            format!("did you mean `{near}`? {hint}")
        };
    }
    Err(
        fault(Code::NotAChoice, path, node, "not one of the choices")
            .with_hint(hint)
            .into(),
    )
}

fn names(key: &Key, path: &str, node: &Node) -> Result<Value, Vec<ConfigError>> {
    match &node.data {
        Data::Scalar {
            text,
            is_quoted: false,
        } if text.trim_start().starts_with('[') => {
            let mut errors = Vec::new();
            match super::yaml::read_node(text, &mut errors) {
                Ok(Some(list)) if errors.is_empty() && matches!(list.data, Data::List(_)) => {
                    names(key, path, &list)
                }
                _ => Err(vec![wrong_type(key, path, node)]),
            }
        }
        Data::Scalar { text, .. } => Ok(text
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(Value::from)
            .collect()),
        Data::List(items) => {
            let mut values = Vec::new();
            let mut errors = Vec::new();
            for item in items {
                match item.text() {
                    Some(text) if !item.is_null() && !text.is_empty() => {
                        values.push(Value::from(text));
                    }
                    _ => errors.push(fault(
                        Code::WrongType,
                        path,
                        item,
                        "expected a name in the list",
                    )),
                }
            }
            if errors.is_empty() {
                Ok(Value::Array(values))
            } else {
                Err(errors)
            }
        }
        Data::Map(_) => Err(vec![wrong_type(key, path, node)]),
    }
}

/// Returns the entries of a map, or of the JSON text that the v1 trainer takes in its place.
pub(super) fn entries(node: &Node) -> Option<Vec<Entry>> {
    match &node.data {
        Data::Map(entries) => Some(entries.clone()),
        Data::Scalar { text, .. } if text.trim_start().starts_with('{') => {
            let mut errors = Vec::new();
            match super::yaml::read_node(text, &mut errors) {
                Ok(Some(Node {
                    data: Data::Map(entries),
                    ..
                })) if errors.is_empty() => Some(entries),
                _ => None,
            }
        }
        _ => None,
    }
}

fn map(
    key: &Key,
    keys: &[Key],
    path: &str,
    node: &Node,
) -> Result<Option<Value>, Vec<ConfigError>> {
    let Some(entries) = entries(node) else {
        let name = node.text().unwrap_or("fsdp2");
        let error = wrong_type(key, path, node);
        return Err(vec![
            error.with_hint(format!("write `{path}: {{name: {name}}}`")),
        ]);
    };
    let mut values: Map<String, Value> = keys
        .iter()
        .map(|key| (key.name.to_owned(), default_value(key, key.default)))
        .collect();
    let mut errors = Vec::new();
    for entry in &entries {
        let inner = format!("{path}.{}", entry.key);
        match keys.iter().find(|key| key.name == entry.key) {
            None => errors.push(unknown_inner(keys, &inner, entry)),
            Some(key) => match convert(key, &inner, &entry.value) {
                Ok(Some(value)) => {
                    values.insert(key.name.to_owned(), value);
                }
                Ok(None) => {}
                Err(found) => errors.extend(found),
            },
        }
    }
    let has_name = errors
        .iter()
        .any(|error| error.field == format!("{path}.name"));
    if values.get("name").is_some_and(Value::is_null) && !has_name {
        errors.push(
            fault(
                Code::Missing,
                &format!("{path}.name"),
                node,
                "Plugin configuration must have a 'name' field.",
            )
            .with_hint("write for example `dist_config: {name: fsdp2}`"),
        );
    }
    errors.extend(
        entries
            .iter()
            .filter_map(|entry| foreign_inner(keys, path, &values, entry)),
    );
    if errors.is_empty() {
        Ok(Some(Value::Object(values)))
    } else {
        Err(errors)
    }
}

/// Whether a key inside a map belongs to the engine that the map names.
fn belongs(key: &Key, name: &str) -> bool {
    key.needs.is_none_or(|needs| needs.values.contains(&name))
}

/// Refuses a key of another engine, unless it only repeats its default.
fn foreign_inner(
    keys: &[Key],
    path: &str,
    values: &Map<String, Value>,
    entry: &Entry,
) -> Option<ConfigError> {
    let name = values.get("name")?.as_str()?;
    let key = keys.iter().find(|key| key.name == entry.key)?;
    if belongs(key, name) || values.get(key.name) == Some(&default_value(key, key.default)) {
        return None;
    }
    let expected: Vec<String> = keys
        .iter()
        .filter(|key| belongs(key, name))
        .map(|key| format!("`{}`", key.name))
        .collect();
    let reason = format!("`{name}` has no such key");
    Some(
        ConfigError::new(Code::UnknownKey, format!("{path}.{}", entry.key), reason)
            .value(entry.value.show())
            .with_hint(format!("expected {}", expected.join(", ")))
            .at(entry.place),
    )
}

fn unknown_inner(keys: &[Key], path: &str, entry: &Entry) -> ConfigError {
    let expected: Vec<String> = keys.iter().map(|key| format!("`{}`", key.name)).collect();
    ConfigError::new(Code::UnknownKey, path, "there is no such key")
        .value(entry.value.show())
        .with_hint(format!("expected {}", expected.join(", ")))
        .at(entry.place)
}

/// Returns a default of the key table as a value.
pub(super) fn default_value(key: &Key, default: Option<&str>) -> Value {
    let empty = match key.kind {
        Kind::Names | Kind::Paths => Value::Array(Vec::new()),
        Kind::Path | Kind::Text if !key.is_optional => Value::from(""),
        _ => Value::Null,
    };
    match default {
        None => empty,
        Some(text) => convert(key, key.name, &Node::plain(text))
            .ok()
            .flatten()
            .unwrap_or(empty),
    }
}
