//! The key table agrees with itself and with the structs.

use std::collections::BTreeSet;

use run_protocol::{
    Availability, Backend, RunConfig, Stage,
    keys::{self, Effect, KEYS, Kind},
};

#[test]
fn every_name_and_alias_is_unique() {
    let mut seen = BTreeSet::new();
    for name in KEYS
        .iter()
        .flat_map(|key| std::iter::once(&key.name).chain(key.aliases))
    {
        assert!(seen.insert(*name), "`{name}` stands twice in the table");
    }
}

#[test]
fn every_stored_key_is_a_field_and_every_field_a_key() {
    let flat = RunConfig::default().to_flat_json();
    let stored: Vec<&str> = KEYS
        .iter()
        .filter(|key| key.is_stored)
        .map(|key| key.name)
        .collect();
    assert_eq!(flat.keys().map(String::as_str).collect::<Vec<_>>(), stored);
    let nested = serde_json::to_value(RunConfig::default()).expect("a config is JSON");
    let fields: usize = nested
        .as_object()
        .expect("it is a map")
        .values()
        .map(|value| value.as_object().map_or(1, serde_json::Map::len))
        .sum();
    assert_eq!(fields, stored.len());
}

#[test]
fn defaults_lie_in_their_ranges_and_have_a_help() {
    for key in KEYS {
        assert!(!key.help.is_empty(), "{}", key.name);
        if let (Some(range), Some(default)) = (key.range, key.default) {
            let value: f64 = default.parse().expect("a number");
            assert!(range.contains(value), "{}", key.name);
        }
        if let Some(needs) = key.needs {
            assert!(
                keys::find(needs.key.split('.').next().expect("a word")).is_some(),
                "{}",
                key.name
            );
        }
        if let Some(classic) = key.stands_for {
            assert!(keys::find(classic).is_some(), "{}", key.name);
        }
        if key.is_stored {
            assert!(!matches!(key.effect, Effect::Refused(..)), "{}", key.name);
            assert!(key.kind != Kind::Any, "{}", key.name);
        }
    }
}

#[test]
fn every_choice_can_be_read() {
    for key in KEYS.iter().filter(|key| key.is_stored) {
        for choice in key.choices() {
            let text = format!("{}: \"{}\"\n", key.name, choice.value);
            assert!(RunConfig::from_yaml(&text, &[]).is_ok(), "{text}");
        }
    }
}

#[test]
fn availability_has_one_place() {
    assert_eq!(Stage::Sft.availability(), Availability::Available);
    assert!(Stage::Dpo.availability().reason().is_some());
    assert_eq!(Backend::Single.availability(), Availability::Available);
    let stage = keys::find("stage").expect("it is a key");
    assert_eq!(stage.choices().len(), Stage::ALL.len());
}
