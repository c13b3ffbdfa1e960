//! Keys of the sections task, model and data.

use super::{Dialect::Classic, Effect, Key, Kind, Section};
use crate::choices::{AttentionKind, Stage, Template};

const CHAT_STAGES: &[&str] = &["sft", "rm", "dpo", "kto", "ppo"];

pub(super) const KEYS: &[Key] = &[
    Key::new(Section::Task, "stage", Kind::Choice(Stage::CHOICES), "What the run teaches the model").default("sft"),
    Key::new(Section::Model, "model_name_or_path", Kind::Path, "Folder of the model in Hugging Face's layout")
        .dialect(Classic),
    Key::new(
        Section::Model,
        "adapter_name_or_path",
        Kind::Paths,
        "Adapters to start from: all but the last are merged, the last is continued",
    )
    .dialect(Classic)
    .needs("finetuning_type", &["lora"]),
    Key::new(Section::Model, "flash_attn", Kind::Choice(AttentionKind::CHOICES), "Attention code").default("auto"),
    Key::new(Section::Data, "dataset", Kind::Names, "Datasets by their names in dataset_info.json").dialect(Classic),
    Key::new(Section::Data, "eval_dataset", Kind::Names, "Datasets to evaluate on"),
    Key::new(Section::Data, "dataset_dir", Kind::Path, "Folder with dataset_info.json")
        .dialect(Classic)
        .default("data"),
    Key::new(Section::Data, "template", Kind::Choice(Template::CHOICES), "Prompt format of the model")
        .dialect(Classic)
        .optional()
        .needs("stage", CHAT_STAGES),
    Key::new(Section::Data, "cutoff_len", Kind::Integer, "Most tokens of one row; longer rows are cut")
        .default("2048")
        .unit("tokens")
        .range(2.0, 16_777_216.0),
    Key::new(Section::Data, "max_samples", Kind::Integer, "First rows taken of each dataset; empty takes all")
        .dialect(Classic)
        .optional()
        .unit("rows")
        .at_least(1.0),
    Key::new(
        Section::Data,
        "val_size",
        Kind::Number,
        "Held back for evaluation: below 1 a share, from 1 on a number of rows",
    )
    .dialect(Classic)
    .default("0")
    .at_least(0.0),
    Key::new(Section::Data, "eval_on_each_dataset", Kind::Bool, "Evaluate each dataset by itself")
        .dialect(Classic)
        .default("false")
    .effect(Effect::Later("arrives with evaluation by dataset; one loss is computed over all of them now")),
    Key::new(Section::Data, "mask_history", Kind::Bool, "Learn the last answer of a conversation only")
        .dialect(Classic)
        .default("false")
        .needs("stage", &["sft"]),
    Key::new(Section::Data, "train_on_prompt", Kind::Bool, "Learn the prompt too")
        .dialect(Classic)
        .default("false")
        .needs("stage", &["sft"]),
    Key::new(
        Section::Data,
        "enable_thinking",
        Kind::Bool,
        "Where thinking templates put an empty thought: true into the answer, false into the prompt while dropping real ones; empty into the prompt while keeping them",
    )
    .dialect(Classic)
    .optional()
    .default("true"),
    Key::new(Section::Data, "preserve_thinking", Kind::Bool, "Keep the thoughts of earlier turns")
        .dialect(Classic)
        .default("false"),
    Key::new(Section::Data, "disable_shuffling", Kind::Bool, "Take rows in their order in the file")
        .dialect(Classic)
        .default("false"),
    Key::new(Section::Data, "default_system", Kind::Text, "System prompt for rows without one; empty keeps the template's")
        .dialect(Classic)
        .optional(),
    Key::new(Section::Data, "tool_format", Kind::Text, "Format of tool calls; empty takes the template's")
        .dialect(Classic)
        .optional()
    .effect(Effect::Later(
        "arrives with the other tool formats; the template's own is used now",
    )),
];
