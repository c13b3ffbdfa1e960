//! `config.json` in the styles of transformers 4.x and 5.x.

mod raw;
mod rope;

pub(crate) use raw::RawConfig;
pub(crate) use rope::read_rope;

/// The measures of a decoder, whatever family it is of.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a field of the model's own configuration"
)]
pub struct ModelConfig {
    /// `model_type`: llama, qwen2, qwen3.
    pub model_type: String,
    /// Rows of the embedding.
    pub vocab_size: i64,
    /// Width of the residual stream.
    pub hidden_size: i64,
    /// Width inside the MLP.
    pub intermediate_size: i64,
    /// Number of blocks.
    pub num_layers: usize,
    /// Query heads.
    pub num_heads: i64,
    /// Key and value heads.
    pub num_kv_heads: i64,
    /// Width of a head.
    pub head_dim: i64,
    /// Added to the mean square in norms.
    pub rms_norm_eps: f64,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// How the rotary angles are stretched.
    pub rope_scaling: RopeScaling,
    /// Longest sequence that the model was made for.
    pub max_position_embeddings: i64,
    /// Whether the head uses the embedding's weight.
    pub is_tied: bool,
    /// Whether the q, k and v projections have biases.
    pub has_qkv_bias: bool,
    /// Whether the output projection of attention has a bias.
    pub has_output_bias: bool,
    /// Whether the MLP's projections have biases.
    pub has_mlp_bias: bool,
    /// Whether queries and keys are normed per head.
    pub has_qk_norm: bool,
}

/// How rotary angles are stretched beyond the length that a model was trained with.
#[derive(Debug, Clone, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// All positions divided by one factor.
    Linear {
        /// The factor.
        factor: f64,
    },
    /// Llama 3's blend by wavelength.
    Llama3 {
        /// The factor for slow frequencies.
        factor: f64,
        /// Wavelengths above the original length over this are stretched.
        low_freq_factor: f64,
        /// Wavelengths below the original length over this are kept.
        high_freq_factor: f64,
        /// The length of the original training.
        original_length: f64,
    },
    /// `YaRN`'s blend by number of turns.
    Yarn {
        /// The factor for slow frequencies.
        factor: f64,
        /// The factor on cosines and sines.
        attention_factor: f64,
        /// Dims that turn more often than this are kept.
        beta_fast: f64,
        /// Dims that turn less often than this are stretched.
        beta_slow: f64,
        /// The length of the original training.
        original_length: f64,
        /// Whether the blend's ends are rounded to whole dims.
        is_truncated: bool,
    },
}
