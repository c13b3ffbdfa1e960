//! Rotary position embedding: the angles of each position, with the scalings that stretch them.

use std::f64::consts::PI;

use tch::{Device, Kind, Tensor};

use crate::{ModelConfig, ModelError, RopeScaling};

/// The angle per position of each pair of dims, and the factor on cosines and sines.
#[derive(Debug)]
pub(crate) struct Rotary {
    /// `[d / 2]`
    inverse_frequencies: Vec<f64>,
    amplitude: f64,
}

impl Rotary {
    pub(crate) fn new(config: &ModelConfig) -> Self {
        let dim = config.head_dim as f64;
        let plain: Vec<f64> = (0..config.head_dim / 2)
            .map(|pair| config.rope_theta.powf(-2.0 * pair as f64 / dim))
            .collect();
        let mut amplitude = 1.0;
        let inverse_frequencies = match &config.rope_scaling {
            RopeScaling::None => plain,
            RopeScaling::Linear { factor } => {
                plain.iter().map(|inverse| inverse / factor).collect()
            }
            RopeScaling::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original_length,
            } => {
                let bounds = (*low_freq_factor, *high_freq_factor, *original_length);
                plain
                    .iter()
                    .map(|&inverse| llama3(inverse, *factor, bounds))
                    .collect()
            }
            RopeScaling::Yarn {
                factor,
                attention_factor,
                beta_fast,
                beta_slow,
                original_length,
                is_truncated,
            } => {
                amplitude = *attention_factor;
                let turns_at = |beta: f64| {
                    dim * (original_length / (beta * 2.0 * PI)).ln()
                        / (2.0 * config.rope_theta.ln())
                };
                let (mut low, mut high) = (turns_at(*beta_fast), turns_at(*beta_slow));
                if *is_truncated {
                    (low, high) = (low.floor(), high.ceil());
                }
                let (low, mut high) = (low.max(0.0), high.min(dim - 1.0));
                if (high - low).abs() < 1e-9 {
                    high += 0.001;
                }
                let blend = |(pair, inverse): (usize, &f64)| {
                    let ramp = ((pair as f64 - low) / (high - low)).clamp(0.0, 1.0);
                    inverse / factor * ramp + inverse * (1.0 - ramp)
                };
                plain.iter().enumerate().map(blend).collect()
            }
        };
        Self {
            inverse_frequencies,
            amplitude,
        }
    }

    /// Returns cosines and sines `[t, d / 2]` for positions `[t]`, in f32 or f64.
    pub(crate) fn tables(
        &self,
        positions: &Tensor,
        wide: Kind,
    ) -> Result<(Tensor, Tensor), ModelError> {
        let _guard = tch::no_grad_guard();
        // The product is taken in `wide` as the reference does: at long positions f32's rounding shows.
        let inverse = Tensor::f_from_slice(&self.inverse_frequencies)?.f_to_kind(wide)?;
        let angles = positions
            .f_to_device(Device::Cpu)?
            .f_to_kind(wide)?
            .f_outer(&inverse)?;
        let scaled = |table: Tensor| -> Result<Tensor, ModelError> {
            let table = if (self.amplitude - 1.0).abs() > 0.0 {
                table.f_mul_scalar(self.amplitude)?
            } else {
                table
            };
            Ok(table.f_to_device(positions.device())?)
        };
        Ok((scaled(angles.f_cos()?)?, scaled(angles.f_sin()?)?))
    }
}

/// Stretches slow frequencies by `factor`, keeps fast ones, and blends between.
fn llama3(inverse: f64, factor: f64, (low, high, original_length): (f64, f64, f64)) -> f64 {
    let wavelength = 2.0 * PI / inverse;
    if wavelength < original_length / high {
        inverse
    } else if wavelength > original_length / low {
        inverse / factor
    } else {
        let smooth = (original_length / wavelength - low) / (high - low);
        (1.0 - smooth) * inverse / factor + smooth * inverse
    }
}
