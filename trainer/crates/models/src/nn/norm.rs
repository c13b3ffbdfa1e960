//! Root-mean-square norm.

use tch::Tensor;
use trainer_torch_ext::rms_norm;

use crate::{ModelError, Parameter};

/// Scales each row to unit mean square, then by a learned weight.
#[derive(Debug)]
pub(crate) struct RmsNorm {
    pub(crate) weight: Parameter,
    pub(crate) eps: f64,
}

impl RmsNorm {
    /// Returns the normed rows in the type of `x`; sums run in at least f32.
    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor, ModelError> {
        Ok(rms_norm(x, &self.weight.tensor, self.eps)?)
    }
}
