//! The model families by `model_type`, and the checks that every family shares.

use std::path::Path;

use crate::{
    ModelConfig, ModelError,
    config::{RawConfig, read_rope},
    llama, qwen,
};

/// One family: its `model_type` and how its fields are read.
struct Family {
    model_type: &'static str,
    read: fn(&RawConfig, ModelConfig) -> Result<ModelConfig, ModelError>,
}

const FAMILIES: &[Family] = &[
    Family {
        model_type: "llama",
        read: llama::read_config,
    },
    Family {
        model_type: "qwen2",
        read: qwen::read_qwen2,
    },
    Family {
        model_type: "qwen3",
        read: qwen::read_qwen3,
    },
];

/// A model with more blocks than this is a damaged file.
const MAX_LAYERS: i64 = 4096;

/// Returns the names that `model_type` may have.
pub fn known_architectures() -> Vec<&'static str> {
    FAMILIES.iter().map(|family| family.model_type).collect()
}

/// Reads and checks `config.json` of a model folder; no weights are touched.
pub fn read_config(folder: &Path) -> Result<ModelConfig, ModelError> {
    Ok(read_with_raw(folder)?.0)
}

/// Reads `config.json` and keeps its fields, which saving writes back.
pub(crate) fn read_with_raw(folder: &Path) -> Result<(ModelConfig, RawConfig), ModelError> {
    if !folder.is_dir() {
        return Err(ModelError::NoFolder {
            path: folder.to_owned(),
        });
    }
    let path = folder.join("config.json");
    if !path.is_file() {
        return Err(ModelError::MissingFile {
            folder: folder.to_owned(),
            file: "config.json".to_owned(),
        });
    }
    let raw = RawConfig::read(&path)?;
    if raw.get("auto_map").is_some() {
        return Err(ModelError::CustomCode {
            folder: folder.to_owned(),
            evidence: "auto_map".to_owned(),
        });
    }
    let model_type = raw
        .text("model_type")?
        .ok_or_else(|| raw.wrong("model_type", "is missing"))?;
    let Some(family) = FAMILIES
        .iter()
        .find(|family| family.model_type == model_type)
    else {
        let known = known_architectures().join(", ");
        return Err(ModelError::UnknownArchitecture {
            found: model_type,
            known,
        });
    };
    let config = (family.read)(&raw, read_shared(&raw, model_type)?)?;
    Ok((config, raw))
}

/// Reads what all families have, with the defaults of most.
fn read_shared(raw: &RawConfig, model_type: String) -> Result<ModelConfig, ModelError> {
    refuse_unsupported(raw)?;
    let hidden_size = raw.size("hidden_size")?;
    let num_heads = raw.size("num_attention_heads")?;
    let num_kv_heads = raw
        .optional_size("num_key_value_heads")?
        .unwrap_or(num_heads);
    if num_heads % num_kv_heads != 0 {
        let message =
            format!("is {num_kv_heads}, which does not divide the {num_heads} attention heads");
        return Err(raw.wrong("num_key_value_heads", message));
    }
    let head_dim = match raw.optional_size("head_dim")? {
        Some(head_dim) => head_dim,
        None if hidden_size % num_heads == 0 => hidden_size / num_heads,
        None => {
            return Err(raw.wrong(
                "hidden_size",
                format!("is {hidden_size}, not a multiple of {num_heads} heads"),
            ));
        }
    };
    if head_dim % 2 != 0 {
        return Err(raw.wrong(
            "head_dim",
            format!("is {head_dim}, expected an even number"),
        ));
    }
    let num_layers = raw.size("num_hidden_layers")?;
    if num_layers > MAX_LAYERS {
        return Err(raw.wrong(
            "num_hidden_layers",
            format!("is {num_layers}, expected at most {MAX_LAYERS}"),
        ));
    }
    let (rope_theta, rope_scaling) = read_rope(raw)?;
    Ok(ModelConfig {
        model_type,
        vocab_size: raw.size("vocab_size")?,
        hidden_size,
        intermediate_size: raw.size("intermediate_size")?,
        num_layers: usize::try_from(num_layers).unwrap_or(0),
        num_heads,
        num_kv_heads,
        head_dim,
        rms_norm_eps: raw.number("rms_norm_eps")?.unwrap_or(1e-6),
        rope_theta,
        rope_scaling,
        max_position_embeddings: raw
            .optional_size("max_position_embeddings")?
            .unwrap_or(2048),
        is_tied: raw.flag("tie_word_embeddings", false)?,
        has_qkv_bias: false,
        has_output_bias: false,
        has_mlp_bias: false,
        has_qk_norm: false,
    })
}

fn refuse_unsupported(raw: &RawConfig) -> Result<(), ModelError> {
    let refuse = |feature: String| Err(ModelError::Unsupported { feature });
    if let Some(activation) = raw
        .text("hidden_act")?
        .filter(|name| name != "silu" && name != "swish")
    {
        return refuse(format!("the activation `{activation}`"));
    }
    if raw.get("quantization_config").is_some() {
        return refuse("quantized weights (`quantization_config`)".to_owned());
    }
    if let Some(dropout) = raw
        .number("attention_dropout")?
        .filter(|&dropout| dropout > 0.0)
    {
        return refuse(format!("attention_dropout {dropout}"));
    }
    Ok(())
}
