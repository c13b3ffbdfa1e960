//! Choices that this version does not have yet. Their reasons stand in [`crate::choices`].

use crate::{
    availability::Availability,
    choices::Precision,
    config::{Facts, RunConfig},
    error::{Code, ConfigError},
};

/// Refuses choices that come later, each with its reason.
pub(super) fn check(config: &RunConfig, facts: &Facts, errors: &mut Vec<ConfigError>) {
    let distributed = &config.distributed;
    let backend = config.backend(facts.world_size);
    let backend_field = if distributed.backend.is_some() {
        "backend"
    } else if distributed.dist_config.is_some() {
        "dist_config.name"
    } else if distributed.cp_size > 1 {
        "cp_size"
    } else {
        "backend"
    };
    let template = config.data.template;
    let precision = config.training.precision();
    let precision_field = if precision == Precision::Fp16 {
        "fp16"
    } else {
        "pure_bf16"
    };
    let choices = [
        Some(("stage", config.stage.as_str(), config.stage.availability())),
        Some((
            "finetuning_type",
            config.method.finetuning_type.as_str(),
            config.method.finetuning_type.availability(),
        )),
        template.map(|template| ("template", template.as_str(), template.availability())),
        Some((
            "flash_attn",
            config.model.flash_attn.as_str(),
            config.model.flash_attn.availability(),
        )),
        Some((
            "lr_scheduler_type",
            config.training.lr_scheduler_type.as_str(),
            config.training.lr_scheduler_type.availability(),
        )),
        Some((
            "eval_strategy",
            config.evaluation.eval_strategy.as_str(),
            config.evaluation.eval_strategy.availability(),
        )),
        Some((
            "save_strategy",
            config.checkpoint.save_strategy.as_str(),
            config.checkpoint.save_strategy.availability(),
        )),
        Some((backend_field, backend.as_str(), backend.availability())),
        Some((precision_field, "true", precision.availability())),
    ];
    for (field, value, availability) in choices.into_iter().flatten() {
        if let Availability::Later(reason) = availability {
            errors.push(ConfigError::new(Code::NotAvailable, field, reason).value(value));
        }
    }
}
