//! What works and is probably not meant.

use crate::{
    choices::{EvalStrategy, FinetuningType, LrScheduler, SaveStrategy},
    config::{Facts, RunConfig, Warning},
};

/// Returns what is odd about a config.
pub(super) fn find(config: &RunConfig, facts: &Facts) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |field: &str, message: String, hint: &str| {
        warnings.push(Warning {
            field: field.to_owned(),
            message,
            hint: Some(hint.to_owned()),
        });
    };
    let training = &config.training;
    if config.method.finetuning_type == FinetuningType::Lora
        && config.method.lora_alpha == Some(0.0)
    {
        let message =
            "the adapter has no influence at `lora_alpha: 0`, so nothing is learned".to_owned();
        warn(
            "lora_alpha",
            message,
            "leave `lora_alpha` out to take twice the rank",
        );
    }
    if training.learning_rate == 0.0 {
        warn(
            "learning_rate",
            "nothing is learned at a learning rate of 0".to_owned(),
            "give a learning rate above 0",
        );
    }
    let total = total_steps(config, facts);
    if let Some(total) = total
        && training.warmup(total) >= total
    {
        let message = format!(
            "the warm-up takes {} steps and the run has {total}",
            training.warmup(total)
        );
        let field = if training.warmup_steps > 0 {
            "warmup_steps"
        } else {
            "warmup_ratio"
        };
        warn(
            field,
            message,
            "shorten the warm-up; the learning rate never reaches its height",
        );
    }
    if training.warmup_steps > 0 && training.warmup_ratio > 0.0 {
        warn(
            "warmup_ratio",
            "`warmup_steps` is above 0 and decides alone".to_owned(),
            "give one of the two",
        );
    }
    let has_warmup = training.warmup_steps > 0 || training.warmup_ratio > 0.0;
    if has_warmup && training.lr_scheduler_type == LrScheduler::Constant {
        let message = "the schedule `constant` has no warm-up".to_owned();
        warn(
            "lr_scheduler_type",
            message,
            "choose `constant_with_warmup`",
        );
    }
    if config.has_eval_data() && config.evaluation.eval_strategy == EvalStrategy::No {
        let field = if config.data.eval_dataset.is_empty() {
            "val_size"
        } else {
            "eval_dataset"
        };
        let message = "there is data to evaluate on, and `eval_strategy: no` never does".to_owned();
        warn(
            field,
            message,
            "set `eval_strategy: steps`, or train on all of the data",
        );
    }
    if let Some(total) = total
        && config.checkpoint.save_strategy == SaveStrategy::Steps
        && config.checkpoint.save_steps > total
    {
        let message = format!("the run has {total} steps, so nothing is saved before its end");
        warn(
            "save_steps",
            message,
            "save more often to be able to resume",
        );
    }
    let mut seen = std::collections::BTreeSet::new();
    if let Some(twice) = config
        .data
        .dataset
        .iter()
        .find(|name| !seen.insert(name.as_str()))
    {
        warn(
            "dataset",
            format!("`{twice}` is named twice, so its rows count twice"),
            "name each dataset once",
        );
    }
    warnings
}

/// Returns the optimizer steps of the run where they can be known before the data is read.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count of steps, clamped"
)]
fn total_steps(config: &RunConfig, facts: &Facts) -> Option<u64> {
    let training = &config.training;
    if training.max_steps.is_some() {
        return training.max_steps;
    }
    let ranks = facts.world_size.unwrap_or(1) / config.distributed.cp_size.max(1);
    let accumulation = config.accumulation_steps(ranks.max(1)).ok()?;
    let rows = (training.per_device_train_batch_size * accumulation * ranks.max(1)) as u64;
    let steps_per_epoch = facts.num_examples?.div_ceil(rows.max(1)).max(1);
    Some(
        (steps_per_epoch as f64 * training.num_train_epochs)
            .ceil()
            .clamp(1.0, 1e15) as u64,
    )
}
