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
    pub fn new(
        num_rows: usize,
        global_batch_size: usize,
        seed: u64,
        shuffle: bool,
    ) -> Result<Self, DataError> {
        if num_rows == 0 {
            return Err(DataError::NoRows);
        }
        Ok(Self {
            num_rows,
            global_batch_size: global_batch_size.max(1),
            seed,
            shuffle,
        })
    }

    /// Returns the number of optimizer steps of an epoch, the last short one included.
    pub fn steps_per_epoch(&self) -> u64 {
        self.num_rows.div_ceil(self.global_batch_size) as u64
    }

    /// Returns the number of optimizer steps of a run: `max_steps` where given, else `num_train_epochs` of them, rounded up.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of steps is small and not negative"
    )]
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
        let (epoch, step) = (
            steps / self.steps_per_epoch(),
            steps % self.steps_per_epoch(),
        );
        epoch as f64
            + (step * rounds_per_step).min(rounds_per_epoch) as f64 / rounds_per_epoch as f64
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
    pub fn micro_batches(
        &self,
        micro_batch_size: usize,
        rank: usize,
        dp_size: usize,
    ) -> Vec<Vec<usize>> {
        deal(&self.rows, micro_batch_size, rank, dp_size)
    }
}

/// Returns the batches of one rank for an evaluation over all `num_rows` rows in their order, dealt as training's are.
pub fn eval_batches(
    num_rows: usize,
    batch_size: usize,
    rank: usize,
    dp_size: usize,
) -> Vec<Vec<usize>> {
    let rows: Vec<usize> = (0..num_rows).collect();
    deal(&rows, batch_size, rank, dp_size)
}

fn deal(rows: &[usize], batch_size: usize, rank: usize, dp_size: usize) -> Vec<Vec<usize>> {
    let (batch_size, dp_size) = (batch_size.max(1), dp_size.max(1));
    let rounds = rows.len().div_ceil(batch_size).div_ceil(dp_size);
    let batches: Vec<&[usize]> = rows.chunks(batch_size).collect();
    (0..rounds)
        .map(|round| {
            batches
                .get(round * dp_size + rank)
                .map_or_else(Vec::new, |batch| batch.to_vec())
        })
        .collect()
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
        Self {
            order,
            state: SamplerState::default(),
            permutation,
        }
    }

    /// Goes on where `state` was taken.
    pub fn resume(order: RowOrder, state: SamplerState) -> Result<Self, DataError> {
        if state.row_offset > order.num_rows {
            return Err(DataError::SamplerState {
                row_offset: state.row_offset,
                num_rows: order.num_rows,
            });
        }
        let permutation = order.permutation(state.epoch);
        Ok(Self {
            order,
            state,
            permutation,
        })
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
            self.state = SamplerState {
                epoch: self.state.epoch + 1,
                row_offset: 0,
            };
            self.permutation = self.order.permutation(self.state.epoch);
        }
        let start = self.state.row_offset;
        let end = (start + self.order.global_batch_size).min(self.permutation.len());
        self.state.row_offset = end;
        StepRows {
            epoch: self.state.epoch,
            rows: self.permutation[start..end].to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_epoch_ends_with_a_short_step() {
        let order = RowOrder::new(10, 4, 1, false).expect("there are rows");
        assert_eq!(order.steps_per_epoch(), 3);
        let mut sampler = Sampler::new(order);
        let steps: Vec<_> = (0..4).map(|_| sampler.next_step()).collect();
        assert_eq!(steps[0].rows, [0, 1, 2, 3]);
        assert_eq!(
            steps[2],
            StepRows {
                epoch: 0,
                rows: vec![8, 9]
            }
        );
        assert_eq!(
            steps[3],
            StepRows {
                epoch: 1,
                rows: vec![0, 1, 2, 3]
            }
        );
    }

    #[test]
    fn steps_and_epochs_are_counted_as_hugging_face_does() {
        // 200 rows, batch 2, accumulation 4: 100 batches and 25 steps an epoch.
        let order = RowOrder::new(200, 8, 42, true).expect("there are rows");
        assert_eq!(order.total_steps(3.0, None), 75);
        assert_eq!(order.total_steps(0.5, None), 13);
        assert_eq!(order.total_steps(3.0, Some(40)), 40);
        assert!((order.epoch_after(1, 2, 1) - 0.04).abs() < 1e-12);
        assert!((order.epoch_after(40, 2, 1) - 1.6).abs() < 1e-12);
        // 10 rows, batch 2, accumulation 2: 5 batches, steps of 2, 2 and 1.
        let order = RowOrder::new(10, 4, 42, true).expect("there are rows");
        assert!((order.epoch_after(2, 2, 1) - 0.8).abs() < 1e-12);
        assert!((order.epoch_after(3, 2, 1) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn fewer_rows_than_a_batch_are_one_short_step() {
        let order = RowOrder::new(3, 8, 42, true).expect("there are rows");
        assert_eq!(order.steps_per_epoch(), 1);
        let step = Sampler::new(order).next_step();
        assert_eq!(step.rows.len(), 3);
        assert_eq!(
            step.micro_batches(2, 0, 1)
                .iter()
                .map(Vec::len)
                .collect::<Vec<_>>(),
            [2, 1]
        );
        assert!(RowOrder::new(0, 8, 42, true).is_err());
    }

    #[test]
    fn the_order_is_fixed_for_all_time() {
        let order = RowOrder::new(8, 8, 42, true).expect("there are rows");
        assert_eq!(order.permutation(0), [2, 4, 3, 0, 6, 5, 7, 1]);
        assert_ne!(order.permutation(1), order.permutation(0));
    }

    #[test]
    fn a_state_beyond_the_rows_is_refused() {
        let order = RowOrder::new(8, 8, 42, true).expect("there are rows");
        let error = Sampler::resume(
            order,
            SamplerState {
                epoch: 0,
                row_offset: 9,
            },
        )
        .expect_err("too far");
        assert_eq!(
            error.to_string(),
            "the checkpoint stands at row 9, but there are 8 rows"
        );
    }

    proptest! {
        #[test]
        fn every_epoch_takes_every_row_once(rows in 1..200_usize, batch in 1..40_usize, seed: u64, shuffle: bool) {
            let order = RowOrder::new(rows, batch, seed, shuffle).expect("there are rows");
            let steps = order.steps_per_epoch();
            let mut sampler = Sampler::new(order);
            for epoch in 0..3 {
                let mut seen: Vec<usize> = Vec::new();
                for _ in 0..steps {
                    let step = sampler.next_step();
                    prop_assert_eq!(step.epoch, epoch);
                    seen.extend(step.rows);
                }
                prop_assert_eq!(seen.is_sorted(), !shuffle || seen.is_sorted());
                seen.sort_unstable();
                prop_assert_eq!(seen, (0..rows).collect::<Vec<_>>());
            }
        }

        #[test]
        fn a_resumed_sampler_goes_on_exactly(rows in 1..100_usize, batch in 1..30_usize, seed: u64, stop in 0..20_usize) {
            let order = RowOrder::new(rows, batch, seed, true).expect("there are rows");
            let mut unbroken = Sampler::new(order.clone());
            for _ in 0..stop {
                unbroken.next_step();
            }
            let saved = serde_json::to_string(&unbroken.state()).expect("it is plain");
            let mut resumed = Sampler::resume(order, serde_json::from_str(&saved).expect("it was just written")).expect("it fits");
            for _ in 0..12 {
                prop_assert_eq!(unbroken.next_step(), resumed.next_step());
            }
        }

        #[test]
        fn the_rows_of_a_step_do_not_depend_on_the_ranks(rows in 1..60_usize, micro in 1..6_usize, dp in 1..6_usize) {
            let step = StepRows { epoch: 0, rows: (0..rows).collect() };
            let dealt: Vec<_> = (0..dp).map(|rank| step.micro_batches(micro, rank, dp)).collect();
            let rounds = dealt[0].len();
            prop_assert!(dealt.iter().all(|batches| batches.len() == rounds));
            let mut joined: Vec<usize> = Vec::new();
            for round in 0..rounds {
                joined.extend(dealt.iter().flat_map(|batches| batches[round].iter().copied()));
            }
            prop_assert_eq!(joined, step.rows);
            prop_assert!(dealt.iter().flatten().all(|batch| batch.len() <= micro));
        }
    }
}
