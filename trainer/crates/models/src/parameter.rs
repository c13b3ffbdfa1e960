//! Parameters by name, as optimizers, strategies and files see them.

use tch::Tensor;

/// A part of a model that runs as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unit {
    /// The token embedding.
    Embed,
    /// One decoder block, from 0.
    Block(usize),
    /// The final norm and the projection to the vocabulary.
    Head,
}

/// One weight of a model.
#[derive(Debug)]
pub struct Parameter {
    /// Its path, as in Hugging Face's files: `model.layers.0.self_attn.q_proj.weight`; an adapter's ends in
    /// `.lora_A.weight` or `.lora_B.weight`.
    pub name: String,
    /// The leaf itself (a second handle on the model's own tensor, not a copy).
    pub tensor: Tensor,
    /// Whether it is trained; the leaf requires a gradient exactly then.
    pub is_trainable: bool,
    /// Whether weight decay applies: not to biases and norms.
    pub has_decay: bool,
}

impl Parameter {
    /// Makes a parameter by Hugging Face's rule for decay.
    pub(crate) fn new(name: String, tensor: &Tensor, is_trainable: bool) -> Self {
        let has_decay = !is_bias_or_norm(&name);
        let tensor = tensor.detach().set_requires_grad(is_trainable);
        Self {
            name,
            tensor,
            is_trainable,
            has_decay,
        }
    }

    /// Returns the weight in the type of `like`; itself where it is kept so.
    pub(crate) fn cast_like(&self, like: &Tensor) -> Result<Tensor, tch::TchError> {
        let kind = like.kind();
        if self.tensor.kind() == kind {
            Ok(self.tensor.shallow_clone())
        } else {
            self.tensor.f_to_kind(kind)
        }
    }
}

impl Clone for Parameter {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            tensor: self.tensor.shallow_clone(),
            is_trainable: self.is_trainable,
            has_decay: self.has_decay,
        }
    }
}

fn is_bias_or_norm(name: &str) -> bool {
    name.split('.').any(|part| {
        part == "bias" || part == "norm" || part.ends_with("_norm") || part.contains("layernorm")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn biases_and_norms_have_no_decay() {
        for name in [
            "model.norm.weight",
            "model.layers.0.input_layernorm.weight",
            "model.layers.0.self_attn.q_norm.weight",
            "model.layers.0.self_attn.q_proj.bias",
        ] {
            assert!(is_bias_or_norm(name), "{name}");
        }
        for name in [
            "model.embed_tokens.weight",
            "lm_head.weight",
            "model.layers.0.mlp.up_proj.lora_A.weight",
        ] {
            assert!(!is_bias_or_norm(name), "{name}");
        }
    }
}
