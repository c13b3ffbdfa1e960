//! Buffers that a group keeps for its next reduce-scatter: to the CPU, fresh pages cost as much as sending does.

use std::sync::{Mutex, PoisonError};

use tch::{Kind, TchError, Tensor};

/// Buffers kept; so many reduce-scatters can be under way without a fresh one.
const KEPT: usize = 2;

/// Byte buffers that nothing uses at the moment.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Vec<Tensor>>);

impl Spare {
    /// Returns a buffer and a view of its beginning with the type and number of elements of `like`.
    pub(crate) fn take(&self, like: &Tensor) -> Result<(Tensor, Tensor), TchError> {
        let count = i64::try_from(like.numel() * like.kind().elt_size_in_bytes())
            .map_err(|_| TchError::Shape("the tensor is too large".into()))?;
        let kept = {
            let mut buffers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let fits = |buffer: &Tensor| buffer.size1().is_ok_and(|size| size >= count);
            let place = buffers.iter().position(fits);
            // One that is too small gives way, so that what is kept grows to what is needed.
            let place = place.or((buffers.len() == KEPT).then_some(0));
            place.map(|place| buffers.swap_remove(place)).filter(fits)
        };
        let buffer = match kept {
            Some(buffer) => buffer,
            None => Tensor::f_empty([count], (Kind::Uint8, like.device()))?,
        };
        let view = buffer.f_narrow(0, 0, count)?.f_view_dtype(like.kind())?;
        Ok((buffer, view))
    }

    /// Keeps a buffer that is not used any more.
    pub(crate) fn give(&self, buffer: Tensor) {
        let mut buffers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buffers.len() < KEPT {
            buffers.push(buffer);
        }
    }
}
