//! Whether the sizes of the meshes fit the ranks and each other.

use super::conflict;
use crate::{
    choices::{Backend, DistName, Stage},
    config::{Facts, RunConfig},
    error::{Code, ConfigError},
};

/// Checks mesh sizes, context parallelism, expert parallelism and the batch arithmetic.
pub(super) fn check(config: &RunConfig, facts: &Facts, errors: &mut Vec<ConfigError>) {
    backend(config, errors);
    context_parallel(config, errors);
    if let Some(world_size) = facts.world_size {
        sizes(config, world_size, errors);
    }
    let data_ranks = data_ranks(config, facts);
    if let Some(dist) = config
        .distributed
        .dist_config
        .as_ref()
        .filter(|dist| dist.name == DistName::Fsdpturbo)
        && let Some(ranks) = data_ranks.filter(|ranks| *ranks % dist.ep_size != 0)
    {
        let text = format!(
            "dp_size must be divisible by ep_size, got {ranks} % {} != 0.",
            dist.ep_size
        );
        errors.push(conflict(
            "dist_config.ep_size",
            dist.ep_size,
            "dp_size",
            &text,
        ));
    }
    // With unknown ranks one is the least there can be, and what one cannot divide none can.
    if let Err(error) = config.accumulation_steps(data_ranks.unwrap_or(1)) {
        errors.push(*error);
    }
}

/// Returns how many ranks have different data, as far as it is known.
fn data_ranks(config: &RunConfig, facts: &Facts) -> Option<usize> {
    let distributed = &config.distributed;
    distributed.dp_size.or_else(|| {
        let world_size = facts.world_size?;
        (world_size % distributed.cp_size == 0).then(|| world_size / distributed.cp_size)
    })
}

fn sizes(config: &RunConfig, world: usize, errors: &mut Vec<ConfigError>) {
    let distributed = &config.distributed;
    let replicate = distributed.mp_replicate_size;
    match distributed.mp_shard_size {
        None if !world.is_multiple_of(replicate) => {
            let text = format!(
                "world_size ({world}) must be divisible by mp_replicate_size ({replicate})."
            );
            errors.push(
                ConfigError::new(Code::Conflict, "mp_replicate_size", text)
                    .value(replicate.to_string()),
            );
        }
        Some(shard) if replicate * shard != world => {
            let text = format!(
                "mp_replicate_size * mp_shard_size must equal to world_size, got {replicate} * {shard} != {world}."
            );
            errors.push(
                conflict("mp_shard_size", shard, "mp_replicate_size", &text)
                    .with_hint("leave `mp_shard_size` out to take the ranks left over"),
            );
        }
        _ => {}
    }
    let context = distributed.cp_size;
    match distributed.dp_size {
        None if !world.is_multiple_of(context) => {
            let text = format!("world_size ({world}) must be divisible by cp_size ({context}).");
            errors
                .push(ConfigError::new(Code::Conflict, "cp_size", text).value(context.to_string()));
        }
        Some(data) if data * context != world => {
            let text = format!(
                "dp_size * cp_size must equal to world_size, got {data} * {context} != {world}."
            );
            errors.push(
                conflict("dp_size", data, "cp_size", &text)
                    .with_hint("leave `dp_size` out to take the ranks left over"),
            );
        }
        _ => {}
    }
}

fn context_parallel(config: &RunConfig, errors: &mut Vec<ConfigError>) {
    let distributed = &config.distributed;
    if distributed.cp_mode != "ulysses" {
        errors.push(
            ConfigError::new(Code::NotAChoice, "cp_mode", "not one of the choices")
                .value(&distributed.cp_mode)
                .with_hint("choose `ulysses`"),
        );
    }
    if distributed.cp_size <= 1 {
        return;
    }
    let size = distributed.cp_size;
    let engine = distributed.dist_config.as_ref().map(|dist| dist.name);
    if !matches!(engine, Some(DistName::Fsdp2 | DistName::Fsdpturbo)) {
        let text = "Context parallelism currently requires `dist_config.name: fsdp2`.";
        errors.push(
            conflict("cp_size", size, "dist_config.name", text)
                .with_hint("set `dist_config: {name: fsdp2}`, or `cp_size: 1`"),
        );
    }
    let text = match config.stage {
        Stage::Dpo => "DPO trainer currently only supports cp_size == 1.",
        Stage::Rm => "RM trainer currently only supports cp_size == 1.",
        _ => return,
    };
    errors.push(conflict("cp_size", size, "stage", text));
}

fn backend(config: &RunConfig, errors: &mut Vec<ConfigError>) {
    let distributed = &config.distributed;
    let engine = distributed.dist_config.as_ref();
    if let Some(dist) = engine.filter(|dist| dist.name == DistName::Deepspeed)
        && dist.config_file.is_none()
    {
        errors.push(
            ConfigError::new(
                Code::Missing,
                "dist_config.config_file",
                "DeepSpeed config_file is required.",
            )
            .with_hint("give the path of a DeepSpeed JSON"),
        );
    }
    let Some(backend) = distributed.backend else {
        return;
    };
    let name = engine.map(|dist| dist.name);
    let fits = match backend {
        Backend::Single | Backend::Ddp => name.is_none(),
        Backend::Fsdp2 => matches!(name, None | Some(DistName::Fsdp2)),
        Backend::Fsdpturbo => matches!(name, None | Some(DistName::Fsdpturbo)),
        Backend::Deepspeed => name == Some(DistName::Deepspeed),
        Backend::Ulysses => matches!(name, None | Some(DistName::Fsdp2 | DistName::Fsdpturbo)),
    };
    if !fits && backend.availability().is_available() {
        let text = format!(
            "`dist_config.name` asks for `{}`",
            name.map_or("none", DistName::as_str)
        );
        errors.push(
            conflict("backend", backend, "dist_config.name", &text)
                .with_hint("leave one of the two out"),
        );
    }
}
