//! What must hold to the last digits: the executor against plain autograd, and any split of a step.

use crate::support::{OPTIMIZER, batches, load, load_with_adapter, single};
use tch::{Device, Kind, Tensor};
use trainer_models::{Lora, Model, Precision, Tuning};
use trainer_parallel::{CrossEntropy, MicroBatch, ModelView, Strategy};

/// Returns the largest difference of two tensors.
fn difference(a: &Tensor, b: &Tensor) -> f64 {
    (a - b).abs().max().double_value(&[])
}

/// Runs one graph over the whole model and returns its loss and the parameters with their gradients.
fn plain_autograd(model: &Model, batch: &MicroBatch) -> (f64, Vec<(String, Tensor)>) {
    let pass = model
        .pass(&batch.position_ids, &batch.segment_lengths)
        .expect("a pass");
    let logits = model
        .forward(&batch.input_ids, &pass)
        .expect("logits")
        .index_select(0, &batch.valid_rows);
    let log_probabilities = logits.log_softmax(-1, Kind::Double);
    let loss = -log_probabilities
        .gather(-1, &batch.valid_labels.unsqueeze(-1), false)
        .mean(Kind::Double);
    loss.backward();
    let trainable = model
        .all_parameters()
        .into_iter()
        .filter(|parameter| parameter.is_trainable);
    (
        loss.double_value(&[]),
        trainable
            .map(|parameter| (parameter.name, parameter.tensor.grad()))
            .collect(),
    )
}

#[test]
fn executor_equals_plain_autograd_in_f64() {
    for name in ["tiny-qwen2", "tiny-qwen3", "tiny-llama3"] {
        for recomputes in [false, true] {
            for is_full in [true, false] {
                let make = || {
                    if is_full {
                        load(name, Precision::F64, Tuning::Full)
                    } else {
                        load_with_adapter(name, Precision::F64, "lora_after20")
                    }
                };
                let batch = &batches(name)[0];
                let (loss, gradients) = plain_autograd(&make(), batch);
                let mut strategy = single(make(), OPTIMIZER, recomputes);
                let sums = strategy
                    .accumulate(1, std::slice::from_ref(batch), &CrossEntropy::default())
                    .expect("a step");
                assert!(
                    (sums.mean() - loss).abs() < 1e-12,
                    "{name}: {} for {loss}",
                    sums.mean()
                );
                assert!(!gradients.is_empty());
                for (parameter, expected) in gradients {
                    let found = strategy.gradient(&parameter).expect("a gradient");
                    let difference = difference(found, &expected);
                    assert!(difference < 1e-12, "{name} {parameter}: {difference}");
                }
            }
        }
    }
}

/// Cuts a batch into one batch a segment.
fn split(batch: &MicroBatch) -> Vec<MicroBatch> {
    let ids = Vec::<i64>::try_from(&batch.input_ids).expect("ids");
    let positions = Vec::<i64>::try_from(&batch.position_ids).expect("positions");
    let mut labels = vec![-100; ids.len()];
    let rows = Vec::<i64>::try_from(&batch.valid_rows).expect("rows");
    for (row, label) in rows
        .iter()
        .zip(Vec::<i64>::try_from(&batch.valid_labels).expect("labels"))
    {
        labels[usize::try_from(*row).expect("a row")] = label;
    }
    let mut start = 0;
    let mut parts = Vec::new();
    for length in &batch.segment_lengths {
        let end = start + usize::try_from(*length).expect("a length");
        let part = MicroBatch::new(
            &ids[start..end],
            &labels[start..end],
            &positions[start..end],
            &[*length],
            -100,
            Device::Cpu,
        );
        parts.push(part.expect("a batch"));
        start = end;
    }
    parts
}

#[test]
fn any_split_of_a_step_gives_the_same_gradients() {
    let name = "tiny-qwen3";
    let whole = &batches(name)[0];
    let mut parts = split(whole);
    assert_ne!(
        parts[0].num_valid_tokens, parts[1].num_valid_tokens,
        "uneven parts tell means of means from one mean"
    );
    let mut one = single(load(name, Precision::F64, Tuning::Full), OPTIMIZER, false);
    let mut two = single(load(name, Precision::F64, Tuning::Full), OPTIMIZER, false);
    let empty = MicroBatch::new(&[], &[], &[], &[], -100, Device::Cpu).expect("an empty batch");
    parts.push(empty);
    let sums = one
        .accumulate(1, std::slice::from_ref(whole), &CrossEntropy::default())
        .expect("a step");
    let split_sums = two
        .accumulate(1, &parts, &CrossEntropy::default())
        .expect("a step");
    assert!((sums.mean() - split_sums.mean()).abs() < 1e-12);
    for parameter in one.model().all_parameters() {
        let (a, b) = (
            one.gradient(&parameter.name).expect("a"),
            two.gradient(&parameter.name).expect("b"),
        );
        assert!(difference(a, b) < 1e-12, "{}", parameter.name);
    }
}

#[test]
fn dropout_is_the_same_with_recomputation() {
    let name = "tiny-qwen2";
    let make = |recomputes| {
        let lora = Lora {
            dropout: 0.3,
            ..Lora::new(4, 7)
        };
        single(
            load(name, Precision::F64, Tuning::Lora(lora)),
            OPTIMIZER,
            recomputes,
        )
    };
    let batch = &batches(name)[1];
    let (mut kept, mut recomputed) = (make(false), make(true));
    let run = |strategy: &mut trainer_parallel::Single, step| {
        let sums = strategy
            .accumulate(step, std::slice::from_ref(batch), &CrossEntropy::default())
            .expect("a step");
        (
            sums.loss.to_bits(),
            strategy.clip_grad_norm(0.0).expect("a norm").to_bits(),
        )
    };
    let first = run(&mut kept, 1);
    assert_eq!(first, run(&mut recomputed, 1));
    kept.skip();
    assert_ne!(
        first.1,
        run(&mut kept, 2).1,
        "another step drops other elements"
    );
    kept.skip();
    assert_eq!(first, run(&mut kept, 1));
}

#[test]
fn evaluation_counts_and_can_leave_the_adapter_out() {
    let name = "tiny-qwen2";
    let batch = &batches(name)[0];
    let trained = single(
        load_with_adapter(name, Precision::F64, "lora_after20"),
        OPTIMIZER,
        false,
    );
    let base = single(load(name, Precision::F64, Tuning::Frozen), OPTIMIZER, false);
    let objective = CrossEntropy {
        counts_correct: true,
    };
    let with = trained
        .evaluate(batch, &objective, ModelView::Trained)
        .expect("sums");
    let without = trained
        .evaluate(batch, &objective, ModelView::Base)
        .expect("sums");
    let plain = base
        .evaluate(batch, &objective, ModelView::Trained)
        .expect("sums");
    assert!((without.loss - plain.loss).abs() < 1e-10 && (with.loss - plain.loss).abs() > 1.0);
    assert!(
        with.num_correct >= plain.num_correct
            && (with.weight - batch.num_valid_tokens as f64).abs() < 1e-9
    );
}
