//! One optimizer step, one norm or one scaling over many tensors at once.

use tch::Tensor;

use crate::{
    TorchError,
    ffi::{check, ext_foreach_norm, ext_foreach_scale, ext_fused_adamw, pointers},
};

/// The numbers of one AdamW step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamW {
    /// The learning rate of this step.
    pub learning_rate: f64,
    /// Decay of the mean of gradients.
    pub beta1: f64,
    /// Decay of the mean of squared gradients.
    pub beta2: f64,
    /// Added to the denominator.
    pub eps: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
}

/// Updates `params` in place with libtorch's fused AdamW.
///
/// `exp_avgs` and `exp_avg_sqs` have the parameters' shapes and start at zero. `steps` are one-element f32 tensors that
/// count the steps done *including* this one: raise them first. Gradients have the parameters' type.
pub fn fused_adamw(
    params: &[&Tensor],
    grads: &[&Tensor],
    exp_avgs: &[&Tensor],
    exp_avg_sqs: &[&Tensor],
    steps: &[&Tensor],
    numbers: AdamW,
) -> Result<(), TorchError> {
    let count = params.len();
    if [grads.len(), exp_avgs.len(), exp_avg_sqs.len(), steps.len()] != [count; 4] {
        return Err(TorchError {
            operation: "fused_adamw",
            message: format!("expected five lists of {count} tensors"),
        });
    }
    if count == 0 {
        return Ok(());
    }
    let (params, grads, steps) = (pointers(params), pointers(grads), pointers(steps));
    let (exp_avgs, exp_avg_sqs) = (pointers(exp_avgs), pointers(exp_avg_sqs));
    // SAFETY: every list holds `count` living tensors.
    check("fused_adamw", |error| unsafe {
        ext_fused_adamw(
            params.as_ptr(),
            grads.as_ptr(),
            exp_avgs.as_ptr(),
            exp_avg_sqs.as_ptr(),
            steps.as_ptr(),
            count,
            numbers.learning_rate,
            numbers.beta1,
            numbers.beta2,
            numbers.weight_decay,
            numbers.eps,
            error,
        )
    })
}

/// Returns the L2 norm over all elements of all tensors; 0 for an empty list.
pub fn foreach_norm(tensors: &[&Tensor]) -> Result<f64, TorchError> {
    let list = pointers(tensors);
    let mut norm = 0.0;
    // SAFETY: the list holds as many living tensors as said.
    check("foreach_norm", |error| unsafe {
        ext_foreach_norm(list.as_ptr(), list.len(), &raw mut norm, error)
    })?;
    Ok(norm)
}

/// Multiplies every tensor by `factor` in place.
pub fn foreach_scale(tensors: &[&Tensor], factor: f64) -> Result<(), TorchError> {
    let list = pointers(tensors);
    // SAFETY: the list holds as many living tensors as said.
    check("foreach_scale", |error| unsafe {
        ext_foreach_scale(list.as_ptr(), list.len(), factor, error)
    })
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;

    #[test]
    fn adamw_matches_its_formula() {
        let numbers = AdamW {
            learning_rate: 0.1,
            beta1: 0.9,
            beta2: 0.99,
            eps: 1e-8,
            weight_decay: 0.5,
        };
        let (param, grad) = (
            Tensor::from_slice(&[2.0_f64]),
            Tensor::from_slice(&[3.0_f64]),
        );
        let (mean, square) = (param.zeros_like(), param.zeros_like());
        let mut step = Tensor::zeros([], (Kind::Float, Device::Cpu));
        let (mut expected, mut m, mut v) = (2.0_f64, 0.0_f64, 0.0_f64);
        for t in 1..=3 {
            drop(step.f_add_scalar_(1).unwrap());
            fused_adamw(&[&param], &[&grad], &[&mean], &[&square], &[&step], numbers).unwrap();
            expected *= 1.0 - 0.1 * 0.5;
            (m, v) = (0.9 * m + 0.1 * 3.0, 0.99 * v + 0.01 * 9.0);
            let (m_hat, v_hat) = (m / (1.0 - 0.9_f64.powi(t)), v / (1.0 - 0.99_f64.powi(t)));
            expected -= 0.1 * m_hat / (v_hat.sqrt() + 1e-8);
            assert!((param.double_value(&[0]) - expected).abs() < 1e-9);
        }
    }

    #[test]
    fn norm_and_scale_span_all_tensors() {
        let (a, b) = (
            Tensor::from_slice(&[3.0_f32]),
            Tensor::from_slice(&[0.0_f32, 4.0]),
        );
        assert!((foreach_norm(&[&a, &b]).unwrap() - 5.0).abs() < 1e-9);
        foreach_scale(&[&a, &b], 0.5).unwrap();
        assert!((foreach_norm(&[&a, &b]).unwrap() - 2.5).abs() < 1e-9);
        assert!(foreach_norm(&[]).unwrap().abs() < 1e-12);
    }
}
