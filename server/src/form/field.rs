//! One field as the form shows it.

use askama::Template;
use askama::filters::HtmlSafe;
use run_protocol::Availability;
use run_protocol::keys::{self, Key, Kind};

use super::faults::{Fault, Faults};
use super::values::{COMPUTE_TYPE, FormValues};
use crate::i18n::Tr;
use crate::view::{Prose, prose};

/// A field with its label, control, help and faults.
#[derive(Debug, Template)]
#[template(path = "macros/field.html")]
pub struct FieldView {
    key: String,
    label: String,
    help: String,
    unit: String,
    value: String,
    default: String,
    control: Control,
    /// Whether the value differs from the default.
    pub is_changed: bool,
    needs: &'static str,
    later_note: Option<String>,
    /// What is wrong with it.
    pub errors: Vec<Fault>,
}

impl HtmlSafe for FieldView {}

/// How a value is entered.
#[derive(Debug)]
pub enum Control {
    /// On or off.
    Check(bool),
    /// A line of text; whether it is a number.
    Text(bool),
    /// Several lines of text.
    Area,
    /// One word out of many.
    Select(Vec<OptionView>),
    /// One word out of few, all in view.
    Choices(Vec<OptionView>),
}

/// One word to choose.
#[derive(Debug, Clone)]
pub struct OptionView {
    /// What is sent.
    pub value: String,
    /// What is read.
    pub text: String,
    /// Whether it comes in a later version.
    pub is_later: bool,
    /// Why.
    pub reason: Option<String>,
}

impl FieldView {
    /// Returns the view of a key. A name that is no key gives a plain text field; a test keeps that from happening.
    pub fn new(t: Tr, name: &str, values: &FormValues, faults: &Faults) -> Self {
        let key = keys::find(name);
        let default = key.and_then(|key| key.default).unwrap_or_default();
        let value = values.get(name);
        let mut view = Self {
            key: name.to_owned(),
            label: label(t, name),
            help: help(t, name, key),
            unit: key
                .and_then(|key| key.unit)
                .map(|unit| t.s(format!("unit.{unit}")))
                .unwrap_or_default(),
            value: value.to_owned(),
            default: default.to_owned(),
            control: key.map_or(Control::Text(false), |key| control(t, key, value)),
            is_changed: !value.is_empty() && !is_same(value, default),
            needs: match key.and_then(|key| key.needs) {
                Some(needs) if needs.key == "finetuning_type" => needs.values[0],
                Some(needs)
                    if needs.key == "stage"
                        && needs.values != ["sft"]
                        && needs.values.len() < 3 =>
                {
                    "stage"
                }
                _ => "",
            },
            later_note: t.find(format!("later.{name}.note")).map(str::to_owned),
            errors: faults.of(name),
        };
        if matches!(view.control, Control::Select(_) | Control::Choices(_)) && value.is_empty() {
            if name == "backend" { "single" } else { default }.clone_into(&mut view.value);
        }
        view
    }

    /// Returns a key of few words, all in view.
    pub fn choices(t: Tr, name: &str, values: &FormValues, faults: &Faults) -> Self {
        let mut view = Self::new(t, name, values, faults);
        if let Control::Select(options) = view.control {
            view.control = Control::Choices(options);
        }
        view.is_changed = false;
        view
    }

    /// Returns the form's own field for the number format.
    pub fn compute_type(t: Tr, values: &FormValues, faults: &Faults) -> Self {
        let value = values.compute_type();
        let options = run_protocol::Precision::CHOICES.iter().map(|choice| {
            option(
                choice.value.to_owned(),
                t.s(format!("choice.compute_type.{}", choice.value)),
                choice.availability,
            )
        });
        Self {
            key: COMPUTE_TYPE.into(),
            label: label(t, COMPUTE_TYPE),
            help: t.s("help.compute_type"),
            unit: String::new(),
            value: value.to_owned(),
            default: "fp32".into(),
            control: Control::Select(options.collect()),
            is_changed: value != "fp32",
            needs: "",
            later_note: None,
            errors: faults.of(COMPUTE_TYPE),
        }
    }

    fn id(&self) -> String {
        format!("f-{}", self.key.replace('.', "-"))
    }

    fn is_wide(&self) -> bool {
        matches!(
            self.key.as_str(),
            "finetuning_type"
                | "default_system"
                | "resume_from_checkpoint"
                | "adapter_name_or_path"
        )
    }

    /// Returns the attributes that tie a control to its help and fault; the name of a key needs no escaping.
    fn aria(&self) -> Aria {
        Aria::new(&self.id(), !self.errors.is_empty())
    }

    /// Returns why some of the options cannot be taken, in one line where the catalogue has one.
    fn later_reasons(&self, options: &[OptionView]) -> Option<Prose> {
        if let Some(note) = &self.later_note
            && options.iter().any(|option| option.is_later)
        {
            return Some(prose(note));
        }
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for option in options {
            let Some(reason) = option.reason.as_deref() else {
                continue;
            };
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, names)) => names.push(&option.text),
                None => reasons.push((reason, vec![&option.text])),
            }
        }
        let said: Vec<_> = reasons
            .into_iter()
            .map(|(reason, names)| format!("{}: {reason}", names.join(", ")))
            .collect();
        (!said.is_empty()).then(|| prose(said.join(" · ")))
    }
}

/// `aria-describedby` and `aria-invalid` of a control.
#[derive(Debug)]
pub struct Aria(String);

impl Aria {
    /// Ties the control `id` to its help, and to its fault if there is one.
    pub fn new(id: &str, is_invalid: bool) -> Self {
        Self(if is_invalid {
            format!(r#" aria-invalid="true" aria-describedby="{id}-error {id}-help""#)
        } else {
            format!(r#" aria-describedby="{id}-help""#)
        })
    }
}

impl std::fmt::Display for Aria {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl HtmlSafe for Aria {}

/// Returns the label of a key in the reader's language.
pub fn label(t: Tr, name: &str) -> String {
    t.find(format!("field.{name}"))
        .map_or_else(|| name.replace('_', " "), str::to_owned)
}

/// Returns the help of a key in the reader's language.
pub(super) fn help(t: Tr, name: &str, key: Option<&Key>) -> String {
    let own = t.find(format!("help.{name}")).map(str::to_owned);
    own.or_else(|| key.map(|key| key.help.to_owned()))
        .unwrap_or_default()
}

fn option(value: String, text: String, availability: Availability) -> OptionView {
    let reason = availability.reason().map(str::to_owned);
    OptionView {
        value,
        text,
        is_later: reason.is_some(),
        reason,
    }
}

fn control(t: Tr, key: &Key, value: &str) -> Control {
    match key.kind {
        Kind::Bool if key.is_optional => {
            let word = |value: &str, text: &str| {
                option(value.to_owned(), t.s(text), Availability::Available)
            };
            Control::Select(vec![
                word("true", "form.yes"),
                word("false", "form.no"),
                word("null", "form.unset"),
            ])
        }
        Kind::Bool => Control::Check(if value.is_empty() {
            key.default == Some("true")
        } else {
            value == "true"
        }),
        Kind::Integer | Kind::Number => Control::Text(true),
        Kind::Choice(choices) => {
            let mut options = Vec::new();
            if key.is_optional && key.name != "backend" {
                options.push(option(
                    String::new(),
                    t.s("form.choose"),
                    Availability::Available,
                ));
            }
            options.extend(choices.iter().map(|choice| {
                let text = t
                    .find(format!("choice.{}.{}", key.name, choice.value))
                    .unwrap_or(choice.value);
                let is_in_view = matches!(key.name, "stage" | "backend" | "finetuning_type");
                let text = if choice.availability.is_available() || is_in_view {
                    text.to_owned()
                } else {
                    t.f1("form.later_option", text)
                };
                let mut view = option(choice.value.to_owned(), text, choice.availability);
                let said = t
                    .find(format!("later.{}.{}", key.name, choice.value))
                    .or_else(|| t.find(format!("later.{}", key.name)));
                view.reason = view.reason.map(|reason| said.map_or(reason, str::to_owned));
                view
            }));
            Control::Select(options)
        }
        _ if key.name == "default_system" => Control::Area,
        _ => Control::Text(false),
    }
}

/// Whether two texts mean the same value.
fn is_same(value: &str, default: &str) -> bool {
    value == default
        || matches!((value.parse::<f64>(), default.parse::<f64>()), (Ok(a), Ok(b)) if a.total_cmp(&b).is_eq())
}
