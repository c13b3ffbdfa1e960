//! `peft_config` of the v1 dialect: a map whose keys stand for classic ones.

use super::{build::Builder, convert, tree::Entry};
use crate::{
    error::{Code, ConfigError},
    keys::{self, Key, PEFT_CONFIG},
};

/// Takes `peft_config` apart.
pub(super) fn take_peft_config(builder: &mut Builder<'_>, key: &'static Key, entry: &Entry) {
    if entry.value.is_null() {
        return;
    }
    let place = entry.value.place.or(entry.place);
    let Some(entries) = convert::entries(&entry.value) else {
        let error = ConfigError::new(
            Code::WrongType,
            key.name,
            format!("expected {}", key.kind.expected()),
        );
        builder.error(error.value(entry.value.show()).at(place));
        return;
    };
    if !entries
        .iter()
        .any(|entry| entry.key == "name" && !entry.value.is_null())
    {
        builder.error(
            ConfigError::new(
                Code::Missing,
                "peft_config.name",
                "Plugin configuration must have a 'name' field.",
            )
            .with_hint("write for example `peft_config: {name: lora, r: 8}`")
            .at(place),
        );
    }
    for entry in &entries {
        let path = format!("peft_config.{}", entry.key);
        if let Some(key) = PEFT_CONFIG.iter().find(|key| key.name == entry.key) {
            let target = key.stands_for.and_then(keys::find).unwrap_or(key);
            builder.take(target, &path, &entry.value, entry.place);
            continue;
        }
        let expected: Vec<String> = PEFT_CONFIG
            .iter()
            .map(|key| format!("`{}`", key.name))
            .collect();
        builder.error(
            ConfigError::new(Code::UnknownKey, path, "there is no such key")
                .value(entry.value.show())
                .with_hint(format!("expected {}", expected.join(", ")))
                .at(entry.place),
        );
    }
}
