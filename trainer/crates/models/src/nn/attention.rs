//! The seam around attention: queries, keys and values of all tokens, and where each sequence ends.

use tch::{Device, Tensor};
use trainer_torch_ext::attention;

use crate::ModelError;

/// Causal attention within each segment; a token never sees another segment.
pub trait Attention {
    /// Maps queries `[t, h, d]`, keys and values `[t, kv heads, d]` to `[t, h, d]`.
    fn attend(
        &self,
        q_thd: &Tensor,
        k_tkd: &Tensor,
        v_tkd: &Tensor,
        segments: &[i64],
    ) -> Result<Tensor, ModelError>;
}

/// Fused attention without masks or padding: our own kernel on the CPU, libtorch's elsewhere (one call a segment, or
/// one in all where the segments have one length).
#[derive(Debug, Clone, Copy, Default)]
pub struct FusedAttention;

impl Attention for FusedAttention {
    fn attend(
        &self,
        q_thd: &Tensor,
        k_tkd: &Tensor,
        v_tkd: &Tensor,
        segments: &[i64],
    ) -> Result<Tensor, ModelError> {
        if q_thd.device() == Device::Cpu {
            return Ok(attention(q_thd, k_tkd, v_tkd, segments)?);
        }
        let first = segments.first().copied().unwrap_or(0);
        if segments.iter().all(|&length| length == first) {
            let count = i64::try_from(segments.len()).unwrap_or(1);
            return batch(q_thd, k_tkd, v_tkd, count, first);
        }
        let split = |x: &Tensor| x.f_split_with_sizes(segments, 0);
        let (queries, keys, values) = (split(q_thd)?, split(k_tkd)?, split(v_tkd)?);
        let outputs = (queries.iter().zip(&keys).zip(&values).zip(segments))
            .map(|(((q, k), v), &length)| batch(q, k, v, 1, length))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Tensor::f_cat(&outputs, 0)?)
    }
}

/// Attends within `count` sequences of one length.
fn batch(
    q_thd: &Tensor,
    k_tkd: &Tensor,
    v_tkd: &Tensor,
    count: i64,
    length: i64,
) -> Result<Tensor, ModelError> {
    let size = q_thd.size();
    let (heads, dim) = (size[1], size[2]);
    // [t, heads, d] -> [count, heads, length, d], a view.
    let lift = |x: &Tensor| -> Result<Tensor, ModelError> {
        Ok(x.f_view([count, length, x.size()[1], dim])?
            .f_transpose(1, 2)?)
    };
    let has_groups = k_tkd.size()[1] != heads;
    let out = Tensor::f_scaled_dot_product_attention(
        &lift(q_thd)?,
        &lift(k_tkd)?,
        &lift(v_tkd)?,
        None::<&Tensor>,
        0.0,
        true,
        None,
        has_groups,
    )?;
    Ok(out
        .f_transpose(1, 2)?
        .f_reshape([count * length, heads, dim])?)
}
