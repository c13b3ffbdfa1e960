//! Faults of a form, each beside its field, in the reader's language.

use run_protocol::error::Code;
use run_protocol::keys;
use run_protocol::{ConfigError, ConfigErrors};

use super::values::FormValues;
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

/// Words one fault. The common kinds are in the catalogue; the rest keep the parser's words.
pub fn word(t: Tr, error: &ConfigError) -> Fault {
    let field = match error.field.as_str() {
        "bf16" | "fp16" | "pure_bf16" => super::values::COMPUTE_TYPE,
        other => other,
    };
    let key = keys::find(&error.field);
    let value = error.value.as_deref().unwrap_or_default();
    let range = key.and_then(|key| key.range);
    let reason = match (error.code, range) {
        _ if t.lang == crate::i18n::Lang::En => None,
        (Code::Missing, _) => Some(t.s("error.missing")),
        (Code::OutOfRange, Some(range)) => {
            Some(t.f2("error.out_of_range", value, range_words(t, &range)))
        }
        (Code::WrongType, _) => {
            key.map(|key| t.f2("error.wrong_type", value, t.s(kind_key(key.kind))))
        }
        (Code::NotAChoice, _) => Some(t.f1("error.not_a_choice", value)),
        (Code::UnknownKey, _) => Some(t.f1("error.unknown_key", &error.field)),
        _ => None,
    };
    Fault {
        field: field.to_owned(),
        reason: reason.unwrap_or_else(|| error.reason.clone()),
        hint: error.hint.clone(),
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
fn range_words(_: Tr, range: &keys::Range) -> String {
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
