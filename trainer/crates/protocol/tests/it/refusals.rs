//! The exact texts of combinations that cannot be.

use proptest::prelude::*;
use run_protocol::{Facts, RunConfig};

use crate::support::{SOUND, reasons, sound_with};

fn refused(lines: &str) -> Vec<String> {
    reasons(&format!("{SOUND}{lines}"))
}

#[test]
fn texts_of_llama_factory_are_kept() {
    for (lines, text) in [
        (
            "val_size: 0.1\neval_dataset: e\n",
            "Cannot specify `val_size` if `eval_dataset` is not None.",
        ),
        (
            "mask_history: true\ntrain_on_prompt: true\n",
            "`mask_history` is incompatible with `train_on_prompt`.",
        ),
        (
            "eval_strategy: steps\n",
            "Please make sure eval_dataset be provided or val_size >1e-6",
        ),
        (
            "finetuning_type: full\nadapter_name_or_path: /a\n",
            "Adapter is only valid for the LoRA method.",
        ),
        (
            "finetuning_type: full\nuse_rslora: true\n",
            "`use_rslora` is only valid for LoRA training.",
        ),
        (
            "stage: dpo\nmask_history: true\n",
            "`train_on_prompt` or `mask_history` cannot be set as True except SFT.",
        ),
        (
            "stage: dpo\npref_loss: orpo\ndpo_label_smoothing: 0.1\n",
            "`dpo_label_smoothing` is only valid for sigmoid loss function.",
        ),
        (
            "bf16: true\nfp16: true\n",
            "At most one of fp16 and bf16 can be True, but not both",
        ),
        (
            "dist_config: {name: deepspeed}\n",
            "DeepSpeed config_file is required.",
        ),
        (
            "dist_config: {reshard_after_forward: true}\n",
            "Plugin configuration must have a 'name' field.",
        ),
        (
            "dist_config: {name: deepspeed, config_file: /z.json}\ncp_size: 2\n",
            "Context parallelism currently requires `dist_config.name: fsdp2`.",
        ),
        (
            "stage: dpo\ndist_config: {name: fsdp2}\ncp_size: 2\n",
            "DPO trainer currently only supports cp_size == 1.",
        ),
        (
            "stage: rm\ndist_config: {name: fsdp2}\ncp_size: 2\n",
            "RM trainer currently only supports cp_size == 1.",
        ),
        (
            "dist_config: {name: fsdpturbo, ep_size: 4}\ndp_size: 6\n",
            "dp_size must be divisible by ep_size, got 6 % 4 != 0.",
        ),
    ] {
        let found = refused(lines);
        assert!(
            found.iter().any(|reason| reason == text),
            "{lines}: {found:?}"
        );
    }
}

#[test]
fn missing_model_and_data_have_their_texts() {
    let found = reasons("val_size: 0.1\n");
    for text in [
        "Please provide `model_name_or_path`.",
        "Please specify dataset for training.",
        "Cannot specify `val_size` if `dataset` is None.",
    ] {
        assert!(found.iter().any(|reason| reason == text), "{found:?}");
    }
}

proptest! {
    #[test]
    fn meshes_whose_sizes_multiply_to_the_world_are_accepted(
        (replicate, shard, context, data) in (1_usize..9, 1_usize..9, 1_usize..9, 1_usize..9)
    ) {
        let world = replicate * shard;
        let lines = format!("mp_replicate_size: {replicate}\nmp_shard_size: {shard}\ncp_size: {context}\ndp_size: {data}\ndist_config: {{name: fsdp2}}\n");
        let found = with_world(&lines, world);
        let is_refused = found.iter().any(|reason| reason.contains("world_size"));
        prop_assert_eq!(is_refused, context * data != world, "{:?}", found);
        let left_out = with_world(&format!("mp_replicate_size: {replicate}\ndist_config: {{name: fsdp2}}\n"), world);
        prop_assert!(!left_out.iter().any(|reason| reason.contains("world_size")));
    }
}

#[test]
fn several_ranks_without_an_engine_are_ddp() {
    assert_eq!(with_world("", 2), ["arrives with the distributed engine"]);
    assert_eq!(with_world("", 1), Vec::<String>::new());
}

fn with_world(lines: &str, world_size: usize) -> Vec<String> {
    let facts = Facts {
        world_size: Some(world_size),
        ..Facts::default()
    };
    let report = sound_with(lines).config.check_with(&facts);
    report
        .errors
        .into_iter()
        .map(|error| error.reason)
        .collect()
}

#[test]
fn mesh_sizes_are_checked_against_the_world() {
    for (lines, world, text) in [
        (
            "mp_replicate_size: 3\n",
            8,
            "world_size (8) must be divisible by mp_replicate_size (3).",
        ),
        (
            "mp_replicate_size: 2\nmp_shard_size: 2\n",
            8,
            "mp_replicate_size * mp_shard_size must equal to world_size, got 2 * 2 != 8.",
        ),
        (
            "dist_config: {name: fsdp2}\ncp_size: 3\n",
            8,
            "world_size (8) must be divisible by cp_size (3).",
        ),
        (
            "dist_config: {name: fsdp2}\ncp_size: 2\ndp_size: 3\n",
            8,
            "dp_size * cp_size must equal to world_size, got 3 * 2 != 8.",
        ),
    ] {
        let found = with_world(lines, world);
        assert!(
            found.iter().any(|reason| reason == text),
            "{lines}: {found:?}"
        );
    }
}

#[test]
fn sizes_that_fit_are_not_refused() {
    let found = with_world(
        "mp_replicate_size: 2\nmp_shard_size: 4\ncp_size: 2\ndp_size: 4\ndist_config: {name: fsdp2}\n",
        8,
    );
    assert_eq!(found, ["arrives with the distributed engine"]);
}

#[test]
fn a_global_batch_that_does_not_divide_is_refused() {
    let text =
        "model: /m\ntrain_dataset: d\ntemplate: qwen\nmicro_batch_size: 3\nglobal_batch_size: 16\n";
    let expected = "Global batch size must be divisible by DP size and micro batch size. Got 16 % (1 * 3) != 0.";
    assert_eq!(reasons(text), [expected]);
}

#[test]
fn what_comes_later_is_refused_with_its_reason() {
    for (lines, reason) in [
        (
            "stage: dpo\n",
            "arrives with the other training stages; this version trains `sft`",
        ),
        (
            "finetuning_type: freeze\n",
            "arrives with the other tuning methods; `lora` and `full` work now",
        ),
        (
            "dist_config: {name: fsdp2}\n",
            "arrives with the distributed engine",
        ),
        ("backend: ddp\n", "arrives with the distributed engine"),
        ("fp16: true\n", "arrives with GPU training; use `bf16`"),
        (
            "lr_scheduler_type: polynomial\n",
            "arrives with the other schedules; `linear`, `cosine` and `constant` work now",
        ),
        (
            "deepspeed: ds_z2.json\n",
            "arrives with the distributed engine",
        ),
    ] {
        assert_eq!(refused(lines), [reason], "{lines}");
    }
}

#[test]
fn off_values_of_refused_keys_are_accepted() {
    for lines in [
        "quantization_bit: null\n",
        "quantization_bit: none\n",
        "use_galore: false\n",
        "neftune_noise_alpha: 0\n",
        "packing: false\n",
        "report_to: [none]\n",
        "init_config: {name: init_on_default}\n",
        "mix_strategy: concat\n",
        "rope_scaling:\n",
    ] {
        assert_eq!(refused(lines), Vec::<String>::new(), "{lines}");
    }
    assert_eq!(refused("quantization_bit: 8\n").len(), 1);
}

#[test]
fn options_of_another_engine_are_refused_inside_dist_config() {
    let found = crate::support::read(&format!(
        "{SOUND}dist_config: {{name: fsdp2, ep_size: 2}}\n"
    ))
    .expect_err("no experts");
    assert_eq!(found.0[0].field, "dist_config.ep_size");
}

#[test]
fn lora_needs_a_sound_target() {
    assert_eq!(
        refused("lora_target: []\n"),
        ["LoRA needs at least one module"]
    );
    assert_eq!(
        refused("lora_target: all,q_proj\n"),
        ["`all` takes every linear layer already"]
    );
    assert_eq!(
        refused("create_new_adapter: true\n"),
        ["there is no adapter to merge first"]
    );
}

#[test]
fn odd_but_working_configs_are_warned_about() {
    for (lines, field) in [
        ("lora_alpha: 0\n", "lora_alpha"),
        ("learning_rate: 0\n", "learning_rate"),
        (
            "max_steps: 10\nsave_steps: 5\nwarmup_steps: 20\n",
            "warmup_steps",
        ),
        ("val_size: 0.1\n", "val_size"),
        ("max_steps: 10\n", "save_steps"),
        (
            "lr_scheduler_type: constant\nwarmup_steps: 5\n",
            "lr_scheduler_type",
        ),
        ("dataset: a,a\n", "dataset"),
    ] {
        let text = if lines.starts_with("dataset") {
            format!("model_name_or_path: /m\ntemplate: qwen\n{lines}")
        } else {
            format!("{SOUND}{lines}")
        };
        let report = RunConfig::from_yaml(&text, &[])
            .expect("legal keys")
            .check();
        assert!(report.is_ok(), "{:?}", report.errors);
        let fields: Vec<&str> = report
            .warnings
            .iter()
            .map(|warning| warning.field.as_str())
            .collect();
        assert_eq!(fields, [field], "{lines}");
    }
}
