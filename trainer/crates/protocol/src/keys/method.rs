//! Keys of the sections method and preference.

use super::{Dialect::Classic, Effect, Key, Kind, Section};
use crate::choices::{FinetuningType, PrefLoss};

const LORA: &[&str] = &["lora"];
const FREEZE: &[&str] = &["freeze"];
const LORA_PLUS: Effect =
    Effect::Later("arrives with parameter groups; every matrix has one learning rate now");
const WHOLE_MODULES: Effect = Effect::Later("arrives with whole modules beside an adapter");

pub(super) const KEYS: &[Key] = &[
    method(
        "finetuning_type",
        Kind::Choice(FinetuningType::CHOICES),
        "Which parameters change",
    )
    .default("lora")
    .v1_default("full"),
    lora("lora_rank", Kind::Integer, "Rank of the adapter matrices")
        .default("8")
        .range(1.0, 65_536.0),
    lora(
        "lora_alpha",
        Kind::Number,
        "Scale of the adapter; empty is twice the rank",
    )
    .optional()
    .at_least(0.0),
    lora(
        "lora_dropout",
        Kind::Number,
        "Share of adapter inputs set to zero in training",
    )
    .default("0")
    .below(1.0),
    lora(
        "lora_target",
        Kind::Names,
        "Modules that get an adapter; all means every linear layer but the head",
    )
    .default("all"),
    lora("use_rslora", Kind::Bool, "Scale by the root of the rank").default("false"),
    lora(
        "loraplus_lr_ratio",
        Kind::Number,
        "Learning rate of the B matrices over that of A; empty turns LoRA+ off",
    )
    .optional()
    .above(0.0)
    .effect(LORA_PLUS),
    lora(
        "loraplus_lr_embedding",
        Kind::Number,
        "Learning rate of embedding adapters under LoRA+",
    )
    .default("1e-6")
    .above(0.0)
    .effect(LORA_PLUS),
    lora(
        "create_new_adapter",
        Kind::Bool,
        "Merge the given adapters and start a new one",
    )
    .default("false"),
    lora(
        "additional_target",
        Kind::Names,
        "Modules trained and saved whole beside the adapter",
    )
    .effect(WHOLE_MODULES),
    freeze(
        "freeze_trainable_layers",
        Kind::Integer,
        "Layers trained: the last n, or the first n if negative",
    )
    .default("2")
    .range(-4096.0, 4096.0),
    freeze(
        "freeze_trainable_modules",
        Kind::Names,
        "Modules of those layers; all takes every one",
    )
    .default("all"),
    freeze(
        "freeze_extra_modules",
        Kind::Names,
        "Modules outside the layers that are trained too",
    ),
    preference(
        "pref_beta",
        Kind::Number,
        "Weight of the divergence from the reference",
        &["dpo", "kto"],
    )
    .default("0.1")
    .at_least(0.0),
    preference(
        "pref_ftx",
        Kind::Number,
        "Weight of an added SFT loss",
        &["dpo", "kto"],
    )
    .default("0")
    .at_least(0.0),
    preference(
        "pref_loss",
        Kind::Choice(PrefLoss::CHOICES),
        "Which loss",
        &["dpo"],
    )
    .default("sigmoid"),
    preference("simpo_gamma", Kind::Number, "Margin of SimPO", &["dpo"])
        .default("0.5")
        .at_least(0.0),
    preference(
        "dpo_label_smoothing",
        Kind::Number,
        "Label smoothing of the sigmoid loss",
        &["dpo"],
    )
    .default("0")
    .range(0.0, 0.5),
    preference(
        "kto_chosen_weight",
        Kind::Number,
        "Weight of desirable answers",
        &["kto"],
    )
    .default("1")
    .at_least(0.0),
    preference(
        "kto_rejected_weight",
        Kind::Number,
        "Weight of undesirable answers",
        &["kto"],
    )
    .default("1")
    .at_least(0.0),
];

const fn method(name: &'static str, kind: Kind, help: &'static str) -> Key {
    Key::new(Section::Method, name, kind, help).dialect(Classic)
}

const fn lora(name: &'static str, kind: Kind, help: &'static str) -> Key {
    method(name, kind, help).needs("finetuning_type", LORA)
}

const fn freeze(name: &'static str, kind: Kind, help: &'static str) -> Key {
    method(name, kind, help).needs("finetuning_type", FREEZE)
}

const fn preference(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    stages: &'static [&'static str],
) -> Key {
    Key::new(Section::Preference, name, kind, help).needs("stage", stages)
}
