//! The tree to a config, after the key table.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    Place, convert,
    tree::{self, Entry, Node},
    v1,
};
use crate::{
    config::{AcceptedKey, Parsed, RunConfig},
    error::{Code, ConfigError},
    keys::{self, Dialect, Effect, KEYS, Key, Section},
    limits::MAX_CONFIG_ERRORS,
};

/// Keys that shape a new adapter; one that is continued brings its own values.
const OF_THE_ADAPTER: &[&str] = &[
    "lora_rank",
    "lora_alpha",
    "lora_dropout",
    "lora_target",
    "use_rslora",
];

/// A value that the text gives.
#[derive(Debug, Clone)]
struct Given {
    value: Value,
    place: Option<Place>,
    written_as: String,
}

/// What came out.
pub(super) struct Built {
    /// The config; where something is wrong, with the default in its place.
    pub(super) parsed: Parsed,
    /// How each stored key was written.
    spellings: BTreeMap<String, &'static str>,
}

impl Built {
    /// Returns the keys that a fault makes unsure, by their stored names.
    pub(super) fn touched_by(&self, error: &ConfigError) -> Vec<String> {
        let mut touched = Vec::new();
        for field in std::iter::once(&error.field).chain(&error.related) {
            touched.push(field.clone());
            let head = field.split('.').next().unwrap_or_default();
            touched.push(head.to_owned());
            touched.extend(self.spellings.get(field).map(|name| (*name).to_owned()));
            touched.extend(
                keys::find(head)
                    .and_then(|key| key.stands_for)
                    .map(str::to_owned),
            );
            if error.code == Code::UnknownKey {
                let near = keys::nearest(field).and_then(keys::find);
                touched.extend(near.map(|key| key.stands_for.unwrap_or(key.name).to_owned()));
            }
        }
        touched
    }
}

/// Collects what is given, key by key.
pub(super) struct Builder<'errors> {
    given: BTreeMap<&'static str, Given>,
    accepted: Vec<AcceptedKey>,
    spellings: BTreeMap<String, &'static str>,
    errors: &'errors mut Vec<ConfigError>,
}

/// Builds a config of entries. Faults go to `errors`.
pub(super) fn build(entries: &[Entry], errors: &mut Vec<ConfigError>) -> Built {
    let is_v1 = entries
        .iter()
        .filter_map(|entry| keys::find(&entry.key))
        .any(|key| key.dialect == Dialect::V1);
    let mut builder = Builder {
        given: BTreeMap::new(),
        accepted: Vec::new(),
        spellings: BTreeMap::new(),
        errors,
    };
    for entry in entries {
        if builder.errors.len() >= MAX_CONFIG_ERRORS {
            let reason =
                format!("there are more than {MAX_CONFIG_ERRORS} faults; the rest is not listed");
            builder.error(ConfigError::new(Code::TooLarge, "", reason).at(entry.place));
            break;
        }
        match keys::find(&entry.key) {
            None => builder.refuse_unknown(entry),
            Some(key) if key.name == "peft_config" => {
                v1::take_peft_config(&mut builder, key, entry);
            }
            Some(key) => builder.take(key, &entry.key, &entry.value, entry.place),
        }
    }
    builder.finish(is_v1)
}

impl Builder<'_> {
    /// Reports a fault.
    pub(super) fn error(&mut self, error: ConfigError) {
        self.errors.push(error);
    }

    /// Takes one key as it is written.
    pub(super) fn take(
        &mut self,
        key: &'static Key,
        path: &str,
        node: &Node,
        place: Option<Place>,
    ) {
        match key.effect {
            Effect::NoEffect(reason) if !key.is_stored => self.accept(path, node, reason),
            Effect::Later(reason) if !key.is_stored => {
                if !is_off(key, node) {
                    let error = ConfigError::new(Code::NotAvailable, path, reason);
                    self.errors
                        .push(error.value(node.show()).at(node.place.or(place)));
                }
            }
            Effect::Refused(reason, hint) => {
                if !is_off(key, node) {
                    let error = ConfigError::new(Code::Refused, path, reason).with_hint(hint);
                    let error = with_value(error, key.name, node);
                    self.errors.push(error.at(node.place.or(place)));
                }
            }
            Effect::NoEffect(_) | Effect::Later(_) | Effect::ActedOn => {
                self.convert(key, path, node, place);
            }
        }
    }

    fn accept(&mut self, path: &str, node: &Node, reason: &str) {
        if !node.is_null() {
            self.accepted.push(AcceptedKey {
                key: path.to_owned(),
                reason: reason.to_owned(),
            });
        }
    }

    fn convert(&mut self, key: &'static Key, path: &str, node: &Node, place: Option<Place>) {
        let target = key.stands_for.and_then(keys::find).unwrap_or(key);
        if target.stands_for.is_none()
            && !std::ptr::eq(target, key)
            && target.effect != Effect::ActedOn
        {
            return self.take(target, path, node, place);
        }
        let is_inverse = matches!(
            key.name,
            "enable_activation_checkpointing" | "gradient_checkpointing"
        );
        match convert::convert(target, path, node) {
            Ok(None) => {}
            Ok(Some(value)) => {
                let value = if is_inverse {
                    Value::Bool(value != Value::Bool(true))
                } else {
                    value
                };
                self.store(target, path, value, node.place.or(place));
            }
            Err(errors) => {
                for error in errors {
                    let place = error.line.zip(error.column).or(place);
                    self.spellings.insert(error.field.clone(), target.name);
                    self.errors.push(error.at(place));
                }
            }
        }
    }

    fn store(&mut self, key: &'static Key, path: &str, value: Value, place: Option<Place>) {
        if let Some(first) = self.given.get(key.name) {
            let reason = format!(
                "`{}` and `{path}` are two spellings of one thing",
                first.written_as
            );
            self.errors.push(
                ConfigError::new(Code::Conflict, path, reason)
                    .value(show(&value))
                    .with_related(first.written_as.clone())
                    .with_hint("keep one of the two")
                    .at(place),
            );
            return;
        }
        if let Effect::Later(reason) = key.effect
            && value != convert::default_value(key, key.default)
        {
            self.errors.push(
                ConfigError::new(Code::NotAvailable, path, reason)
                    .value(show(&value))
                    .at(place),
            );
            return;
        }
        self.spellings.insert(path.to_owned(), key.name);
        self.given.insert(
            key.name,
            Given {
                value,
                place,
                written_as: path.to_owned(),
            },
        );
    }

    fn refuse_unknown(&mut self, entry: &Entry) {
        let key = tree::cut(&entry.key);
        let error = ConfigError::new(Code::UnknownKey, key, "there is no such key");
        let error = match keys::nearest(&entry.key) {
            Some(near) => error.with_hint(format!("did you mean `{near}`?")),
            None => error.with_hint("take the key out, or look it up in `docs/configuration.md`"),
        };
        self.errors
            .push(with_value(error, &entry.key, &entry.value).at(entry.place));
    }

    fn is_given(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    fn finish(mut self, is_v1: bool) -> Built {
        let is_peft = self
            .given
            .get("finetuning_type")
            .is_some_and(|given| given.written_as.starts_with("peft_config"));
        let mut values: BTreeMap<&'static str, Value> = BTreeMap::new();
        for key in KEYS.iter().filter(|key| key.is_stored) {
            let default = match key.name {
                "lora_alpha" if is_peft => Some("16"),
                "lora_dropout" if is_peft => Some("0.05"),
                "save_strategy" if is_v1 && self.is_given("save_steps") => Some("steps"),
                _ if is_v1 => key.v1_default.or(key.default),
                _ => key.default,
            };
            values.insert(key.name, convert::default_value(key, default));
        }
        for (name, given) in &self.given {
            values.insert(name, given.value.clone());
        }
        self.derive_accumulation(&mut values);
        self.accept_unmet(&values);
        let config = assemble(&values);
        let places = self
            .given
            .iter()
            .filter_map(|(name, given)| Some(((*name).to_owned(), given.place?)))
            .collect();
        let written_as = self
            .given
            .iter()
            .map(|(name, given)| ((*name).to_owned(), given.written_as.clone()))
            .collect();
        Built {
            parsed: Parsed {
                config,
                accepted_without_effect: self.accepted,
                places,
                written_as,
            },
            spellings: self.spellings,
        }
    }

    /// `global_batch_size` decides the accumulation, as far as the ranks are known. `check` refuses what does not divide.
    fn derive_accumulation(&mut self, values: &mut BTreeMap<&'static str, Value>) {
        let number = |name: &str| values.get(name).and_then(Value::as_u64);
        let Some(global) = number("global_batch_size") else {
            return;
        };
        if let (Some(first), Some(second)) = (
            self.given.get("global_batch_size"),
            self.given.get("gradient_accumulation_steps"),
        ) {
            let reason =
                "`global_batch_size` and `gradient_accumulation_steps` decide the same thing";
            self.errors.push(
                ConfigError::new(Code::Conflict, "gradient_accumulation_steps", reason)
                    .value(show(&second.value))
                    .with_related("global_batch_size")
                    .with_hint("keep one of the two")
                    .at(second.place.or(first.place)),
            );
        }
        let rows =
            number("per_device_train_batch_size").unwrap_or(1) * number("dp_size").unwrap_or(1);
        let steps = if rows > 0 && global % rows == 0 {
            global / rows
        } else {
            1
        };
        values.insert("gradient_accumulation_steps", Value::from(steps));
    }

    /// Lists stored keys that were given and change nothing: none does, or another key decides that.
    fn accept_unmet(&mut self, values: &BTreeMap<&'static str, Value>) {
        for (name, given) in &self.given {
            let Some(key) = keys::find(name) else {
                continue;
            };
            if given.value == convert::default_value(key, key.default) {
                continue;
            }
            if let Some(reason) = without_effect(key, values) {
                self.accepted.push(AcceptedKey {
                    key: given.written_as.clone(),
                    reason,
                });
            }
        }
    }
}

/// Returns why a stored key changes nothing beside these values.
fn without_effect(key: &Key, values: &BTreeMap<&'static str, Value>) -> Option<String> {
    if let Effect::NoEffect(reason) = key.effect {
        return Some(reason.to_owned());
    }
    if let Some(needs) = key.needs {
        let met = values
            .get(needs.key)
            .and_then(Value::as_str)
            .is_some_and(|value| needs.values.contains(&value));
        if !met {
            let words: Vec<String> = needs
                .values
                .iter()
                .map(|value| format!("`{}: {value}`", needs.key))
                .collect();
            return Some(format!("it needs {}", words.join(" or ")));
        }
    }
    let continues_adapter = values
        .get("adapter_name_or_path")
        .and_then(Value::as_array)
        .is_some_and(|adapters| !adapters.is_empty())
        && values.get("create_new_adapter") != Some(&Value::Bool(true));
    (continues_adapter && OF_THE_ADAPTER.contains(&key.name)).then(|| {
        "the adapter of `adapter_name_or_path` is continued, and its own values hold".to_owned()
    })
}

/// Puts flat values into their sections.
fn assemble(values: &BTreeMap<&'static str, Value>) -> RunConfig {
    let mut nested = Map::new();
    for section in Section::ALL {
        let fields: Map<String, Value> = keys::of_section(*section)
            .map(|key| (key.name.to_owned(), values[key.name].clone()))
            .collect();
        if *section == Section::Task {
            nested.extend(fields);
        } else {
            nested.insert(section.as_str().to_owned(), Value::Object(fields));
        }
    }
    serde_json::from_value(Value::Object(nested))
        .expect("the key table gives every field a value of its type")
}

/// Adds the value to a fault, unless it may be a secret, which is not repeated.
fn with_value(error: ConfigError, key: &str, node: &Node) -> ConfigError {
    let key = key.to_ascii_lowercase();
    let ends = ["token", "_key", "secret", "password", "webhook_url"];
    if ends.iter().any(|end| key.ends_with(end)) {
        error
    } else {
        error.value(node.show())
    }
}

/// Whether a value means that the feature is off.
fn is_off(key: &Key, node: &Node) -> bool {
    if node.is_null() {
        return true;
    }
    let shown = convert::entries(node)
        .and_then(|entries| {
            entries
                .iter()
                .find(|entry| entry.key == "name")
                .map(|entry| entry.value.show())
        })
        .unwrap_or_else(|| node.show());
    let word = shown.trim();
    let is_zero = word.parse::<f64>().is_ok_and(|value| value == 0.0);
    let is_no = matches!(
        word.to_ascii_lowercase().as_str(),
        "false" | "no" | "off" | "none" | "[]" | ""
    );
    is_zero
        || is_no
        || key.off.contains(&word)
        || key.off.contains(&word.to_ascii_lowercase().as_str())
}

/// Returns a value as a message shows it.
fn show(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
