//! The names of columns, and of the parts of a message.
//!
//! Beware: once `columns` is given, a column that it does not list does not exist, `prompt`, `query` and `response`
//! included. The same holds for `tags`: without `system_tag` there are no system messages.

use serde_json::{Map, Value};

/// What the columns of a dataset are called; `None` where it has no such column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    /// The question.
    pub prompt: Option<String>,
    /// What the question is about; joined to it by a newline.
    pub query: Option<String>,
    /// The answer.
    pub response: Option<String>,
    /// Earlier questions and answers, a list of pairs.
    pub history: Option<String>,
    /// The list of messages.
    pub messages: Option<String>,
    /// The system prompt.
    pub system: Option<String>,
    /// The tools, a JSON list.
    pub tools: Option<String>,
    /// The better answer.
    pub chosen: Option<String>,
    /// The worse answer.
    pub rejected: Option<String>,
    /// Whether the answer is wanted.
    pub kto_tag: Option<String>,
    /// Whether there are images, videos or audios.
    pub has_media: bool,
    /// Whether the description lists its columns; else the names are the usual ones and `query` may be missing.
    pub are_listed: bool,
}

impl Columns {
    /// Reads `columns`, or returns the usual names where it is left out.
    pub(super) fn read(listed: Option<&Map<String, Value>>) -> Self {
        let name = |key: &str, usual: Option<&str>| name(listed, key, usual);
        Self {
            prompt: name("prompt", Some("instruction")),
            query: name("query", Some("input")),
            response: name("response", Some("output")),
            history: name("history", None),
            messages: name("messages", Some("conversations")),
            system: name("system", None),
            tools: name("tools", None),
            chosen: name("chosen", None),
            rejected: name("rejected", None),
            kto_tag: name("kto_tag", None),
            has_media: ["images", "videos", "audios"]
                .iter()
                .any(|key| name(key, None).is_some()),
            are_listed: listed.is_some(),
        }
    }
}

/// What the parts of a message and the speakers are called; `None` where there is no such speaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tags {
    /// The key of the speaker.
    pub role_tag: Option<String>,
    /// The key of what is said.
    pub content_tag: Option<String>,
    /// The person.
    pub user_tag: Option<String>,
    /// The model.
    pub assistant_tag: Option<String>,
    /// The result of a tool.
    pub observation_tag: Option<String>,
    /// The model, calling a tool.
    pub function_tag: Option<String>,
    /// The system prompt.
    pub system_tag: Option<String>,
}

impl Tags {
    /// Reads `tags`, or returns the usual names where it is left out.
    pub(super) fn read(listed: Option<&Map<String, Value>>) -> Self {
        let name = |key: &str, usual: &str| name(listed, key, Some(usual));
        Self {
            role_tag: name("role_tag", "from"),
            content_tag: name("content_tag", "value"),
            user_tag: name("user_tag", "human"),
            assistant_tag: name("assistant_tag", "gpt"),
            observation_tag: name("observation_tag", "observation"),
            function_tag: name("function_tag", "function_call"),
            system_tag: name("system_tag", "system"),
        }
    }
}

fn name(listed: Option<&Map<String, Value>>, key: &str, usual: Option<&str>) -> Option<String> {
    match listed {
        Some(map) => map
            .get(key)
            .and_then(Value::as_str)
            .filter(|name| !name.is_empty())
            .map(Into::into),
        None => usual.map(Into::into),
    }
}
