//! The tree that every source of a config is read into.

use serde_json::Value;

use super::Place;

/// A key with its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    /// The key as written.
    pub(super) key: String,
    /// Place of the key.
    pub(super) place: Option<Place>,
    /// Its value.
    pub(super) value: Node,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    /// Place of the value.
    pub(super) place: Option<Place>,
    /// What it is.
    pub(super) data: Data,
}

/// What a value is. Numbers and booleans stay text until the key says which type it wants.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Data {
    /// A scalar.
    Scalar {
        /// Its text.
        text: String,
        /// Whether it stood in quotes, so that `"null"` is a text.
        is_quoted: bool,
    },
    /// A list.
    List(Vec<Node>),
    /// A map, in the order of the text.
    Map(Vec<Entry>),
}

impl Node {
    /// Makes a plain scalar.
    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self {
            place: None,
            data: Data::Scalar {
                text: text.into(),
                is_quoted: false,
            },
        }
    }

    /// Makes a node of a JSON value. Texts count as plain, as a form sends them.
    pub(super) fn from_json(value: &Value) -> Self {
        let data = match value {
            Value::Null => return Self::plain(""),
            Value::Bool(value) => return Self::plain(value.to_string()),
            Value::Number(value) => return Self::plain(value.to_string()),
            Value::String(text) => return Self::plain(text.clone()),
            Value::Array(items) => Data::List(items.iter().map(Self::from_json).collect()),
            Value::Object(map) => Data::Map(
                map.iter()
                    .map(|(key, value)| Entry {
                        key: key.clone(),
                        place: None,
                        value: Self::from_json(value),
                    })
                    .collect(),
            ),
        };
        Self { place: None, data }
    }

    /// Whether it says nothing: `null`, `~` or no text.
    pub(super) fn is_null(&self) -> bool {
        match &self.data {
            Data::Scalar {
                text,
                is_quoted: false,
            } => matches!(text.trim(), "" | "~" | "null" | "Null" | "NULL"),
            _ => false,
        }
    }

    /// Returns the text of a scalar, without blanks around it.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.data {
            Data::Scalar {
                text,
                is_quoted: false,
            } => Some(text.trim()),
            Data::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Returns the value as a message shows it, cut where it is long.
    pub(super) fn show(&self) -> String {
        cut(&self.show_full())
    }

    fn show_full(&self) -> String {
        match &self.data {
            Data::Scalar { text, .. } => text.clone(),
            Data::List(items) => {
                let items: Vec<String> = items.iter().map(Self::show_full).collect();
                format!("[{}]", items.join(", "))
            }
            Data::Map(entries) => {
                let entries: Vec<String> = entries
                    .iter()
                    .map(|entry| format!("{}: {}", entry.key, entry.value.show_full()))
                    .collect();
                format!("{{{}}}", entries.join(", "))
            }
        }
    }
}

/// Returns a text as a message shows it, cut where it is long.
pub(super) fn cut(text: &str) -> String {
    const MOST: usize = 80;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
