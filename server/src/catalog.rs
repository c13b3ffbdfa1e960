//! What can be trained: the model folders and datasets that the board offers.
//!
//! Reads folders and small JSON files: call it where blocking is allowed. A folder that cannot be
//! trained is listed with the reason, so that nobody searches for it.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use trainer_data::DatasetEntry;
use utoipa::ToSchema;

use crate::config::ServerConfig;

/// How deep below a root a model folder may lie: `owner/name`.
const MODEL_DEPTH: usize = 2;

/// Most entries of a folder that are looked at.
const MAX_ENTRIES: usize = 2_000;

/// Largest `config.json` that is read.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Model families that the trainer knows, by `model_type`.
const FAMILIES: [&str; 3] = ["llama", "qwen2", "qwen3"];

/// A folder in Hugging Face's layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ModelFolder {
    /// The folder's name below its root.
    pub name: String,
    /// What to write as `model_name_or_path`: relative to the data folder where it lies there.
    pub path: String,
    /// `model_type` of its `config.json`.
    pub model_type: Option<String>,
    /// The class that its weights were saved from.
    pub architecture: Option<String>,
    /// Number format of the weights, as `config.json` says.
    pub dtype: Option<String>,
    /// Bytes of its weights.
    pub size_bytes: u64,
    /// Whether it is the demo model that comes with the board.
    pub is_demo: bool,
    /// Why it cannot be trained. `None` where it can.
    pub refusal: Option<Refusal>,
}

/// Why something is listed but cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Refusal {
    /// What stands in the way.
    pub reason: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// A dataset of `dataset_info.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Dataset {
    /// What to write as `dataset`.
    pub name: String,
    /// Shape of its rows: `alpaca`, `sharegpt` or `openai`.
    pub formatting: &'static str,
    /// Whether its rows are pairs of answers (for rm and dpo).
    pub ranking: bool,
    /// Bytes of its files.
    pub size_bytes: u64,
    /// Why it cannot be used. `None` where it can.
    pub problem: Option<String>,
}

/// Returns the model folders below the data folder's `models` and the further roots, by name.
pub fn list_models(config: &ServerConfig) -> Vec<ModelFolder> {
    let own = config.models_dir();
    let mut models = Vec::new();
    for root in std::iter::once(&own).chain(&config.model_roots) {
        let mut folders = Vec::new();
        find_model_folders(root, MODEL_DEPTH, &mut folders);
        models.extend(
            folders
                .iter()
                .map(|folder| describe_model(config, root, folder)),
        );
    }
    models.sort_by(|a, b| b.is_demo.cmp(&a.is_demo).then_with(|| a.name.cmp(&b.name)));
    models
}

/// Returns why a folder cannot be trained; `None` where nothing speaks against it.
pub fn refusal_of(config: &ServerConfig, folder: &Path) -> Option<Refusal> {
    if !folder.join("config.json").is_file() {
        let hint = "choose one of the folders under Models, or give the path of a folder with `config.json`";
        return Some(Refusal {
            reason: "there is no model folder here".into(),
            hint: Some(hint.into()),
        });
    }
    describe_model(config, &config.models_dir(), folder).refusal
}

fn find_model_folders(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if folder.join("config.json").is_file() {
        found.push(folder.into());
        return;
    }
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten().take(MAX_ENTRIES) {
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if depth > 0 && !is_hidden && entry.path().is_dir() {
            find_model_folders(&entry.path(), depth - 1, found);
        }
    }
}

fn describe_model(config: &ServerConfig, root: &Path, folder: &Path) -> ModelFolder {
    let name = folder
        .strip_prefix(root)
        .ok()
        .filter(|rest| !rest.as_os_str().is_empty());
    let name = name
        .unwrap_or_else(|| folder.file_name().map_or(folder, Path::new))
        .display()
        .to_string();
    let path = folder
        .strip_prefix(&config.data_dir)
        .unwrap_or(folder)
        .display()
        .to_string();
    let description = read_json(&folder.join("config.json"));
    let text = |key: &str| {
        description
            .as_ref()
            .and_then(|value| value[key].as_str())
            .map(str::to_owned)
    };
    let architecture = description
        .as_ref()
        .and_then(|value| value["architectures"][0].as_str())
        .map(str::to_owned);
    let weights = Weights::of(folder);
    ModelFolder {
        is_demo: root == config.models_dir() && name == crate::demo::DEMO_NAME,
        refusal: refuse_model(description.as_ref(), &weights),
        model_type: text("model_type"),
        dtype: text("torch_dtype").or_else(|| text("dtype")),
        architecture,
        size_bytes: weights.size_bytes,
        name,
        path,
    }
}

/// The weight files of a folder.
#[derive(Debug, Default)]
struct Weights {
    has_safetensors: bool,
    has_pickle: bool,
    size_bytes: u64,
}

impl Weights {
    fn of(folder: &Path) -> Self {
        let mut weights = Self::default();
        for entry in fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .take(MAX_ENTRIES)
        {
            let path = entry.path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("safetensors") => {
                    weights.has_safetensors = true;
                    weights.size_bytes += fs::metadata(&path).map_or(0, |file| file.len());
                }
                Some("bin" | "pt" | "pth" | "pkl") => weights.has_pickle = true,
                _ => {}
            }
        }
        weights
    }
}

fn refuse_model(description: Option<&Value>, weights: &Weights) -> Option<Refusal> {
    let refusal = |reason: &str, hint: Option<&str>| {
        Some(Refusal {
            reason: reason.to_owned(),
            hint: hint.map(str::to_owned),
        })
    };
    let Some(description) = description else {
        return refusal(
            "`config.json` is not readable as JSON",
            Some("copy the model folder again"),
        );
    };
    let model_type = description["model_type"].as_str().unwrap_or("");
    if description.get("auto_map").is_some() {
        return refusal(
            "the model needs its own Python code, which is never run",
            Some("choose a model without `auto_map`"),
        );
    }
    if !FAMILIES.contains(&model_type) {
        let reason = format!(
            "model type `{model_type}` is unknown here, expected one of {}",
            FAMILIES.join(", ")
        );
        return refusal(&reason, None);
    }
    if weights.has_safetensors {
        return None;
    }
    if weights.has_pickle {
        return refusal(
            "the weights are pickle files, which can run code",
            Some("save the model as safetensors: `model.save_pretrained(DIR)` in transformers"),
        );
    }
    refusal(
        "there is no `*.safetensors` file",
        Some("copy the weights into the folder"),
    )
}

fn read_json(path: &Path) -> Option<Value> {
    let is_small = fs::metadata(path).is_ok_and(|file| file.len() <= MAX_CONFIG_BYTES);
    let text = if is_small {
        fs::read(path).ok()?
    } else {
        return None;
    };
    serde_json::from_slice(&text).ok()
}

/// Returns the datasets of the data folder's `dataset_info.json`, in its order.
pub fn list_datasets(config: &ServerConfig) -> Result<Vec<Dataset>, trainer_data::DataError> {
    Ok(trainer_data::list_datasets(&config.datasets_dir())?
        .into_iter()
        .map(Dataset::from)
        .collect())
}

impl From<DatasetEntry> for Dataset {
    fn from(entry: DatasetEntry) -> Self {
        Self {
            name: entry.name,
            formatting: entry.formatting.name(),
            ranking: entry.ranking,
            size_bytes: entry.size_bytes,
            problem: entry.problem,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(config: &ServerConfig, name: &str, json: &str, files: &[&str]) {
        let dir = config.models_dir().join(name);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("config.json"), json).unwrap();
        for file in files {
            fs::write(dir.join(file), "1234").unwrap();
        }
    }

    #[test]
    fn usable_folders_are_told_from_those_with_a_reason() {
        let dir = tempfile::tempdir().unwrap();
        let config = ServerConfig::new(dir.path());
        folder(
            &config,
            "owner/good",
            r#"{"model_type":"qwen3","torch_dtype":"bfloat16"}"#,
            &["model.safetensors"],
        );
        folder(
            &config,
            "pickle",
            r#"{"model_type":"llama"}"#,
            &["pytorch_model.bin"],
        );
        folder(
            &config,
            "code",
            r#"{"model_type":"llama","auto_map":{}}"#,
            &["model.safetensors"],
        );
        folder(&config, "torn", r#"{"model_type":"#, &["model.safetensors"]);
        folder(
            &config,
            "other",
            r#"{"model_type":"bert"}"#,
            &["model.safetensors"],
        );
        folder(&config, "empty", r#"{"model_type":"qwen2"}"#, &[]);
        fs::create_dir_all(config.models_dir().join(".hidden")).unwrap();
        let models = list_models(&config);
        let reasons: Vec<_> = models
            .iter()
            .map(|m| (m.name.as_str(), m.refusal.is_some()))
            .collect();
        let expected = [
            ("code", true),
            ("empty", true),
            ("other", true),
            ("owner/good", false),
            ("pickle", true),
            ("torn", true),
        ];
        assert_eq!(reasons, expected);
        let good = &models[3];
        assert_eq!(
            (good.path.as_str(), good.size_bytes),
            ("models/owner/good", 4)
        );
        assert_eq!(good.dtype.as_deref(), Some("bfloat16"));
    }
}
