//! Adapters: PEFT's files, merging, dropout, targets.

use std::path::PathBuf;

use tch::Kind;
use trainer_models::{Lora, Model, ModelError, Precision, Tuning, Unit};

use crate::support::{
    Batch, MODELS, adapter, after_difference, folder, load, max_difference, numeric, options,
};

#[test]
fn trained_adapters_give_the_reference_logits() {
    for name in MODELS {
        for kind in ["lora", "rslora"] {
            if !numeric(name, &format!("{kind}_after20")).is_dir() {
                continue;
            }
            let mut model = load(name, adapter(name, &format!("{kind}_after20")));
            let file = format!("{kind}_after20_logits.safetensors");
            let attached = after_difference(&model, name, &file);
            model.merge_adapter().unwrap();
            let merged = after_difference(&model, name, &file);
            println!("{name} {kind}: logits {attached:.1e}, merged {merged:.1e}");
            assert!(attached < 1e-4 && merged < 1e-4);
        }
    }
}

#[test]
fn saved_adapter_reloads_equal_with_peft_names() {
    let name = "tiny-qwen2";
    let model = load(name, adapter(name, "rslora_after20"));
    let (batch, _) = Batch::forward(name);
    let saved = tempfile::tempdir().unwrap();
    model.save_adapter(saved.path(), &folder(name)).unwrap();
    let lora = Lora {
        adapters: vec![saved.path().to_owned()],
        ..Lora::new(4, 0)
    };
    let reloaded = load(name, Tuning::Lora(lora));
    assert_eq!(batch.logits(&model), batch.logits(&reloaded));
    let names = |folder: PathBuf| {
        let file =
            trainer_models::weights::Safetensors::open(&folder.join("adapter_model.safetensors"))
                .unwrap();
        file.names().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        names(saved.path().to_owned()),
        names(numeric(name, "rslora_after20"))
    );
    let config = crate::support::json(&saved.path().join("adapter_config.json"));
    assert_eq!(
        (config["r"].as_i64(), config["lora_alpha"].as_i64()),
        (Some(8), Some(16))
    );
    assert_eq!(config["use_rslora"], true);
}

#[test]
fn new_adapter_starts_as_the_base_model() {
    for precision in [Precision::F32, Precision::Bf16, Precision::F64] {
        let tuning = Tuning::Lora(Lora::new(8, 42));
        let model = Model::load(&folder("tiny-llama3"), &options(precision, tuning)).unwrap();
        let (batch, _) = Batch::forward("tiny-llama3");
        let base = model
            .forward(&batch.ids, &batch.pass(&model).without_adapters())
            .unwrap();
        assert_eq!(batch.logits(&model), base);
        let trainable: Vec<_> = model
            .all_parameters()
            .into_iter()
            .filter(|p| p.is_trainable)
            .collect();
        assert_eq!(trainable.len(), 2 * 7 * 2);
        assert!(
            trainable
                .iter()
                .all(|p| p.tensor.kind() == precision.trainable() && p.has_decay)
        );
        let bound = 1.0 / 96_f64.sqrt();
        let a = &trainable[0].tensor;
        assert!(
            a.abs().max().double_value(&[]) <= bound && a.std(true).double_value(&[]) > bound / 2.0
        );
    }
}

#[test]
fn init_depends_on_the_seed_and_the_layer() {
    let values =
        |seed| load("tiny-llama3", Tuning::Lora(Lora::new(4, seed))).parameters(Unit::Block(0));
    let (first, again, other) = (values(1), values(1), values(2));
    assert_eq!(first[2].tensor, again[2].tensor);
    assert_ne!(first[2].tensor, other[2].tensor);
    assert_ne!(first[2].tensor, first[5].tensor);
}

#[test]
fn targets_choose_layers() {
    let count = |targets: &[&str]| {
        let targets = targets.iter().map(|&target| target.to_owned()).collect();
        let model = load(
            "tiny-llama3",
            Tuning::Lora(Lora {
                targets,
                ..Lora::new(8, 0)
            }),
        );
        model
            .all_parameters()
            .iter()
            .filter(|p| p.is_trainable)
            .count()
    };
    assert_eq!(count(&["all"]), 28);
    assert_eq!(count(&["q_proj", "v_proj"]), 8);
    assert_eq!(count(&["layers.1.mlp.up_proj"]), 2);
    let lora = Lora {
        targets: vec!["c_attn".to_owned()],
        ..Lora::new(8, 0)
    };
    let error = Model::load(
        &folder("tiny-llama3"),
        &options(Precision::F32, Tuning::Lora(lora)),
    )
    .unwrap_err();
    assert!(
        matches!(&error, ModelError::LoraTarget { known, .. } if known.contains("q_proj")),
        "{error}"
    );
}

#[test]
fn dropout_is_keyed_by_its_seed() {
    let lora = Lora {
        dropout: 0.5,
        ..Lora::new(8, 3)
    };
    let model = load("tiny-qwen3", Tuning::Lora(lora));
    for linear_b in model
        .all_parameters()
        .iter()
        .filter(|p| p.name.ends_with("lora_B.weight"))
    {
        drop(tch::no_grad(|| linear_b.tensor.shallow_clone().fill_(0.05)));
    }
    let (batch, _) = Batch::forward("tiny-qwen3");
    let run = |seed| {
        model
            .forward(&batch.ids, &batch.pass(&model).with_dropout(seed))
            .unwrap()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    assert_ne!(run(1), batch.logits(&model));
}

#[test]
fn several_adapters_are_merged_and_the_last_continued() {
    let name = "tiny-llama3";
    let adapters = vec![
        numeric(name, "rslora_after20"),
        numeric(name, "lora_after20"),
    ];
    let (batch, _) = Batch::forward(name);
    let both = load(
        name,
        Tuning::Lora(Lora {
            adapters: adapters.clone(),
            ..Lora::new(8, 0)
        }),
    );
    let lora = Lora {
        adapters,
        create_new_adapter: true,
        ..Lora::new(2, 0)
    };
    let fresh = load(name, Tuning::Lora(lora));
    assert!(max_difference(&batch.logits(&both), &batch.logits(&fresh)) < 1e-4);
    let rank = |model: &Model| {
        model
            .all_parameters()
            .iter()
            .find(|p| p.is_trainable)
            .unwrap()
            .tensor
            .size()[0]
    };
    assert_eq!((rank(&both), rank(&fresh)), (8, 2));
}

#[test]
fn loss_and_gradients_reach_adapters_only() {
    let model = Model::load(
        &folder("tiny-qwen2"),
        &options(Precision::Bf16, adapter("tiny-qwen2", "lora_after20")),
    )
    .unwrap();
    let (batch, _) = Batch::forward("tiny-qwen2");
    batch.loss(&model).backward();
    for parameter in model.all_parameters() {
        assert_eq!(
            parameter.tensor.grad().defined(),
            parameter.is_trainable,
            "{}",
            parameter.name
        );
        let kind = if parameter.is_trainable {
            Kind::Float
        } else {
            Kind::BFloat16
        };
        assert_eq!(parameter.tensor.kind(), kind);
    }
}
