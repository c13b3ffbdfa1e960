//! Both dialects, the form and the command line end in the same config.

use std::{collections::BTreeMap, path::PathBuf};

use run_protocol::{
    Backend, DistName, EvalStrategy, FinetuningType, LrScheduler, Precision, RunConfig,
    SaveStrategy, Template, TokenCount,
};
use serde_json::{Value, json};

use crate::support::{SOUND, read, sound_with};

#[test]
fn classic_defaults_are_those_of_llama_factory() {
    let config = RunConfig::default();
    assert_eq!(config.method.finetuning_type, FinetuningType::Lora);
    assert_eq!(config.method.lora_rank, 8);
    assert_eq!(config.method.lora_alpha, None);
    assert!((config.method.alpha() - 16.0).abs() < f64::EPSILON);
    assert_eq!(config.method.lora_target, ["all"]);
    assert_eq!(config.training.per_device_train_batch_size, 8);
    assert_eq!(config.training.learning_rate.to_bits(), 5e-5_f64.to_bits());
    assert_eq!(config.training.lr_scheduler_type, LrScheduler::Linear);
    assert_eq!(config.training.precision(), Precision::Fp32);
    assert_eq!(config.logging.logging_steps, 500);
    assert_eq!(config.checkpoint.save_strategy, SaveStrategy::Steps);
    assert_eq!(config.data.dataset_dir, PathBuf::from("data"));
    assert_eq!(config.data.enable_thinking, Some(true));
}

#[test]
fn a_v1_spelling_selects_v1_defaults() {
    let parsed = read("model: /models/tiny\ntrain_dataset: demo\ntemplate: qwen3\n")
        .expect("v1 keys are read");
    let config = parsed.config;
    assert_eq!(
        config.model.model_name_or_path,
        PathBuf::from("/models/tiny")
    );
    assert_eq!(config.data.dataset, ["demo"]);
    assert_eq!(config.method.finetuning_type, FinetuningType::Full);
    assert_eq!(config.training.learning_rate.to_bits(), 1e-4_f64.to_bits());
    assert_eq!(config.training.per_device_train_batch_size, 1);
    assert_eq!(config.training.weight_decay.to_bits(), 0.01_f64.to_bits());
    assert_eq!(config.training.lr_scheduler_type, LrScheduler::Constant);
    assert_eq!(config.training.precision(), Precision::Bf16);
    assert_eq!(config.checkpoint.save_strategy, SaveStrategy::No);
    assert_eq!(config.logging.logging_steps, 1);
}

#[test]
fn v1_save_steps_turn_saving_on() {
    let parsed =
        read("model: /m\ntrain_dataset: demo\nsave_steps: 10\n").expect("v1 keys are read");
    assert_eq!(parsed.config.checkpoint.save_strategy, SaveStrategy::Steps);
}

#[test]
fn peft_config_stands_for_the_lora_keys() {
    let text = "model: /m\ntrain_dataset: demo\ntemplate: qwen3\npeft_config:\n  name: lora\n  r: 4\n  target_modules: [q_proj, v_proj]\n";
    let method = read(text).expect("peft_config is read").config.method;
    assert_eq!(method.finetuning_type, FinetuningType::Lora);
    assert_eq!((method.lora_rank, method.lora_alpha), (4, Some(16.0)));
    assert_eq!(method.lora_dropout.to_bits(), 0.05_f64.to_bits());
    assert_eq!(method.lora_target, ["q_proj", "v_proj"]);
}

#[test]
fn global_batch_size_decides_the_accumulation() {
    let text = "model: /m\ntrain_dataset: demo\ntemplate: qwen3\nmicro_batch_size: 2\nglobal_batch_size: 16\n";
    let config = read(text).expect("v1 keys are read").config;
    assert_eq!(config.training.gradient_accumulation_steps, 8);
    assert_eq!(
        config
            .accumulation_steps(4)
            .expect("16 rows are 4 ranks of 2, twice"),
        2
    );
    assert_eq!(read(&config.to_yaml()).expect("canonical").config, config);
}

#[test]
fn distributed_keys_do_not_select_a_dialect() {
    let parsed =
        sound_with("dist_config: {name: fsdp2, reshard_after_forward: false}\ncp_size: 1\n");
    let dist = parsed
        .config
        .distributed
        .dist_config
        .clone()
        .expect("it is given");
    assert_eq!(
        (dist.name, dist.reshard_after_forward, dist.pin_memory),
        (DistName::Fsdp2, false, true)
    );
    assert_eq!(
        parsed.config.training.lr_scheduler_type,
        LrScheduler::Linear
    );
    assert_eq!(parsed.config.backend(Some(2)), Backend::Fsdp2);
}

#[test]
fn activation_checkpointing_is_read_from_both_sides() {
    let v1 = read("model: /m\nenable_activation_checkpointing: false\n").expect("v1 keys are read");
    assert!(v1.config.training.disable_gradient_checkpointing);
    for (given, disabled) in [("true", false), ("false", true)] {
        let classic = sound_with(&format!("gradient_checkpointing: {given}\n"));
        assert_eq!(
            classic.config.training.disable_gradient_checkpointing,
            disabled
        );
    }
}

#[test]
fn numbers_are_read_in_every_spelling() {
    for text in ["5e-5", "5.0e-5", "0.00005", "\"5e-5\"", "5E-05"] {
        let config = sound_with(&format!("learning_rate: {text}\n")).config;
        assert_eq!(
            config.training.learning_rate.to_bits(),
            5e-5_f64.to_bits(),
            "{text}"
        );
    }
    assert_eq!(
        sound_with("max_samples: 100.0\n").config.data.max_samples,
        Some(100)
    );
    assert_eq!(
        sound_with("max_steps: -1\n").config.training.max_steps,
        None
    );
}

#[test]
fn words_for_yes_and_no_are_read() {
    for (text, value) in [
        ("true", true),
        ("True", true),
        ("on", true),
        ("yes", true),
        ("false", false),
        ("off", false),
    ] {
        assert_eq!(
            sound_with(&format!("bf16: {text}\n")).config.training.bf16,
            value,
            "{text}"
        );
    }
    assert_eq!(
        sound_with("eval_strategy: no\n")
            .config
            .evaluation
            .eval_strategy,
        EvalStrategy::No
    );
    let counted = sound_with("include_num_input_tokens_seen: true\n")
        .config
        .logging
        .include_num_input_tokens_seen;
    assert_eq!(counted, TokenCount::All);
}

#[test]
fn null_is_the_default_or_nothing() {
    let config =
        sound_with("learning_rate: null\nenable_thinking: null\neval_dataset:\nmax_samples: ~\n")
            .config;
    assert_eq!(config.training.learning_rate.to_bits(), 5e-5_f64.to_bits());
    assert_eq!(config.data.enable_thinking, None);
    assert!(config.data.eval_dataset.is_empty());
    assert_eq!(config.data.max_samples, None);
}

#[test]
fn names_are_read_as_list_or_with_commas() {
    assert_eq!(
        sound_with("lora_target: q_proj, v_proj\n")
            .config
            .method
            .lora_target,
        ["q_proj", "v_proj"]
    );
    assert_eq!(
        sound_with("lora_target: [q_proj, v_proj]\n")
            .config
            .method
            .lora_target,
        ["q_proj", "v_proj"]
    );
}

#[test]
fn overrides_win_over_the_file() {
    let overrides = [
        "max_steps=7",
        "dist_config.name=fsdp2",
        "lora_target=[q_proj,k_proj]",
        "default_system=Be brief: yes",
    ];
    let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
    let text = format!("{SOUND}max_steps: 3\n");
    let config = RunConfig::from_yaml(&text, &overrides)
        .expect("the overrides are legal")
        .config;
    assert_eq!(config.training.max_steps, Some(7));
    assert_eq!(
        config.distributed.dist_config.map(|dist| dist.name),
        Some(DistName::Fsdp2)
    );
    assert_eq!(config.method.lora_target, ["q_proj", "k_proj"]);
    assert_eq!(config.data.default_system.as_deref(), Some("Be brief: yes"));
}

#[test]
fn an_override_without_key_or_equals_is_refused() {
    for text in ["max_steps", "=1", ".max_steps=1", "dist_config..name=ddp"] {
        let errors = RunConfig::from_yaml(SOUND, &[text.to_owned()]).expect_err("no key and value");
        let wanted = format!("`{text}` is not of the form key=value");
        assert!(errors.to_string().contains(&wanted), "{errors}");
    }
}

#[test]
fn form_pairs_and_yaml_give_the_same_config() {
    let pairs: BTreeMap<String, Value> = [
        ("model_name_or_path", json!("/models/tiny")),
        ("dataset", json!(["demo"])),
        ("template", json!("qwen3")),
        ("learning_rate", json!("1.0e-3")),
        ("bf16", json!("on")),
        ("max_samples", json!("")),
        ("lora_alpha", json!(32)),
        ("dist_config.name", json!("")),
        ("dist_config.offload_params", json!("")),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect();
    let form = RunConfig::from_pairs(&pairs)
        .expect("the form is legal")
        .config;
    assert_eq!(
        form,
        sound_with("learning_rate: 1e-3\nbf16: true\nlora_alpha: 32\n").config
    );
}

#[test]
fn json_is_read_as_well() {
    let config = read(
        r#"{"model_name_or_path": "/m", "dataset": ["a", "b"], "template": "qwen", "bf16": true}"#,
    );
    assert_eq!(
        config.expect("JSON is YAML").config.data.template,
        Some(Template::Qwen)
    );
}

#[test]
fn files_of_the_peer_are_read_unchanged() {
    for text in [
        include_str!("../fixtures/sft_full.yaml"),
        include_str!("../fixtures/sft_lora.yaml"),
    ] {
        let report = read(text).expect("every key is known").check();
        assert!(report.is_ok(), "{:?}", report.errors);
    }
    for (text, fields) in [
        (
            include_str!("../fixtures/sft_freeze.yaml"),
            ["finetuning_type", "template"],
        ),
        (
            include_str!("../fixtures/sft_packed.yaml"),
            ["packing", "neat_packing"],
        ),
    ] {
        let errors = match read(text) {
            Ok(parsed) => parsed.check().errors,
            Err(errors) => errors.0,
        };
        let found: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(found, fields);
        assert!(
            errors
                .iter()
                .all(|error| error.code == run_protocol::Code::NotAvailable),
            "{errors:?}"
        );
    }
}

#[test]
fn keys_without_effect_are_listed_with_their_reason() {
    let parsed = sound_with(
        "overwrite_cache: true\ntrust_remote_code: true\noptim: adamw_torch\npref_beta: 0.5\n",
    );
    let keys: Vec<&str> = parsed
        .accepted_without_effect
        .iter()
        .map(|accepted| accepted.key.as_str())
        .collect();
    assert_eq!(keys, ["overwrite_cache", "trust_remote_code", "pref_beta"]);
    assert!(parsed.accepted_without_effect[1].reason.contains("no code"));
    let parsed =
        sound_with("include_num_input_tokens_seen: all\ndist_timeout: 60\ncp_mode: ulysses\n");
    let keys: Vec<&str> = parsed
        .accepted_without_effect
        .iter()
        .map(|accepted| accepted.key.as_str())
        .collect();
    assert_eq!(keys, ["dist_timeout", "include_num_input_tokens_seen"]);
    assert_eq!(parsed.config.distributed.dist_timeout, 60);
}

#[test]
fn a_continued_adapter_keeps_its_own_values() {
    let text = "finetuning_type: lora\nadapter_name_or_path: /a\nlora_rank: 64\nlearning_rate: 1\n";
    let num_accepted = |text: &str| sound_with(text).accepted_without_effect.len();
    let parsed = sound_with(text);
    assert_eq!(parsed.accepted_without_effect[0].key, "lora_rank");
    assert!(
        parsed.accepted_without_effect[0]
            .reason
            .contains("its own values hold")
    );
    assert_eq!(num_accepted(text), 1);
    assert_eq!(
        num_accepted(&format!("{text}create_new_adapter: true\n")),
        0
    );
}

#[test]
fn what_the_board_of_llama_factory_always_sends_is_accepted() {
    let lines = "preprocessing_num_workers: 16\nplot_loss: true\ntrust_remote_code: true\nddp_timeout: 180000000\n\
        include_num_input_tokens_seen: true\nreport_to: none\noptim: adamw_torch\npacking: false\n\
        double_quantization: true\nfreeze_vision_tower: true\nfreeze_multi_modal_projector: true\n\
        use_reentrant_gc: true\nflash_attn: auto\n";
    let parsed = sound_with(lines);
    assert!(parsed.check().is_ok());
    assert!(parsed.config.logging.plot_loss);
}

#[test]
fn paths_become_absolute() {
    let mut config =
        sound_with("adapter_name_or_path: a/b,/c\nresume_from_checkpoint: ./out/checkpoint-3\n")
            .config;
    config.resolve_paths(std::path::Path::new("/base"));
    assert_eq!(
        config.model.adapter_name_or_path,
        [PathBuf::from("/base/a/b"), PathBuf::from("/c")]
    );
    assert_eq!(config.data.dataset_dir, PathBuf::from("/base/data"));
    assert_eq!(
        config.checkpoint.resume_from_checkpoint.as_deref(),
        Some("/base/out/checkpoint-3")
    );
    config.checkpoint.resume_from_checkpoint = Some("auto".to_owned());
    config.resolve_paths(std::path::Path::new("/base"));
    assert_eq!(
        config.checkpoint.resume_from_checkpoint.as_deref(),
        Some("auto")
    );
}

#[test]
fn resuming_is_also_a_switch() {
    for (text, value) in [
        ("true", Some("auto")),
        ("false", None),
        ("auto", Some("auto")),
        ("out/checkpoint-1", Some("out/checkpoint-1")),
    ] {
        let config = sound_with(&format!("resume_from_checkpoint: {text}\n")).config;
        assert_eq!(config.checkpoint.resume_from_checkpoint.as_deref(), value);
    }
}
