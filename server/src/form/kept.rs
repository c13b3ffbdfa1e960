//! Values that came with a YAML and have no field: each stays in the form, in view, until it is ticked off.

use askama::Template;
use askama::filters::HtmlSafe;
use run_protocol::keys;

use super::faults::{Fault, Faults};
use super::field::{Aria, help};
use super::layout::{DATA, GROUPS, METHOD, TRAINING};
use super::values::FormValues;
use crate::i18n::Tr;

/// Keys that other parts of the form enter, and those that the board decides.
const ENTERED: &[&str] = &[
    "stage",
    "backend",
    "finetuning_type",
    "model_name_or_path",
    "dataset",
    "output_dir",
    "overwrite_output_dir",
];

/// One value without a field.
#[derive(Debug, Template)]
#[template(path = "macros/kept.html")]
pub struct KeptView {
    key: String,
    value: String,
    help: String,
    errors: Vec<Fault>,
}

impl HtmlSafe for KeptView {}

impl KeptView {
    fn id(&self) -> String {
        format!("f-{}", self.key.replace('.', "-"))
    }

    fn aria(&self) -> Aria {
        Aria::new(&self.id(), !self.errors.is_empty())
    }
}

/// Returns the values that no field of the form would send again.
pub fn kept(t: Tr, values: &FormValues, faults: &Faults) -> Vec<KeptView> {
    let precision = values.compute_type();
    let has_field = |key: &str| match key {
        "pure_bf16" | "bf16" | "fp16" => key == precision || values.get(key) == "false",
        key => {
            let mut grouped = GROUPS.iter().flat_map(|(_, _, keys)| keys.iter());
            [ENTERED, DATA, METHOD, TRAINING]
                .iter()
                .any(|keys| keys.contains(&key))
                || grouped.any(|name| *name == key)
        }
    };
    let rest = values.pairs().filter(|(key, _)| !has_field(key));
    rest.map(|(key, value)| KeptView {
        help: help(t, key, keys::find(key)),
        errors: faults.of(key),
        key: key.to_owned(),
        value: value.to_owned(),
    })
    .collect()
}
