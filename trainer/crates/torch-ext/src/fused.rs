//! Differentiable operations of decoder blocks as one kernel each, where libtorch takes several passes.

use std::ptr;

use tch::Tensor;

use crate::{
    TorchError,
    ffi::{
        ext_attention, ext_cross_entropy, ext_lora_linear, ext_rms_norm, ext_rotate, ext_swiglu,
        make, pointer,
    },
};

/// Returns `x / sqrt(mean(x^2) + eps) * weight` over the last dim.
///
/// Computes in at least f32 and returns the type of `x`. Gradients of `x` and `weight`.
pub fn rms_norm(x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor, TorchError> {
    // SAFETY: both tensors live; the shim checks shapes and types.
    make("rms_norm", |out, error| unsafe {
        ext_rms_norm(pointer(x), pointer(weight), eps, out, error)
    })
}

/// Rotates the two halves of each head by its position's angles (rotary position embedding).
///
/// `x` is `[tokens, heads, head_dim]`; `cos` and `sin` are `[tokens, head_dim / 2]`, f32 (f64 for f64). Gradient of `x`.
pub fn rotate(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor, TorchError> {
    // SAFETY: the tensors live; the shim checks shapes and types.
    make("rotate", |out, error| unsafe {
        ext_rotate(pointer(x), pointer(cos), pointer(sin), out, error)
    })
}

/// Returns `silu(gate) * up`. Gradients of both.
pub fn swiglu(gate: &Tensor, up: &Tensor) -> Result<Tensor, TorchError> {
    // SAFETY: both tensors live; the shim checks shapes and types.
    make("swiglu", |out, error| unsafe {
        ext_swiglu(pointer(gate), pointer(up), out, error)
    })
}

/// Returns the cross-entropy of each row of `logits` `[rows, vocabulary]` with its label, in at least f32.
///
/// `labels` are int64; a negative one (ignored) gives 0 and no gradient. Gradient of `logits`, in their type.
pub fn cross_entropy(logits: &Tensor, labels: &Tensor) -> Result<Tensor, TorchError> {
    // SAFETY: both tensors live; the shim checks shapes, types and that every label is below the vocabulary.
    make("cross_entropy", |out, error| unsafe {
        ext_cross_entropy(pointer(logits), pointer(labels), out, error)
    })
}

/// Returns causal attention within each segment.
///
/// `q` is `[tokens, heads, head_dim]`, `k` and `v` are `[tokens, kv_heads, head_dim]`, and the segments' lengths sum to
/// `tokens`. Scores are kept in blocks only. Gradients of all three.
pub fn attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    segments: &[i64],
) -> Result<Tensor, TorchError> {
    // SAFETY: the tensors live, `segments` is as long as said; the shim checks shapes and types.
    make("attention", |out, error| unsafe {
        ext_attention(
            pointer(q),
            pointer(k),
            pointer(v),
            segments.as_ptr(),
            segments.len(),
            out,
            error,
        )
    })
}

/// Returns `x W^T + bias + scaling * x A^T B^T` for a frozen weight `[o, i]` and bias.
///
/// `x` is `[tokens, i]`; A `[rank, i]` and B `[o, rank]` are cast to its type. Gradients of `x`, A and B.
pub fn lora_linear(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    (a, b): (&Tensor, &Tensor),
    scaling: f64,
) -> Result<Tensor, TorchError> {
    let bias = bias.map_or(ptr::null_mut(), pointer);
    // SAFETY: the tensors live, a null bias means none; the shim checks that the weight is frozen, libtorch the shapes.
    make("lora_linear", |out, error| unsafe {
        ext_lora_linear(
            pointer(x),
            pointer(weight),
            bias,
            pointer(a),
            pointer(b),
            scaling,
            out,
            error,
        )
    })
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;
    use crate::grad;

    const F64: (Kind, Device) = (Kind::Double, Device::Cpu);

    fn random(shape: &[i64], seed: u64) -> Tensor {
        let mut tensor = Tensor::zeros(shape, F64);
        crate::fill_uniform(&mut tensor, -2.0, 2.0, seed).unwrap();
        tensor
    }

    fn leaves(tensors: &[Tensor], kind: Kind) -> Vec<Tensor> {
        tensors
            .iter()
            .map(|tensor| tensor.to_kind(kind).detach().copy().set_requires_grad(true))
            .collect()
    }

    /// Compares value and gradients of `fused` in f64, f32 and bf16 with `composed` in f64.
    fn compare(
        inputs: &[Tensor],
        fused: impl Fn(&[Tensor]) -> Tensor,
        composed: impl Fn(&[Tensor]) -> Tensor,
    ) {
        let exact = leaves(inputs, Kind::Double);
        let expected = composed(&exact);
        let seed_grad = random(&expected.size(), 99);
        let all = |leaves: &[Tensor], out: &Tensor, g: &Tensor| {
            grad(&[out], &[g], &leaves.iter().collect::<Vec<_>>(), false).unwrap()
        };
        let expected_grads = all(&exact, &expected, &seed_grad);
        for (kind, tolerance) in [
            (Kind::Double, 1e-12),
            (Kind::Float, 2e-5),
            (Kind::BFloat16, 0.05),
        ] {
            let own = leaves(inputs, kind);
            let out = fused(&own);
            assert_eq!(out.kind(), kind);
            let grads = all(&own, &out, &seed_grad.to_kind(kind));
            let pairs = std::iter::once((out.detach(), expected.detach())).chain(
                grads
                    .into_iter()
                    .zip(&expected_grads)
                    .map(|(a, b)| (a.unwrap(), b.as_ref().unwrap().shallow_clone())),
            );
            for (found, wanted) in pairs {
                let scale = wanted.abs().max().double_value(&[]).max(1.0);
                let error = (found.to_kind(Kind::Double) - wanted)
                    .abs()
                    .max()
                    .double_value(&[])
                    / scale;
                assert!(error < tolerance, "{kind:?}: {error}");
            }
        }
    }

    #[test]
    fn rms_norm_equals_its_formula() {
        for shape in [vec![3, 37], vec![300, 576], vec![5, 3, 16]] {
            let n = *shape.last().unwrap();
            compare(
                &[random(&shape, 1), random(&[n], 2)],
                |t| rms_norm(&t[0], &t[1], 1e-5).unwrap(),
                |t| {
                    let mean = t[0]
                        .square()
                        .mean_dim([-1_i64].as_slice(), true, Kind::Double);
                    &t[0] * (mean + 1e-5).rsqrt() * &t[1]
                },
            );
        }
    }

    #[test]
    fn swiglu_equals_its_formula() {
        compare(
            &[random(&[200, 129], 3) * 4.0, random(&[200, 129], 4)],
            |t| swiglu(&t[0], &t[1]).unwrap(),
            |t| t[0].silu() * &t[1],
        );
    }

    #[test]
    fn rotate_equals_its_formula() {
        let angles = random(&[70, 8], 5);
        let (cos, sin) = (angles.cos(), angles.sin());
        compare(
            &[random(&[70, 3, 16], 6)],
            |t| {
                let kind = if t[0].kind() == Kind::Double {
                    Kind::Double
                } else {
                    Kind::Float
                };
                rotate(&t[0], &cos.to_kind(kind), &sin.to_kind(kind)).unwrap()
            },
            |t| {
                let halves = t[0].chunk(2, -1);
                let (cos, sin) = (cos.unsqueeze(1), sin.unsqueeze(1));
                Tensor::cat(
                    &[
                        &halves[0] * &cos - &halves[1] * &sin,
                        &halves[1] * &cos + &halves[0] * &sin,
                    ],
                    -1,
                )
            },
        );
    }

    #[test]
    fn cross_entropy_equals_its_formula() {
        for (rows, vocabulary) in [(5, 7), (40, 2016), (3, 1000)] {
            let labels = Tensor::arange(rows, (Kind::Int64, Device::Cpu)).remainder(vocabulary);
            compare(
                &[random(&[rows, vocabulary], 7) * 3.0],
                |t| {
                    let loss = cross_entropy(&t[0], &labels).unwrap();
                    assert_eq!(
                        loss.kind(),
                        if t[0].kind() == Kind::Double {
                            Kind::Double
                        } else {
                            Kind::Float
                        }
                    );
                    loss.to_kind(t[0].kind())
                },
                |t| {
                    let wanted =
                        t[0].log_softmax(-1, Kind::Double)
                            .gather(1, &labels.unsqueeze(1), false);
                    -wanted.squeeze_dim(1)
                },
            );
        }
        let logits = random(&[3, 40], 1).set_requires_grad(true);
        let loss = cross_entropy(&logits, &Tensor::from_slice(&[1_i64, -100, 2])).unwrap();
        assert!(loss.double_value(&[1]).abs() < 1e-12);
        let found = grad(&[&loss], &[&loss.ones_like()], &[&logits], false).unwrap();
        assert!(
            found[0]
                .as_ref()
                .unwrap()
                .get(1)
                .abs()
                .max()
                .double_value(&[])
                < 1e-12
        );
        assert!(cross_entropy(&logits, &Tensor::from_slice(&[1_i64, 40, 2])).is_err());
    }

    #[test]
    fn attention_equals_its_formula() {
        for (segments, heads, kv_heads, dim) in [
            (vec![17_i64], 4, 2, 24),
            (vec![256, 256], 9, 3, 64),
            (vec![1, 130, 63, 200], 2, 2, 40),
            (vec![90], 3, 1, 128),
        ] {
            let tokens: i64 = segments.iter().sum();
            compare(
                &[
                    random(&[tokens, heads, dim], 1),
                    random(&[tokens, kv_heads, dim], 2),
                    random(&[tokens, kv_heads, dim], 3),
                ],
                |t| attention(&t[0], &t[1], &t[2], &segments).unwrap(),
                |t| {
                    let mut begin = 0;
                    let outs: Vec<Tensor> = (segments.iter())
                        .map(|&length| {
                            let lift = |x: &Tensor| {
                                let repeats = heads / x.size()[1];
                                let x = x.narrow(0, begin, length).transpose(0, 1);
                                x.repeat_interleave_self_int(repeats, 0, None)
                            };
                            let (q, k, v) = (lift(&t[0]), lift(&t[1]), lift(&t[2]));
                            begin += length;
                            let scores = q.matmul(&k.transpose(1, 2)) / (dim as f64).sqrt();
                            let future =
                                Tensor::ones([length, length], (Kind::Bool, Device::Cpu)).triu(1);
                            let weights = scores
                                .masked_fill(&future, f64::NEG_INFINITY)
                                .softmax(-1, Kind::Double);
                            weights.matmul(&v).transpose(0, 1)
                        })
                        .collect();
                    Tensor::cat(&outs, 0)
                },
            );
        }
    }

    #[test]
    fn lora_linear_equals_its_formula() {
        let (weight, bias) = (random(&[24, 48], 4), random(&[24], 5));
        compare(
            &[
                random(&[30, 48], 1),
                random(&[8, 48], 2),
                random(&[24, 8], 3),
            ],
            |t| {
                let kind = t[0].kind();
                let (weight, bias) = (weight.to_kind(kind), bias.to_kind(kind));
                lora_linear(&t[0], &weight, Some(&bias), (&t[1], &t[2]), 2.0).unwrap()
            },
            |t| {
                t[0].linear(&weight, Some(&bias)) + t[0].matmul(&t[1].tr()).matmul(&t[2].tr()) * 2.0
            },
        );
        let trained = random(&[24, 48], 6).set_requires_grad(true);
        let (x, a, b) = (
            random(&[2, 48], 1),
            random(&[8, 48], 2),
            random(&[24, 8], 3),
        );
        assert!(lora_linear(&x, &trained, None, (&a, &b), 1.0).is_err());
    }

    #[test]
    fn extremes_stay_what_they_are() {
        let gate = Tensor::from_slice(&[f32::NAN, -1e30, 1e30, -200.0, 0.0]);
        let out = Vec::<f32>::try_from(swiglu(&gate, &gate.ones_like()).unwrap()).unwrap();
        assert!(
            out[0].is_nan() && out[1..] == [-0.0, 1e30, -0.0, 0.0] || out[1].abs() < 1e-6,
            "{out:?}"
        );
        let nan = Tensor::from_slice(&[f32::NAN, 1.0]).to_kind(Kind::BFloat16);
        assert!(
            rms_norm(&nan, &nan.ones_like(), 1e-6)
                .unwrap()
                .to_kind(Kind::Float)
                .isnan()
                .any()
                .int64_value(&[])
                == 1
        );
    }

    #[test]
    fn wrong_shapes_are_errors() {
        let x = random(&[4, 6], 7);
        assert!(rms_norm(&x, &random(&[5], 8), 1e-6).is_err());
        assert!(swiglu(&x, &random(&[4, 5], 9)).is_err());
        assert!(rotate(&x, &x, &x).is_err());
        let q = random(&[4, 2, 6], 1);
        assert!(attention(&q, &q, &q, &[3]).is_err() && attention(&q, &q, &q, &[5, -1]).is_err());
    }
}
