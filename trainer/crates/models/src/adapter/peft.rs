//! PEFT's file names, tensor names and configuration.

use std::path::Path;

use serde_json::{Value, json};

use super::Attached;
use crate::{ModelError, config::RawConfig, weights};

/// The adapter's weights.
pub(crate) const WEIGHTS: &str = "adapter_model.safetensors";
const CONFIG: &str = "adapter_config.json";

/// Returns the name of a matrix in the file.
pub(crate) fn file_name(path: &str, matrix: &str) -> String {
    format!("base_model.model.{path}.{matrix}.weight")
}

/// What we need of `adapter_config.json`.
#[derive(Debug)]
pub(crate) struct AdapterConfig {
    pub(crate) rank: i64,
    pub(crate) alpha: f64,
    pub(crate) dropout: f64,
    pub(crate) use_rslora: bool,
    /// `None` where the file has a pattern instead of a list.
    pub(crate) targets: Option<Vec<String>>,
}

impl AdapterConfig {
    /// Reads the configuration and refuses everything that would change the numbers unnoticed.
    pub(crate) fn read(folder: &Path) -> Result<Self, ModelError> {
        if !folder.is_dir() {
            return Err(ModelError::NoFolder {
                path: folder.to_owned(),
            });
        }
        let path = folder.join(CONFIG);
        if !path.is_file() {
            return Err(ModelError::MissingFile {
                folder: folder.to_owned(),
                file: CONFIG.to_owned(),
            });
        }
        let raw = RawConfig::read(&path)?;
        refuse_unsupported(&raw)?;
        let targets = raw
            .get("target_modules")
            .and_then(Value::as_array)
            .map(|targets| {
                targets
                    .iter()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect()
            });
        let rank = raw.size("r")?;
        Ok(Self {
            rank,
            alpha: raw.number("lora_alpha")?.unwrap_or(rank as f64),
            dropout: raw.number("lora_dropout")?.unwrap_or(0.0),
            use_rslora: raw.flag("use_rslora", false)?,
            targets,
        })
    }
}

fn refuse_unsupported(raw: &RawConfig) -> Result<(), ModelError> {
    let is_set = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => true,
    };
    if let Some(kind) = raw.text("peft_type")?.filter(|kind| kind != "LORA") {
        return Err(raw.wrong("peft_type", format!("is `{kind}`, expected LORA")));
    }
    if let Some(bias) = raw.text("bias")?.filter(|bias| bias != "none") {
        return Err(raw.wrong("bias", format!("is `{bias}`, expected none")));
    }
    for field in [
        "use_dora",
        "use_qalora",
        "fan_in_fan_out",
        "lora_bias",
        "rank_pattern",
        "alpha_pattern",
        "modules_to_save",
        "layer_replication",
        "target_parameters",
        "trainable_token_indices",
        "alora_invocation_tokens",
        "arrow_config",
    ] {
        if let Some(value) = raw.get(field).filter(|value| is_set(value)) {
            return Err(raw.wrong(field, format!("is `{value}`, which is not supported")));
        }
    }
    Ok(())
}

/// Writes the configuration of an adapter.
pub(crate) fn write_config(
    folder: &Path,
    base: &Path,
    attached: &Attached,
) -> Result<(), ModelError> {
    let config = json!({
        "alpha_pattern": {},
        "auto_mapping": null,
        "base_model_name_or_path": base.to_string_lossy(),
        "bias": "none",
        "fan_in_fan_out": false,
        "inference_mode": true,
        "init_lora_weights": true,
        "layer_replication": null,
        "layers_pattern": null,
        "layers_to_transform": null,
        "loftq_config": {},
        "lora_alpha": number(attached.alpha),
        "lora_bias": false,
        "lora_dropout": attached.dropout,
        "megatron_config": null,
        "megatron_core": "megatron.core",
        "modules_to_save": null,
        "peft_type": "LORA",
        "r": attached.rank,
        "rank_pattern": {},
        "revision": null,
        "target_modules": attached.targets,
        "task_type": "CAUSAL_LM",
        "use_dora": false,
        "use_rslora": attached.use_rslora,
    });
    weights::write_text(&folder.join(CONFIG), &format!("{config:#}\n"))
}

/// Writes a whole number as one: PEFT's own type of alpha is int.
#[expect(
    clippy::cast_possible_truncation,
    reason = "only a whole number in range is cast"
)]
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        json!(value as i64)
    } else {
        json!(value)
    }
}
