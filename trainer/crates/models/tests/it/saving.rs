//! Saved folders reload equal, single or in shards, and nothing half-written is left.

use std::{collections::BTreeMap, fs};

use tch::{Device, Kind, Tensor};
use trainer_models::{Model, Precision, Tuning, copy_companions, weights};

use crate::support::{
    Batch, MODELS, adapter, folder, json, load, max_difference, numeric, options,
};

#[test]
fn saved_model_reloads_equal() {
    for name in MODELS {
        let model = load(name, Tuning::Full);
        let saved = tempfile::tempdir().unwrap();
        model.save(saved.path(), None).unwrap();
        let reloaded = Model::load(saved.path(), &options(Precision::F32, Tuning::Full)).unwrap();
        let (batch, _) = Batch::forward(name);
        assert_eq!(batch.logits(&model), batch.logits(&reloaded));
        for file in [
            "tokenizer.json",
            "tokenizer_config.json",
            "generation_config.json",
            "config.json",
        ] {
            assert!(saved.path().join(file).is_file(), "{file}");
        }
        let has_head = weights::read_all(&saved.path().join("model.safetensors"))
            .unwrap()
            .contains_key("lm_head.weight");
        assert_eq!(has_head, !model.is_tied());
        assert!(fs::read_dir(saved.path()).unwrap().all(|entry| {
            !entry
                .unwrap()
                .file_name()
                .to_string_lossy()
                .ends_with(".partial")
        }));
    }
}

#[test]
fn shards_reload_equal_and_replace_a_single_file() {
    let model = load("tiny-llama3", Tuning::Full);
    let saved = tempfile::tempdir().unwrap();
    model.save(saved.path(), None).unwrap();
    model.save_sharded(saved.path(), None, 1_500_000).unwrap();
    assert!(!saved.path().join("model.safetensors").exists());
    let index = json(&saved.path().join("model.safetensors.index.json"));
    assert_eq!(
        index["weight_map"]["lm_head.weight"],
        "model-00001-of-00002.safetensors"
    );
    let reloaded = Model::load(saved.path(), &options(Precision::F32, Tuning::Frozen)).unwrap();
    let (batch, _) = Batch::forward("tiny-llama3");
    assert_eq!(batch.logits(&model), batch.logits(&reloaded));
    fs::remove_file(saved.path().join("model-00002-of-00002.safetensors")).unwrap();
    let error = Model::load(saved.path(), &options(Precision::F32, Tuning::Frozen)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("model-00002-of-00002.safetensors"),
        "{error}"
    );
}

#[test]
fn weights_are_converted_when_saved_and_when_read() {
    for (kind, name) in [(Kind::BFloat16, "bfloat16"), (Kind::Half, "float16")] {
        let model = load("tiny-qwen3", Tuning::Full);
        let saved = tempfile::tempdir().unwrap();
        model.save(saved.path(), Some(kind)).unwrap();
        assert_eq!(json(&saved.path().join("config.json"))["dtype"], name);
        let reloaded = Model::load(saved.path(), &options(Precision::F32, Tuning::Frozen)).unwrap();
        let (batch, _) = Batch::forward("tiny-qwen3");
        let difference = max_difference(&batch.logits(&model), &batch.logits(&reloaded));
        assert!(difference > 0.0 && difference < 0.2, "{difference}");
    }
}

#[test]
fn restore_fills_trained_parameters_in_place() {
    let name = "tiny-qwen3";
    let (batch, _) = Batch::forward(name);
    let trained = load(name, adapter(name, "lora_after20"));
    let mut model = load(name, adapter(name, "lora_init"));
    let handle = model
        .all_parameters()
        .into_iter()
        .find(|p| p.is_trainable)
        .unwrap()
        .tensor;
    model.restore(&numeric(name, "lora_after20")).unwrap();
    assert_eq!(batch.logits(&model), batch.logits(&trained));
    let first = trained
        .all_parameters()
        .into_iter()
        .find(|p| p.is_trainable)
        .unwrap()
        .tensor;
    assert_eq!(handle, first);
    let mut full = load(name, Tuning::Full);
    for parameter in full.all_parameters() {
        drop(tch::no_grad(|| parameter.tensor.shallow_clone().zero_()));
    }
    full.restore(&folder(name)).unwrap();
    assert_eq!(batch.logits(&full), batch.logits(&load(name, Tuning::Full)));
}

#[test]
fn companions_come_from_the_folder_named_as_far_as_it_has_them() {
    let [from, to] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    fs::write(from.path().join("generation_config.json"), "{}").unwrap();
    fs::write(from.path().join("config.json"), "{}").unwrap();
    copy_companions(from.path(), to.path()).unwrap();
    let names: Vec<_> = fs::read_dir(to.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["generation_config.json"]);
}

#[test]
fn failed_write_keeps_the_old_file() {
    let saved = tempfile::tempdir().unwrap();
    let path = saved.path().join("x.safetensors");
    let tensors = [(
        "a".to_owned(),
        Tensor::ones([2], (Kind::Float, Device::Cpu)),
    )];
    weights::write(&path, &tensors, &BTreeMap::default(), None).unwrap();
    let complex = [(
        "a".to_owned(),
        Tensor::ones([2], (Kind::ComplexFloat, Device::Cpu)),
    )];
    assert!(weights::write(&path, &complex, &BTreeMap::default(), None).is_err());
    assert_eq!(weights::read_all(&path).unwrap()["a"], tensors[0].1);
    assert_eq!(fs::read_dir(saved.path()).unwrap().count(), 1);
}
