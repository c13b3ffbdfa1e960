//! A micro-batch as tensors, its rows laid end to end without padding.

use tch::{Device, Tensor};

use crate::error::ParallelError;

/// One forward-backward's tokens on one rank. `t` is the number of tokens.
#[derive(Debug)]
pub struct MicroBatch {
    /// Token ids, `[t]`.
    pub input_ids: Tensor,
    /// Positions within their segments, `[t]`.
    pub position_ids: Tensor,
    /// Number of tokens of each segment.
    pub segment_lengths: Vec<i64>,
    /// Positions that carry a label, `[n]`, rising.
    pub valid_rows: Tensor,
    /// The labels there, `[n]`: the token that each position has to predict.
    pub valid_labels: Tensor,
    /// How many they are.
    pub num_valid_tokens: usize,
}

impl MicroBatch {
    /// Makes tensors of token ids, already shifted labels and positions; labels equal to `ignore_index` are left out.
    pub fn new(
        input_ids: &[i64],
        labels: &[i64],
        position_ids: &[i64],
        segment_lengths: &[i64],
        ignore_index: i64,
        device: Device,
    ) -> Result<Self, ParallelError> {
        let valid = || {
            (0_i64..)
                .zip(labels)
                .filter(|(_, label)| **label != ignore_index)
        };
        let rows: Vec<i64> = valid().map(|(row, _)| row).collect();
        let valid_labels: Vec<i64> = valid().map(|(_, label)| *label).collect();
        let tensor = |values: &[i64]| -> Result<Tensor, ParallelError> {
            Ok(Tensor::f_from_slice(values)?.f_to_device(device)?)
        };
        Ok(Self {
            input_ids: tensor(input_ids)?,
            position_ids: tensor(position_ids)?,
            segment_lengths: segment_lengths.to_vec(),
            num_valid_tokens: rows.len(),
            valid_rows: tensor(&rows)?,
            valid_labels: tensor(&valid_labels)?,
        })
    }

    /// Returns the number of tokens.
    pub fn num_tokens(&self) -> i64 {
        self.segment_lengths.iter().sum()
    }

    /// Says whether there is no token in it; a rank without rows joins with such a batch.
    pub fn is_empty(&self) -> bool {
        self.segment_lengths.is_empty()
    }
}
