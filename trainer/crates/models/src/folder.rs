//! The weights of a model folder: one file, or several with an index.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use tch::{Device, Kind};
use tracing::warn;

use crate::{
    LoadOptions, ModelConfig, ModelError, Parameter, Tuning, config::RawConfig, decoder,
    weights::Safetensors,
};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
/// How many names an error lists.
const SHOWN: usize = 8;

/// Reads parameters by name in the types that the run asks for.
#[derive(Debug)]
pub(crate) struct Loader {
    folder: PathBuf,
    files: Vec<Safetensors>,
    /// Tensor name to its file.
    places: BTreeMap<String, usize>,
    kind: Kind,
    device: Device,
    is_trainable: bool,
}

impl Loader {
    /// Opens the weight files of a folder and checks their headers.
    pub(crate) fn open(folder: &Path, options: &LoadOptions) -> Result<Self, ModelError> {
        let files = open_files(folder)?;
        let mut places = BTreeMap::new();
        for (index, file) in files.iter().enumerate() {
            for name in file.names() {
                if let Some(first) = places.insert(name.to_owned(), index) {
                    let message = format!("is also in `{}`", files[first].path().display());
                    return Err(ModelError::Tensor {
                        path: file.path().to_owned(),
                        name: name.to_owned(),
                        message,
                    });
                }
            }
        }
        let is_trainable = options.tuning == Tuning::Full;
        let precision = options.precision;
        Ok(Self {
            folder: folder.to_owned(),
            files,
            places,
            kind: if is_trainable {
                precision.trainable()
            } else {
                precision.frozen()
            },
            device: options.device,
            is_trainable,
        })
    }

    /// Compares names and shapes with the configuration's before anything is read.
    pub(crate) fn check(&self, config: &ModelConfig) -> Result<(), ModelError> {
        let expected = decoder::expected_tensors(config);
        let missing: Vec<&str> = expected
            .keys()
            .filter(|name| !self.places.contains_key(*name))
            .map(String::as_str)
            .collect();
        if !missing.is_empty() {
            let names = list(&missing);
            return Err(ModelError::MissingTensors {
                folder: self.folder.clone(),
                count: missing.len(),
                names,
            });
        }
        for (name, shape) in &expected {
            self.file(name)?.check_weight(name, shape)?;
        }
        let is_known = |name: &str| {
            expected.contains_key(name)
                || name.ends_with("rotary_emb.inv_freq")
                || (config.is_tied && name == "lm_head.weight")
        };
        let unexpected: Vec<&str> = self
            .places
            .keys()
            .map(String::as_str)
            .filter(|name| !is_known(name))
            .collect();
        if !unexpected.is_empty() {
            warn!(
                count = unexpected.len(),
                names = list(&unexpected),
                "the model's files hold tensors that are not used"
            );
        }
        Ok(())
    }

    /// Reads one parameter.
    pub(crate) fn parameter(&self, name: &str, shape: &[i64]) -> Result<Parameter, ModelError> {
        let tensor = self.file(name)?.read_weight(name, shape, self.kind)?;
        Ok(Parameter::new(
            name.to_owned(),
            &tensor.f_to_device(self.device)?,
            self.is_trainable,
        ))
    }

    fn file(&self, name: &str) -> Result<&Safetensors, ModelError> {
        self.places
            .get(name)
            .map(|&index| &self.files[index])
            .ok_or_else(|| ModelError::MissingTensors {
                folder: self.folder.clone(),
                count: 1,
                names: format!("`{name}`"),
            })
    }
}

fn list(names: &[&str]) -> String {
    let shown: Vec<String> = names
        .iter()
        .take(SHOWN)
        .map(|name| format!("`{name}`"))
        .collect();
    let more = names.len().saturating_sub(SHOWN);
    if more > 0 {
        format!("{} and {more} more", shown.join(", "))
    } else {
        shown.join(", ")
    }
}

/// Opens the single file, or all files of the index.
pub(crate) fn open_files(folder: &Path) -> Result<Vec<Safetensors>, ModelError> {
    let (single, index) = (folder.join(SINGLE), folder.join(INDEX));
    if single.is_file() {
        return Ok(vec![Safetensors::open(&single)?]);
    }
    if !index.is_file() {
        refuse_pickle(folder)?;
        return Err(ModelError::MissingFile {
            folder: folder.to_owned(),
            file: SINGLE.to_owned(),
        });
    }
    let raw = RawConfig::read(&index)?;
    let map = raw
        .object("weight_map")?
        .ok_or_else(|| raw.wrong("weight_map", "is missing"))?;
    let mut names: Vec<&str> = Vec::new();
    for (tensor, file) in &map.fields {
        let Value::String(file) = file else {
            return Err(raw.wrong(tensor, "does not name a file"));
        };
        // A name with a folder could leave the model's own.
        if file.contains(['/', '\\']) || !file.ends_with(".safetensors") {
            return Err(raw.wrong(
                tensor,
                format!("names `{file}`, expected a .safetensors file of the same folder"),
            ));
        }
        names.push(file);
    }
    names.sort_unstable();
    names.dedup();
    let missing = names.iter().find(|name| !folder.join(name).is_file());
    if let Some(file) = missing {
        return Err(ModelError::MissingFile {
            folder: folder.to_owned(),
            file: (*file).to_owned(),
        });
    }
    names
        .iter()
        .map(|name| Safetensors::open(&folder.join(name)))
        .collect()
}

/// Refuses a folder that has weights, but none that are safe to read.
pub(crate) fn refuse_pickle(folder: &Path) -> Result<(), ModelError> {
    let entries = fs::read_dir(folder).map_err(ModelError::io("read", folder))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    let is_pickle = |name: &String| {
        let extension = Path::new(name)
            .extension()
            .and_then(|extension| extension.to_str());
        matches!(extension, Some("bin" | "pt" | "pth" | "ckpt" | "pkl"))
            && name != "training_args.bin"
    };
    match names.into_iter().find(is_pickle) {
        Some(file) => Err(ModelError::PickleOnly {
            folder: folder.to_owned(),
            file,
        }),
        None => Ok(()),
    }
}
