//! What a person typed into the form, key by key.

use std::collections::BTreeMap;

use run_protocol::keys::{self, Kind};
use run_protocol::{ConfigErrors, Parsed, RunConfig};
use serde_json::Value;

/// The form's own field for the three switches `bf16`, `pure_bf16` and `fp16`.
pub const COMPUTE_TYPE: &str = "compute_type";
/// The form's own field for a model folder that the list does not have.
pub const MODEL_OTHER: &str = "model_other";

/// Fields of the form that are no keys of a configuration.
const CONTROLS: [&str; 6] = ["once", "source", "tab", "yaml", MODEL_OTHER, COMPUTE_TYPE];

/// The recipe behind "Train the demo".
const DEMO_RECIPE: &str = include_str!("../../../recipes/demo.yaml");

/// The values of the form as typed, by key. What was left empty is not there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FormValues {
    values: BTreeMap<String, String>,
    /// Whether nobody typed anything yet.
    is_fresh: bool,
}

impl FormValues {
    /// Returns what a first visit finds: the values that LlamaBoard starts with where they differ from the defaults.
    pub fn fresh() -> Self {
        let values = [
            ("stage", "sft"),
            ("finetuning_type", "lora"),
            ("backend", "single"),
            ("per_device_train_batch_size", "2"),
            ("gradient_accumulation_steps", "8"),
            ("lr_scheduler_type", "cosine"),
            ("val_size", "0.1"),
            ("eval_strategy", "epoch"),
            ("per_device_eval_batch_size", "2"),
            ("logging_steps", "5"),
        ];
        Self {
            values: values
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            is_fresh: true,
        }
    }

    /// Returns the demo's values.
    pub fn demo() -> Self {
        let parsed = RunConfig::from_yaml(DEMO_RECIPE, &[]).expect("a test reads the recipe");
        let mut values = Self::from_config(&parsed.config);
        for key in ["dataset_dir", "output_dir", "overwrite_output_dir"] {
            values.values.remove(key);
        }
        let set = [
            ("model_name_or_path", "models/demo"),
            ("dataset", "demo"),
            ("run_name", "demo"),
            ("backend", "single"),
        ];
        values
            .values
            .extend(set.map(|(key, value)| (key.to_owned(), value.to_owned())));
        values
    }

    /// Reads posted pairs: a key that comes twice is a list, numbers are written as the parser expects them.
    pub fn from_posted(pairs: &[(String, String)]) -> Self {
        let mut posted = Self::default();
        for (key, value) in pairs {
            let value = tidy(key, value);
            if value.is_empty() {
                continue;
            }
            posted
                .values
                .entry(key.clone())
                .and_modify(|old| {
                    old.push(',');
                    old.push_str(&value);
                })
                .or_insert(value);
        }
        if let Some(folder) = posted.values.remove(MODEL_OTHER) {
            posted.values.insert("model_name_or_path".into(), folder);
        }
        if let Some(word) = posted
            .values
            .remove(COMPUTE_TYPE)
            .filter(|word| word != "fp32")
        {
            posted.values.insert(word, "true".into());
        }
        posted
            .values
            .retain(|key, _| !CONTROLS.contains(&key.as_str()) && !key.starts_with("was."));
        posted.drop_hidden();
        posted
    }

    /// Drops the values of fields that the choices above them took away.
    fn drop_hidden(&mut self) {
        let method = self.get("finetuning_type").to_owned();
        let hidden = |key: &str| {
            let needs = keys::find(key).and_then(|key| key.needs);
            needs.is_some_and(|needs| {
                needs.key == "finetuning_type"
                    && !method.is_empty()
                    && !needs.values.contains(&method.as_str())
            })
        };
        self.values.retain(|key, _| !hidden(key));
    }

    /// Returns the values that make up a configuration: what differs from the defaults, and the three choices.
    pub fn from_config(config: &RunConfig) -> Self {
        let mut values = Self::default();
        for changed in config.changed_keys() {
            values.insert_value(changed.key, &changed.value);
        }
        for key in ["stage", "finetuning_type", "backend"] {
            if let Some(value) = config.to_flat_json().get(key) {
                values.insert_value(key, value);
            }
        }
        values
    }

    fn insert_value(&mut self, key: &str, value: &Value) {
        let text = match value {
            Value::Null => return,
            Value::String(text) => text.clone(),
            Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
            Value::Number(number) => match number.as_f64() {
                Some(float) if !number.is_i64() && !number.is_u64() => {
                    crate::view::figure::setting(float)
                }
                _ => number.to_string(),
            },
            Value::Object(inner) => {
                for (name, value) in inner {
                    self.insert_value(&format!("{key}.{name}"), value);
                }
                return;
            }
            Value::Bool(_) => value.to_string(),
        };
        if !text.is_empty() {
            self.values.insert(key.to_owned(), text);
        }
    }

    /// Whether nobody typed anything yet.
    pub fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// Returns the text of a field; empty where nothing was typed.
    pub fn get(&self, key: &str) -> &str {
        self.values.get(key).map_or("", String::as_str)
    }

    /// Returns the names of a list.
    pub fn list(&self, key: &str) -> Vec<String> {
        self.get(key)
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// Sets a field.
    pub fn set(&mut self, key: &str, value: impl Into<String>) {
        self.values.insert(key.to_owned(), value.into());
    }

    /// Returns the word of the form's own precision field.
    pub fn compute_type(&self) -> &'static str {
        ["pure_bf16", "bf16", "fp16"]
            .into_iter()
            .find(|key| self.get(key) == "true")
            .unwrap_or("fp32")
    }

    /// Returns every field with its text.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Returns the values as the parser takes them. One process needs no word: LLaMA-Factory has no key for it.
    pub fn to_pairs(&self) -> BTreeMap<String, Value> {
        let is_said = |(key, value): &(&String, &String)| {
            key.as_str() != "backend" || value.as_str() != "single"
        };
        self.values
            .iter()
            .filter(is_said)
            .map(|(key, value)| (key.clone(), Value::String(value.clone())))
            .collect()
    }

    /// Reads the values as a configuration.
    pub fn parse(&self) -> Result<Parsed, ConfigErrors> {
        RunConfig::from_pairs(&self.to_pairs())
    }

    /// Returns the numeric fields whose text has a decimal comma, which may mean two things and is never guessed.
    pub fn decimal_commas(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs()
            .filter(|(key, value)| is_number(key) && value.contains(','))
    }
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn is_number(key: &str) -> bool {
    keys::find(key).is_some_and(|key| matches!(key.kind, Kind::Integer | Kind::Number))
}

/// Trims a value; in a number, full-width digits and signs become plain ones.
fn tidy(key: &str, value: &str) -> String {
    let value = value.trim();
    if !is_number(key) {
        return value.replace("\r\n", "\n");
    }
    value
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| match c {
            '\u{ff10}'..='\u{ff19}' => {
                char::from(b'0' + u8::try_from(u32::from(c) - 0xff10).unwrap_or(0))
            }
            '．' | '。' => '.',
            '，' => ',',
            '－' | '−' | '–' | '﹣' => '-',
            '＋' => '+',
            'ｅ' | 'Ｅ' => 'e',
            other => other,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn posted(pairs: &[(&str, &str)]) -> FormValues {
        FormValues::from_posted(
            &pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn full_width_digits_and_signs_are_numbers() {
        let values = posted(&[
            ("learning_rate", " ５ｅ－５ "),
            ("val_size", "０．１"),
            ("lora_rank", "１６"),
        ]);
        assert_eq!(
            [
                values.get("learning_rate"),
                values.get("val_size"),
                values.get("lora_rank")
            ],
            ["5e-5", "0.1", "16"]
        );
    }

    #[test]
    fn a_decimal_comma_is_named_not_guessed() {
        let values = posted(&[("val_size", "0,1"), ("dataset", "a"), ("dataset", "b")]);
        assert_eq!(
            values.decimal_commas().collect::<Vec<_>>(),
            [("val_size", "0,1")]
        );
        assert_eq!(values.list("dataset"), ["a", "b"]);
    }

    #[test]
    fn fields_of_another_method_are_left_out() {
        let values = posted(&[
            ("finetuning_type", "full"),
            ("lora_rank", "8"),
            ("compute_type", "bf16"),
        ]);
        assert_eq!(
            (
                values.get("lora_rank"),
                values.get("bf16"),
                values.compute_type()
            ),
            ("", "true", "bf16")
        );
    }
}
