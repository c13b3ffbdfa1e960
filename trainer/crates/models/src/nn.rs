//! Layers for flat batches: `t` tokens, `h` heads, `d` width of a head, `i` in, `o` out.

mod attention;
mod linear;
mod norm;
mod rotary;

pub use attention::{Attention, FusedAttention};
pub(crate) use linear::{Adapter, Linear};
pub(crate) use norm::RmsNorm;
pub(crate) use rotary::Rotary;
