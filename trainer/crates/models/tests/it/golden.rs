//! Logits, losses and gradients of the reference library.

use tch::{Kind, Tensor};
use trainer_models::{Attention, Model, ModelError, Precision, RopeScaling, Tuning, read_config};
use trainer_torch_ext::{backward, grad};

use crate::support::{Batch, MODELS, folder, json, load, max_difference, numeric, options};

#[test]
fn logits_and_loss_equal_the_reference() {
    for name in MODELS {
        let model = load(name, Tuning::Frozen);
        let (batch, tensors) = Batch::forward(name);
        let expected = tensors["logits"].flatten(0, 1).index_select(0, &batch.real);
        let difference = max_difference(&batch.logits(&model), &expected);
        let loss = batch.loss(&model).double_value(&[]);
        let expected = json(&numeric(name, "forward.json"))["sft_loss"]
            .as_f64()
            .unwrap();
        println!(
            "{name}: logits {difference:.1e}, loss {:.1e}",
            (loss - expected).abs()
        );
        assert!(difference < 1e-4 && (loss - expected).abs() < 1e-4);
    }
}

#[test]
fn gradient_norms_equal_the_reference() {
    for name in MODELS {
        let model = load(name, Tuning::Full);
        let (batch, _) = Batch::forward(name);
        let loss = batch.loss(&model);
        backward(&[&loss], &[&loss.ones_like()], false).unwrap();
        let expected = json(&numeric(name, "forward.json"));
        let norms = expected["grad_norm_per_parameter"].as_object().unwrap();
        let parameters = model.all_parameters();
        assert_eq!(parameters.len(), norms.len());
        let mut worst = 0.0_f64;
        for parameter in &parameters {
            let norm = parameter.tensor.grad().norm().double_value(&[]);
            let expected = norms[&parameter.name].as_f64().unwrap();
            worst = worst.max((norm - expected).abs() / expected);
            assert!(
                (norm - expected).abs() < 1e-3 * expected,
                "{name} {}: {norm} {expected}",
                parameter.name
            );
        }
        println!("{name}: gradient norms {worst:.1e} relative");
    }
}

/// Cuts the graph at every block, as an executor does, and compares with one backward over everything.
#[test]
fn unit_by_unit_equals_the_whole_in_float64() {
    for name in MODELS {
        let whole = Model::load(&folder(name), &options(Precision::F64, Tuning::Full)).unwrap();
        let (batch, _) = Batch::forward(name);
        let loss = batch.loss(&whole);
        backward(&[&loss], &[&loss.ones_like()], false).unwrap();

        let model = Model::load(&folder(name), &options(Precision::F64, Tuning::Full)).unwrap();
        let pass = batch.pass(&model);
        let embedded = model.embed(&batch.ids).unwrap();
        let mut inputs = vec![embedded.detach().set_requires_grad(true)];
        let mut outputs = Vec::new();
        for index in 0..model.num_blocks() {
            let out = model.block(index, &inputs[index], &pass).unwrap();
            inputs.push(out.detach().set_requires_grad(true));
            outputs.push(out);
        }
        let rows = batch.labels.not_equal(-100).nonzero().view([-1]);
        let logits = model
            .head(&inputs[model.num_blocks()].index_select(0, &rows))
            .unwrap();
        let loss = logits
            .log_softmax(-1, Kind::Double)
            .nll_loss(&batch.labels.index_select(0, &rows));
        backward(&[&loss], &[&loss.ones_like()], false).unwrap();
        for index in (0..model.num_blocks()).rev() {
            backward(&[&outputs[index]], &[&inputs[index + 1].grad()], false).unwrap();
        }
        backward(&[&embedded], &[&inputs[0].grad()], false).unwrap();
        for (a, b) in model.all_parameters().iter().zip(whole.all_parameters()) {
            assert!(
                max_difference(&a.tensor.grad(), &b.tensor.grad()) < 1e-12,
                "{}",
                a.name
            );
        }
    }
}

#[test]
fn bfloat16_stays_near_float32() {
    for name in MODELS {
        let (batch, _) = Batch::forward(name);
        let exact = batch.loss(&load(name, Tuning::Frozen)).double_value(&[]);
        for (precision, tuning) in [
            (Precision::Bf16, Tuning::Full),
            (Precision::PureBf16, Tuning::Full),
        ] {
            let model = Model::load(&folder(name), &options(precision, tuning)).unwrap();
            let loss = batch.loss(&model);
            assert!(
                (loss.double_value(&[]) - exact).abs() < 0.05,
                "{name} {precision:?}: {loss:?} {exact}"
            );
            let embedding = &model.parameters(trainer_models::Unit::Embed)[0].tensor;
            let found = grad(&[&loss], &[&loss.ones_like()], &[embedding], false).unwrap();
            let kind = if precision == Precision::Bf16 {
                Kind::Float
            } else {
                Kind::BFloat16
            };
            assert_eq!(found[0].as_ref().unwrap().kind(), kind);
        }
    }
}

#[test]
fn segments_do_not_see_each_other() {
    let model = load("tiny-llama3", Tuning::Frozen);
    let ids = Tensor::from_slice(&[5_i64, 6, 7, 8, 9, 10, 11, 12]);
    let positions = Tensor::from_slice(&[0_i64, 1, 2, 0, 1, 2, 3, 4]);
    let together = model
        .forward(&ids, &model.pass(&positions, &[3, 5]).unwrap())
        .unwrap();
    let alone = |begin: i64, length: i64| {
        let pass = model
            .pass(&positions.narrow(0, begin, length), &[length])
            .unwrap();
        model.forward(&ids.narrow(0, begin, length), &pass).unwrap()
    };
    assert!(max_difference(&together, &Tensor::cat(&[alone(0, 3), alone(3, 5)], 0)) < 1e-5);
    assert!(matches!(
        model.pass(&positions, &[3, 4]),
        Err(ModelError::Batch(_))
    ));
}

/// An attention in the seam that counts its calls.
struct Counting(std::cell::Cell<usize>);

impl Attention for Counting {
    fn attend(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        segments: &[i64],
    ) -> Result<Tensor, ModelError> {
        self.0.set(self.0.get() + 1);
        trainer_models::FusedAttention.attend(q, k, v, segments)
    }
}

#[test]
fn attention_is_a_seam() {
    let model = load("tiny-qwen3", Tuning::Frozen);
    let (batch, _) = Batch::forward("tiny-qwen3");
    let counting = Counting(std::cell::Cell::new(0));
    let pass = batch.pass(&model).with_attention(&counting);
    let logits = model.forward(&batch.ids, &pass).unwrap();
    assert_eq!(counting.0.get(), model.num_blocks());
    assert!(max_difference(&logits, &batch.logits(&model)) < 1e-12);
}

#[test]
fn configurations_of_both_styles_are_read() {
    let qwen3 = read_config(&folder("tiny-qwen3")).unwrap();
    assert_eq!(
        (
            qwen3.head_dim,
            qwen3.num_heads,
            qwen3.rope_theta,
            qwen3.has_qk_norm
        ),
        (32, 4, 1e6, true)
    );
    let qwen2 = read_config(&folder("tiny-qwen2")).unwrap();
    assert_eq!(
        (
            qwen2.head_dim,
            qwen2.has_qkv_bias,
            qwen2.has_output_bias,
            qwen2.is_tied
        ),
        (16, true, false, true)
    );
    let llama3 = read_config(&folder("tiny-llama3")).unwrap();
    assert!(matches!(
        llama3.rope_scaling,
        RopeScaling::Llama3 {
            factor: 8.0,
            original_length: 64.0,
            ..
        }
    ));
}

/// A stretch by two at even positions is no stretch at half of them; without scaling this is a Llama 2.
#[test]
fn linear_scaling_halves_positions() {
    let logits = |scaling: serde_json::Value, step: i64| {
        let copy = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(folder("tiny-llama3")).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
        let path = copy.path().join("config.json");
        let mut config = json(&path);
        config["rope_scaling"] = scaling;
        std::fs::write(path, config.to_string()).unwrap();
        let model = Model::load(copy.path(), &options(Precision::F32, Tuning::Frozen)).unwrap();
        let ids = Tensor::from_slice(&[5_i64, 6, 7, 8]);
        let positions = Tensor::from_slice(&[0, step, 2 * step, 3 * step]);
        model
            .forward(&ids, &model.pass(&positions, &[4]).unwrap())
            .unwrap()
    };
    let plain = logits(serde_json::Value::Null, 1);
    let linear = serde_json::json!({"type": "linear", "factor": 2.0});
    assert!(max_difference(&plain, &logits(linear, 2)) < 1e-5);
    let yarn = serde_json::json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64});
    assert!(max_difference(&plain, &logits(yarn, 1)) > 1e-3);
}
