//! What a stage wants of the model: weighted sums over logits, and their gradients.
//!
//! An objective never holds a whole matrix of logits: it asks the [`HeadPass`] for the rows that it
//! needs, and gets them in chunks whose logits are freed before the next ones are made.

use tch::{Kind, Tensor};
use trainer_torch_ext::grad;

use crate::batch::MicroBatch;
use crate::error::ParallelError;

/// Rows of logits made at a time.
///
/// Enough for the matrix multiplication to run at full speed; with a vocabulary of 50,000 one chunk takes 25 MB in f32.
pub const CHUNK_ROWS: i64 = 128;

/// Sums over one or more micro-batches.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LossSums {
    /// Loss summed over what is weighed.
    pub loss: f64,
    /// What the sum is divided by: valid tokens for SFT.
    pub weight: f64,
    /// Positions whose highest logit is the label, counted in evaluation only.
    pub num_correct: f64,
}

impl LossSums {
    /// Returns the weighted mean.
    pub fn mean(&self) -> f64 {
        self.loss / self.weight
    }

    /// Adds the sums of another micro-batch.
    pub fn add(&mut self, other: Self) {
        self.loss += other.loss;
        self.weight += other.weight;
        self.num_correct += other.num_correct;
    }
}

/// The last part of a forward pass, and the first of a backward pass: hidden states to logits and back.
pub trait HeadPass {
    /// Says whether gradients are wanted.
    fn wants_gradient(&self) -> bool;

    /// Makes the logits of the token positions `rows` and hands them to `visit`, chunk by chunk.
    ///
    /// `visit` gets the chunk's logits and its range within `rows`; it may use the logits' memory up. Where
    /// [`HeadPass::wants_gradient`], it returns the gradient of the *unscaled* sum of losses, in any float type.
    fn for_each_chunk(
        &mut self,
        rows: &Tensor,
        visit: &mut dyn FnMut(
            Tensor,
            std::ops::Range<i64>,
        ) -> Result<Option<Tensor>, ParallelError>,
    ) -> Result<(), ParallelError>;
}

/// A stage's loss over a micro-batch.
pub trait Objective {
    /// Returns what the micro-batch weighs in the mean of its step; known before any forward pass.
    fn weight(&self, batch: &MicroBatch) -> f64;

    /// Runs the head over the rows it needs and returns the sums; `pass` carries the gradients on.
    fn run(&self, batch: &MicroBatch, pass: &mut dyn HeadPass) -> Result<LossSums, ParallelError>;
}

/// Cross-entropy of each token with its label, summed: SFT and pre-training.
#[derive(Debug, Clone, Copy, Default)]
pub struct CrossEntropy {
    /// Count the positions that the model would have got right; costs a pass over the logits.
    pub counts_correct: bool,
}

impl Objective for CrossEntropy {
    fn weight(&self, batch: &MicroBatch) -> f64 {
        batch.num_valid_tokens as f64
    }

    fn run(&self, batch: &MicroBatch, pass: &mut dyn HeadPass) -> Result<LossSums, ParallelError> {
        let mut sums = LossSums {
            weight: self.weight(batch),
            ..LossSums::default()
        };
        let wants_gradient = pass.wants_gradient();
        pass.for_each_chunk(&batch.valid_rows, &mut |logits_nv, range| {
            let labels_n = batch
                .valid_labels
                .f_narrow(0, range.start, range.end - range.start)?;
            if self.counts_correct {
                let hits = logits_nv.f_argmax(-1, false)?.f_eq_tensor(&labels_n)?;
                sums.num_correct += hits.f_sum(Kind::Double)?.f_double_value(&[])?;
            }
            let (loss, gradient) = cross_entropy(&logits_nv, &labels_n, wants_gradient)?;
            sums.loss += loss;
            Ok(gradient)
        })?;
        Ok(sums)
    }
}

/// Returns the summed cross-entropy and, where wanted, its gradient in the type of the logits.
///
/// The kernel works in f32 at least and keeps nothing of the logits' size; rows are summed in f64.
fn cross_entropy(
    logits_nv: &Tensor,
    labels_n: &Tensor,
    wants_gradient: bool,
) -> Result<(f64, Option<Tensor>), ParallelError> {
    let leaf_nv = logits_nv.f_detach()?.f_set_requires_grad(wants_gradient)?;
    let losses_n = trainer_torch_ext::cross_entropy(&leaf_nv, labels_n)?;
    let loss = losses_n.f_sum(Kind::Double)?.f_double_value(&[])?;
    if !wants_gradient {
        return Ok((loss, None));
    }
    let ones_n = losses_n.f_ones_like()?;
    let mut gradients = grad(&[&losses_n], &[&ones_n], &[&leaf_nv], false)?;
    Ok((loss, gradients.pop().flatten()))
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;

    #[test]
    fn cross_entropy_and_its_gradient_match_autograd() {
        tch::manual_seed(3);
        let logits = Tensor::randn([5, 11], (Kind::Double, Device::Cpu)).set_requires_grad(true);
        let labels = Tensor::from_slice(&[0_i64, 10, 4, 4, 7]);
        let expected = logits.log_softmax(-1, Kind::Double).nll_loss(&labels) * 5.0;
        expected.backward();
        let (loss, gradient) = cross_entropy(&logits.detach().copy(), &labels, true).unwrap();
        assert!((loss - expected.double_value(&[])).abs() < 1e-12);
        let difference = (gradient.unwrap() - logits.grad())
            .abs()
            .max()
            .double_value(&[]);
        assert!(difference < 1e-12, "{difference}");
        let (again, none) = cross_entropy(&logits.detach().copy(), &labels, false).unwrap();
        assert!((again - loss).abs() < 1e-12 && none.is_none());
    }
}
