//! Everything that can be wrong with a model or an adapter, and what the user can do about it.

use std::{io, path::PathBuf};

use tch::TchError;
use trainer_torch_ext::TorchError;

/// Why a model could not be read, run or written.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The folder of a model or an adapter is not there.
    #[error("there is no model folder `{}`", path.display())]
    NoFolder {
        /// The path that was looked for.
        path: PathBuf,
    },
    /// A file that every model folder has is not there.
    #[error("`{}` has no file `{file}`", folder.display())]
    MissingFile {
        /// The model folder.
        folder: PathBuf,
        /// The name that was looked for.
        file: String,
    },
    /// Reading or writing failed.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried: read, write, …
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A JSON file does not parse.
    #[error("`{}` is not valid JSON: {message}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        message: String,
    },
    /// A field of a configuration file is missing or cannot be used.
    #[error("`{field}` in `{}` {message}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// The field's name.
        field: String,
        /// What was found and what was expected.
        message: String,
    },
    /// The model's family is not one of ours.
    #[error("the architecture `{found}` is not supported; supported are {known}")]
    UnknownArchitecture {
        /// `model_type` of the configuration.
        found: String,
        /// The supported ones.
        known: String,
    },
    /// The model comes with code of its own.
    #[error("`{}` needs code of its own (`{evidence}`), and custom code isn't supported", folder.display())]
    CustomCode {
        /// The model folder.
        folder: PathBuf,
        /// The field or file that says so.
        evidence: String,
    },
    /// A feature of the model that is not implemented.
    #[error("the model uses {feature}, which is not supported")]
    Unsupported {
        /// The feature with its value.
        feature: String,
    },
    /// The weights are there, but only as files that can run code when they are read.
    #[error("`{}` holds its weights only as pickle files (`{file}`), which can run code when they are read", folder.display())]
    PickleOnly {
        /// The model folder.
        folder: PathBuf,
        /// The first such file.
        file: String,
    },
    /// A file is named `.safetensors` but holds something else.
    #[error("`{}` is not a safetensors file: {message}", path.display())]
    NotSafetensors {
        /// The file.
        path: PathBuf,
        /// What its first bytes say.
        message: String,
    },
    /// A safetensors header that is cut off, too long or untrue.
    #[error("the header of `{}` is wrong: {message}", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// One tensor's entry contradicts its file.
    #[error("the tensor `{name}` in `{}` {message}", path.display())]
    Tensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// What was found and what was expected.
        message: String,
    },
    /// A tensor has another shape than the configuration says.
    #[error("the tensor `{name}` in `{}` has the shape {found:?}, expected {expected:?}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// The shape in the file.
        found: Vec<i64>,
        /// The shape that the configuration asks for.
        expected: Vec<i64>,
    },
    /// Tensors that the model needs are in none of its files.
    #[error("`{}` lacks {count} tensors: {names}", folder.display())]
    MissingTensors {
        /// The folder.
        folder: PathBuf,
        /// How many.
        count: usize,
        /// The first few names.
        names: String,
    },
    /// LoRA names linear layers that the model does not have.
    #[error("the model has no linear layer `{target}`; it has {known}")]
    LoraTarget {
        /// The name from the configuration.
        target: String,
        /// The model's own names.
        known: String,
    },
    /// An adapter that does not fit or uses something we lack.
    #[error("the adapter `{}` {message}", folder.display())]
    Adapter {
        /// The adapter's folder.
        folder: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// Inputs that cannot be run.
    #[error("the batch cannot be run: {0}")]
    Batch(String),
    /// libtorch failed.
    #[error("libtorch failed: {0}")]
    Torch(String),
}

impl ModelError {
    /// Returns what the user can change.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoFolder { .. } => {
                "give the path of a folder in Hugging Face's layout; model names are not downloaded"
            }
            Self::MissingFile { file, .. } if file == "config.json" => {
                "a model folder holds config.json beside its weights"
            }
            Self::MissingFile { .. } => "the download may be incomplete: fetch the model again",
            Self::Json { .. } | Self::Config { .. } => {
                "put the file right, or fetch the model again"
            }
            Self::UnknownArchitecture { .. } | Self::Unsupported { .. } => {
                "choose a model of a supported family, with plain weights"
            }
            Self::CustomCode { .. } => {
                "use a model whose architecture is built in, without `auto_map`"
            }
            Self::PickleOnly { .. } => {
                "use a copy that has *.safetensors, or convert it once in Python: \
                 AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(NEW, safe_serialization=True)"
            }
            Self::NotSafetensors { .. } => {
                "do not rename pickle files; convert them to safetensors"
            }
            Self::Header { .. } | Self::Tensor { .. } => {
                "the file is damaged or cut off: fetch it again"
            }
            Self::Shape { .. } | Self::MissingTensors { .. } => {
                "config.json and the weights are not of one model: fetch both again"
            }
            Self::LoraTarget { .. } => "set `lora_target` to `all` or to names from this list",
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "free some disk space"
            }
            Self::Torch(_) if self.is_out_of_memory() => {
                "lower `per_device_train_batch_size` or `cutoff_len`, or use `bf16: true`"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }

    /// Returns the file or folder that is at fault.
    pub fn path(&self) -> Option<&std::path::Path> {
        match self {
            Self::NoFolder { path }
            | Self::Io { path, .. }
            | Self::Json { path, .. }
            | Self::Config { path, .. }
            | Self::NotSafetensors { path, .. }
            | Self::Header { path, .. }
            | Self::Tensor { path, .. }
            | Self::Shape { path, .. } => Some(path),
            Self::MissingFile { folder, .. }
            | Self::CustomCode { folder, .. }
            | Self::PickleOnly { folder, .. }
            | Self::MissingTensors { folder, .. }
            | Self::Adapter { folder, .. } => Some(folder),
            Self::UnknownArchitecture { .. }
            | Self::Unsupported { .. }
            | Self::LoraTarget { .. }
            | Self::Batch(_)
            | Self::Torch(_) => None,
        }
    }

    /// Tells whether libtorch ran out of memory.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Torch(message) if message.contains("out of memory") || message.contains("can't allocate memory"))
    }

    /// Tells whether the disk is full.
    pub fn is_storage_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull)
    }

    /// Returns a function that wraps a system error, for `map_err`.
    pub(crate) fn io(
        action: &'static str,
        path: &std::path::Path,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}

impl From<TchError> for ModelError {
    fn from(error: TchError) -> Self {
        Self::Torch(error.to_string())
    }
}

impl From<TorchError> for ModelError {
    fn from(error: TorchError) -> Self {
        Self::Torch(error.to_string())
    }
}
