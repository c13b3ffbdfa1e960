//! Messages from one rank to another.

use tch::Tensor;

use crate::{C10dError, ProcessGroup, Work, ffi, fit::contiguous};

impl ProcessGroup {
    /// Sends a tensor to a rank, which receives it with the same tag, type and size. The group's timeout applies, and
    /// checked mode does not.
    pub fn send(&self, tensor: &Tensor, peer: usize, tag: usize) -> Result<Work, C10dError> {
        const OPERATION: &str = "send";
        contiguous(OPERATION, &[tensor])?;
        self.member(OPERATION, peer)?;
        let (peer, tag) = (ffi::int(OPERATION, peer)?, ffi::int(OPERATION, tag)?);
        self.launch(OPERATION, |_, out, error| {
            // SAFETY: group and tensor live over the call; c10d holds the tensor on.
            unsafe { ffi::c10d_send(self.raw(), ffi::pointer(tensor), peer, tag, out, error) }
        })
        .map(|running| Work::new(OPERATION, vec![running]))
    }

    /// Receives into the tensor what a rank sends with the same tag.
    pub fn receive(&self, tensor: &Tensor, peer: usize, tag: usize) -> Result<Work, C10dError> {
        const OPERATION: &str = "receive";
        contiguous(OPERATION, &[tensor])?;
        self.member(OPERATION, peer)?;
        let (peer, tag) = (ffi::int(OPERATION, peer)?, ffi::int(OPERATION, tag)?);
        self.launch(OPERATION, |_, out, error| {
            // SAFETY: group and tensor live over the call; c10d holds the tensor on.
            unsafe { ffi::c10d_recv(self.raw(), ffi::pointer(tensor), peer, tag, out, error) }
        })
        .map(|running| Work::new(OPERATION, vec![running]))
    }
}
