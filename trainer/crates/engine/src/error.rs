//! Everything that can end a run, with its exit code and what the user can do.

use std::io;
use std::path::{Path, PathBuf};

use run_protocol::ExitCode;
use run_protocol::events::{EventError, is_disk_full};
use trainer_data::DataError;
use trainer_models::ModelError;
use trainer_parallel::ParallelError;

/// Why a run ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The configuration asks for what cannot be run.
    #[error("{field}: {reason}")]
    Config {
        /// The key.
        field: &'static str,
        /// What is wrong.
        reason: String,
        /// What to do.
        hint: Option<String>,
    },
    /// The data cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// No row of the data teaches anything.
    #[error("no row of the training data has a label left")]
    NoLabels,
    /// Loss or gradients are no numbers, and waiting does not help.
    #[error(
        "the loss or its gradients were no number for {steps} steps in a row, the last being step {step}"
    )]
    NonFinite {
        /// Steps in a row that changed nothing.
        steps: u64,
        /// The last of them.
        step: u64,
    },
    /// The model cannot be used.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A step could not be run.
    #[error(transparent)]
    Parallel(#[from] ParallelError),
    /// The tokenizer knows more tokens than the model has rows for.
    #[error(
        "the tokenizer gives the token {token}, but the model's embedding has {vocab_size} rows"
    )]
    TokenOutOfRange {
        /// The token id.
        token: i64,
        /// Rows of the embedding.
        vocab_size: i64,
    },
    /// The chat template added tokens that the model has no rows for.
    #[error(
        "the template `{template}` added the tokens {} to the tokenizer, but the model's embedding has {vocab_size} rows \
         and no room for the token {token}",
        added.join(", ")
    )]
    TemplateTokens {
        /// The chat template.
        template: String,
        /// What it added.
        added: Vec<String>,
        /// The highest token id of the rows.
        token: i64,
        /// Rows of the embedding.
        vocab_size: i64,
    },
    /// A checkpoint cannot be resumed.
    #[error("the checkpoint `{}` cannot be resumed: {reason}", path.display())]
    Checkpoint {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file cannot be written or read.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The event file cannot be written.
    #[error(transparent)]
    Events(#[from] EventError),
    /// A part of the program broke.
    #[error("{0}")]
    Internal(String),
}

impl EngineError {
    /// Wraps a failure of the file system.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }

    /// Makes a fault of a checkpoint's own files one of the checkpoint; every other error stays what it is.
    #[must_use]
    pub fn of_checkpoint(self, checkpoint: &Path) -> Self {
        let (Self::Model(error) | Self::Parallel(ParallelError::Model(error))) = &self else {
            return self;
        };
        if error.is_storage_full()
            || !error
                .path()
                .is_some_and(|path| path.starts_with(checkpoint))
        {
            return self;
        }
        Self::Checkpoint {
            path: checkpoint.to_owned(),
            reason: error.to_string(),
        }
    }

    /// Wraps a value that cannot be written as JSON.
    #[expect(clippy::needless_pass_by_value, reason = "made for `map_err`")]
    pub fn json(error: serde_json::Error) -> Self {
        Self::Internal(format!("cannot write JSON: {error}"))
    }

    /// Returns the code that the process ends with.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Config { .. }
            | Self::Checkpoint { .. }
            | Self::TemplateTokens { .. }
            | Self::Parallel(ParallelError::OptimizerState { .. }) => ExitCode::BadConfig,
            Self::Data(DataError::Tokenizer { .. }) | Self::TokenOutOfRange { .. } => {
                ExitCode::BadModel
            }
            Self::Data(_) | Self::NoLabels => ExitCode::BadData,
            Self::NonFinite { .. } => ExitCode::NonFiniteLoss,
            Self::Model(error) if error.is_out_of_memory() => ExitCode::OutOfMemory,
            Self::Parallel(error) if error.is_out_of_memory() => ExitCode::OutOfMemory,
            _ if self.is_disk_full() => ExitCode::DiskFull,
            Self::Model(ModelError::Torch(_))
            | Self::Parallel(_)
            | Self::Io { .. }
            | Self::Events(_)
            | Self::Internal(_) => ExitCode::Internal,
            Self::Model(_) => ExitCode::BadModel,
        }
    }

    /// Tells whether the disk is full.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::Io { source, .. } | Self::Model(ModelError::Io { source, .. }) => {
                is_disk_full(source)
            }
            Self::Events(error) => error.is_disk_full(),
            Self::Parallel(error) => error.io_error().is_some_and(is_disk_full),
            _ => false,
        }
    }

    /// Returns what the user can do.
    pub fn hint(&self) -> Option<String> {
        if self.is_disk_full() {
            return Some("free some room, then resume the run from its last checkpoint".into());
        }
        match self {
            Self::Config { hint, .. } => hint.clone(),
            Self::Data(error) => error.hint(),
            Self::NoLabels => {
                Some("raise `cutoff_len`, or check that the rows have answers".into())
            }
            Self::NonFinite { .. } => Some(
                "lower `learning_rate` or start from an earlier checkpoint; if the first step is one of them, \
                 look for damaged weights or rows"
                    .into(),
            ),
            Self::Model(error) => error.hint(),
            Self::Parallel(error) => error.hint(),
            Self::TokenOutOfRange { .. } => {
                Some("the tokenizer files belong to another model: fetch both again".into())
            }
            Self::TemplateTokens { .. } => Some(
                "choose the model's own `template`: the one that it was trained with needs no new tokens"
                    .into(),
            ),
            Self::Checkpoint { .. } => Some(
                "name another checkpoint, remove this one to go on from the one before it, \
                 or start afresh with `overwrite_output_dir: true`"
                    .into(),
            ),
            Self::Events(error) => error.hint().map(Into::into),
            Self::Io { .. } => {
                Some("check that the folder exists and that you may write to it".into())
            }
            Self::Internal(_) => None,
        }
    }
}
