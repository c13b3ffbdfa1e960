//! Twenty steps of AdamW beside the reference's losses and gradient norms.

use crate::support::{OPTIMIZER, batches, load, load_with_adapter, reference, single};
use trainer_models::{Precision, Tuning};
use trainer_parallel::{CrossEntropy, OptimizerOptions, Single, Strategy};

const MODELS: [&str; 3] = ["tiny-qwen2", "tiny-qwen3", "tiny-llama3"];

/// Runs the steps of `expected` and compares; returns the largest differences of loss and, relative, of norm.
fn follow(
    strategy: &mut Single,
    name: &str,
    expected: &serde_json::Value,
    accumulation: usize,
    max_norm: f64,
) -> (f64, f64) {
    let batches = batches(name);
    let mut largest = (0.0_f64, 0.0_f64);
    for (index, step) in expected["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .enumerate()
    {
        let wanted = |key: &str| step[key].as_f64().expect("a number");
        let micro: Vec<usize> = (0..accumulation)
            .map(|part| (index * accumulation + part) % batches.len())
            .collect();
        let step_batches: Vec<_> = micro.iter().map(|index| copy(&batches[*index])).collect();
        let sums = strategy
            .accumulate(index as u64, &step_batches, &CrossEntropy::default())
            .expect("a step");
        let norm = strategy.clip_grad_norm(max_norm).expect("a norm");
        strategy
            .update(&[wanted("lr"), wanted("lr")])
            .expect("an update");
        let loss_difference = (sums.mean() - wanted("loss")).abs();
        let norm_difference = (norm / wanted("grad_norm") - 1.0).abs();
        assert!(
            loss_difference < 1e-4,
            "{name} step {index}: loss {} for {}",
            sums.mean(),
            wanted("loss")
        );
        assert!(
            norm_difference < 1e-3,
            "{name} step {index}: norm {norm} for {}",
            wanted("grad_norm")
        );
        largest = (
            largest.0.max(loss_difference),
            largest.1.max(norm_difference),
        );
    }
    largest
}

fn copy(batch: &trainer_parallel::MicroBatch) -> trainer_parallel::MicroBatch {
    trainer_parallel::MicroBatch {
        input_ids: batch.input_ids.shallow_clone(),
        position_ids: batch.position_ids.shallow_clone(),
        segment_lengths: batch.segment_lengths.clone(),
        valid_rows: batch.valid_rows.shallow_clone(),
        valid_labels: batch.valid_labels.shallow_clone(),
        num_valid_tokens: batch.num_valid_tokens,
    }
}

#[test]
fn full_tuning_follows_the_reference() {
    for name in MODELS {
        for recomputes in [false, true] {
            let mut strategy = single(
                load(name, Precision::F32, Tuning::Full),
                OPTIMIZER,
                recomputes,
            );
            let largest = follow(
                &mut strategy,
                name,
                &reference(name, "train_full.json")["plain"],
                1,
                0.0,
            );
            println!(
                "{name} full, recomputed {recomputes}: loss {:.1e}, norm {:.1e}",
                largest.0, largest.1
            );
        }
    }
}

#[test]
fn clipping_decay_cosine_and_accumulation_follow_the_reference() {
    for name in MODELS {
        let optimizer = OptimizerOptions {
            weight_decay: 0.1,
            ..OPTIMIZER
        };
        let mut strategy = single(load(name, Precision::F32, Tuning::Full), optimizer, false);
        let expected = &reference(name, "train_full.json")["clip_decay_cosine_accum2"];
        let largest = follow(&mut strategy, name, expected, 2, 1.0);
        println!(
            "{name} clipped: loss {:.1e}, norm {:.1e}",
            largest.0, largest.1
        );
    }
}

#[test]
fn adapters_follow_the_reference() {
    for name in MODELS {
        for (kind, adapter) in [("lora", "lora_init"), ("rslora", "rslora_init")] {
            let expected = &reference(name, "train_lora.json")[kind];
            if expected.is_null() {
                continue;
            }
            let mut strategy = single(
                load_with_adapter(name, Precision::F32, adapter),
                OPTIMIZER,
                false,
            );
            let num_trainable = strategy.model().num_parameters().0;
            assert_eq!(
                Some(num_trainable as u64),
                expected["trainable_parameters"].as_u64()
            );
            let largest = follow(&mut strategy, name, expected, 1, 0.0);
            println!(
                "{name} {kind}: loss {:.1e}, norm {:.1e}",
                largest.0, largest.1
            );
        }
    }
}
