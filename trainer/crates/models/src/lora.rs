//! What is trained: everything, nothing, or low-rank adapters.

use std::path::PathBuf;

/// Which parameters of a model are trained.
#[derive(Debug, Clone, PartialEq)]
pub enum Tuning {
    /// None: evaluation, a reference model.
    Frozen,
    /// All of them.
    Full,
    /// Adapters beside linear layers; everything else is frozen.
    Lora(Lora),
}

/// The adapters to train or to continue.
#[derive(Debug, Clone, PartialEq)]
pub struct Lora {
    /// The rank of a new adapter.
    pub rank: i64,
    /// The scale's numerator; usually twice the rank.
    pub alpha: f64,
    /// The probability that an input of the adapter is dropped; 0 turns dropout off.
    pub dropout: f64,
    /// Names of linear layers (`q_proj`, or a longer end of the path), or `all`: every one except the head.
    pub targets: Vec<String>,
    /// Scales by alpha / sqrt(rank) instead of alpha / rank.
    pub use_rslora: bool,
    /// Seeds the A matrices of a new adapter; B starts at zero.
    pub seed: u64,
    /// Adapters to load first. All but the last are merged into the weights and the last is continued, by its own rank,
    /// alpha, dropout and targets.
    pub adapters: Vec<PathBuf>,
    /// Merges all of `adapters` and starts a new one.
    pub create_new_adapter: bool,
}

impl Lora {
    /// Returns an adapter of the given rank on all linear layers with alpha = 2 x rank.
    pub fn new(rank: i64, seed: u64) -> Self {
        Self {
            rank,
            alpha: 2.0 * rank as f64,
            dropout: 0.0,
            targets: vec!["all".to_owned()],
            use_rslora: false,
            seed,
            adapters: Vec::new(),
            create_new_adapter: false,
        }
    }
}

/// Returns the factor of an adapter's product.
pub(crate) fn scaling(rank: i64, alpha: f64, use_rslora: bool) -> f64 {
    let rank = rank as f64;
    if use_rslora {
        alpha / rank.sqrt()
    } else {
        alpha / rank
    }
}

/// Mixes numbers into a seed so that each place and time has its own stream (`SplitMix64`'s finalizer).
pub(crate) fn mix(seed: u64, salt: u64) -> u64 {
    let mut z = seed
        .wrapping_add(salt.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
