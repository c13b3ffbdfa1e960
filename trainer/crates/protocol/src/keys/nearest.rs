//! The nearest legal key to a mistyped one.

use super::{Effect, KEYS};

/// Least likeness, from 0 to 1, at which a name is worth proposing.
const LEAST_LIKENESS: f64 = 0.72;

/// Longest name that is compared; comparing takes time that grows with the length.
const MOST_BYTES: usize = 64;

/// Names that other tools use for our keys and that do not look like them.
const FOREIGN: &[(&str, &str)] = &[
    ("batch_size", "per_device_train_batch_size"),
    ("train_batch_size", "per_device_train_batch_size"),
    ("micro_batch", "per_device_train_batch_size"),
    ("eval_batch_size", "per_device_eval_batch_size"),
    ("lr", "learning_rate"),
    ("epochs", "num_train_epochs"),
    ("num_epochs", "num_train_epochs"),
    ("steps", "max_steps"),
    ("scheduler", "lr_scheduler_type"),
    ("lr_scheduler", "lr_scheduler_type"),
    ("warmup", "warmup_ratio"),
    ("max_length", "cutoff_len"),
    ("max_seq_length", "cutoff_len"),
    ("seq_length", "cutoff_len"),
    ("model_path", "model_name_or_path"),
    ("model_name", "model_name_or_path"),
    ("base_model", "model_name_or_path"),
    ("adapter", "adapter_name_or_path"),
    ("datasets", "dataset"),
    ("target_modules", "lora_target"),
    ("lora_r", "lora_rank"),
    ("clip_grad_norm", "max_grad_norm"),
    ("modules_to_save", "additional_target"),
    ("task", "stage"),
];

/// Returns the legal key that looks most like `name`, if any looks like it at all.
pub fn nearest(name: &str) -> Option<&'static str> {
    let name = name
        .trim()
        .trim_start_matches('-')
        .replace('-', "_")
        .to_lowercase();
    if let Some((_, key)) = FOREIGN.iter().find(|(foreign, _)| *foreign == name) {
        return Some(key);
    }
    let legal = KEYS.iter().filter(|key| key.effect == Effect::ActedOn);
    let near = nearest_of(&name, legal.map(|key| key.name));
    near.or_else(|| nearest_of(&name, KEYS.iter().map(|key| key.name)))
}

/// Returns the candidate that looks most like `name`, if any looks like it at all.
pub(crate) fn nearest_of<'a>(
    name: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    if name.len() > MOST_BYTES {
        return None;
    }
    candidates
        .map(|candidate| (likeness(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= LEAST_LIKENESS)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, candidate)| candidate)
}

/// Returns how alike two names are: by edits, or by sharing a long part (`batch_size`).
fn likeness(name: &str, candidate: &str) -> f64 {
    let edits = strsim::normalized_damerau_levenshtein(name, candidate);
    let is_part = name.len() >= 5 && (candidate.contains(name) || name.contains(candidate));
    if is_part { edits.max(0.75) } else { edits }
}
