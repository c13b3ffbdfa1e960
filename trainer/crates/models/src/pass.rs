//! What all blocks of one forward share: angles of the positions, segments, attention, dropout.

use tch::Tensor;

use crate::nn::{Attention, FusedAttention};

/// One forward over a micro-batch. Made by [`Model::pass`](crate::Model::pass); the same pass serves recomputation.
pub struct Pass<'a> {
    /// Cosines of the rotary angles, `[tokens, head_dim / 2]`.
    pub(crate) cos: Tensor,
    /// Their sines.
    pub(crate) sin: Tensor,
    /// Lengths of the sequences that stand one after the other; they sum to the number of tokens.
    pub segments: Vec<i64>,
    /// How queries meet keys.
    pub(crate) attention: &'a dyn Attention,
    /// Seeds dropout; `None` turns it off (evaluation).
    pub(crate) dropout_seed: Option<u64>,
    /// Whether adapters take part.
    pub(crate) has_adapters: bool,
}

impl<'a> Pass<'a> {
    pub(crate) fn new(cos: Tensor, sin: Tensor, segments: Vec<i64>) -> Self {
        Self {
            cos,
            sin,
            segments,
            attention: &FusedAttention,
            dropout_seed: None,
            has_adapters: true,
        }
    }

    /// Turns dropout on. The seed says which step, micro-batch and rank this is; layers are told apart here. The same
    /// seed gives the same masks, so a recomputed block equals its first run.
    #[must_use]
    pub fn with_dropout(mut self, seed: u64) -> Self {
        self.dropout_seed = Some(seed);
        self
    }

    /// Leaves the adapters out: the base model, as a reference.
    #[must_use]
    pub fn without_adapters(mut self) -> Self {
        self.has_adapters = false;
        self
    }

    /// Puts another attention in the seam.
    #[must_use]
    pub fn with_attention(mut self, attention: &'a dyn Attention) -> Self {
        self.attention = attention;
        self
    }

    /// Returns how many tokens the micro-batch has.
    pub fn num_tokens(&self) -> i64 {
        self.segments.iter().sum()
    }
}
