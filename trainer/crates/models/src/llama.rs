//! Llama 2 and 3, and everything that calls itself one (SmolLM2, `TinyLlama`, …).

use crate::{ModelConfig, ModelError, config::RawConfig};

/// Reads what Llama has of its own: optional biases.
pub(crate) fn read_config(raw: &RawConfig, shared: ModelConfig) -> Result<ModelConfig, ModelError> {
    let has_bias = raw.flag("attention_bias", false)?;
    let has_mlp_bias = raw.flag("mlp_bias", false)?;
    Ok(ModelConfig {
        has_qkv_bias: has_bias,
        has_output_bias: has_bias,
        has_mlp_bias,
        ..shared
    })
}
