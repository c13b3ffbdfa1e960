//! From text to a config: one tree of nodes, whatever the source, then one builder that knows the key table.

mod build;
mod convert;
mod overrides;
mod pairs;
mod tree;
mod v1;
mod yaml;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    config::Parsed,
    error::{ConfigError, ConfigErrors},
};
use tree::Entry;

/// Place of a value in the text: line and column, from 1.
pub(crate) type Place = (usize, usize);

/// Reads YAML, then applies overrides.
pub(crate) fn from_yaml(text: &str, overrides: &[String]) -> Result<Parsed, ConfigErrors> {
    let mut errors = Vec::new();
    let mut entries = yaml::read(text, &mut errors)?;
    for text in overrides {
        match overrides::read(text) {
            Ok(entry) => overrides::apply(&mut entries, entry),
            Err(error) => errors.push(*error),
        }
    }
    finish(&entries, errors)
}

/// Reads flat pairs.
pub(crate) fn from_pairs(pairs: &BTreeMap<String, Value>) -> Result<Parsed, ConfigErrors> {
    let mut errors = Vec::new();
    let entries = pairs::read(pairs, &mut errors);
    finish(&entries, errors)
}

/// Returns the classic dialect's defaults.
pub(crate) fn defaults() -> crate::config::RunConfig {
    build::build(&[], &mut Vec::new()).parsed.config
}

/// Builds the config; where something is wrong, adds what the checks find in the rest, so that all comes at once.
fn finish(entries: &[Entry], mut errors: Vec<ConfigError>) -> Result<Parsed, ConfigErrors> {
    let built = build::build(entries, &mut errors);
    if errors.is_empty() {
        return Ok(built.parsed);
    }
    let touched: Vec<String> = errors
        .iter()
        .flat_map(|error| built.touched_by(error))
        .collect();
    for error in built.parsed.check().errors {
        let is_consequence = std::iter::once(&error.field)
            .chain(&error.related)
            .any(|field| touched.contains(field));
        if !is_consequence {
            errors.push(error);
        }
    }
    errors.sort_by_key(|error| (error.line.unwrap_or(usize::MAX), error.column));
    Err(ConfigErrors(errors))
}
