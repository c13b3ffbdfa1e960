//! A linear layer with an optional bias and an optional low-rank adapter.

use tch::{Kind, Tensor};
use trainer_torch_ext::{dropout_mask, lora_linear};

use crate::{ModelError, Parameter, Pass, lora::mix};

/// `x W^T + bias`, plus `scaling * dropout(x) A^T B^T` where an adapter is attached.
#[derive(Debug)]
pub(crate) struct Linear {
    /// Its path: `model.layers.0.self_attn.q_proj`.
    pub(crate) path: String,
    /// `[o, i]`
    pub(crate) weight: Parameter,
    /// `[o]`
    pub(crate) bias: Option<Parameter>,
    pub(crate) adapter: Option<Adapter>,
}

/// Two thin matrices beside a weight.
#[derive(Debug)]
pub(crate) struct Adapter {
    /// `[rank, i]`
    pub(crate) a: Parameter,
    /// `[o, rank]`
    pub(crate) b: Parameter,
    pub(crate) scaling: f64,
    pub(crate) dropout: f64,
    /// Tells this layer's dropout from the others'.
    pub(crate) salt: u64,
}

impl Linear {
    /// Maps `[t, i]` to `[t, o]`.
    pub(crate) fn forward(&self, x_ti: &Tensor, pass: &Pass) -> Result<Tensor, ModelError> {
        let bias = self
            .bias
            .as_ref()
            .map(|bias| bias.cast_like(x_ti))
            .transpose()?;
        let weight = self.weight.cast_like(x_ti)?;
        let adapter = self.adapter.as_ref().filter(|_| pass.has_adapters);
        if let Some(adapter) = adapter
            && !(self.weight.is_trainable || adapter.is_dropping(pass.dropout_seed))
        {
            let matrices = (&adapter.a.tensor, &adapter.b.tensor);
            return Ok(lora_linear(
                x_ti,
                &weight,
                bias.as_ref(),
                matrices,
                adapter.scaling,
            )?);
        }
        let y_to = x_ti.f_linear(&weight, bias.as_ref())?;
        match adapter {
            Some(adapter) => adapter.add_to(y_to, x_ti, pass.dropout_seed),
            None => Ok(y_to),
        }
    }

    /// Returns weight, bias and adapter.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        let adapter = self
            .adapter
            .iter()
            .flat_map(|adapter| [&adapter.a, &adapter.b]);
        std::iter::once(&self.weight)
            .chain(&self.bias)
            .chain(adapter)
    }

    /// Adds the adapter's product to the weight and drops the adapter.
    pub(crate) fn merge(&mut self) -> Result<(), ModelError> {
        if let Some(adapter) = self.adapter.take() {
            let merged = adapter.merged_into(&self.weight.tensor)?;
            self.weight =
                Parameter::new(self.weight.name.clone(), &merged, self.weight.is_trainable);
        }
        Ok(())
    }
}

impl Adapter {
    fn is_dropping(&self, seed: Option<u64>) -> bool {
        seed.is_some() && self.dropout > 0.0
    }

    /// Adds the adapter's product to `y_to` in place: neither the sum nor its terms are needed in backward.
    fn add_to(
        &self,
        mut y_to: Tensor,
        x_ti: &Tensor,
        seed: Option<u64>,
    ) -> Result<Tensor, ModelError> {
        let dropped = match seed {
            Some(seed) if self.dropout > 0.0 => {
                let options = (x_ti.kind(), x_ti.device());
                Some(x_ti.f_mul(&dropout_mask(
                    &x_ti.size(),
                    self.dropout,
                    mix(seed, self.salt),
                    options,
                )?)?)
            }
            _ => None,
        };
        let x_ti = dropped.as_ref().unwrap_or(x_ti);
        let a = self.a.cast_like(x_ti)?;
        // The factor goes to the smallest of the matrices.
        let b = self
            .b
            .tensor
            .f_mul_scalar(self.scaling)?
            .f_to_kind(x_ti.kind())?;
        let low_tr = x_ti.f_matmul(&a.f_tr()?)?;
        Ok(y_to.f_addmm_(&low_tr, &b.f_tr()?)?)
    }

    /// Returns weight + scaling * B A, summed in at least f32, in the weight's type.
    pub(crate) fn merged_into(&self, weight: &Tensor) -> Result<Tensor, ModelError> {
        let _guard = tch::no_grad_guard();
        let wide = if weight.kind() == Kind::Double {
            Kind::Double
        } else {
            Kind::Float
        };
        let product = self
            .b
            .tensor
            .f_to_kind(wide)?
            .f_matmul(&self.a.tensor.f_to_kind(wide)?)?;
        let sum = weight
            .f_to_kind(wide)?
            .f_add(&product.f_mul_scalar(self.scaling)?)?;
        Ok(sum.f_to_kind(weight.kind())?)
    }
}
