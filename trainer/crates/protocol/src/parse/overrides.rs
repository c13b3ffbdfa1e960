//! `key=value` words of the command line, nested keys dotted.

use super::{
    tree::{Data, Entry, Node},
    yaml,
};
use crate::error::{Code, ConfigError};

/// Most dots of a nested key.
const MOST_DOTS: usize = 3;

/// Reads one `key=value`. The value is YAML, so lists and maps may be given too.
pub(super) fn read(text: &str) -> Result<Entry, Box<ConfigError>> {
    let text = text.trim_start_matches("--");
    let Some((key, value)) = text
        .split_once('=')
        .filter(|(key, _)| key.split('.').all(|part| !part.trim().is_empty()))
    else {
        return Err(ConfigError::new(
            Code::Syntax,
            "",
            format!("`{text}` is not of the form key=value"),
        )
        .with_hint("write for example `learning_rate=1e-4`")
        .into());
    };
    let mut errors = Vec::new();
    let node = yaml::read_node(value, &mut errors).ok().flatten();
    let value = match node {
        // What is no YAML by itself (`a: b`, `*`, an unclosed quote) is meant as a text.
        Some(node) if errors.is_empty() && !matches!(node.data, Data::Map(_)) => node,
        Some(node) if errors.is_empty() && value.trim_start().starts_with('{') => node,
        _ => Node::plain(value),
    };
    Ok(Entry {
        key: key.trim().to_owned(),
        place: None,
        value: without_places(value),
    })
}

/// Places in a word of the command line say nothing about the file.
fn without_places(mut node: Node) -> Node {
    node.place = None;
    match &mut node.data {
        Data::Scalar { .. } => {}
        Data::List(items) => {
            for item in items {
                *item = without_places(std::mem::replace(item, Node::plain("")));
            }
        }
        Data::Map(entries) => {
            for entry in entries {
                entry.place = None;
                entry.value = without_places(std::mem::replace(&mut entry.value, Node::plain("")));
            }
        }
    }
    node
}

/// Puts an entry into the tree: replaces the value of the same key, follows dots into maps.
pub(super) fn apply(entries: &mut Vec<Entry>, entry: Entry) {
    // A key with more dots is none of ours; it is left whole and reported as unknown.
    let nested = entry
        .key
        .split_once('.')
        .filter(|_| entry.key.matches('.').count() <= MOST_DOTS);
    let Some((head, rest)) = nested else {
        match entries.iter_mut().find(|old| old.key == entry.key) {
            Some(old) => *old = entry,
            None => entries.push(entry),
        }
        return;
    };
    let index = entries
        .iter()
        .position(|old| old.key == head)
        .unwrap_or_else(|| {
            entries.push(Entry {
                key: head.to_owned(),
                place: None,
                value: Node::plain(""),
            });
            entries.len() - 1
        });
    let map = &mut entries[index].value;
    if !matches!(map.data, Data::Map(_)) {
        map.data = Data::Map(Vec::new());
    }
    if let Data::Map(inner) = &mut map.data {
        apply(
            inner,
            Entry {
                key: rest.to_owned(),
                place: None,
                value: entry.value,
            },
        );
    }
}
