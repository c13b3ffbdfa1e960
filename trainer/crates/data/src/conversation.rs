//! A row in the one form that all formats are turned into.

mod convert;

pub use convert::Converter;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
    /// The result of a tool.
    Observation,
    /// The model, calling a tool; the content is JSON.
    Function,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: String,
}

/// One row: messages that alternate, asking first and answering last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conversation {
    /// An even number of messages: question, answer, question, answer …
    pub messages: Vec<Message>,
    /// The system prompt; empty for none.
    pub system: String,
    /// The tools as a JSON list; empty for none.
    pub tools: String,
}
