//! Qwen2, Qwen2.5 and Qwen3 (dense).

use serde_json::Value;

use crate::{ModelConfig, ModelError, config::RawConfig};

/// Reads what Qwen2 has of its own: biases on q, k and v.
pub(crate) fn read_qwen2(raw: &RawConfig, shared: ModelConfig) -> Result<ModelConfig, ModelError> {
    refuse_sliding_window(raw, shared.num_layers)?;
    Ok(ModelConfig {
        has_qkv_bias: true,
        ..shared
    })
}

/// Reads what Qwen3 has of its own: norms on queries and keys, and a head width of 128 unless said.
pub(crate) fn read_qwen3(raw: &RawConfig, shared: ModelConfig) -> Result<ModelConfig, ModelError> {
    refuse_sliding_window(raw, shared.num_layers)?;
    let has_bias = raw.flag("attention_bias", false)?;
    let head_dim = raw.optional_size("head_dim")?.unwrap_or(128);
    Ok(ModelConfig {
        has_qk_norm: true,
        has_qkv_bias: has_bias,
        has_output_bias: has_bias,
        head_dim,
        ..shared
    })
}

/// Refuses a window that at least one layer uses; one that is only named is fine.
fn refuse_sliding_window(raw: &RawConfig, num_layers: usize) -> Result<(), ModelError> {
    let Some(window) = raw.optional_size("sliding_window")? else {
        return Ok(());
    };
    if !raw.flag("use_sliding_window", false)? {
        return Ok(());
    }
    let first = raw.optional_size("max_window_layers")?.unwrap_or(0);
    let is_used = match raw.get("layer_types").and_then(Value::as_array) {
        Some(types) => types.iter().any(|kind| kind == "sliding_attention"),
        None => usize::try_from(first).unwrap_or(0) < num_layers,
    };
    if is_used {
        return Err(ModelError::Unsupported {
            feature: format!("a sliding window of {window} tokens"),
        });
    }
    Ok(())
}
