//! What can go wrong with data, and what the user can do about it.

use std::path::PathBuf;

/// Why data cannot be read or used.
///
/// Where LLaMA-Factory has a text for the same refusal, it is used as it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A file cannot be opened or read.
    #[error("Cannot open {} due to {source}.", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write `{}`: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// There is no file of that name.
    #[error("File {} not found.", path.display())]
    NotFound {
        /// The file.
        path: PathBuf,
    },
    /// A file is not the JSON that it should be.
    #[error("{}:{line}:{column}: {reason}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong there.
        reason: String,
    },
    /// The name is not in `dataset_info.json`.
    #[error("Undefined dataset {name} in dataset_info.json.")]
    UndefinedDataset {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// The description of a dataset cannot be used.
    #[error("dataset `{name}`: {reason}")]
    Description {
        /// The dataset.
        name: String,
        /// What is wrong with it.
        reason: String,
        /// What to do.
        hint: Option<String>,
    },
    /// A file type that nothing reads.
    #[error("Allowed file types: arrow,csv,json,jsonl,parquet,txt.")]
    FileType {
        /// The file.
        path: PathBuf,
    },
    /// A file type that is not read yet.
    #[error("`{}` cannot be read: {extension} files come later", path.display())]
    FileTypeLater {
        /// The file.
        path: PathBuf,
        /// Its extension.
        extension: String,
    },
    /// A folder with files of several types.
    #[error("File types should be identical.")]
    MixedFileTypes {
        /// The folder.
        path: PathBuf,
    },
    /// Preference data where none is wanted, or the other way round.
    #[error("The dataset is not applicable in the current training stage.")]
    NotApplicable {
        /// The dataset.
        name: String,
        /// Whether its description says `ranking`.
        ranking: bool,
    },
    /// No row has a column that the description names.
    #[error("dataset `{name}`: no row of `{}` has the column `{column}`", path.display())]
    MissingColumn {
        /// The dataset.
        name: String,
        /// Its file.
        path: PathBuf,
        /// The column looked for.
        column: String,
        /// The columns that rows have.
        found: Vec<String>,
    },
    /// A file without any row.
    #[error("dataset `{name}`: `{}` has no rows", path.display())]
    EmptyFile {
        /// The dataset.
        name: String,
        /// Its file.
        path: PathBuf,
    },
    /// Every row was dropped.
    #[error("Cannot find valid samples, check `data/README.md` for the data format.")]
    NoValidSamples {
        /// Why rows were dropped, most frequent first, with their number.
        reasons: Vec<(String, usize)>,
    },
    /// An order over no rows.
    #[error("there are no rows to train on")]
    NoRows,
    /// `val_size` takes all rows.
    #[error("`val_size` {val_size} leaves no row to train on ({num_rows} rows)")]
    ValSize {
        /// The value given.
        val_size: f64,
        /// Number of rows before the split.
        num_rows: usize,
    },
    /// An unknown chat template.
    #[error("Template {name} does not exist.")]
    UnknownTemplate {
        /// The name asked for.
        name: String,
    },
    /// The tokenizer's files cannot be used.
    #[error("tokenizer in `{}`: {reason}", path.display())]
    Tokenizer {
        /// The model folder.
        path: PathBuf,
        /// What is wrong.
        reason: String,
        /// What to do.
        hint: Option<String>,
    },
    /// A text that the tokenizer cannot encode.
    #[error("the tokenizer cannot encode a text: {reason}")]
    Encode {
        /// What it said.
        reason: String,
    },
    /// A tool list or a tool call that cannot be written in the template's form. Such a row is dropped.
    #[error("{reason}")]
    Tools {
        /// What is wrong.
        reason: String,
    },
    /// A checkpoint's place in the data does not fit the data.
    #[error("the checkpoint stands at row {row_offset}, but there are {num_rows} rows")]
    SamplerState {
        /// Rows taken, says the checkpoint.
        row_offset: usize,
        /// Rows there are.
        num_rows: usize,
    },
    /// `SOURCE_DATE_EPOCH` is no time.
    #[error("`SOURCE_DATE_EPOCH` is `{value}`, but must be seconds since 1970")]
    SourceDate {
        /// The value.
        value: String,
    },
}

impl DataError {
    /// Makes the error of `path` out of what the parser said.
    pub(crate) fn json(path: &std::path::Path, error: &serde_json::Error) -> Self {
        if error.is_io() {
            let source = error
                .io_error_kind()
                .map_or_else(|| std::io::Error::other("reading failed"), Into::into);
            return Self::Open {
                path: path.into(),
                source,
            };
        }
        let (line, column) = (error.line(), error.column());
        let text = error.to_string();
        let place = format!(" at line {line} column {column}");
        Self::Json {
            path: path.into(),
            line,
            column,
            reason: text.strip_suffix(&place).unwrap_or(&text).into(),
        }
    }

    /// Returns what the system said, where a file could not be read or written.
    pub fn io_error(&self) -> Option<&std::io::Error> {
        match self {
            Self::Open { source, .. } | Self::Write { source, .. } => Some(source),
            _ => None,
        }
    }

    /// Moves the place of a JSON error down by the lines that were read before.
    #[must_use]
    pub(crate) fn after_lines(mut self, lines: usize) -> Self {
        if let Self::Json { line, .. } = &mut self {
            *line += lines;
        }
        self
    }

    /// Returns what the user can do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Open { path, source } if source.kind() == std::io::ErrorKind::NotFound => {
                let is_info = path.ends_with(crate::dataset_info::FILE_NAME);
                is_info.then(|| "`dataset_dir` must be the folder with `dataset_info.json`".into())
            }
            Self::Json { reason, .. } if reason.contains("trailing comma") => {
                Some("remove the comma before the closing bracket".into())
            }
            Self::Json { .. } => Some("put the file right at this place, or fetch it again".into()),
            Self::UndefinedDataset { known, .. } if known.is_empty() => Some("`dataset_info.json` describes no dataset yet".into()),
            Self::UndefinedDataset { known, .. } => Some(format!("datasets there: {}", known.join(", "))),
            Self::NotFound { .. } => Some("`dataset_dir` is the folder with `dataset_info.json`; `file_name` is relative to it".into()),
            Self::Description { hint, .. } | Self::Tokenizer { hint, .. } => hint.clone(),
            Self::FileType { path } => Some(format!("`{}` is none of them", path.display())),
            Self::FileTypeLater { .. } => Some("convert it to json or jsonl".into()),
            Self::MixedFileTypes { path } => Some(format!("keep files of one type in `{}`", path.display())),
            Self::NotApplicable { name, ranking: true } => {
                Some(format!("dataset `{name}` has `ranking: true`: it is for the stages rm and dpo"))
            }
            Self::NotApplicable { name, ranking: false } => {
                Some(format!("dataset `{name}` lacks `ranking: true`, which the stages rm and dpo need"))
            }
            Self::MissingColumn { found, .. } if found.is_empty() => {
                Some("write the rows as objects with columns: a list of them in json, one a line in jsonl".into())
            }
            Self::MissingColumn { found, .. } => {
                Some(format!("columns there: {}; map them under `columns` in `dataset_info.json`", found.join(", ")))
            }
            Self::EmptyFile { .. } => Some("put at least one row into it".into()),
            Self::NoValidSamples { reasons } if !reasons.is_empty() => Some(format!(
                "all rows were dropped: {}",
                reasons.iter().map(|(reason, count)| format!("{reason} ({count})")).collect::<Vec<_>>().join("; ")
            )),
            Self::ValSize { .. } => Some("below 1 it is a share of the rows, from 1 a number of rows".into()),
            Self::UnknownTemplate { .. } => Some(format!("templates there: {}", crate::template::NAMES.join(", "))),
            Self::SourceDate { .. } => Some("leave it out, or write for example `SOURCE_DATE_EPOCH=1764500000`".into()),
            Self::SamplerState { .. } => Some("resume with the dataset that the checkpoint was made with".into()),
            _ => None,
        }
    }
}
