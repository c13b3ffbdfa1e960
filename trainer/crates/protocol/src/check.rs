//! What cannot be, seen over the whole config. Each rule names the keys it is about.
//!
//! Texts that LLaMA-Factory has for the same condition are kept word for word, so that they can be searched for.

mod available;
mod mesh;
mod warnings;

use std::{fmt::Display, path::Path};

use crate::{
    choices::{EvalStrategy, FinetuningType, PrefLoss, Stage},
    config::{Facts, Report, RunConfig},
    error::{Code, ConfigError},
};

/// Checks a config with what is known beside it.
pub(crate) fn check(config: &RunConfig, facts: &Facts) -> Report {
    let mut errors = Vec::new();
    missing(config, &mut errors);
    data(config, &mut errors);
    method(config, &mut errors);
    training(config, &mut errors);
    mesh::check(config, facts, &mut errors);
    available::check(config, facts, &mut errors);
    let warnings = warnings::find(config, facts);
    Report { errors, warnings }
}

fn conflict(field: &str, value: impl Display, related: &str, reason: &str) -> ConfigError {
    ConfigError::new(Code::Conflict, field, reason)
        .value(value.to_string())
        .with_related(related)
}

fn missing(config: &RunConfig, errors: &mut Vec<ConfigError>) {
    if config.model.model_name_or_path.as_os_str().is_empty() {
        errors.push(
            ConfigError::new(
                Code::Missing,
                "model_name_or_path",
                "Please provide `model_name_or_path`.",
            )
            .with_hint("give the folder of a model in Hugging Face's layout"),
        );
    }
    if config.data.dataset.is_empty() {
        errors.push(
            ConfigError::new(
                Code::Missing,
                "dataset",
                "Please specify dataset for training.",
            )
            .with_hint("give the name of a dataset in dataset_info.json"),
        );
    }
    if config.data.template.is_none() && config.stage != Stage::Pt {
        errors.push(
            ConfigError::new(Code::Missing, "template", "a chat stage needs a `template`; the tokenizer's own is not read yet")
                .with_hint("choose the model's prompt format, e.g. `qwen3`, `llama3`, `chatml`, or `default` for a base model"),
        );
    }
}

fn data(config: &RunConfig, errors: &mut Vec<ConfigError>) {
    let data = &config.data;
    let has_val = data.val_size > 1e-6;
    if has_val && data.dataset.is_empty() {
        errors.push(conflict(
            "val_size",
            data.val_size,
            "dataset",
            "Cannot specify `val_size` if `dataset` is None.",
        ));
    }
    if has_val && !data.eval_dataset.is_empty() {
        errors.push(
            conflict(
                "val_size",
                data.val_size,
                "eval_dataset",
                "Cannot specify `val_size` if `eval_dataset` is not None.",
            )
            .with_hint("set `val_size: 0`, or leave `eval_dataset` out"),
        );
    }
    if data.val_size > 1.0 && data.val_size.fract() != 0.0 {
        errors.push(
            ConfigError::new(
                Code::OutOfRange,
                "val_size",
                "a number of rows must be whole",
            )
            .value(data.val_size.to_string())
            .with_hint("give a share below 1, or a whole number of rows"),
        );
    }
    if data.mask_history && data.train_on_prompt {
        errors.push(
            conflict(
                "mask_history",
                true,
                "train_on_prompt",
                "`mask_history` is incompatible with `train_on_prompt`.",
            )
            .with_hint("set one of the two to false"),
        );
    }
    if config.stage != Stage::Sft && (data.mask_history || data.train_on_prompt) {
        let field = if data.mask_history {
            "mask_history"
        } else {
            "train_on_prompt"
        };
        let text = "`train_on_prompt` or `mask_history` cannot be set as True except SFT.";
        errors.push(conflict(field, true, "stage", text));
    }
    if config.evaluation.eval_strategy != EvalStrategy::No && !config.has_eval_data() {
        let strategy = config.evaluation.eval_strategy;
        let text = "Please make sure eval_dataset be provided or val_size >1e-6";
        errors.push(
            conflict("eval_strategy", strategy, "val_size", text)
                .with_related("eval_dataset")
                .with_hint(
                    "set `val_size: 0.1`, give an `eval_dataset`, or set `eval_strategy: no`",
                ),
        );
    }
    for name in data.dataset.iter().chain(&data.eval_dataset) {
        let is_map = Path::new(name).extension().is_some_and(|extension| {
            extension.eq_ignore_ascii_case("yaml") || extension.eq_ignore_ascii_case("yml")
        });
        if is_map {
            errors.push(
                ConfigError::new(
                    Code::NotAvailable,
                    "dataset",
                    "dataset maps in YAML arrive later",
                )
                .value(name)
                .with_hint("list the dataset in dataset_info.json and give its name"),
            );
        }
    }
    let dir = data.dataset_dir.to_string_lossy();
    if dir == "ONLINE" || dir.starts_with("REMOTE:") {
        errors.push(
            ConfigError::new(
                Code::NotAvailable,
                "dataset_dir",
                "datasets of a hub arrive later",
            )
            .value(dir)
            .with_hint("give a local folder with dataset_info.json"),
        );
    }
}

fn method(config: &RunConfig, errors: &mut Vec<ConfigError>) {
    let method = &config.method;
    let kind = method.finetuning_type;
    if kind == FinetuningType::Lora {
        lora(config, errors);
        return;
    }
    if !config.model.adapter_name_or_path.is_empty() {
        let adapters: Vec<_> = config
            .model
            .adapter_name_or_path
            .iter()
            .map(|path| path.to_string_lossy())
            .collect();
        errors.push(
            conflict(
                "adapter_name_or_path",
                adapters.join(","),
                "finetuning_type",
                "Adapter is only valid for the LoRA method.",
            )
            .with_hint("set `finetuning_type: lora`, or leave the adapter out"),
        );
    }
    for (field, value) in [
        (
            "loraplus_lr_ratio",
            method.loraplus_lr_ratio.map(|ratio| ratio.to_string()),
        ),
        ("use_rslora", method.use_rslora.then(|| "true".to_owned())),
    ] {
        if let Some(value) = value {
            let text = format!("`{field}` is only valid for LoRA training.");
            errors.push(
                conflict(field, value, "finetuning_type", &text)
                    .with_hint("set `finetuning_type: lora`"),
            );
        }
    }
}

fn lora(config: &RunConfig, errors: &mut Vec<ConfigError>) {
    let method = &config.method;
    if method.lora_target.is_empty() {
        errors.push(
            ConfigError::new(
                Code::Missing,
                "lora_target",
                "LoRA needs at least one module",
            )
            .with_hint("set `lora_target: all`, or name modules, e.g. `q_proj,v_proj`"),
        );
    } else if method.is_lora_target_all() && method.lora_target.len() > 1 {
        errors.push(
            ConfigError::new(
                Code::Conflict,
                "lora_target",
                "`all` takes every linear layer already",
            )
            .value(method.lora_target.join(","))
            .with_hint("set `lora_target: all`, or name modules only"),
        );
    }
    if method.create_new_adapter && config.model.adapter_name_or_path.is_empty() {
        errors.push(
            conflict("create_new_adapter", true, "adapter_name_or_path", "there is no adapter to merge first")
                .with_hint("leave `create_new_adapter` out; a run without `adapter_name_or_path` starts a new one"),
        );
    }
}

fn training(config: &RunConfig, errors: &mut Vec<ConfigError>) {
    let training = &config.training;
    if training.bf16 && training.fp16 {
        errors.push(
            conflict(
                "fp16",
                true,
                "bf16",
                "At most one of fp16 and bf16 can be True, but not both",
            )
            .with_hint("set one of the two to false"),
        );
    }
    if training.pure_bf16 && training.fp16 {
        errors.push(
            conflict(
                "pure_bf16",
                true,
                "fp16",
                "`pure_bf16` and `fp16` ask for two precisions",
            )
            .with_hint("set one of the two to false"),
        );
    }
    let preference = &config.preference;
    if preference.dpo_label_smoothing > 1e-6 && preference.pref_loss != PrefLoss::Sigmoid {
        let text = "`dpo_label_smoothing` is only valid for sigmoid loss function.";
        errors.push(conflict(
            "dpo_label_smoothing",
            preference.dpo_label_smoothing,
            "pref_loss",
            text,
        ));
    }
}
