//! The model's tokenizer: `tokenizer.json` and what stands beside it.
//!
//! The file is taken as it is. Transformers 5 rebuilds some classes instead (its `GPT2Tokenizer` drops a `Digits`
//! pre-tokenizer, as SmolLM2 has one) and then gives other ids than those the model was trained on.

mod config;

use std::path::{Path, PathBuf};

use config::{SpecialTokens, TokenizerConfig};
use tokenizers::AddedToken;

use crate::error::DataError;

/// Files that belong to a tokenizer, copied with a trained model where the base model has them.
const FILES: &[&str] = &[
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
];

/// A model's tokenizer with its special tokens.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    dir: PathBuf,
    chat_template: Option<String>,
    special: SpecialTokens,
    bos_id: Option<u32>,
    eos_id: Option<u32>,
    pad_id: Option<u32>,
    has_new_tokens: bool,
    has_new_chat_template: bool,
}

impl Tokenizer {
    /// Loads the tokenizer of a model folder.
    pub fn load(model_dir: &Path) -> Result<Self, DataError> {
        let config = TokenizerConfig::load(model_dir)?;
        let path = model_dir.join("tokenizer.json");
        let bytes = std::fs::read(&path).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => config::missing(model_dir),
            _ => DataError::Open {
                path: path.clone(),
                source,
            },
        })?;
        let refused = |reason: String| DataError::Tokenizer {
            path: model_dir.into(),
            reason,
            hint: Some("fetch or copy the file again".into()),
        };
        let mut inner = tokenizers::Tokenizer::from_bytes(bytes)
            .map_err(|error| refused(format!("`tokenizer.json` cannot be read: {error}")))?;
        inner.with_padding(None);
        inner
            .with_truncation(None)
            .map_err(|error| refused(error.to_string()))?;
        for (id, token) in config.added_tokens {
            let content = token.content.clone();
            if inner.token_to_id(&content).is_none() {
                add(&mut inner, token);
            }
            if inner.token_to_id(&content) != Some(id) {
                return Err(refused(format!(
                    "`tokenizer_config.json` gives the token `{content}` the id {id}, `tokenizer.json` another one"
                )));
            }
        }
        let id_of =
            |token: &Option<String>| token.as_deref().and_then(|token| inner.token_to_id(token));
        Ok(Self {
            bos_id: id_of(&config.special.bos),
            eos_id: id_of(&config.special.eos),
            pad_id: id_of(&config.special.pad),
            inner,
            dir: model_dir.into(),
            chat_template: config.chat_template,
            special: config.special,
            has_new_tokens: false,
            has_new_chat_template: false,
        })
    }

    /// Appends the ids of `text` to `ids`; special tokens written out in it become their ids, nothing is added around it.
    pub fn encode_onto(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), DataError> {
        if text.is_empty() {
            return Ok(());
        }
        let encoding = self
            .inner
            .encode_fast(text, false)
            .map_err(|error| DataError::Encode {
                reason: error.to_string(),
            })?;
        ids.extend_from_slice(encoding.get_ids());
        Ok(())
    }

    /// Returns the ids of `text`.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, DataError> {
        let mut ids = Vec::new();
        self.encode_onto(text, &mut ids)?;
        Ok(ids)
    }

    /// Returns the text of `ids`.
    pub fn decode(&self, ids: &[u32], skip_special_tokens: bool) -> Result<String, DataError> {
        self.inner
            .decode(ids, skip_special_tokens)
            .map_err(|error| DataError::Encode {
                reason: error.to_string(),
            })
    }

    /// Returns what the tokenizer writes before every text, as text; usually the token that begins a sequence, or nothing.
    pub fn start_of_text(&self) -> Result<String, DataError> {
        let encoding = self
            .inner
            .encode_fast("", true)
            .map_err(|error| DataError::Encode {
                reason: error.to_string(),
            })?;
        self.decode(encoding.get_ids(), false)
    }

    /// Returns the folder it was loaded from.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns one more than the highest id: the embedding must have at least that many rows.
    pub fn num_tokens(&self) -> usize {
        let highest_added = self
            .inner
            .get_added_tokens_decoder()
            .into_keys()
            .max()
            .map_or(0, |id| id as usize + 1);
        highest_added.max(self.inner.get_vocab_size(false))
    }

    /// Returns the id of a token.
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// Returns the id of the token that begins a sequence.
    pub fn bos_token_id(&self) -> Option<u32> {
        self.bos_id
    }

    /// Returns the id of the token that ends a sequence.
    pub fn eos_token_id(&self) -> Option<u32> {
        self.eos_id
    }

    /// Returns the id of the padding token.
    pub fn pad_token_id(&self) -> Option<u32> {
        self.pad_id
    }

    /// Returns the token that begins a sequence.
    pub fn bos_token(&self) -> Option<&str> {
        self.special.bos.as_deref()
    }

    /// Returns the token that ends a sequence.
    pub fn eos_token(&self) -> Option<&str> {
        self.special.eos.as_deref()
    }

    /// Returns the model's own chat template (Jinja).
    pub fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref()
    }

    /// Gives it another chat template (Jinja).
    pub fn set_chat_template(&mut self, template: String) {
        self.chat_template = Some(template);
        self.has_new_chat_template = true;
    }

    /// Makes `token` end sequences. Returns it where it was new.
    pub fn set_eos(&mut self, token: &str) -> Option<String> {
        let new = self.add_special_token(token);
        self.special.eos = Some(token.into());
        self.eos_id = self.inner.token_to_id(token);
        new
    }

    /// Takes the end-of-sequence token for padding where there is no padding token.
    pub fn pad_with_eos_where_none(&mut self) {
        if self.pad_id.is_none() {
            self.special.pad.clone_from(&self.special.eos);
            self.pad_id = self.eos_id;
        }
    }

    /// Makes `token` a special one. Returns it where it was new.
    pub fn add_special_token(&mut self, token: &str) -> Option<String> {
        let is_new = self.inner.token_to_id(token).is_none();
        add(&mut self.inner, AddedToken::from(token, true));
        self.has_new_tokens |= is_new;
        is_new.then(|| token.into())
    }

    /// Writes the tokenizer's files into `dir`, with the changes that a chat template made.
    pub fn save(&self, dir: &Path) -> Result<(), DataError> {
        for name in FILES {
            let (from, to) = (self.dir.join(name), dir.join(name));
            if from.is_file() && from != to {
                // Not `copy`, which would also copy that the base model's files may be read-only.
                let bytes = std::fs::read(&from)
                    .map_err(|source| DataError::Open { path: from, source })?;
                write(&to, &bytes)?;
            }
        }
        if self.has_new_tokens {
            let text = self
                .inner
                .to_string(false)
                .map_err(|error| DataError::Encode {
                    reason: error.to_string(),
                })?;
            write(&dir.join("tokenizer.json"), text.as_bytes())?;
        }
        let mut changes = vec![
            ("eos_token", &self.special.eos),
            ("pad_token", &self.special.pad),
        ];
        config::change(&dir.join("special_tokens_map.json"), &changes, false)?;
        if self.has_new_chat_template {
            match (dir.join("chat_template.jinja"), &self.chat_template) {
                (path, Some(text)) if path.exists() => write(&path, text.as_bytes())?,
                _ => changes.push(("chat_template", &self.chat_template)),
            }
        }
        config::change(&dir.join("tokenizer_config.json"), &changes, true)
    }
}

fn add(inner: &mut tokenizers::Tokenizer, token: AddedToken) {
    if let Err(error) = inner.add_special_tokens([token]) {
        tracing::warn!("a special token cannot be added: {error}");
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), DataError> {
    std::fs::write(path, bytes).map_err(|source| DataError::Write {
        path: path.into(),
        source,
    })
}
