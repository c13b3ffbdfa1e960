//! What can go wrong while a model runs.

use tch::TchError;
use trainer_models::ModelError;
use trainer_torch_ext::TorchError;

/// Why a step could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ParallelError {
    /// The model refused.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// libtorch failed.
    #[error("libtorch failed: {0}")]
    Torch(String),
    /// A saved optimizer state does not fit the model.
    #[error("the optimizer state {message}")]
    OptimizerState {
        /// What does not fit.
        message: String,
    },
}

impl ParallelError {
    /// Returns what the user can change.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Model(error) => error.hint(),
            Self::Torch(_) if self.is_out_of_memory() => Some(
                "lower `per_device_train_batch_size` or `cutoff_len`, or use `bf16: true`".into(),
            ),
            Self::OptimizerState { .. } => Some(
                "resume with the model, adapter and precision that the checkpoint was written with"
                    .into(),
            ),
            Self::Torch(_) => None,
        }
    }

    /// Tells whether libtorch ran out of memory.
    pub fn is_out_of_memory(&self) -> bool {
        match self {
            Self::Model(error) => error.is_out_of_memory(),
            Self::Torch(message) => {
                message.contains("out of memory") || message.contains("can't allocate memory")
            }
            Self::OptimizerState { .. } => false,
        }
    }

    /// Returns the failure of the file system behind it, if there is one.
    pub fn io_error(&self) -> Option<&std::io::Error> {
        match self {
            Self::Model(ModelError::Io { source, .. }) => Some(source),
            _ => None,
        }
    }
}

impl From<TchError> for ParallelError {
    fn from(error: TchError) -> Self {
        Self::Torch(error.to_string())
    }
}

impl From<TorchError> for ParallelError {
    fn from(error: TorchError) -> Self {
        Self::Torch(error.to_string())
    }
}
