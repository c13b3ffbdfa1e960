//! From a conversation to token ids and labels, as LLaMA-Factory does it for supervised fine-tuning.

use crate::batch::IGNORE_INDEX;
use crate::conversation::Conversation;
use crate::error::DataError;
use crate::template::{ChatTemplate, Turn};
use crate::tokenizer::Tokenizer;

/// The label of a token that is not learned.
#[expect(clippy::cast_possible_truncation, reason = "-100 fits")]
const IGNORED: i32 = IGNORE_INDEX as i32;

/// One tokenised row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Example {
    /// Token ids.
    pub input_ids: Vec<i32>,
    /// For each token its own id where it is learned, else -100. Not shifted; [`crate::Batch`] shifts.
    pub labels: Vec<i32>,
    /// Whether tokens were cut off.
    pub is_truncated: bool,
}

/// How rows are cut and which tokens are learned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExampleOptions {
    /// The most tokens of a row; longer ones are cut, turn by turn.
    pub cutoff_len: usize,
    /// Learn the last answer only; it is also the last to be cut.
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
        let turns = template.encode_turns(conversation, tokenizer, options.mask_history)?;
        Ok(Self::of_turns(&turns, options))
    }

    /// Returns the number of tokens.
    pub fn len(&self) -> usize {
        self.input_ids.len()
    }

    /// Says whether there is no token in it.
    pub fn is_empty(&self) -> bool {
        self.input_ids.is_empty()
    }

    /// Returns the number of tokens that some earlier token has to predict and that are learned.
    pub fn num_valid_tokens(&self) -> usize {
        self.labels
            .iter()
            .skip(1)
            .filter(|&&label| label != IGNORED)
            .count()
    }

    /// Joins the turns, each cut to what is left of `cutoff_len`; turns that find nothing left are dropped.
    fn of_turns(turns: &[Turn], options: &ExampleOptions) -> Self {
        let mut left = options.cutoff_len;
        // The source and target lengths of each turn. With `mask_history` the last turn chooses first.
        let mut lengths = vec![(0, 0); turns.len()];
        let mut cut = |index: usize| {
            let turn = &turns[index];
            if left > 0 {
                lengths[index] = infer_seqlen(turn.source.len(), turn.target.len(), left);
                left -= lengths[index].0 + lengths[index].1;
            }
        };
        if options.mask_history {
            (0..turns.len()).rev().for_each(&mut cut);
        } else {
            (0..turns.len()).for_each(&mut cut);
        }
        let mut example = Self::default();
        for (index, (turn, &(source, target))) in turns.iter().zip(&lengths).enumerate() {
            let is_learned = !options.mask_history || index + 1 == turns.len();
            example.extend(&turn.source[..source], options.train_on_prompt);
            example.extend(&turn.target[..target], is_learned);
            example.is_truncated |= source < turn.source.len() || target < turn.target.len();
        }
        example
    }

    fn extend(&mut self, ids: &[u32], is_learned: bool) {
        let ids = ids.iter().map(|&id| i32::try_from(id).unwrap_or(i32::MAX));
        self.labels
            .extend(ids.clone().map(|id| if is_learned { id } else { IGNORED }));
        self.input_ids.extend(ids);
    }
}

/// Shares `cutoff_len` tokens between a prompt and its answer; returns the tokens kept of each.
///
/// An answer below half of it is kept whole and the prompt is cut; else a prompt below half of it is kept whole; else both
/// are cut in proportion.
pub fn infer_seqlen(source_len: usize, target_len: usize, cutoff_len: usize) -> (usize, usize) {
    let max_target_len = if target_len * 2 < cutoff_len {
        cutoff_len
    } else if source_len * 2 < cutoff_len {
        cutoff_len - source_len
    } else {
        proportion(cutoff_len, target_len, source_len + target_len)
    };
    let target = max_target_len.min(target_len);
    (source_len.min(cutoff_len.saturating_sub(target)), target)
}

/// Returns `whole * (part / total)`, rounded down after 64-bit float arithmetic, as the reference computes it.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "lengths are small and not negative"
)]
fn proportion(whole: usize, part: usize, total: usize) -> usize {
    (whole as f64 * (part as f64 / total as f64)) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lengths_are_shared_as_in_the_reference() {
        for (source, target, cutoff, expected) in [
            (2000, 10, 1000, (990, 10)),
            (10, 2000, 1000, (10, 990)),
            (2000, 2000, 1000, (500, 500)),
            (1000, 100, 1000, (900, 100)),
            (100, 1000, 1000, (100, 900)),
        ] {
            assert_eq!(infer_seqlen(source, target, cutoff), expected);
        }
    }

    fn turns() -> impl Strategy<Value = Vec<Turn>> {
        let ids = || proptest::collection::vec(0..9_u32, 1..40);
        proptest::collection::vec(
            (ids(), ids()).prop_map(|(source, target)| Turn { source, target }),
            1..6,
        )
    }

    proptest! {
        #[test]
        fn a_row_never_exceeds_the_cutoff(turns in turns(), cutoff_len in 1..120_usize, mask_history: bool, train_on_prompt: bool) {
            let options = ExampleOptions { cutoff_len, mask_history, train_on_prompt };
            let example = Example::of_turns(&turns, &options);
            prop_assert!(example.len() <= cutoff_len);
            prop_assert_eq!(example.labels.len(), example.len());
            let whole: usize = turns.iter().map(|turn| turn.source.len() + turn.target.len()).sum();
            prop_assert_eq!(example.is_truncated, example.len() < whole);
            if whole <= cutoff_len {
                prop_assert_eq!(example.len(), whole);
            }
            for (id, label) in example.input_ids.iter().zip(&example.labels) {
                prop_assert!(*label == IGNORED || label == id);
            }
        }

        #[test]
        fn both_parts_fit(source in 0..3000_usize, target in 0..3000_usize, cutoff in 1..3000_usize) {
            let (kept_source, kept_target) = infer_seqlen(source, target, cutoff);
            prop_assert!(kept_source <= source && kept_target <= target && kept_source + kept_target <= cutoff);
            if source + target <= cutoff {
                prop_assert_eq!((kept_source, kept_target), (source, target));
            }
        }

        #[test]
        fn only_the_last_answer_is_learned_with_masked_history(turns in turns()) {
            let options = ExampleOptions { cutoff_len: 1000, mask_history: true, train_on_prompt: false };
            let example = Example::of_turns(&turns, &options);
            let learned = example.labels.iter().filter(|&&label| label != IGNORED).count();
            prop_assert_eq!(learned, turns.last().expect("there is one").target.len());
        }
    }
}
