//! Which rows an optimizer step takes.
//!
//! There is one global sequence of rows, whatever the number of ranks: with a global batch of G rows, step k of an
//! epoch takes the positions kG … kG+G−1 of that epoch's permutation. The permutation depends on the seed and the
//! epoch alone. As in Hugging Face's trainer an epoch ends with a shorter step when G does not divide the number of
//! rows; a step never reaches over the end of an epoch.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::error::DataError;

/// The order of the rows in every epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowOrder {
    num_rows: usize,
    global_batch_size: usize,
    seed: u64,
    shuffle: bool,
}

impl RowOrder {
    /// Describes the order of `num_rows` rows taken `global_batch_size` at a time.
    ///
    /// Fewer rows than a global batch are fine: each epoch is then one short step.
    pub fn new(num_rows: usize, global_batch_size: usize, seed: u64, shuffle: bool) -> Result<Self, DataError> {
        if num_rows == 0 {
            return Err(DataError::NoRows);
        }
        Ok(Self { num_rows, global_batch_size: global_batch_size.max(1), seed, shuffle })
    }

    /// Returns the number of optimizer steps of an epoch, the last short one included.
    pub fn steps_per_epoch(&self) -> u64 {
        self.num_rows.div_ceil(self.global_batch_size) as u64
    }

    /// Returns the number of optimizer steps of a run: `max_steps` where given, else `num_train_epochs` of them, rounded up.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of steps is small and not negative")]
    pub fn total_steps(&self, num_train_epochs: f64, max_steps: Option<u64>) -> u64 {
        match max_steps {
            Some(steps) if steps > 0 => steps,
            _ => (num_train_epochs.max(0.0) * self.steps_per_epoch() as f64).ceil() as u64,
        }
    }

    /// Returns how many epochs are done after `steps` steps, as a fraction that counts micro-batches of `micro_batch_size`
    /// rows on each of `dp_size` ranks, as Hugging Face's trainer logs it.
    pub fn epoch_after(&self, steps: u64, micro_batch_size: usize, dp_size: usize) -> f64 {
        let round = (micro_batch_size * dp_size).max(1);
        let rounds_per_epoch = self.num_rows.div_ceil(round) as u64;
        let rounds_per_step = self.global_batch_size.div_ceil(round) as u64;
        let (epoch, step) = (steps / self.steps_per_epoch(), steps % self.steps_per_epoch());
        epoch as f64 + (step * rounds_per_step).min(rounds_per_epoch) as f64 / rounds_per_epoch as f64
    }

    /// Returns the rows of epoch `epoch` (from 0) in the order they are taken.
    pub fn permutation(&self, epoch: u64) -> Vec<usize> {
        let mut rows: Vec<usize> = (0..self.num_rows).collect();
        if self.shuffle {
            shuffle(&mut rows, &mut rng(self.seed, epoch, Purpose::Order));
        }
        rows
    }
}

/// What a stream of random numbers is for; each purpose has its own stream.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    /// The order of the rows of an epoch.
    Order = 1,
    /// Which rows are kept for evaluation.
    Split = 2,
    /// Which rows `num_samples` takes.
    Sample = 3,
}

/// Returns the random numbers for `purpose`, which depend on `seed` and `index` alone.
pub(crate) fn rng(seed: u64, index: u64, purpose: Purpose) -> ChaCha8Rng {
    let mut key = [0_u8; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&index.to_le_bytes());
    key[16] = purpose as u8;
    ChaCha8Rng::from_seed(key)
}

/// Returns a number below `bound`, each with the same probability.
pub(crate) fn below(bound: usize, rng: &mut ChaCha8Rng) -> usize {
    let bound = bound.max(1) as u64;
    let zone = u64::MAX - u64::MAX % bound;
    loop {
        let drawn = rng.next_u64();
        if drawn < zone {
            return usize::try_from(drawn % bound).unwrap_or(0);
        }
    }
}

/// Shuffles in place (Fisher–Yates). Written out, so that an order never changes with a library's version.
pub(crate) fn shuffle(rows: &mut [usize], rng: &mut ChaCha8Rng) {
    for last in (1..rows.len()).rev() {
        rows.swap(last, below(last + 1, rng));
    }
}

/// The rows of one optimizer step, over all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRows {
    /// The epoch that the step belongs to, from 0.
    pub epoch: u64,
    /// Row numbers in the order they are dealt.
    pub rows: Vec<usize>,
}

impl StepRows {
    /// Returns the micro-batches of one rank: the step's rows cut into pieces of `micro_batch_size`, dealt in turn to the
    /// `dp_size` ranks. All ranks get the same number of micro-batches; where no rows are left theirs are empty.
    pub fn micro_batches(&self, micro_batch_size: usize, rank: usize, dp_size: usize) -> Vec<Vec<usize>> {
        deal(&self.rows, micro_batch_size, rank, dp_size)
    }
}

/// Returns the batches of one rank for an evaluation over all `num_rows` rows in their order, dealt as training's are.
pub fn eval_batches(num_rows: usize, batch_size: usize, rank: usize, dp_size: usize) -> Vec<Vec<usize>> {
    let rows: Vec<usize> = (0..num_rows).collect();
    deal(&rows, batch_size, rank, dp_size)
}

fn deal(rows: &[usize], batch_size: usize, rank: usize, dp_size: usize) -> Vec<Vec<usize>> {
    let (batch_size, dp_size) = (batch_size.max(1), dp_size.max(1));
    let rounds = rows.len().div_ceil(batch_size).div_ceil(dp_size);
    let batches: Vec<&[usize]> = rows.chunks(batch_size).collect();
    (0..rounds).map(|round| batches.get(round * dp_size + rank).map_or_else(Vec::new, |batch| batch.to_vec())).collect()
}

/// Where a [`Sampler`] stands; kept in a checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplerState {
    /// The epoch of the next step, from 0.
    pub epoch: u64,
    /// Rows of that epoch already taken.
    pub row_offset: usize,
}

/// Walks through the order, step by step, epoch after epoch, without end.
#[derive(Debug, Clone)]
pub struct Sampler {
    order: RowOrder,
    state: SamplerState,
    permutation: Vec<usize>,
}

impl Sampler {
    /// Starts at the first row of the first epoch.
    pub fn new(order: RowOrder) -> Self {
        let permutation = order.permutation(0);
        Self { order, state: SamplerState::default(), permutation }
    }

    /// Goes on where `state` was taken.
    pub fn resume(order: RowOrder, state: SamplerState) -> Result<Self, DataError> {
        if state.row_offset > order.num_rows {
            return Err(DataError::SamplerState { row_offset: state.row_offset, num_rows: order.num_rows });
        }
        let permutation = order.permutation(state.epoch);
        Ok(Self { order, state, permutation })
    }

    /// Returns the order that it walks through.
    pub fn order(&self) -> &RowOrder {
        &self.order
    }

    /// Returns where it stands: what the next step takes is determined by this alone.
    pub fn state(&self) -> SamplerState {
        self.state
    }

    /// Takes the rows of the next optimizer step.
    pub fn next_step(&mut self) -> StepRows {
        if self.state.row_offset >= self.permutation.len() {
            self.state = SamplerState { epoch: self.state.epoch + 1, row_offset: 0 };
            self.permutation = self.order.permutation(self.state.epoch);
        }
        let start = self.state.row_offset;
        let end = (start + self.order.global_batch_size).min(self.permutation.len());
        self.state.row_offset = end;
        StepRows { epoch: self.state.epoch, rows: self.permutation[start..end].to_vec() }
    }
}
