//! Documents and recipes agree with the code.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::PathBuf};

use run_protocol::{
    Event, EventKind, ExitCode, ExitRecord, RunConfig, TrainerLogLine,
    keys::{Dialect, Effect, KEYS, Key, Kind, Section},
};

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

#[test]
fn every_recipe_is_sound() {
    let mut count = 0;
    for entry in fs::read_dir(repository().join("recipes")).expect("the recipes are there") {
        let path = entry.expect("an entry").path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            let text = fs::read_to_string(&path).expect("it is text");
            let parsed = RunConfig::from_yaml(&text, &[])
                .unwrap_or_else(|errors| panic!("{}: {errors}", path.display()));
            let report = parsed.check();
            assert!(
                report.is_ok() && report.warnings.is_empty(),
                "{}: {report:?}",
                path.display()
            );
            count += 1;
        }
    }
    assert!(count >= 2);
}

#[test]
fn the_examples_of_the_protocol_are_what_the_code_reads() {
    let text =
        fs::read_to_string(repository().join("docs/protocol.md")).expect("the document is there");
    let mut kinds = BTreeSet::new();
    for line in text.lines().filter(|line| line.starts_with("{\"v\":1")) {
        let event = Event::from_line(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(!matches!(event.kind, EventKind::Unknown(_)), "{line}");
        kinds.insert(event.kind.name().to_owned());
        assert_eq!(event.to_line().expect("it is JSON"), line);
    }
    assert_eq!(kinds.len(), 10);
    for code in ExitCode::ALL {
        assert!(
            text.contains(&format!("| {} | `{}` |", code.code(), code.class())),
            "{code}"
        );
    }
    let record = text
        .split("```json\n")
        .find(|part| part.starts_with("{\n"))
        .expect("an exit record");
    let record: ExitRecord =
        serde_json::from_str(record.split("```").next().expect("a block")).expect("it is one");
    assert_eq!(record.exit_code(), Some(ExitCode::BadData));
    let line = text
        .lines()
        .find(|line| line.starts_with("{\"current_steps\""))
        .expect("a log line");
    let parsed: TrainerLogLine = serde_json::from_str(line).expect("it is one");
    assert_eq!(serde_json::to_string(&parsed).expect("it is JSON"), line);
}

/// Set `UPDATE_DOCUMENTS=1` to write the document anew.
#[test]
fn the_key_reference_is_the_key_table() {
    let path = repository().join("docs/configuration.md");
    let expected = reference();
    if std::env::var_os("UPDATE_DOCUMENTS").is_some() {
        fs::write(&path, &expected).expect("it is written");
    }
    let text = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == expected,
        "docs/configuration.md is not what the key table says; run the test with UPDATE_DOCUMENTS=1"
    );
}

const HEAD: &str = "\
# Configuration

A run has one configuration: the form, a YAML or JSON file, `key=value` words of the command line and the REST interface all end in
it. The keys are LLaMA-Factory's flat ones. A key that only its v1 trainer spells so (`model`, `train_dataset`, `micro_batch_size`,
`global_batch_size`, `peft_config`, …) selects v1's defaults; two spellings of one thing in one file are refused. On the command
line nested keys are dotted: `dist_config.name=fsdp2`.

Every key is either acted on, accepted without effect (and listed on the run's page), or refused with the reason. All faults of a
file are reported at once. Anchors, aliases and tags are not read; a file is at most 1 MiB.

This page is written from the key table in `trainer/crates/protocol/src/keys` by a test; do not edit it.
";

fn reference() -> String {
    let mut text = HEAD.to_owned();
    for section in Section::ALL {
        let keys: Vec<&Key> = KEYS
            .iter()
            .filter(|key| key.section == *section && key.is_stored)
            .collect();
        let name = section.as_str();
        let _written = writeln!(text, "\n## {}{}\n", name[..1].to_uppercase(), &name[1..]);
        text.push_str("| key | value | default | what it does |\n|---|---|---|---|\n");
        for key in keys {
            row(&mut text, key, "");
            if let Kind::Map(inner) = key.kind {
                for inner in inner {
                    row(&mut text, inner, &format!("{}.", key.name));
                }
            }
        }
    }
    text.push_str("\n## Other spellings\n\n| key | stands for |\n|---|---|\n");
    for key in KEYS
        .iter()
        .filter(|key| key.dialect == Dialect::V1 || key.stands_for.is_some())
    {
        let inner = if let Kind::Map(inner) = key.kind {
            inner
        } else {
            &[]
        };
        let outer = key.stands_for.map(|classic| (key.name.to_owned(), classic));
        let inner = inner
            .iter()
            .filter_map(|inner| Some((format!("{}.{}", key.name, inner.name), inner.stands_for?)));
        for (name, classic) in outer.into_iter().chain(inner) {
            let _written = writeln!(text, "| `{name}` | `{classic}` |");
        }
    }
    listing(&mut text, "Accepted without effect", |key| {
        match key.effect {
            Effect::NoEffect(reason) => Some(reason.to_owned()),
            _ => None,
        }
    });
    listing(&mut text, "Later", |key| match key.effect {
        Effect::Later(reason) => Some(reason.to_owned()),
        _ => None,
    });
    listing(&mut text, "Refused", |key| match key.effect {
        Effect::Refused(reason, hint) => Some(format!("{reason}; {hint}")),
        _ => None,
    });
    text
}

fn listing(text: &mut String, title: &str, reason: impl Fn(&Key) -> Option<String>) {
    let _written = write!(text, "\n## {title}\n\n| key | why |\n|---|---|\n");
    let mut rows: Vec<String> = KEYS
        .iter()
        .filter_map(|key| Some(format!("| `{}` | {} |\n", key.name, reason(key)?)))
        .collect();
    rows.sort();
    text.extend(rows);
}

fn row(text: &mut String, key: &Key, prefix: &str) {
    let default = match (key.default, key.v1_default) {
        (Some(default), Some(v1)) => format!("`{default}`; v1 `{v1}`"),
        (Some(default), None) => format!("`{default}`"),
        _ => String::new(),
    };
    let mut help = key.help.to_owned();
    if let Some(needs) = key.needs {
        let values: Vec<String> = needs
            .values
            .iter()
            .map(|value| format!("`{value}`"))
            .collect();
        let _written = write!(help, " (with `{}` {})", needs.key, values.join(", "));
    }
    if let Effect::Later(reason) | Effect::NoEffect(reason) = key.effect {
        let _written = write!(help, " ({reason})");
    }
    let _written = writeln!(
        text,
        "| `{prefix}{}` | {} | {default} | {help} |",
        key.name,
        value(key)
    );
}

fn value(key: &Key) -> String {
    let unit = key
        .unit
        .map_or_else(String::new, |unit| format!(" of {unit}"));
    match key.kind {
        Kind::Choice(choices) => {
            let word = |choice: &run_protocol::Choice| {
                let mark = if choice.availability.is_available() {
                    ""
                } else {
                    "~~"
                };
                format!("{mark}`{}`{mark}", choice.value)
            };
            choices.iter().map(word).collect::<Vec<_>>().join(" ")
        }
        Kind::Map(_) => "map".to_owned(),
        kind => match key.range {
            Some(range) => format!("{}{unit}, {}", kind.expected(), range.describe()),
            None => kind.expected().to_owned(),
        },
    }
}
