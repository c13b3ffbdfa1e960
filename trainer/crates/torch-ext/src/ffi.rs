//! The C declarations and the one place that turns the shim's messages into errors.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    ptr,
};

use tch::Tensor;
use torch_sys::C_tensor;

use crate::TorchError;

/// A list of tensors as the shim takes it.
pub(crate) type List = *const *mut C_tensor;
/// Where the shim puts the address of its message.
pub(crate) type Message = *mut *mut c_char;

unsafe extern "C" {
    pub(crate) fn ext_free_string(text: *mut c_char);
    pub(crate) fn ext_backward(
        outputs: List,
        grads: List,
        count: usize,
        keep: c_int,
        error: Message,
    ) -> c_int;
    pub(crate) fn ext_grad(
        outputs: List,
        grads: List,
        count: usize,
        inputs: List,
        num_inputs: usize,
        keep: c_int,
        out: *mut *mut C_tensor,
        error: Message,
    ) -> c_int;
    pub(crate) fn ext_set_grad(tensor: *mut C_tensor, grad: *mut C_tensor, error: Message)
    -> c_int;
    pub(crate) fn ext_fused_adamw(
        params: List,
        grads: List,
        exp_avgs: List,
        exp_avg_sqs: List,
        steps: List,
        count: usize,
        lr: f64,
        beta1: f64,
        beta2: f64,
        weight_decay: f64,
        eps: f64,
        error: Message,
    ) -> c_int;
    pub(crate) fn ext_foreach_norm(
        tensors: List,
        count: usize,
        out: *mut f64,
        error: Message,
    ) -> c_int;
    pub(crate) fn ext_foreach_scale(
        tensors: List,
        count: usize,
        factor: f64,
        error: Message,
    ) -> c_int;
    pub(crate) fn ext_storage_bytes(
        tensor: *mut C_tensor,
        out: *mut usize,
        error: Message,
    ) -> c_int;
    pub(crate) fn ext_storage_resize(tensor: *mut C_tensor, bytes: usize, error: Message) -> c_int;
    pub(crate) fn ext_data(
        tensor: *mut C_tensor,
        data: *mut *mut c_void,
        bytes: *mut usize,
        error: Message,
    ) -> c_int;
    pub(crate) fn ext_bernoulli(
        tensor: *mut C_tensor,
        probability: f64,
        seed: u64,
        error: Message,
    ) -> c_int;
    pub(crate) fn ext_uniform(
        tensor: *mut C_tensor,
        low: f64,
        high: f64,
        seed: u64,
        error: Message,
    ) -> c_int;
    pub(crate) fn ext_num_threads() -> c_int;
    pub(crate) fn ext_release_memory();
    pub(crate) fn ext_keep_freed_memory();
    pub(crate) fn ext_lora_linear(
        x: *mut C_tensor,
        weight: *mut C_tensor,
        bias: *mut C_tensor,
        a: *mut C_tensor,
        b: *mut C_tensor,
        scaling: f64,
        out: *mut *mut C_tensor,
        error: Message,
    ) -> c_int;
    pub(crate) fn ext_rms_norm(
        x: *mut C_tensor,
        weight: *mut C_tensor,
        eps: f64,
        out: *mut *mut C_tensor,
        error: Message,
    ) -> c_int;
    pub(crate) fn ext_rotate(
        x: *mut C_tensor,
        cos: *mut C_tensor,
        sin: *mut C_tensor,
        out: *mut *mut C_tensor,
        error: Message,
    ) -> c_int;
    pub(crate) fn ext_cross_entropy(
        logits: *mut C_tensor,
        labels: *mut C_tensor,
        out: *mut *mut C_tensor,
        error: Message,
    ) -> c_int;
    pub(crate) fn ext_attention(
        q: *mut C_tensor,
        k: *mut C_tensor,
        v: *mut C_tensor,
        segments: *const i64,
        count: usize,
        out: *mut *mut C_tensor,
        error: Message,
    ) -> c_int;
    pub(crate) fn ext_swiglu(
        gate: *mut C_tensor,
        up: *mut C_tensor,
        out: *mut *mut C_tensor,
        error: Message,
    ) -> c_int;
}

/// Returns the address of the C++ tensor; the shim never frees or replaces what it points to.
pub(crate) fn pointer(tensor: &Tensor) -> *mut C_tensor {
    tensor.as_ptr().cast_mut()
}

/// Returns the addresses of several tensors.
pub(crate) fn pointers(tensors: &[&Tensor]) -> Vec<*mut C_tensor> {
    tensors.iter().map(|tensor| pointer(tensor)).collect()
}

/// Calls an entry point of the shim and turns its message into an error.
pub(crate) fn check(
    operation: &'static str,
    call: impl FnOnce(Message) -> c_int,
) -> Result<(), TorchError> {
    let mut text: *mut c_char = ptr::null_mut();
    if call(&raw mut text) == 0 {
        return Ok(());
    }
    let message = if text.is_null() {
        "no message".to_owned()
    } else {
        // SAFETY: the shim set `text` to a NUL-terminated string from malloc, which nobody else holds.
        unsafe {
            let message = CStr::from_ptr(text).to_string_lossy().into_owned();
            ext_free_string(text);
            message
        }
    };
    Err(TorchError { operation, message })
}

/// Calls an entry point that makes one tensor.
pub(crate) fn make(
    operation: &'static str,
    call: impl FnOnce(*mut *mut C_tensor, Message) -> c_int,
) -> Result<Tensor, TorchError> {
    let mut out: *mut C_tensor = ptr::null_mut();
    check(operation, |error| call(&raw mut out, error))?;
    // SAFETY: on success the shim stored a new tensor that is ours to free.
    Ok(unsafe { Tensor::from_ptr(out) })
}
