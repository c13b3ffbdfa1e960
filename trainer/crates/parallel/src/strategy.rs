//! What the training loop asks of any way to divide the work.

use std::path::Path;

use trainer_models::Model;

use crate::batch::MicroBatch;
use crate::error::ParallelError;
use crate::objective::{LossSums, Objective};

/// Which model an evaluation looks at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ModelView {
    /// The model as it is trained now.
    #[default]
    Trained,
    /// The base model, its adapters left out: a reference.
    Base,
}

/// Parameters that share a learning rate and a weight decay.
#[derive(Debug, Clone, PartialEq)]
pub struct ParameterGroup {
    /// What the group holds, for the log.
    pub name: &'static str,
    /// Decoupled weight decay.
    pub weight_decay: f64,
    /// Number of parameters in it, counted by element.
    pub num_elements: u64,
}

/// One way to keep parameters, gradients and optimizer state over the data-parallel ranks.
pub trait Strategy {
    /// Runs forward and backward over the micro-batches of one step and keeps the gradients of the step's weighted mean.
    ///
    /// All micro-batches of the step come at once, since the weights (valid tokens) are summed before the first
    /// backward. `step` keys dropout. A batch without rows takes part with weight zero.
    fn accumulate(
        &mut self,
        step: u64,
        batches: &[MicroBatch],
        objective: &dyn Objective,
    ) -> Result<LossSums, ParallelError>;

    /// Runs forward without gradients and returns the sums over `batch`.
    fn evaluate(
        &self,
        batch: &MicroBatch,
        objective: &dyn Objective,
        view: ModelView,
    ) -> Result<LossSums, ParallelError>;

    /// Clips by the norm over all ranks and returns that norm before clipping; 0 only measures.
    ///
    /// A norm that is not finite clips nothing: the caller drops the step.
    fn clip_grad_norm(&mut self, max_norm: f64) -> Result<f64, ParallelError>;

    /// Updates the parameters once, a learning rate for each group, and drops the gradients.
    fn update(&mut self, learning_rates: &[f64]) -> Result<(), ParallelError>;

    /// Drops the gradients of a step that is not to count.
    fn skip(&mut self);

    /// Returns the parameter groups, in the order of [`Strategy::update`]'s rates.
    fn groups(&self) -> &[ParameterGroup];

    /// Returns the model for saving, its parameters whole.
    fn model(&self) -> &Model;

    /// Writes the optimizer's state into a file of safetensors.
    fn save_optimizer(&self, path: &Path) -> Result<(), ParallelError>;

    /// Reads the optimizer's state back. The model's own weights are loaded with the model.
    fn load_optimizer(&mut self, path: &Path) -> Result<(), ParallelError>;
}
