//! The C declarations and the one place that turns the shim's messages into errors.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    ptr::{self, NonNull},
    time::Duration,
};

use tch::Tensor;
use torch_sys::C_tensor;

use crate::{C10dError, ErrorKind};

/// A store of the shim.
#[repr(C)]
pub(crate) struct RawStore([u8; 0]);
/// A process group of the shim.
#[repr(C)]
pub(crate) struct RawGroup([u8; 0]);
/// A running collective of the shim.
#[repr(C)]
pub(crate) struct RawWork([u8; 0]);

/// Where the shim puts the address of its message.
pub(crate) type Message = *mut *mut c_char;
type Tensors = *mut C_tensor;
type WorkOut = *mut *mut RawWork;

#[rustfmt::skip]
unsafe extern "C" {
    pub(crate) fn c10d_free(memory: *mut c_void);
    pub(crate) fn c10d_quiet_logs();

    pub(crate) fn c10d_store_tcp(host: *const c_char, port: u16, server: c_int, listener: c_int, world_size: c_int, wait: c_int,
        timeout: i64, out: *mut *mut RawStore, out_port: *mut u16, error: Message) -> c_int;
    pub(crate) fn c10d_store_hash(timeout: i64, out: *mut *mut RawStore, error: Message) -> c_int;
    pub(crate) fn c10d_store_prefix(store: *mut RawStore, prefix: *const c_char, out: *mut *mut RawStore, error: Message) -> c_int;
    pub(crate) fn c10d_store_clone(store: *mut RawStore, out: *mut *mut RawStore, error: Message) -> c_int;
    pub(crate) fn c10d_store_set(store: *mut RawStore, key: *const c_char, value: *const u8, length: usize, error: Message) -> c_int;
    pub(crate) fn c10d_store_get(store: *mut RawStore, key: *const c_char, value: *mut *mut u8, length: *mut usize, error: Message) -> c_int;
    pub(crate) fn c10d_store_add(store: *mut RawStore, key: *const c_char, amount: i64, out: *mut i64, error: Message) -> c_int;
    pub(crate) fn c10d_store_check(store: *mut RawStore, key: *const c_char, out: *mut c_int, error: Message) -> c_int;
    pub(crate) fn c10d_store_set_timeout(store: *mut RawStore, timeout: i64, error: Message) -> c_int;
    pub(crate) fn c10d_store_free(store: *mut RawStore);

    pub(crate) fn c10d_group_gloo(store: *mut RawStore, rank: c_int, size: c_int, timeout: i64, host: *const c_char, threads: c_int,
        checked: c_int, out: *mut *mut RawGroup, error: Message) -> c_int;
    #[cfg(feature = "nccl")]
    pub(crate) fn c10d_group_nccl(store: *mut RawStore, rank: c_int, size: c_int, timeout: i64, out: *mut *mut RawGroup, error: Message) -> c_int;
    pub(crate) fn c10d_group_abort(group: *mut RawGroup, error: Message) -> c_int;
    pub(crate) fn c10d_group_free(group: *mut RawGroup);

    pub(crate) fn c10d_all_reduce(group: *mut RawGroup, tensor: Tensors, op: c_int, timeout: i64, out: WorkOut, error: Message) -> c_int;
    pub(crate) fn c10d_all_gather(group: *mut RawGroup, output: Tensors, input: Tensors, timeout: i64, out: WorkOut, error: Message) -> c_int;
    pub(crate) fn c10d_reduce_scatter(group: *mut RawGroup, output: Tensors, input: Tensors, op: c_int, timeout: i64, out: WorkOut, error: Message) -> c_int;
    pub(crate) fn c10d_all_to_all(group: *mut RawGroup, output: Tensors, input: Tensors, output_splits: *const i64,
        input_splits: *const i64, count: usize, timeout: i64, out: WorkOut, error: Message) -> c_int;
    pub(crate) fn c10d_broadcast(group: *mut RawGroup, tensor: Tensors, root: c_int, timeout: i64, out: WorkOut, error: Message) -> c_int;
    pub(crate) fn c10d_send(group: *mut RawGroup, tensor: Tensors, peer: c_int, tag: c_int, out: WorkOut, error: Message) -> c_int;
    pub(crate) fn c10d_recv(group: *mut RawGroup, tensor: Tensors, peer: c_int, tag: c_int, out: WorkOut, error: Message) -> c_int;
    pub(crate) fn c10d_barrier(group: *mut RawGroup, timeout: i64, out: WorkOut, error: Message) -> c_int;
    pub(crate) fn c10d_monitored_barrier(group: *mut RawGroup, timeout: i64, error: Message) -> c_int;

    pub(crate) fn c10d_work_wait(work: *mut RawWork, timeout: i64, error: Message) -> c_int;
    pub(crate) fn c10d_work_done(work: *mut RawWork, out: *mut c_int, error: Message) -> c_int;
    pub(crate) fn c10d_work_free(work: *mut RawWork);
}

/// Returns the address of the C++ tensor; the shim copies the handle behind it and never frees or replaces it.
pub(crate) fn pointer(tensor: &Tensor) -> *mut C_tensor {
    tensor.as_ptr().cast_mut()
}

/// Returns whole milliseconds, at least one: zero means "no limit" to c10d.
pub(crate) fn milliseconds(timeout: Duration) -> i64 {
    i64::try_from(timeout.as_millis()).map_or(i64::MAX / 1_000_000_000, |time| {
        time.clamp(1, i64::MAX / 1_000_000_000)
    })
}

/// Returns a rank, size or tag as C has it.
pub(crate) fn int(operation: &'static str, value: usize) -> Result<c_int, C10dError> {
    c_int::try_from(value)
        .map_err(|_| C10dError::mismatch(operation, format!("`{value}` is too large")))
}

/// Returns text as C has it.
pub(crate) fn text(operation: &'static str, value: &str) -> Result<CString, C10dError> {
    CString::new(value).map_err(|_| {
        C10dError::new(
            operation,
            ErrorKind::Other,
            format!("`{}` holds a NUL", value.escape_debug()),
        )
    })
}

/// Calls an entry point of the shim and turns its kind and message into an error.
pub(crate) fn check(
    operation: &'static str,
    call: impl FnOnce(Message) -> c_int,
) -> Result<(), C10dError> {
    let mut text: *mut c_char = ptr::null_mut();
    let kind = match call(&raw mut text) {
        0 => return Ok(()),
        2 => ErrorKind::Timeout,
        3 => ErrorKind::Network,
        4 => ErrorKind::Mismatch,
        _ => ErrorKind::Other,
    };
    let message = if text.is_null() {
        "no message".to_owned()
    } else {
        // SAFETY: the shim set `text` to a NUL-terminated string from malloc, which nobody else holds.
        unsafe {
            let message = CStr::from_ptr(text).to_string_lossy().into_owned();
            c10d_free(text.cast());
            message
        }
    };
    Err(C10dError {
        operation,
        kind,
        message,
    })
}

/// Calls an entry point that makes a handle.
pub(crate) fn make<T>(
    operation: &'static str,
    call: impl FnOnce(*mut *mut T, Message) -> c_int,
) -> Result<NonNull<T>, C10dError> {
    let mut out: *mut T = ptr::null_mut();
    check(operation, |error| call(&raw mut out, error))?;
    NonNull::new(out).ok_or_else(|| C10dError::new(operation, ErrorKind::Other, "no handle"))
}
