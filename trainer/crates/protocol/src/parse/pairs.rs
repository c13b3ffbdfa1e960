//! Flat pairs of a form or a JSON request to the tree.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    overrides,
    tree::{Data, Entry, Node},
};
use crate::{
    error::{Code, ConfigError},
    limits::{MAX_CONFIG_BYTES, MAX_CONFIG_DEPTH, MAX_CONFIG_KEYS},
};

/// Reads pairs; dotted keys go into maps, maps in which nothing is filled in are left out.
pub(super) fn read(pairs: &BTreeMap<String, Value>, errors: &mut Vec<ConfigError>) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut bytes = 0;
    for (key, value) in pairs {
        bytes += key.len() + size(value, 0);
        if bytes > MAX_CONFIG_BYTES || pairs.len() > MAX_CONFIG_KEYS {
            let reason = format!(
                "the configuration has more than the {MAX_CONFIG_BYTES} bytes or {MAX_CONFIG_KEYS} keys allowed"
            );
            errors.push(ConfigError::new(Code::TooLarge, "", reason));
            return Vec::new();
        }
        overrides::apply(
            &mut entries,
            Entry {
                key: key.clone(),
                place: None,
                value: Node::from_json(value),
            },
        );
    }
    entries.retain(|entry| !is_blank_map(&entry.value));
    entries
}

fn is_blank_map(node: &Node) -> bool {
    matches!(&node.data, Data::Map(entries) if entries.iter().all(|entry| entry.value.is_null()))
}

/// Returns about how large a value is; one that nests too deep counts as too large.
fn size(value: &Value, depth: usize) -> usize {
    if depth > MAX_CONFIG_DEPTH {
        return MAX_CONFIG_BYTES + 1;
    }
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items
            .iter()
            .map(|item| size(item, depth + 1))
            .fold(0, usize::saturating_add),
        Value::Object(map) => map
            .iter()
            .map(|(key, item)| key.len() + size(item, depth + 1))
            .fold(0, usize::saturating_add),
        _ => 8,
    }
}
