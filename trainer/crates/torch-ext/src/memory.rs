//! Storage sizes, raw bytes of tensors, threads.

use std::{ffi::c_void, ptr, slice};

use tch::Tensor;

use crate::{
    TorchError,
    ffi::{
        check, ext_data, ext_keep_freed_memory, ext_num_threads, ext_release_memory,
        ext_storage_bytes, ext_storage_resize, pointer,
    },
};

/// Returns the bytes that the tensor's storage holds, 0 once it was freed by [`storage_resize`].
pub fn storage_bytes(tensor: &Tensor) -> Result<usize, TorchError> {
    let mut bytes = 0;
    // SAFETY: the tensor lives and `bytes` is a place for the answer.
    check("storage_bytes", |error| unsafe {
        ext_storage_bytes(pointer(tensor), &raw mut bytes, error)
    })?;
    Ok(bytes)
}

/// Frees (0) or allocates the tensor's storage without keeping its content; views of the storage follow.
///
/// A tensor whose storage is freed must not be used until it is resized back: element-wise operations would crash.
pub fn storage_resize(tensor: &Tensor, bytes: usize) -> Result<(), TorchError> {
    // SAFETY: the tensor lives; the shim checks that its storage may be resized.
    check("storage_resize", |error| unsafe {
        ext_storage_resize(pointer(tensor), bytes, error)
    })
}

/// Calls `read` with the bytes of a contiguous CPU tensor, in the machine's order.
pub fn read_bytes<T>(tensor: &Tensor, read: impl FnOnce(&[u8]) -> T) -> Result<T, TorchError> {
    let (data, bytes) = data(tensor)?;
    if bytes == 0 {
        return Ok(read(&[]));
    }
    // SAFETY: libtorch owns `bytes` bytes at `data` while the tensor lives, and `tensor` is borrowed for the call.
    Ok(read(unsafe {
        slice::from_raw_parts(data.cast::<u8>(), bytes)
    }))
}

/// Calls `write` with the bytes of a contiguous CPU tensor to fill, in the machine's order.
pub fn write_bytes<T>(
    tensor: &mut Tensor,
    write: impl FnOnce(&mut [u8]) -> T,
) -> Result<T, TorchError> {
    let (data, bytes) = data(tensor)?;
    if bytes == 0 {
        return Ok(write(&mut []));
    }
    // SAFETY: as in `read_bytes`, and the tensor is borrowed mutably for the call.
    Ok(write(unsafe {
        slice::from_raw_parts_mut(data.cast::<u8>(), bytes)
    }))
}

fn data(tensor: &Tensor) -> Result<(*mut c_void, usize), TorchError> {
    let (mut data, mut bytes) = (ptr::null_mut(), 0);
    // SAFETY: the tensor lives; both places are ours.
    check("data", |error| unsafe {
        ext_data(pointer(tensor), &raw mut data, &raw mut bytes, error)
    })?;
    Ok((data, bytes))
}

/// Returns how many threads one operation uses in this thread.
pub fn num_threads() -> usize {
    // SAFETY: takes nothing and only reads a setting.
    usize::try_from(unsafe { ext_num_threads() }).unwrap_or(1)
}

/// Gives freed heap memory back to the system, where the allocator can.
pub fn release_memory() {
    // SAFETY: takes nothing; malloc_trim may be called at any time.
    unsafe { ext_release_memory() }
}

/// Tells the allocator to keep what is freed for the next step: without it, large activations are mapped and faulted in
/// anew each time. Call it once, before the first step; what is kept counts as resident.
pub fn keep_freed_memory() {
    // SAFETY: takes nothing; mallopt may be called at any time.
    unsafe { ext_keep_freed_memory() }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;

    #[test]
    fn storage_is_freed_and_refilled() {
        let flat = Tensor::ones([8], (Kind::Float, Device::Cpu));
        let view = flat.narrow(0, 2, 4);
        storage_resize(&flat, 0).unwrap();
        assert_eq!(storage_bytes(&view).unwrap(), 0);
        storage_resize(&flat, 32).unwrap();
        drop(flat.shallow_clone().fill_(2.0));
        assert_eq!(Vec::<f32>::try_from(&view).unwrap(), [2.0; 4]);
    }

    #[test]
    fn bytes_are_read_and_written() {
        let mut tensor = Tensor::zeros([2], (Kind::BFloat16, Device::Cpu));
        write_bytes(&mut tensor, |bytes| {
            bytes.copy_from_slice(&[0x80, 0x3f, 0x00, 0x40]);
        })
        .unwrap();
        assert_eq!(
            Vec::<f32>::try_from(tensor.to_kind(Kind::Float)).unwrap(),
            [1.0, 2.0]
        );
        assert_eq!(read_bytes(&tensor, <[u8]>::len).unwrap(), 4);
        assert!(
            read_bytes(
                &Tensor::zeros([2, 3], (Kind::Float, Device::Cpu)).tr(),
                <[u8]>::len
            )
            .is_err()
        );
    }
}
