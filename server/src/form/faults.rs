//! Faults of a form, each beside its field, in the reader's language.

use run_protocol::error::Code;
use run_protocol::keys;
use run_protocol::{ConfigError, ConfigErrors};

use super::values::FormValues;
use crate::error::FieldProblem;
use crate::i18n::Tr;

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The key, empty for the whole text.
    pub field: String,
    /// What is wrong.
    pub reason: String,
    /// What to do.
    pub hint: Option<String>,
    /// Stable word for the kind of fault.
    pub code: &'static str,
}

/// Every fault of a form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults(pub Vec<Fault>);

impl Faults {
    /// Words the faults of a configuration; those with a decimal comma first say what is meant.
    pub fn of_form(t: Tr, values: &FormValues, errors: &[ConfigError]) -> Self {
        let mut faults: Vec<Fault> = values
            .decimal_commas()
            .map(|(field, value)| Fault {
                field: field.to_owned(),
                reason: t.f1("error.decimal_comma", value),
                hint: Some(t.f1("error.decimal_comma_hint", value.replace(',', "."))),
                code: "decimal_comma",
            })
            .collect();
        let is_missing = |name: &String| {
            errors
                .iter()
                .any(|error| error.code == Code::Missing && error.field == *name)
        };
        for error in errors {
            if error.code == Code::Conflict && error.related.iter().any(is_missing) {
                continue; // said by the missing key itself
            }
            if faults
                .iter()
                .all(|fault| fault.field != error.field || fault.code != "decimal_comma")
            {
                faults.push(word(t, error));
            }
        }
        Self(faults)
    }

    /// Words the faults of a YAML text, with their places.
    pub fn of_text(t: Tr, errors: &ConfigErrors) -> Self {
        let place = |error: &ConfigError| error.line.zip(error.column);
        let faults = errors.iter().map(|error| {
            let mut fault = word(t, error);
            if let Some((line, column)) = place(error) {
                fault.reason = t.f3("error.at_place", line, column, fault.reason);
            }
            fault
        });
        Self(faults.collect())
    }

    /// Words what the service refused once the form had passed; the name of a run is the key `run_name` here.
    pub fn of_fields(t: Tr, fields: Vec<FieldProblem>) -> Self {
        let faults = fields.into_iter().map(|problem| Fault {
            field: match problem.field.as_str() {
                "name" => "run_name".to_owned(),
                _ => problem.field,
            },
            reason: t.said(problem.reason),
            hint: problem.hint.map(|hint| t.said(hint)),
            code: "refused",
        });
        Self(faults.collect())
    }

    /// Returns the faults of one field.
    pub fn of(&self, field: &str) -> Vec<Fault> {
        self.0
            .iter()
            .filter(|fault| fault.field == field)
            .cloned()
            .collect()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Words one fault: by its sentence, else by its kind; only what is in neither keeps the parser's words.
pub fn word(t: Tr, error: &ConfigError) -> Fault {
    let field = match error.field.as_str() {
        "bf16" | "fp16" | "pure_bf16" => super::values::COMPUTE_TYPE,
        other => other,
    };
    let key = keys::find(&error.field);
    let value = error.value.as_deref().unwrap_or_default();
    let range = key.and_then(|key| key.range);
    let by_code = || match (error.code, range) {
        (Code::Missing, _) => Some(t.s("error.missing")),
        (Code::OutOfRange, Some(range)) => {
            Some(t.f2("error.out_of_range", value, range_words(&range)))
        }
        (Code::WrongType, _) => {
            key.map(|key| t.f2("error.wrong_type", value, t.s(kind_key(key.kind))))
        }
        (Code::NotAChoice, _) => Some(t.f1("error.not_a_choice", value)),
        (Code::NotAvailable, _) => Some(t.s("error.not_available")),
        (Code::UnknownKey, _) => Some(t.f1("error.unknown_key", &error.field)),
        _ => None,
    };
    let reason = t.find_said(&error.reason).or_else(by_code);
    Fault {
        field: field.to_owned(),
        reason: reason.unwrap_or_else(|| error.reason.clone()),
        hint: error.hint.as_deref().map(|hint| t.said(hint)),
        code: error.code.as_str(),
    }
}

fn kind_key(kind: keys::Kind) -> &'static str {
    match kind {
        keys::Kind::Bool => "kind.bool",
        keys::Kind::Integer => "kind.integer",
        keys::Kind::Number => "kind.number",
        keys::Kind::Path | keys::Kind::Paths => "kind.path",
        keys::Kind::Names => "kind.names",
        _ => "kind.text",
    }
}

/// Writes a range with signs, which need no translation: `1 ≤ x ≤ 65536`.
fn range_words(range: &keys::Range) -> String {
    let less = if range.is_min_excluded { "<" } else { "≤" };
    let low = crate::view::figure::setting(range.min);
    if range.max.is_infinite() {
        return format!("{low} {less} x");
    }
    let up = if range.is_max_excluded { "<" } else { "≤" };
    format!(
        "{low} {less} x {up} {}",
        crate::view::figure::setting(range.max)
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use run_protocol::{Facts, RunConfig};
    use serde_json::Value;

    use super::*;
    use crate::i18n::Lang;

    /// Forms that reach every sentence of the checks, the warnings and the parser.
    const FORMS: &[&[(&str, &str)]] = &[
        &[],
        &[("val_size", "0.1"), ("eval_dataset", "a")],
        &[
            ("val_size", "1.5"),
            ("mask_history", "true"),
            ("train_on_prompt", "true"),
        ],
        &[("stage", "pt"), ("mask_history", "true")],
        &[
            ("eval_strategy", "steps"),
            ("dataset", "a,a"),
            ("dataset_dir", "ONLINE"),
        ],
        &[
            ("dataset", "a.yaml"),
            ("template", "gemma"),
            ("flash_attn", "fa3"),
        ],
        &[
            ("finetuning_type", "full"),
            ("adapter_name_or_path", "a"),
            ("use_rslora", "true"),
            ("loraplus_lr_ratio", "16"),
        ],
        &[("finetuning_type", "freeze")],
        &[
            ("finetuning_type", "oft"),
            ("lr_scheduler_type", "polynomial"),
            ("save_strategy", "best"),
        ],
        &[
            ("lora_target", "all,q_proj"),
            ("create_new_adapter", "true"),
        ],
        &[("lora_target", "")],
        &[("bf16", "true"), ("fp16", "true")],
        &[("pure_bf16", "true"), ("fp16", "true")],
        &[
            ("global_batch_size", "7"),
            ("per_device_train_batch_size", "2"),
        ],
        &[
            ("global_batch_size", "8"),
            ("gradient_accumulation_steps", "2"),
        ],
        &[
            ("backend", "fsdp2"),
            ("stage", "dpo"),
            ("lora_alpha", "0"),
            ("learning_rate", "0"),
        ],
        &[
            ("max_steps", "10"),
            ("warmup_steps", "20"),
            ("warmup_ratio", "0.1"),
            ("lr_scheduler_type", "constant"),
            ("dataset", "a"),
            ("val_size", "0.1"),
        ],
        &[
            ("lr_scheduler_type", "cosin"),
            ("stage", "x"),
            ("lora_rnak", "8"),
            ("zzz", "1"),
        ],
        &[
            ("lora_rank", "-1"),
            ("cutoff_len", "12.5"),
            ("val_size", "-1"),
            ("learning_rate", "fast"),
            ("save_steps", "0.5"),
            ("bf16", "perhaps"),
            ("lora_dropout", "2"),
        ],
    ];

    #[test]
    fn whatever_a_form_is_refused_for_is_said_in_every_language() {
        for form in FORMS {
            let pairs: BTreeMap<String, Value> = form
                .iter()
                .map(|(key, value)| ((*key).to_owned(), Value::from(*value)))
                .collect();
            let (errors, warnings) = match RunConfig::from_pairs(&pairs) {
                Err(errors) => (errors.0, Vec::new()),
                Ok(parsed) => {
                    let facts = Facts {
                        world_size: None,
                        num_examples: Some(100),
                    };
                    let report = parsed.config.check_with(&facts);
                    (report.errors, report.warnings)
                }
            };
            for lang in [Lang::Zh, Lang::Ru] {
                let t = Tr::new(lang);
                for error in &errors {
                    let fault = word(t, error);
                    assert_ne!(fault.reason, error.reason, "{form:?}");
                    assert!(
                        error.hint.is_none() || fault.hint != error.hint,
                        "{form:?}: {:?}",
                        error.hint
                    );
                }
                for warning in &warnings {
                    assert!(t.find_said(&warning.message).is_some(), "{warning:?}");
                    let hint = warning.hint.as_deref().unwrap_or_default();
                    assert!(t.find_said(hint).is_some(), "{warning:?}");
                }
            }
        }
    }

    #[test]
    fn what_comes_later_says_so_in_every_language() {
        for key in keys::KEYS {
            let keys::Kind::Choice(choices) = key.kind else {
                continue;
            };
            let reasons = choices
                .iter()
                .filter_map(|choice| choice.availability.reason());
            for reason in reasons {
                assert!(Tr::new(Lang::Ru).find_said(reason).is_some(), "{reason}");
            }
        }
    }
}
