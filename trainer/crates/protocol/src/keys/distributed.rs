//! Keys of the section distributed, which both dialects use.

use super::{Effect, Key, Kind, Section};
use crate::choices::{Backend, DistName};

const ONE_RANK: &str = "there is one rank until the distributed engine arrives";
const FSDP: &[&str] = &["fsdp2", "fsdpturbo"];

pub(super) const KEYS: &[Key] = &[
    distributed(
        "backend",
        Kind::Choice(Backend::CHOICES),
        "How the ranks divide the work; empty follows the keys below",
    )
    .optional(),
    distributed(
        "dist_config",
        Kind::Map(DIST_CONFIG),
        "Sharding engine and its options",
    )
    .optional(),
    distributed("cp_mode", Kind::Text, "Kind of context parallelism")
        .default("ulysses")
        .effect(Effect::NoEffect(ONE_RANK)),
    distributed("cp_size", Kind::Integer, "Ranks that share one sequence")
        .default("1")
        .range(1.0, 65_536.0),
    distributed(
        "dp_size",
        Kind::Integer,
        "Ranks with different data; empty takes the ranks left over",
    )
    .optional()
    .range(1.0, 65_536.0),
    distributed(
        "mp_replicate_size",
        Kind::Integer,
        "Full copies of the parameters",
    )
    .default("1")
    .range(1.0, 65_536.0),
    distributed(
        "mp_shard_size",
        Kind::Integer,
        "Ranks that share one copy; empty takes the ranks left over",
    )
    .optional()
    .range(1.0, 65_536.0),
    distributed(
        "dist_timeout",
        Kind::Integer,
        "Longest wait for another rank",
    )
    .default("18000")
    .unit("seconds")
    .range(1.0, 31_536_000.0)
    .effect(Effect::NoEffect(ONE_RANK)),
];

/// Keys inside `dist_config`.
pub(crate) const DIST_CONFIG: &[Key] = &[
    distributed("name", Kind::Choice(DistName::CHOICES), "Which engine"),
    distributed(
        "reshard_after_forward",
        Kind::Bool,
        "Free gathered parameters after the forward pass",
    )
    .default("true")
    .needs("dist_config.name", FSDP),
    distributed(
        "offload_params",
        Kind::Bool,
        "Keep parameters and optimizer state in host memory",
    )
    .default("false")
    .needs("dist_config.name", FSDP),
    distributed("pin_memory", Kind::Bool, "Pin that host memory")
        .default("true")
        .needs("dist_config.name", FSDP),
    distributed(
        "dcp_path",
        Kind::Path,
        "Distributed checkpoint to load weights from",
    )
    .optional()
    .needs("dist_config.name", FSDP),
    distributed("ep_size", Kind::Integer, "Ranks that share the experts")
        .default("1")
        .range(1.0, 65_536.0)
        .needs("dist_config.name", &["fsdpturbo"]),
    distributed("ep_dispatcher", Kind::Text, "How tokens travel to experts")
        .default("eager")
        .needs("dist_config.name", &["fsdpturbo"]),
    distributed("config_file", Kind::Path, "The DeepSpeed JSON")
        .optional()
        .needs("dist_config.name", &["deepspeed"]),
];

const fn distributed(name: &'static str, kind: Kind, help: &'static str) -> Key {
    Key::new(Section::Distributed, name, kind, help)
}
