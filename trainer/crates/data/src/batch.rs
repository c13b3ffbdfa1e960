//! A micro-batch as one row of tokens: no padding, segments end to end.

use crate::example::Example;

/// The label of a position that is not learned.
pub const IGNORE_INDEX: i64 = -100;

/// One micro-batch, its examples concatenated.
///
/// `input_ids`, `labels` and `position_ids` have one entry a token; `segment_lengths` says where each example ends.
/// Labels are already shifted: `labels[i]` is what position `i` has to predict, so a loss compares logits and labels
/// position by position, however the tokens are spread over ranks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// Token ids.
    pub input_ids: Vec<i64>,
    /// The next token within the segment where it is learned, else [`IGNORE_INDEX`].
    pub labels: Vec<i64>,
    /// Positions, counted from 0 in each segment.
    pub position_ids: Vec<i64>,
    /// Number of tokens of each example, in order; they sum to the number of tokens.
    pub segment_lengths: Vec<i64>,
    /// Labels other than [`IGNORE_INDEX`].
    pub num_valid_tokens: usize,
}

impl Batch {
    /// Lays `examples` end to end. An empty iterator gives an empty batch, which a rank without rows joins with.
    pub fn collate<'a>(examples: impl IntoIterator<Item = &'a Example>) -> Self {
        let mut batch = Self::default();
        for example in examples {
            batch.push(example);
        }
        batch
    }

    /// Collates the rows `rows` of `examples`.
    ///
    /// # Panics
    /// If a row is outside `examples`; rows of a [`crate::RowOrder`] over `examples.len()` rows never are.
    pub fn of_rows(examples: &[Example], rows: &[usize]) -> Self {
        Self::collate(rows.iter().map(|&row| &examples[row]))
    }

    /// Returns the number of tokens that the model sees; there is no padding among them.
    pub fn num_input_tokens(&self) -> usize {
        self.input_ids.len()
    }

    /// Says whether there is no row in it.
    pub fn is_empty(&self) -> bool {
        self.segment_lengths.is_empty()
    }

    fn push(&mut self, example: &Example) {
        let length = example.len();
        if length == 0 {
            return;
        }
        self.input_ids
            .extend(example.input_ids.iter().map(|&id| i64::from(id)));
        let shifted = example
            .labels
            .iter()
            .skip(1)
            .map(|&label| i64::from(label))
            .chain([IGNORE_INDEX]);
        self.labels.extend(shifted);
        self.position_ids.extend((0_i64..).take(length));
        self.segment_lengths
            .push(i64::try_from(length).unwrap_or(i64::MAX));
        self.num_valid_tokens += example.num_valid_tokens();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn example(ids: &[i32], labels: &[i32]) -> Example {
        Example {
            input_ids: ids.into(),
            labels: labels.into(),
            is_truncated: false,
        }
    }

    #[test]
    fn labels_are_shifted_within_each_segment() {
        let rows = [
            example(&[1, 2, 3], &[-100, 2, 3]),
            example(&[4, 5], &[4, 5]),
            example(&[6], &[6]),
        ];
        let batch = Batch::of_rows(&rows, &[0, 1, 2]);
        assert_eq!(batch.input_ids, [1, 2, 3, 4, 5, 6]);
        assert_eq!(batch.labels, [2, 3, -100, 5, -100, -100]);
        assert_eq!(batch.position_ids, [0, 1, 2, 0, 1, 0]);
        assert_eq!(batch.segment_lengths, [3, 2, 1]);
        assert_eq!((batch.num_valid_tokens, batch.num_input_tokens()), (3, 6));
    }

    #[test]
    fn no_rows_make_an_empty_batch() {
        let batch = Batch::of_rows(&[], &[]);
        assert!(batch.is_empty());
        assert_eq!((batch.num_valid_tokens, batch.num_input_tokens()), (0, 0));
    }

    proptest! {
        #[test]
        fn a_batch_is_the_sum_of_its_rows(rows in proptest::collection::vec(
            proptest::collection::vec((0..50_i32, any::<bool>()), 1..20), 1..6))
        {
            let rows: Vec<Example> = rows.iter().map(|row| Example {
                input_ids: row.iter().map(|(id, _)| *id).collect(),
                labels: row.iter().map(|(id, learned)| if *learned { *id } else { -100 }).collect(),
                is_truncated: false,
            }).collect();
            let batch = Batch::collate(&rows);
            let single: Vec<Batch> = rows.iter().map(|row| Batch::collate([row])).collect();
            let join = |part: fn(&Batch) -> &Vec<i64>| single.iter().flat_map(part).copied().collect::<Vec<_>>();
            prop_assert_eq!(&batch.input_ids, &join(|batch| &batch.input_ids));
            prop_assert_eq!(&batch.labels, &join(|batch| &batch.labels));
            prop_assert_eq!(&batch.position_ids, &join(|batch| &batch.position_ids));
            prop_assert_eq!(batch.segment_lengths.iter().sum::<i64>(), i64::try_from(batch.num_input_tokens()).expect("small"));
            let valid = batch.labels.iter().filter(|&&label| label != IGNORE_INDEX).count();
            prop_assert_eq!(batch.num_valid_tokens, valid);
        }
    }
}
