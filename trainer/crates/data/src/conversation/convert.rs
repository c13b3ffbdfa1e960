//! From the rows of a file to conversations.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value};

use super::{Conversation, Message, Role};
use crate::dataset_info::{DatasetDescription, Formatting};
use crate::error::DataError;

/// Rows after which no further columns are collected for messages.
const ROWS_FOR_COLUMN_NAMES: usize = 100;

/// Turns the rows of one dataset into conversations, and watches for columns that no row has.
#[derive(Debug)]
pub struct Converter<'a> {
    description: &'a DatasetDescription,
    /// The columns that the description names and no row has shown so far.
    unseen: Vec<&'a str>,
    found: BTreeSet<String>,
    num_rows: usize,
}

/// Why a row cannot be used.
type Reason = String;

impl<'a> Converter<'a> {
    /// Starts with the first row of a dataset.
    pub fn new(description: &'a DatasetDescription) -> Self {
        let columns = &description.columns;
        let optional_query = columns.query.as_deref().filter(|_| columns.are_listed);
        let of_format = match description.formatting {
            Formatting::Alpaca => [
                columns.prompt.as_deref(),
                optional_query,
                columns.response.as_deref(),
                columns.history.as_deref(),
            ],
            Formatting::Sharegpt | Formatting::OpenAi => {
                [columns.messages.as_deref(), None, None, None]
            }
        };
        let shared = [
            columns.system.as_deref(),
            columns.tools.as_deref(),
            columns.kto_tag.as_deref(),
        ];
        let unseen = of_format.into_iter().chain(shared).flatten().collect();
        Self {
            description,
            unseen,
            found: BTreeSet::new(),
            num_rows: 0,
        }
    }

    /// Turns one row into a conversation, or says why that is impossible.
    pub fn convert(&mut self, row: Value) -> Result<Conversation, Reason> {
        self.num_rows += 1;
        let Value::Object(mut row) = row else {
            return Err("the row is not an object with columns".into());
        };
        if !self.unseen.is_empty() {
            self.unseen.retain(|column| !row.contains_key(*column));
            if self.num_rows <= ROWS_FOR_COLUMN_NAMES {
                self.found.extend(row.keys().cloned());
            }
        }
        let columns = &self.description.columns;
        if columns
            .kto_tag
            .as_ref()
            .is_some_and(|column| row.get(column).is_some_and(Value::is_boolean))
        {
            return Err("the row is rated (`kto_tag`): it is for the stage kto".into());
        }
        match self.description.formatting {
            Formatting::Alpaca => self.alpaca(&mut row),
            Formatting::Sharegpt | Formatting::OpenAi => self.sharegpt(&mut row),
        }
    }

    /// Refuses a dataset of which no row has one of its columns.
    ///
    /// Where not all rows were read (`is_whole`), one of the others may have a column that a row need not have.
    pub fn check_columns(&self, path: &Path, is_whole: bool) -> Result<(), DataError> {
        let columns = &self.description.columns;
        let is_required = |column: &str| {
            [&columns.prompt, &columns.response, &columns.messages]
                .into_iter()
                .any(|required| required.as_deref() == Some(column))
        };
        let mut missing = self.unseen.iter();
        match missing.find(|column| is_whole || is_required(column)) {
            Some(column) if self.num_rows > 0 => Err(DataError::MissingColumn {
                name: self.description.name.clone(),
                path: path.into(),
                column: (*column).into(),
                found: self.found.iter().cloned().collect(),
            }),
            _ => Ok(()),
        }
    }

    fn alpaca(&self, row: &mut Map<String, Value>) -> Result<Conversation, Reason> {
        let columns = &self.description.columns;
        let mut messages = Vec::new();
        if let Some(Value::Array(pairs)) = columns
            .history
            .as_ref()
            .and_then(|column| row.get_mut(column))
            .map(Value::take)
        {
            for pair in pairs {
                let Value::Array(pair) = pair else {
                    return Err(not_pairs());
                };
                let [question, answer] = <[Value; 2]>::try_from(pair).map_err(|_| not_pairs())?;
                for (role, content) in [(Role::User, question), (Role::Assistant, answer)] {
                    let Value::String(content) = content else {
                        return Err(not_pairs());
                    };
                    messages.push(Message { role, content });
                }
            }
        }
        let mut question = take_text(row, columns.prompt.as_deref())?;
        let query = take_text(row, columns.query.as_deref())?;
        if !question.is_empty() && !query.is_empty() {
            question.push('\n');
        }
        question.push_str(&query);
        messages.push(Message {
            role: Role::User,
            content: question,
        });
        match columns
            .response
            .as_ref()
            .and_then(|column| row.get_mut(column))
            .map(Value::take)
        {
            Some(Value::String(content)) => messages.push(Message {
                role: Role::Assistant,
                content,
            }),
            _ => return Err("the row has no answer".into()),
        }
        Ok(Conversation {
            messages,
            system: take_text(row, columns.system.as_deref())?,
            tools: take_tools(row, columns.tools.as_deref())?,
        })
    }

    fn sharegpt(&self, row: &mut Map<String, Value>) -> Result<Conversation, Reason> {
        let columns = &self.description.columns;
        let system = take_text(row, columns.system.as_deref())?;
        let tools = take_tools(row, columns.tools.as_deref())?;
        let Some(Value::Array(list)) = columns
            .messages
            .as_ref()
            .and_then(|column| row.get_mut(column))
            .map(Value::take)
        else {
            return Err("the row has no list of messages".into());
        };
        let mut conversation = Conversation {
            messages: Vec::with_capacity(list.len()),
            system,
            tools,
        };
        for (index, mut message) in list.into_iter().enumerate() {
            let speaker = Self::take_part(&mut message, self.description.tags.role_tag.as_deref())?;
            let content =
                Self::take_part(&mut message, self.description.tags.content_tag.as_deref())?;
            if index == 0 && self.description.tags.system_tag.as_ref() == Some(&speaker) {
                conversation.system = content;
                continue;
            }
            let role = self
                .role(&speaker)
                .ok_or_else(|| "Invalid role tag".to_owned())?;
            let asks = conversation.messages.len().is_multiple_of(2);
            if asks != matches!(role, Role::User | Role::Observation) {
                return Err("Invalid role tag".into());
            }
            conversation.messages.push(Message { role, content });
        }
        if conversation.messages.is_empty() {
            return Err("the row has no messages".into());
        }
        if !conversation.messages.len().is_multiple_of(2) {
            return Err("Invalid message count".into());
        }
        Ok(conversation)
    }

    fn take_part(message: &mut Value, tag: Option<&str>) -> Result<String, Reason> {
        match tag.and_then(|tag| message.get_mut(tag)).map(Value::take) {
            Some(Value::String(part)) => Ok(part),
            _ => Err(format!(
                "a message has no text under `{}`",
                tag.unwrap_or_default()
            )),
        }
    }

    fn role(&self, speaker: &str) -> Option<Role> {
        let tags = &self.description.tags;
        [
            (&tags.user_tag, Role::User),
            (&tags.assistant_tag, Role::Assistant),
            (&tags.observation_tag, Role::Observation),
            (&tags.function_tag, Role::Function),
        ]
        .into_iter()
        .find_map(|(tag, role)| (tag.as_deref() == Some(speaker)).then_some(role))
    }
}

fn not_pairs() -> Reason {
    "`history` is not a list of pairs of texts".into()
}

/// Takes the text of a column; a missing one or null is no text.
fn take_text(row: &mut Map<String, Value>, column: Option<&str>) -> Result<String, Reason> {
    match column
        .and_then(|column| row.get_mut(column))
        .map(Value::take)
    {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(format!("`{}` is not a text", column.unwrap_or_default())),
    }
}

/// Takes the tools of a row: JSON in a text, or the list itself.
fn take_tools(row: &mut Map<String, Value>, column: Option<&str>) -> Result<String, Reason> {
    match column.and_then(|column| row.get(column)) {
        Some(tools @ Value::Array(_)) => Ok(tools.to_string()),
        _ => take_text(row, column),
    }
}
