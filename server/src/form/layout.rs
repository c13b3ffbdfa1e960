//! Which field stands where. A test checks that every key a run acts on has its place.

use run_protocol::keys::{self, Section};

use super::faults::Faults;
use super::field::FieldView;
use super::values::FormValues;
use crate::i18n::Tr;

/// Always in view, beside model, task, backend and datasets.
pub const DATA: &[&str] = &["template", "cutoff_len", "val_size"];
/// Always in view.
pub const METHOD: &[&str] = &["lora_rank", "lora_alpha", "lora_target"];
/// Always in view: the six that everybody sets; the last is the form's own.
pub const TRAINING: &[&str] = &[
    "learning_rate",
    "num_train_epochs",
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "lr_scheduler_type",
];

/// The closed groups, with the method that a group belongs to.
pub const GROUPS: &[(&str, &str, &[&str])] = &[
    (
        "optimizer",
        "",
        &[
            "warmup_ratio",
            "warmup_steps",
            "weight_decay",
            "max_grad_norm",
            "max_steps",
            "adam_beta1",
            "adam_beta2",
            "adam_epsilon",
            "seed",
            "data_seed",
        ],
    ),
    (
        "rows",
        "",
        &[
            "max_samples",
            "eval_dataset",
            "dataset_dir",
            "default_system",
            "tool_format",
            "enable_thinking",
            "mask_history",
            "train_on_prompt",
            "preserve_thinking",
            "disable_shuffling",
            "eval_on_each_dataset",
        ],
    ),
    (
        "lora",
        "lora",
        &[
            "lora_dropout",
            "loraplus_lr_ratio",
            "loraplus_lr_embedding",
            "additional_target",
            "adapter_name_or_path",
            "use_rslora",
            "create_new_adapter",
        ],
    ),
    (
        "memory",
        "",
        &["flash_attn", "disable_gradient_checkpointing"],
    ),
    (
        "checkpoints",
        "",
        &[
            "eval_strategy",
            "eval_steps",
            "per_device_eval_batch_size",
            "save_strategy",
            "save_steps",
            "save_total_limit",
            "resume_from_checkpoint",
            "eval_on_start",
            "save_only_model",
        ],
    ),
    (
        "logging",
        "",
        &[
            "run_name",
            "logging_steps",
            "include_num_input_tokens_seen",
            "logging_first_step",
            "plot_loss",
        ],
    ),
    ("parallelism", "", &["dist_timeout"]),
];

/// Keys without a field of their own, because another field or the board decides them.
pub const ELSEWHERE: &[&str] = &[
    "stage",
    "backend",
    "finetuning_type",
    "model_name_or_path",
    "dataset",
    "bf16",
    "fp16",
    "pure_bf16",
    "output_dir",
    "overwrite_output_dir",
    "global_batch_size",
];

/// A closed group of fields.
#[derive(Debug)]
pub struct GroupView {
    /// Its name in the catalogue.
    pub name: &'static str,
    /// The method that it belongs to; empty for all.
    pub needs: &'static str,
    /// Its fields.
    pub fields: Vec<FieldView>,
    /// Fields that differ from their defaults.
    pub num_changed: usize,
    /// Fields with a fault.
    pub num_errors: usize,
    /// What of it comes later.
    pub later: Option<String>,
}

impl GroupView {
    /// Returns the key of its label.
    pub fn label(&self) -> String {
        format!("group.{}", self.name)
    }

    /// Returns the key of the line beside its label.
    pub fn about(&self) -> String {
        format!("group.{}.about", self.name)
    }
}

/// The fields that are always in view.
#[derive(Debug)]
pub struct BasicFields {
    /// The task.
    pub stage: FieldView,
    /// The backend.
    pub backend: FieldView,
    /// Data.
    pub data: Vec<FieldView>,
    /// Method.
    pub method: Vec<FieldView>,
    /// Training.
    pub training: Vec<FieldView>,
}

/// Returns the fields that are always in view.
pub fn basic(t: Tr, values: &FormValues, faults: &Faults) -> BasicFields {
    let view = |name: &&str| FieldView::new(t, name, values, faults);
    let mut method = vec![FieldView::choices(t, "finetuning_type", values, faults)];
    method.extend(METHOD.iter().map(view));
    let mut training: Vec<_> = TRAINING.iter().map(view).collect();
    training.push(FieldView::compute_type(t, values, faults));
    BasicFields {
        stage: FieldView::choices(t, "stage", values, faults),
        backend: FieldView::choices(t, "backend", values, faults),
        data: DATA.iter().map(view).collect(),
        method,
        training,
    }
}

/// Returns the closed groups.
pub fn groups(t: Tr, values: &FormValues, faults: &Faults) -> Vec<GroupView> {
    let view = |(name, needs, keys): &(&'static str, &'static str, &[&str])| {
        let fields: Vec<_> = keys
            .iter()
            .map(|key| FieldView::new(t, key, values, faults))
            .collect();
        GroupView {
            name,
            needs,
            num_changed: fields.iter().filter(|field| field.is_changed).count(),
            num_errors: fields
                .iter()
                .filter(|field| !field.errors.is_empty())
                .count(),
            fields,
            later: (*name == "parallelism").then(|| t.s("group.parallelism.later")),
        }
    };
    GROUPS.iter().map(view).collect()
}

/// Returns whether a key comes with the distributed engine or with other stages and methods: it has no field yet.
pub fn is_later(key: &keys::Key) -> bool {
    let is_distributed = key.section == Section::Distributed && key.name != "dist_timeout";
    let is_frozen = key
        .needs
        .is_some_and(|needs| needs.key == "finetuning_type" && needs.values == ["freeze"]);
    is_distributed || is_frozen || key.section == Section::Preference
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_that_a_run_acts_on_has_one_place() {
        let placed = || {
            let grouped = GROUPS.iter().flat_map(|group| group.2);
            DATA.iter()
                .chain(METHOD)
                .chain(TRAINING)
                .chain(ELSEWHERE)
                .chain(grouped)
                .copied()
        };
        for key in keys::KEYS
            .iter()
            .filter(|key| key.is_stored && !is_later(key))
        {
            assert_eq!(
                placed().filter(|name| *name == key.name).count(),
                1,
                "{}",
                key.name
            );
        }
        for name in placed() {
            assert!(keys::find(name).is_some(), "{name} is no key");
        }
    }

    #[test]
    fn every_field_has_a_label_in_the_catalogue() {
        for lang in crate::i18n::Lang::ALL {
            let t = Tr::new(*lang);
            for name in GROUPS
                .iter()
                .flat_map(|group| group.2)
                .chain(DATA)
                .chain(METHOD)
                .chain(TRAINING)
                .chain(ELSEWHERE)
            {
                assert!(
                    t.find(format!("field.{name}")).is_some(),
                    "field.{name} in {}",
                    lang.tag()
                );
            }
            for (name, _, _) in GROUPS {
                assert!(
                    t.find(format!("group.{name}")).is_some()
                        && t.find(format!("group.{name}.about")).is_some()
                );
            }
        }
    }
}
