//! Chat templates: how a conversation is written for a model, with LLaMA-Factory's rules.
//!
//! A template is a list of slots for each kind of message. Every slot is tokenised on its own and the ids are joined, so
//! tokens never reach over a slot's edge. The first message also carries the prefix and the system prompt; the tools are
//! written behind the system prompt.
//!
//! Reasoning templates add or remove thoughts (`<think>…</think>`):
//!
//! | `enable_thinking` | answer has a thought | answer has none |
//! |---|---|---|
//! | true | kept | an empty one before the answer, learned |
//! | false | removed in all turns | an empty one after the prompt, not learned |
//! | not set | kept | an empty one after the prompt, not learned |
//!
//! With `mask_history` earlier turns lose their thoughts and get no empty ones, unless `preserve_thinking` is set.

mod jinja;
mod model;
mod python_json;
mod registry;
mod thinking;
mod tools;

use std::borrow::Cow;

use jiff::civil::Date;

pub use registry::NAMES;
use tools::ToolFormat;

use crate::conversation::{Conversation, Role};
use crate::error::DataError;
use crate::tokenizer::Tokenizer;

/// What a run sets about its template.
#[derive(Debug, Clone)]
pub struct TemplateOptions {
    /// Takes the place of the template's default system prompt.
    pub default_system: Option<String>,
    /// Whether answers begin with a thought; see the table of [this module](crate::template).
    pub enable_thinking: Option<bool>,
    /// Keep thoughts in earlier turns.
    pub preserve_thinking: bool,
    /// The date that llama3 writes with tools.
    pub today: Date,
}

/// What stands for the message in a slot.
const MARKER: &str = "{{content}}";

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Slot {
    /// Text; the first `{{content}}` in it stands for the message.
    Text(Cow<'static, str>),
    /// The token that begins a sequence, where the tokenizer has one.
    Bos,
    /// The token that ends a sequence, where the tokenizer has one.
    Eos,
}

/// A chat template.
#[derive(Debug, Clone)]
pub struct ChatTemplate {
    name: Cow<'static, str>,
    prefix: Vec<Slot>,
    system: Vec<Slot>,
    user: Vec<Slot>,
    assistant: Vec<Slot>,
    observation: Vec<Slot>,
    function: Vec<Slot>,
    tools: ToolFormat,
    default_system: String,
    stop_words: Vec<&'static str>,
    replace_eos: bool,
    replace_jinja: bool,
    reasoning: bool,
    options: TemplateOptions,
}

/// One question and its answer as token ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turn {
    /// The question, up to and including the header of the answer.
    pub source: Vec<u32>,
    /// The answer, with what ends it.
    pub target: Vec<u32>,
}

impl ChatTemplate {
    /// Returns the template `name`.
    pub fn named(name: &str, options: &TemplateOptions) -> Result<Self, DataError> {
        registry::named(name, options)
            .ok_or_else(|| DataError::UnknownTemplate { name: name.into() })
    }

    /// Understands the Jinja chat template of a model, where it has one, else returns the template `empty`.
    pub fn of_model(tokenizer: &Tokenizer, options: &TemplateOptions) -> Result<Self, DataError> {
        match tokenizer.chat_template() {
            Some(source) => model::understand(source, tokenizer, options),
            None => Self::named("empty", options),
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes `tokenizer` end sequences as the template does, and gives it a chat template where it has none or another
    /// format. Returns the tokens that were new to it.
    pub fn fix_special_tokens(&self, tokenizer: &mut Tokenizer) -> Vec<String> {
        let mut added = Vec::new();
        let mut stop_words = self.stop_words.iter();
        if self.replace_eos
            && let Some(eos) = stop_words.next()
        {
            added.extend(tokenizer.set_eos(eos));
        }
        if tokenizer.eos_token_id().is_none() {
            added.extend(tokenizer.set_eos("<|endoftext|>"));
        }
        tokenizer.pad_with_eos_where_none();
        for word in stop_words {
            added.extend(tokenizer.add_special_token(word));
        }
        if self.replace_jinja || tokenizer.chat_template().is_none() {
            tokenizer.set_chat_template(jinja::write(self, tokenizer));
        }
        added
    }

    /// Tokenises a conversation, turn by turn. `mask_history` says that only the last turn will be learned.
    pub fn encode_turns(
        &self,
        conversation: &Conversation,
        tokenizer: &Tokenizer,
        mask_history: bool,
    ) -> Result<Vec<Turn>, DataError> {
        let messages = &conversation.messages;
        let last_answer = messages.len().saturating_sub(1);
        let forget_history = mask_history && !self.options.preserve_thinking;
        let mut turns = Vec::with_capacity(messages.len() / 2);
        for (index, pair) in messages.chunks_exact(2).enumerate() {
            let mut turn = Turn::default();
            if index == 0 {
                self.encode_start(conversation, tokenizer, &mut turn.source)?;
            }
            self.encode_message(pair[0].role, &pair[0].content, tokenizer, &mut turn.source)?;
            let is_last = index * 2 + 1 == last_answer;
            let remove =
                self.options.enable_thinking == Some(false) || (forget_history && !is_last);
            let answer = if self.reasoning && remove {
                Cow::Owned(thinking::remove(&pair[1].content))
            } else {
                Cow::Borrowed(pair[1].content.as_str())
            };
            if self.reasoning && (is_last || !forget_history) && !thinking::is_in(&answer) {
                let counted = self.options.enable_thinking == Some(true);
                tokenizer.encode_onto(
                    thinking::EMPTY,
                    if counted {
                        &mut turn.target
                    } else {
                        &mut turn.source
                    },
                )?;
            }
            self.encode_message(pair[1].role, &answer, tokenizer, &mut turn.target)?;
            turns.push(turn);
        }
        Ok(turns)
    }

    fn encode_start(
        &self,
        conversation: &Conversation,
        tokenizer: &Tokenizer,
        ids: &mut Vec<u32>,
    ) -> Result<(), DataError> {
        encode_slots(&self.prefix, "", tokenizer, ids)?;
        let system = match conversation.system.as_str() {
            "" => self.default_system.as_str(),
            given => given,
        };
        if system.is_empty() && conversation.tools.is_empty() {
            return Ok(());
        }
        let tools = self
            .tools
            .describe(&conversation.tools, self.options.today)?;
        encode_slots(&self.system, &format!("{system}{tools}"), tokenizer, ids)
    }

    fn encode_message(
        &self,
        role: Role,
        content: &str,
        tokenizer: &Tokenizer,
        ids: &mut Vec<u32>,
    ) -> Result<(), DataError> {
        match role {
            Role::User => encode_slots(&self.user, content, tokenizer, ids),
            Role::Assistant => encode_slots(&self.assistant, content, tokenizer, ids),
            Role::Observation => encode_slots(&self.observation, content, tokenizer, ids),
            Role::Function => encode_slots(
                &self.function,
                &self.tools.write_call(content)?,
                tokenizer,
                ids,
            ),
        }
    }
}

fn encode_slots(
    slots: &[Slot],
    content: &str,
    tokenizer: &Tokenizer,
    ids: &mut Vec<u32>,
) -> Result<(), DataError> {
    for slot in slots {
        match slot {
            Slot::Text(text) => {
                tokenizer.encode_onto(&text.replacen(MARKER, content, 1), ids)?;
            }
            Slot::Bos => ids.extend(tokenizer.bos_token_id()),
            Slot::Eos => ids.extend(tokenizer.eos_token_id()),
        }
    }
    Ok(())
}
