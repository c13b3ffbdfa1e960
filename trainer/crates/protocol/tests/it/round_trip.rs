//! What is written is read back unchanged.

use proptest::prelude::*;
use run_protocol::{
    EvalStrategy, FinetuningType, LrScheduler, RunConfig, SaveStrategy, Template, TokenCount,
};
use std::path::PathBuf;

use crate::support::{read, sound_with};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z_./ -]{1,20}",
        "\\PC{1,12}",
        Just("null".to_owned()),
        Just("5e-5".to_owned()),
        Just("no".to_owned()),
        Just(" # x: [y] ".to_owned()),
        Just("a\nb\tc\u{1}\u{85}\u{2028}".to_owned())
    ]
    .prop_filter("an empty text is nothing", |text| !text.trim().is_empty())
}

fn finite() -> impl Strategy<Value = f64> {
    prop_oneof![0.0_f64..1.0, Just(1e-300), Just(0.1 + 0.2), 1e-9_f64..1e-3]
}

prop_compose! {
    fn config()(
        paths in (text(), proptest::collection::vec(text(), 0..3), proptest::option::of(text())),
        names in (proptest::collection::vec(text(), 0..4), proptest::collection::vec(text(), 1..3)),
        numbers in (finite(), finite(), finite(), 1_usize..100_000, 2_usize..1_000_000),
        options in (proptest::option::of(1_u64..1_000_000), proptest::option::of(0.0_f64..1e6), proptest::option::of(any::<bool>()), proptest::option::of(1_usize..1_000)),
        words in (0..Template::ALL.len(), 0..LrScheduler::ALL.len(), 0..SaveStrategy::ALL.len(), 0..EvalStrategy::ALL.len(), 0..TokenCount::ALL.len(), 0..FinetuningType::ALL.len()),
        system in proptest::option::of(text()),
        switches in any::<[bool; 6]>(),
    ) -> RunConfig {
        let mut config = RunConfig::default();
        config.model.model_name_or_path = PathBuf::from(paths.0);
        config.model.adapter_name_or_path = paths.1.into_iter().map(PathBuf::from).collect();
        config.training.output_dir = paths.2.map(PathBuf::from);
        config.data.dataset = names.0;
        config.method.lora_target = names.1;
        config.training.learning_rate = numbers.0;
        config.training.weight_decay = numbers.1;
        config.training.warmup_ratio = numbers.2;
        config.training.per_device_train_batch_size = numbers.3.min(65_536);
        config.data.cutoff_len = numbers.4;
        config.training.max_steps = options.0;
        config.method.lora_alpha = options.1;
        config.data.enable_thinking = options.2;
        config.data.max_samples = options.3;
        config.data.template = Some(Template::ALL[words.0]);
        config.training.lr_scheduler_type = LrScheduler::ALL[words.1];
        config.checkpoint.save_strategy = SaveStrategy::ALL[words.2];
        config.evaluation.eval_strategy = EvalStrategy::ALL[words.3];
        config.logging.include_num_input_tokens_seen = TokenCount::ALL[words.4];
        config.method.finetuning_type = FinetuningType::ALL[words.5];
        config.data.default_system = system;
        config.training.bf16 = switches[0];
        config.training.pure_bf16 = switches[1];
        config.data.mask_history = switches[2];
        config.method.use_rslora = switches[3];
        config.logging.plot_loss = switches[4];
        config.checkpoint.overwrite_output_dir = switches[5];
        config
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn canonical_yaml_is_read_back_unchanged(config in config()) {
        let yaml = config.to_yaml();
        let parsed = read(&yaml).map_err(|errors| TestCaseError::fail(format!("{errors}\n{yaml}")))?;
        prop_assert_eq!(&parsed.config, &config, "{}", yaml);
        prop_assert_eq!(parsed.config.hash(), config.hash());
    }

    #[test]
    fn flat_yaml_is_read_back_unchanged(config in config()) {
        let yaml = config.to_flat_yaml(true);
        let parsed = read(&yaml).map_err(|errors| TestCaseError::fail(format!("{errors}\n{yaml}")))?;
        prop_assert_eq!(&parsed.config, &config, "{}", yaml);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,200}") {
        let _parsed = read(&text);
    }

    #[test]
    fn no_yaml_like_text_makes_the_parser_panic(text in "([a-z_]{1,12}: ?[-\\[\\]{}&*!|>'\"%@`a-z0-9., ]{0,12}\n){0,8}") {
        let _parsed = read(&text);
    }
}

#[test]
fn canonical_yaml_of_a_small_config() {
    let mut config = sound_with("learning_rate: 1e-4\nlora_target: q_proj,v_proj\nval_size: 0.1\neval_strategy: steps\ndist_config: {name: fsdp2}\n").config;
    config.resolve_paths(std::path::Path::new("/base"));
    insta::assert_snapshot!(config.to_yaml());
}

#[test]
fn flat_yaml_holds_what_differs_from_the_defaults() {
    let config = sound_with("learning_rate: 1e-4\nlora_rank: 8\n").config;
    insta::assert_snapshot!(config.to_flat_yaml(true));
    let changed: Vec<&str> = config
        .changed_keys()
        .iter()
        .map(|changed| changed.key)
        .collect();
    assert_eq!(
        changed,
        ["model_name_or_path", "dataset", "template", "learning_rate"]
    );
}

#[test]
fn the_hash_follows_the_meaning_not_the_spelling() {
    let one = sound_with("learning_rate: 1e-4\n").config;
    let two =
        sound_with("# another order\nlora_rank: 8\nlearning_rate: 0.0001\noverwrite_cache: true\n")
            .config;
    assert_eq!(one.hash(), two.hash());
    assert_eq!(one.hash().len(), 64);
    assert_ne!(
        one.hash(),
        sound_with("learning_rate: 2e-4\n").config.hash()
    );
}
