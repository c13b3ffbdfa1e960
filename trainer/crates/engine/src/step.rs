//! From row numbers to the tensors of a step.

use tch::Device;
use trainer_data::{Batch, Example, IGNORE_INDEX};
use trainer_parallel::MicroBatch;

use crate::error::EngineError;

/// Lays the given rows end to end and makes tensors of them.
pub(crate) fn micro_batch(
    examples: &[Example],
    rows: &[usize],
    device: Device,
) -> Result<MicroBatch, EngineError> {
    let batch = Batch::of_rows(examples, rows);
    Ok(MicroBatch::new(
        &batch.input_ids,
        &batch.labels,
        &batch.position_ids,
        &batch.segment_lengths,
        IGNORE_INDEX,
        device,
    )?)
}

/// Refuses rows with token ids that the embedding has no row for; libtorch would end the process on them.
pub(crate) fn check_token_range(examples: &[Example], vocab_size: i64) -> Result<(), EngineError> {
    let highest = examples
        .iter()
        .flat_map(|example| &example.input_ids)
        .copied()
        .max()
        .map_or(-1, i64::from);
    if highest >= vocab_size {
        return Err(EngineError::TokenOutOfRange {
            token: highest,
            vocab_size,
        });
    }
    Ok(())
}
