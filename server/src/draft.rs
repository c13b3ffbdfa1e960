//! A run that is not yet made: the same way in for the form, the YAML and REST.
//!
//! A draft is read, its paths are resolved against the data folder, and it is checked; only what
//! passes goes to the supervisor.

use std::collections::BTreeMap;

use run_protocol::{AcceptedKey, Code, ConfigError, ConfigErrors, Parsed, Report, RunConfig};
use serde_json::Value;
use trainer_data::{DataError, DatasetInfo};

use crate::catalog;
use crate::config::ServerConfig;
use crate::error::{Error, FieldProblem};

/// Most characters of a run's name.
pub const MAX_NAME_LENGTH: usize = 200;

/// Most characters of a tag.
const MAX_TAG_LENGTH: usize = 60;

/// Most tags of a run.
const MAX_TAGS: usize = 50;

/// Refuses names and tags that no page could show: empty, overlong, or with control characters.
pub fn check_labels(name: Option<&str>, tags: &[String]) -> Result<(), Error> {
    let mut problems = Vec::new();
    problems.extend(name.and_then(|name| check_label("name", name, MAX_NAME_LENGTH)));
    problems.extend(
        tags.iter()
            .filter_map(|tag| check_label("tags", tag, MAX_TAG_LENGTH)),
    );
    if tags.len() > MAX_TAGS {
        problems.push(problem(
            "tags",
            &tags.len().to_string(),
            format!("a run takes up to {MAX_TAGS} tags"),
        ));
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Error::Invalid(problems))
    }
}

fn check_label(field: &str, text: &str, most: usize) -> Option<FieldProblem> {
    let length = text.trim().chars().count();
    if !(1..=most).contains(&length) {
        let reason = format!("takes 1 to {most} characters, got {length}");
        return Some(problem(field, text, reason));
    }
    let is_control = text.chars().any(char::is_control);
    is_control.then(|| problem(field, text, "holds a control character".into()))
}

fn problem(field: &str, value: &str, reason: String) -> FieldProblem {
    FieldProblem {
        field: field.to_owned(),
        value: Some(value.chars().take(80).collect()),
        reason,
        hint: None,
        code: "bad_label".to_owned(),
        related: Vec::new(),
        line: None,
        column: None,
    }
}

fn check_dataset(info: &DatasetInfo, name: &str) -> Result<(), DataError> {
    let dataset = info.describe(name)?;
    dataset.check_supported()?;
    let path = dataset.local_path()?;
    if path.exists() {
        Ok(())
    } else {
        Err(DataError::NotFound { path: path.into() })
    }
}

/// A configuration on its way to become a run.
#[derive(Debug, Clone)]
pub struct Draft {
    /// What the trainer will act on, every path absolute.
    pub config: RunConfig,
    /// The YAML as it was given, or as its changed keys make it.
    pub input_yaml: String,
    /// Keys that were given but change nothing here.
    pub accepted_without_effect: Vec<AcceptedKey>,
}

impl Draft {
    /// Reads YAML in LLaMA-Factory's keys.
    pub fn from_yaml(server: &ServerConfig, text: &str) -> Result<Self, ConfigErrors> {
        let parsed = RunConfig::from_yaml(text, &[])?;
        Ok(Self::new(server, parsed, Some(text.to_owned())))
    }

    /// Reads flat keys with texts or JSON values, as a form or a JSON body gives them.
    pub fn from_pairs(
        server: &ServerConfig,
        pairs: &BTreeMap<String, Value>,
    ) -> Result<Self, ConfigErrors> {
        Ok(Self::new(server, RunConfig::from_pairs(pairs)?, None))
    }

    fn new(server: &ServerConfig, parsed: Parsed, text: Option<String>) -> Self {
        let mut config = parsed.config;
        let input_yaml = text.unwrap_or_else(|| config.to_flat_yaml(true));
        // The default names a folder beside a checkout of LLaMA-Factory; the board has one of its own.
        let defaults = RunConfig::default();
        let is_default = config.data.dataset_dir == defaults.data.dataset_dir;
        if is_default && !server.data_dir.join(&config.data.dataset_dir).is_dir() {
            config.data.dataset_dir = server.datasets_dir();
        }
        let mut accepted_without_effect = parsed.accepted_without_effect;
        if config.training.output_dir != defaults.training.output_dir {
            accepted_without_effect.push(AcceptedKey {
                key: "output_dir".into(),
                reason: "the board keeps every run in a folder of its own".into(),
            });
        }
        config.resolve_paths(&server.data_dir);
        Self {
            config,
            input_yaml,
            accepted_without_effect,
        }
    }

    /// Gives the draft back if it may become a run. Reads folders: call it where blocking is allowed.
    pub fn into_checked(self, server: &ServerConfig) -> Result<Self, ConfigErrors> {
        let errors = self.report(server).errors;
        if errors.is_empty() {
            Ok(self)
        } else {
            Err(ConfigErrors(errors))
        }
    }

    /// Says what is wrong with the config by itself and with what it names on this machine: the model folder and the
    /// datasets. Reads folders: call it where blocking is allowed.
    pub fn report(&self, server: &ServerConfig) -> Report {
        let mut report = self.check();
        report.errors.extend(self.check_model(server));
        report.errors.extend(self.check_datasets(server));
        report
    }

    /// Says which datasets are not there or cannot be used, without reading their rows.
    fn check_datasets(&self, server: &ServerConfig) -> Vec<ConfigError> {
        let data = &self.config.data;
        let refuse = |field: &str, value: String, error: &DataError| {
            let refused =
                ConfigError::new(Code::Refused, field, server.shorten(&error.to_string()));
            match error.hint() {
                Some(hint) => refused.value(value).with_hint(hint),
                None => refused.value(value),
            }
        };
        let chosen = [
            ("dataset", &data.dataset),
            ("eval_dataset", &data.eval_dataset),
        ];
        if chosen.iter().all(|(_, names)| names.is_empty()) {
            return Vec::new(); // said by the check of the config
        }
        let info = match DatasetInfo::load(&data.dataset_dir) {
            Ok(info) => info,
            Err(error) => {
                let folder = server.shorten(&data.dataset_dir.display().to_string());
                return vec![refuse("dataset_dir", folder, &error)];
            }
        };
        let names = chosen
            .into_iter()
            .flat_map(|(field, names)| names.iter().map(move |name| (field, name)));
        names
            .filter_map(|(field, name)| {
                let error = check_dataset(&info, name).err()?;
                Some(refuse(field, name.clone(), &error))
            })
            .collect()
    }

    /// Says why the model folder cannot be trained, if that is plain to see.
    fn check_model(&self, server: &ServerConfig) -> Option<ConfigError> {
        let path = &self.config.model.model_name_or_path;
        if path.as_os_str().is_empty() {
            return None; // said by the check of the config
        }
        let refusal = catalog::refusal_of(server, path)?;
        let error = ConfigError::new(Code::Refused, "model_name_or_path", refusal.reason)
            .value(path.display().to_string());
        Some(match refusal.hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        })
    }

    /// Says what is wrong with the config, and what is probably not meant.
    pub fn check(&self) -> Report {
        self.config.check()
    }
}
