//! `dataset_info.json`: which datasets there are, where their rows lie and what the columns are called.

mod columns;

use std::path::{Path, PathBuf};

pub use columns::{Columns, Tags};
use serde_json::{Map, Value};

use crate::error::DataError;

/// The file's name.
pub const FILE_NAME: &str = "dataset_info.json";

const KEYS: &[&str] = &[
    "hf_hub_url",
    "ms_hub_url",
    "om_hub_url",
    "script_url",
    "cloud_file_name",
    "file_name",
    "formatting",
    "ranking",
    "subset",
    "split",
    "folder",
    "num_samples",
    "columns",
    "tags",
];

/// The shape of a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Formatting {
    /// A question and an answer, in columns.
    #[default]
    Alpaca,
    /// A list of messages.
    Sharegpt,
    /// A list of messages in the form of `OpenAI`'s interface.
    OpenAi,
}

impl Formatting {
    /// Returns its name in `dataset_info.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alpaca => "alpaca",
            Self::Sharegpt => "sharegpt",
            Self::OpenAi => "openai",
        }
    }
}

/// Where the rows of a dataset are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file, or a folder of files of one type.
    File(PathBuf),
    /// Somewhere on a network, or a loading script.
    Remote {
        /// The key that says so, such as `hf_hub_url`.
        key: &'static str,
        /// Its value.
        location: String,
    },
}

/// How one dataset is described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetDescription {
    /// Its name.
    pub name: String,
    /// Where its rows are.
    pub source: Source,
    /// The shape of its rows.
    pub formatting: Formatting,
    /// Preference data: for the stages rm and dpo alone.
    pub ranking: bool,
    /// A part of a remote dataset.
    pub subset: Option<String>,
    /// A split of a remote dataset; `train` where left out.
    pub split: String,
    /// A folder of a remote dataset.
    pub folder: Option<String>,
    /// Exactly so many rows: chosen at random, repeated where there are fewer.
    pub num_samples: Option<usize>,
    /// What the columns are called.
    pub columns: Columns,
    /// What the parts of a message are called.
    pub tags: Tags,
    /// Keys of the description that mean nothing.
    pub unknown_keys: Vec<String>,
}

/// All descriptions of a folder.
#[derive(Debug, Clone)]
pub struct DatasetInfo {
    dir: PathBuf,
    descriptions: Map<String, Value>,
}

impl DatasetInfo {
    /// Reads `dataset_info.json` of `dir`.
    pub fn load(dir: &Path) -> Result<Self, DataError> {
        let path = dir.join(FILE_NAME);
        let bytes = std::fs::read(&path).map_err(|source| DataError::Open {
            path: path.clone(),
            source,
        })?;
        let descriptions =
            serde_json::from_slice(&bytes).map_err(|error| DataError::json(&path, &error))?;
        Ok(Self {
            dir: dir.into(),
            descriptions,
        })
    }

    /// Returns the names, in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.descriptions.keys().map(String::as_str)
    }

    /// Returns the description of dataset `name`.
    pub fn describe(&self, name: &str) -> Result<DatasetDescription, DataError> {
        let Some(description) = self.descriptions.get(name) else {
            return Err(DataError::UndefinedDataset {
                name: name.into(),
                known: self.names().map(Into::into).collect(),
            });
        };
        let reader = Reader { name, description };
        let columns = Columns::read(reader.map("columns")?);
        let formatting = reader.formatting()?;
        Ok(DatasetDescription {
            name: name.into(),
            source: reader.source(&self.dir)?,
            formatting,
            ranking: reader.flag("ranking")?,
            subset: reader.text("subset")?,
            split: reader.text("split")?.unwrap_or_else(|| "train".into()),
            folder: reader.text("folder")?,
            num_samples: reader.count("num_samples")?,
            columns,
            tags: Tags::read(reader.map("tags")?),
            unknown_keys: reader.unknown_keys(),
        })
    }
}

impl DatasetDescription {
    /// Returns the file or folder with the rows; refuses remote ones.
    pub fn local_path(&self) -> Result<&Path, DataError> {
        match &self.source {
            Source::File(path) => Ok(path),
            Source::Remote { key, location } => Err(DataError::Description {
                name: self.name.clone(),
                reason: format!(
                    "it lies at `{location}` (`{key}`), and nothing is fetched from the network"
                ),
                hint: Some("download it, and describe the file with `file_name`".into()),
            }),
        }
    }

    /// Refuses what is not read yet.
    pub fn check_supported(&self) -> Result<(), DataError> {
        let later = |reason: &str, hint: &str| {
            Err(DataError::Description {
                name: self.name.clone(),
                reason: reason.into(),
                hint: Some(hint.into()),
            })
        };
        if self.formatting == Formatting::OpenAi {
            return later(
                "`formatting: openai` comes later",
                "use `formatting: sharegpt` with `tags` (`role_tag: role`, `content_tag: content`, `user_tag: user`, …)",
            );
        }
        if self.columns.has_media {
            return later(
                "images, videos and audios come later",
                "leave these columns out to train on the text alone",
            );
        }
        Ok(())
    }
}

/// Reads the keys of one description.
struct Reader<'a> {
    name: &'a str,
    description: &'a Value,
}

impl<'a> Reader<'a> {
    /// Null is as good as nothing.
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.description.get(key).filter(|value| !value.is_null())
    }

    fn wrong<T>(&self, key: &str, value: &Value, expected: &str) -> Result<T, DataError> {
        Err(DataError::Description {
            name: self.name.into(),
            reason: format!("`{key}` is `{value}`, but must be {expected}"),
            hint: None,
        })
    }

    fn text(&self, key: &str) -> Result<Option<String>, DataError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(value) => self.wrong(key, value, "a text"),
        }
    }

    fn flag(&self, key: &str) -> Result<bool, DataError> {
        match self.get(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(value) => self.wrong(key, value, "true or false"),
        }
    }

    fn count(&self, key: &str) -> Result<Option<usize>, DataError> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => match value.as_u64().and_then(|count| usize::try_from(count).ok()) {
                Some(count) if count > 0 => Ok(Some(count)),
                _ => self.wrong(key, value, "a whole number from 1"),
            },
        }
    }

    fn map(&self, key: &str) -> Result<Option<&'a Map<String, Value>>, DataError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map)),
            Some(value) => self.wrong(key, value, "a map of names"),
        }
    }

    fn formatting(&self) -> Result<Formatting, DataError> {
        match self.text("formatting")?.as_deref() {
            None | Some("alpaca") => Ok(Formatting::Alpaca),
            Some("sharegpt") => Ok(Formatting::Sharegpt),
            Some("openai") => Ok(Formatting::OpenAi),
            Some(other) => self.wrong(
                "formatting",
                &other.into(),
                "`alpaca`, `sharegpt` or `openai`",
            ),
        }
    }

    fn source(&self, dir: &Path) -> Result<Source, DataError> {
        for key in [
            "hf_hub_url",
            "ms_hub_url",
            "om_hub_url",
            "script_url",
            "cloud_file_name",
        ] {
            if let Some(location) = self.text(key)? {
                return Ok(Source::Remote { key, location });
            }
        }
        match self.text("file_name")? {
            Some(file_name) => Ok(Source::File(dir.join(file_name))),
            None => Err(DataError::Description {
                name: self.name.into(),
                reason: "`file_name` is missing".into(),
                hint: Some(format!(
                    "name the file with the rows, relative to the folder of `{FILE_NAME}`"
                )),
            }),
        }
    }

    fn unknown_keys(&self) -> Vec<String> {
        let keys = self.description.as_object().into_iter().flat_map(Map::keys);
        keys.filter(|key| !KEYS.contains(&key.as_str()))
            .cloned()
            .collect()
    }
}
