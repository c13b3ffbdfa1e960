//! Keys that only the v1 trainer spells so. One of them in a file selects v1's defaults.

use super::{Dialect, Effect, Key, Kind, Section};
use crate::choices::FinetuningType;

pub(super) const KEYS: &[Key] = &[
    spelling(Section::Model, "model", Kind::Path, "model_name_or_path"),
    spelling(Section::Data, "train_dataset", Kind::Names, "dataset"),
    spelling(
        Section::Training,
        "micro_batch_size",
        Kind::Integer,
        "per_device_train_batch_size",
    ),
    Key::new(
        Section::Training,
        "global_batch_size",
        Kind::Integer,
        "Rows of one optimizer step over all ranks; the accumulation follows from it",
    )
    .dialect(Dialect::V1)
    .optional()
    .range(1.0, 1_073_741_824.0),
    spelling(
        Section::Training,
        "enable_activation_checkpointing",
        Kind::Bool,
        "disable_gradient_checkpointing",
    ),
    Key::new(
        Section::Method,
        "peft_config",
        Kind::Map(PEFT_CONFIG),
        "Tuning method and its options",
    )
    .dialect(Dialect::V1)
    .not_stored(),
];

/// Keys inside `peft_config`, each with the classic key that it stands for.
pub(crate) const PEFT_CONFIG: &[Key] = &[
    spelling(
        Section::Method,
        "name",
        Kind::Choice(FinetuningType::CHOICES),
        "finetuning_type",
    ),
    spelling(Section::Method, "r", Kind::Integer, "lora_rank"),
    spelling(Section::Method, "lora_alpha", Kind::Number, "lora_alpha"),
    spelling(
        Section::Method,
        "lora_dropout",
        Kind::Number,
        "lora_dropout",
    ),
    spelling(
        Section::Method,
        "target_modules",
        Kind::Names,
        "lora_target",
    ),
    spelling(Section::Method, "use_rslora", Kind::Bool, "use_rslora"),
    spelling(Section::Method, "use_dora", Kind::Bool, "use_dora"),
    spelling(
        Section::Method,
        "modules_to_save",
        Kind::Names,
        "additional_target",
    ),
    spelling(
        Section::Method,
        "adapter_name_or_path",
        Kind::Paths,
        "adapter_name_or_path",
    ),
    spelling(
        Section::Method,
        "freeze_trainable_layers",
        Kind::Integer,
        "freeze_trainable_layers",
    ),
    spelling(
        Section::Method,
        "freeze_trainable_modules",
        Kind::Names,
        "freeze_trainable_modules",
    ),
    spelling(
        Section::Method,
        "freeze_extra_modules",
        Kind::Names,
        "freeze_extra_modules",
    ),
    spelling(Section::Method, "export_dir", Kind::Path, "export_dir"),
    spelling(Section::Method, "export_size", Kind::Number, "export_size"),
    spelling(
        Section::Method,
        "export_hub_model_id",
        Kind::Text,
        "export_hub_model_id",
    ),
    spelling(
        Section::Method,
        "export_legacy_format",
        Kind::Bool,
        "export_legacy_format",
    ),
    spelling(Section::Method, "infer_dtype", Kind::Text, "infer_dtype"),
    Key::new(
        Section::Method,
        "cast_trainable_params_to_fp32",
        Kind::Bool,
        "Trainable parameters in float32",
    )
    .effect(Effect::NoEffect(
        "precision follows from bf16 and pure_bf16",
    ))
    .not_stored(),
];

const fn spelling(section: Section, name: &'static str, kind: Kind, classic: &'static str) -> Key {
    Key::new(
        section,
        name,
        kind,
        "The v1 trainer's spelling of another key",
    )
    .stands_for(classic)
}
