//! What the tests of the strategies share: fixtures, batches, reference numbers.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tch::{Device, Tensor};
use trainer_models::weights::Safetensors;
use trainer_models::{LoadOptions, Lora, Model, Precision, Tuning};
use trainer_parallel::{MicroBatch, OptimizerOptions, RunOptions, Single};

/// The optimizer of the reference runs.
pub(crate) const OPTIMIZER: OptimizerOptions = OptimizerOptions {
    beta1: 0.9,
    beta2: 0.999,
    eps: 1e-8,
    weight_decay: 0.0,
};

/// Returns the folder of the project's fixtures.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// Loads a tiny model.
pub(crate) fn load(name: &str, precision: Precision, tuning: Tuning) -> Model {
    let options = LoadOptions {
        precision,
        tuning,
        device: Device::Cpu,
    };
    Model::load(&fixtures().join("models").join(name), &options).expect("the fixture loads")
}

/// Loads a tiny model with the adapter that the reference run began with.
pub(crate) fn load_with_adapter(name: &str, precision: Precision, adapter: &str) -> Model {
    let folder = fixtures().join("numeric").join(name).join(adapter);
    load(
        name,
        precision,
        Tuning::Lora(Lora {
            adapters: vec![folder],
            ..Lora::new(8, 42)
        }),
    )
}

/// Makes the strategy under test.
pub(crate) fn single(
    model: Model,
    optimizer: OptimizerOptions,
    activation_checkpointing: bool,
) -> Single {
    Single::new(
        model,
        optimizer,
        RunOptions {
            activation_checkpointing,
            seed: 42,
        },
    )
    .expect("the strategy is made")
}

/// Reads a reference file of a model.
pub(crate) fn reference(name: &str, file: &str) -> Value {
    let text =
        fs::read(fixtures().join("numeric").join(name).join(file)).expect("the reference is there");
    serde_json::from_slice(&text).expect("the reference is JSON")
}

/// Returns the five batches of a model's training reference.
pub(crate) fn batches(name: &str) -> Vec<MicroBatch> {
    let path = fixtures()
        .join("numeric")
        .join(name)
        .join("train_batches.safetensors");
    let file = Safetensors::open(&path).expect("the batches are there");
    (0..5)
        .map(|index| {
            let read = |part: &str| {
                file.read(&format!("{index}.{part}"))
                    .expect("the tensor is there")
            };
            from_padded(&read("input_ids"), &read("attention_mask"), &read("labels"))
        })
        .collect()
}

/// Takes the padding out of a rectangular batch and shifts its labels.
pub(crate) fn from_padded(ids: &Tensor, mask: &Tensor, labels: &Tensor) -> MicroBatch {
    let rows = |tensor: &Tensor| Vec::<Vec<i64>>::try_from(tensor).expect("a matrix of integers");
    let (mut all_ids, mut all_labels, mut positions, mut segments) =
        (vec![], vec![], vec![], vec![]);
    for ((ids, mask), labels) in rows(ids).into_iter().zip(rows(mask)).zip(rows(labels)) {
        let length = mask.iter().filter(|one| **one == 1).count();
        all_ids.extend(&ids[..length]);
        all_labels.extend(&labels[1..length]);
        all_labels.push(-100);
        positions.extend((0_i64..).take(length));
        segments.push(i64::try_from(length).expect("a length fits"));
    }
    MicroBatch::new(
        &all_ids,
        &all_labels,
        &positions,
        &segments,
        -100,
        Device::Cpu,
    )
    .expect("a batch")
}
