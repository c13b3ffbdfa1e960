//! The pre-norm decoder block that the dense families share: attention, then a gated MLP.
//!
//! `t` tokens, `h` heads, `k` key-value heads, `d` width of a head, `w` hidden width.

use std::collections::BTreeMap;

use tch::Tensor;
use trainer_torch_ext::{rotate, swiglu};

use crate::{
    ModelConfig, ModelError, Parameter, Pass,
    folder::Loader,
    nn::{Linear, RmsNorm},
};

/// One decoder block.
#[derive(Debug)]
pub(crate) struct Block {
    input_norm: RmsNorm,
    pub(crate) q: Linear,
    pub(crate) k: Linear,
    pub(crate) v: Linear,
    pub(crate) o: Linear,
    q_norm: Option<RmsNorm>,
    k_norm: Option<RmsNorm>,
    post_norm: RmsNorm,
    pub(crate) gate: Linear,
    pub(crate) up: Linear,
    pub(crate) down: Linear,
    head_dim: i64,
}

impl Block {
    /// Reads the weights of block `index`.
    pub(crate) fn load(
        loader: &Loader,
        config: &ModelConfig,
        index: usize,
    ) -> Result<Self, ModelError> {
        let layer = format!("model.layers.{index}");
        let linear = |name: &str, rows: i64, columns: i64, has_bias: bool| {
            let path = format!("{layer}.{name}");
            let weight = loader.parameter(&format!("{path}.weight"), &[rows, columns])?;
            let bias = has_bias
                .then(|| loader.parameter(&format!("{path}.bias"), &[rows]))
                .transpose()?;
            Ok::<_, ModelError>(Linear {
                path,
                weight,
                bias,
                adapter: None,
            })
        };
        let norm = |name: &str, width: i64| {
            let weight = loader.parameter(&format!("{layer}.{name}.weight"), &[width])?;
            Ok::<_, ModelError>(RmsNorm {
                weight,
                eps: config.rms_norm_eps,
            })
        };
        let (hidden, inner, dim) = (
            config.hidden_size,
            config.intermediate_size,
            config.head_dim,
        );
        let (q_width, kv_width) = (config.num_heads * dim, config.num_kv_heads * dim);
        let qk_norm = |name: &str| config.has_qk_norm.then(|| norm(name, dim)).transpose();
        Ok(Self {
            input_norm: norm("input_layernorm", hidden)?,
            q: linear("self_attn.q_proj", q_width, hidden, config.has_qkv_bias)?,
            k: linear("self_attn.k_proj", kv_width, hidden, config.has_qkv_bias)?,
            v: linear("self_attn.v_proj", kv_width, hidden, config.has_qkv_bias)?,
            o: linear("self_attn.o_proj", hidden, q_width, config.has_output_bias)?,
            q_norm: qk_norm("self_attn.q_norm")?,
            k_norm: qk_norm("self_attn.k_norm")?,
            post_norm: norm("post_attention_layernorm", hidden)?,
            gate: linear("mlp.gate_proj", inner, hidden, config.has_mlp_bias)?,
            up: linear("mlp.up_proj", inner, hidden, config.has_mlp_bias)?,
            down: linear("mlp.down_proj", hidden, inner, config.has_mlp_bias)?,
            head_dim: dim,
        })
    }

    /// Maps hidden states `[t, w]` to hidden states.
    pub(crate) fn forward(&self, x_tw: &Tensor, pass: &Pass) -> Result<Tensor, ModelError> {
        let x_tw = x_tw.f_add(&self.attention(&self.input_norm.forward(x_tw)?, pass)?)?;
        let normed = self.post_norm.forward(&x_tw)?;
        let inner = swiglu(
            &self.gate.forward(&normed, pass)?,
            &self.up.forward(&normed, pass)?,
        )?;
        Ok(x_tw.f_add(&self.down.forward(&inner, pass)?)?)
    }

    fn attention(&self, x_tw: &Tensor, pass: &Pass) -> Result<Tensor, ModelError> {
        let heads = |linear: &Linear, norm: Option<&RmsNorm>| -> Result<Tensor, ModelError> {
            let x_thd = linear
                .forward(x_tw, pass)?
                .f_view([x_tw.size()[0], -1, self.head_dim])?;
            norm.map_or(Ok(x_thd.shallow_clone()), |norm| norm.forward(&x_thd))
        };
        let q_thd = rotate(&heads(&self.q, self.q_norm.as_ref())?, &pass.cos, &pass.sin)?;
        let k_tkd = rotate(&heads(&self.k, self.k_norm.as_ref())?, &pass.cos, &pass.sin)?;
        let v_tkd = heads(&self.v, None)?;
        let out_thd = pass
            .attention
            .attend(&q_thd, &k_tkd, &v_tkd, &pass.segments)?;
        self.o.forward(&out_thd.f_flatten(1, 2)?, pass)
    }

    /// Returns the block's parameters, in the order of its forward.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        std::iter::once(&self.input_norm.weight)
            .chain(self.q.parameters())
            .chain(self.k.parameters())
            .chain(self.v.parameters())
            .chain(
                self.q_norm
                    .iter()
                    .chain(&self.k_norm)
                    .map(|norm| &norm.weight),
            )
            .chain(self.o.parameters())
            .chain(std::iter::once(&self.post_norm.weight))
            .chain(self.gate.parameters())
            .chain(self.up.parameters())
            .chain(self.down.parameters())
    }

    /// Returns the linear layers, where adapters may sit.
    pub(crate) fn linears(&self) -> [&Linear; 7] {
        [
            &self.q, &self.k, &self.v, &self.o, &self.gate, &self.up, &self.down,
        ]
    }

    /// Returns the linear layers to change.
    pub(crate) fn linears_mut(&mut self) -> [&mut Linear; 7] {
        [
            &mut self.q,
            &mut self.k,
            &mut self.v,
            &mut self.o,
            &mut self.gate,
            &mut self.up,
            &mut self.down,
        ]
    }
}

/// Returns the names and shapes of all tensors that a model has by its configuration.
pub(crate) fn expected_tensors(config: &ModelConfig) -> BTreeMap<String, Vec<i64>> {
    let (hidden, inner, dim) = (
        config.hidden_size,
        config.intermediate_size,
        config.head_dim,
    );
    let (q_width, kv_width) = (config.num_heads * dim, config.num_kv_heads * dim);
    let mut expected = BTreeMap::from([
        (
            "model.embed_tokens.weight".to_owned(),
            vec![config.vocab_size, hidden],
        ),
        ("model.norm.weight".to_owned(), vec![hidden]),
    ]);
    if !config.is_tied {
        expected.insert("lm_head.weight".to_owned(), vec![config.vocab_size, hidden]);
    }
    let linears = [
        ("self_attn.q_proj", q_width, hidden, config.has_qkv_bias),
        ("self_attn.k_proj", kv_width, hidden, config.has_qkv_bias),
        ("self_attn.v_proj", kv_width, hidden, config.has_qkv_bias),
        ("self_attn.o_proj", hidden, q_width, config.has_output_bias),
        ("mlp.gate_proj", inner, hidden, config.has_mlp_bias),
        ("mlp.up_proj", inner, hidden, config.has_mlp_bias),
        ("mlp.down_proj", hidden, inner, config.has_mlp_bias),
    ];
    let mut norms = vec![
        ("input_layernorm", hidden),
        ("post_attention_layernorm", hidden),
    ];
    if config.has_qk_norm {
        norms.extend([("self_attn.q_norm", dim), ("self_attn.k_norm", dim)]);
    }
    for index in 0..config.num_layers {
        for (name, rows, columns, has_bias) in linears {
            expected.insert(
                format!("model.layers.{index}.{name}.weight"),
                vec![rows, columns],
            );
            if has_bias {
                expected.insert(format!("model.layers.{index}.{name}.bias"), vec![rows]);
            }
        }
        for (name, width) in &norms {
            expected.insert(format!("model.layers.{index}.{name}.weight"), vec![*width]);
        }
    }
    expected
}
