//! Backward from given output gradients.

use std::ptr;

use tch::Tensor;
use torch_sys::C_tensor;

use crate::{
    TorchError,
    ffi::{check, ext_backward, ext_grad, ext_set_grad, pointer, pointers},
};

/// Adds gradients into the `.grad` of every leaf that `outputs` depend on.
///
/// `output_grads[i]` has the shape of `outputs[i]`. Without `keep_graph` the graph is freed on the way.
pub fn backward(
    outputs: &[&Tensor],
    output_grads: &[&Tensor],
    keep_graph: bool,
) -> Result<(), TorchError> {
    same_length("backward", outputs.len(), output_grads.len())?;
    let (outputs, grads) = (pointers(outputs), pointers(output_grads));
    // SAFETY: both lists hold as many living tensors as said.
    check("backward", |error| unsafe {
        ext_backward(
            outputs.as_ptr(),
            grads.as_ptr(),
            outputs.len(),
            keep_graph.into(),
            error,
        )
    })
}

/// Returns the gradients of `inputs` and touches no `.grad`; `None` for an input that no output depends on.
pub fn grad(
    outputs: &[&Tensor],
    output_grads: &[&Tensor],
    inputs: &[&Tensor],
    keep_graph: bool,
) -> Result<Vec<Option<Tensor>>, TorchError> {
    same_length("grad", outputs.len(), output_grads.len())?;
    let (outputs, grads, inputs) = (pointers(outputs), pointers(output_grads), pointers(inputs));
    let mut found: Vec<*mut C_tensor> = vec![ptr::null_mut(); inputs.len()];
    // SAFETY: the lists hold as many living tensors as said, and `found` has a place for each input.
    check("grad", |error| unsafe {
        ext_grad(
            outputs.as_ptr(),
            grads.as_ptr(),
            outputs.len(),
            inputs.as_ptr(),
            inputs.len(),
            keep_graph.into(),
            found.as_mut_ptr(),
            error,
        )
    })?;
    // SAFETY: each non-null entry is a new tensor that is ours to free.
    Ok(found
        .into_iter()
        .map(|out| (!out.is_null()).then(|| unsafe { Tensor::from_ptr(out) }))
        .collect())
}

/// Replaces `.grad` of a leaf; `None` unsets it.
pub fn set_grad(tensor: &Tensor, grad: Option<&Tensor>) -> Result<(), TorchError> {
    // SAFETY: both tensors live; a null gradient means none.
    check("set_grad", |error| unsafe {
        ext_set_grad(
            pointer(tensor),
            grad.map_or(ptr::null_mut(), pointer),
            error,
        )
    })
}

fn same_length(operation: &'static str, outputs: usize, grads: usize) -> Result<(), TorchError> {
    if outputs == grads {
        return Ok(());
    }
    Err(TorchError {
        operation,
        message: format!("{outputs} outputs, but {grads} output gradients"),
    })
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;

    fn leaf(values: &[f64]) -> Tensor {
        Tensor::from_slice(values).set_requires_grad(true)
    }

    #[test]
    fn grad_takes_output_gradients_and_leaves_grad_alone() {
        let (x, unused) = (leaf(&[1., 2., 3.]), leaf(&[1.]));
        let y = &x * &x;
        let found = grad(
            &[&y],
            &[&Tensor::from_slice(&[1., 10., 100.])],
            &[&x, &unused],
            false,
        )
        .unwrap();
        assert_eq!(
            Vec::<f64>::try_from(found[0].as_ref().unwrap()).unwrap(),
            [2., 40., 600.]
        );
        assert!(found[1].is_none() && !x.grad().defined());
    }

    #[test]
    fn backward_accumulates_and_grad_can_be_unset() {
        let x = leaf(&[3.]);
        for _ in 0..2 {
            let y = &x * 2.;
            backward(&[&y], &[&Tensor::from_slice(&[5.])], false).unwrap();
        }
        assert!((x.grad().double_value(&[0]) - 20.).abs() < 1e-12);
        set_grad(&x, None).unwrap();
        assert!(!x.grad().defined());
    }

    #[test]
    fn exception_becomes_an_error() {
        let x = Tensor::zeros([2], (Kind::Float, Device::Cpu));
        let error = grad(&[&x], &[&x], &[&x], false).unwrap_err();
        assert!(
            error.to_string().contains("does not require grad"),
            "{error}"
        );
        assert!(grad(&[&x], &[], &[&x], false).is_err());
    }
}
