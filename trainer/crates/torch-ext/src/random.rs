//! Random tensors that depend on their seed alone, never on what was drawn before or by whom.

use tch::{Device, Kind, Tensor};

use crate::{
    TorchError,
    ffi::{check, ext_bernoulli, ext_uniform, pointer},
};

/// Returns a mask that drops elements with the given probability: 0, or 1 / (1 - probability).
pub fn dropout_mask(
    shape: &[i64],
    probability: f64,
    seed: u64,
    options: (Kind, Device),
) -> Result<Tensor, TorchError> {
    let mut mask = Tensor::empty(shape, (options.0, Device::Cpu));
    // SAFETY: the mask lives and is ours alone.
    check("dropout_mask", |error| unsafe {
        ext_bernoulli(pointer(&mask), 1.0 - probability, seed, error)
    })?;
    if probability > 0.0 && probability < 1.0 {
        mask = mask
            .f_div_scalar_(1.0 - probability)
            .map_err(|error| TorchError::from_tch("dropout_mask", &error))?;
    }
    Ok(mask.to_device(options.1))
}

/// Fills a CPU tensor with uniform numbers of `[low, high)`.
pub fn fill_uniform(tensor: &mut Tensor, low: f64, high: f64, seed: u64) -> Result<(), TorchError> {
    // SAFETY: the tensor lives and is borrowed mutably.
    check("fill_uniform", |error| unsafe {
        ext_uniform(pointer(tensor), low, high, seed, error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_depends_on_the_seed_alone() {
        let options = (Kind::Float, Device::Cpu);
        let first = dropout_mask(&[64, 64], 0.25, 7, options).unwrap();
        drop(Tensor::rand([5], options));
        assert_eq!(first, dropout_mask(&[64, 64], 0.25, 7, options).unwrap());
        assert_ne!(first, dropout_mask(&[64, 64], 0.25, 8, options).unwrap());
        assert!((first.mean(Kind::Float).double_value(&[]) - 1.0).abs() < 0.05);
    }

    #[test]
    fn uniform_stays_in_its_range() {
        let mut tensor = Tensor::zeros([1000], (Kind::Float, Device::Cpu));
        fill_uniform(&mut tensor, -0.5, 0.5, 3).unwrap();
        let (low, high) = (
            tensor.min().double_value(&[]),
            tensor.max().double_value(&[]),
        );
        assert!((-0.5..-0.45).contains(&low) && (0.45..0.5).contains(&high));
    }
}
