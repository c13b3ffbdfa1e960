//! A run that is not yet made: the same way in for the form, the YAML and REST.
//!
//! A draft is read, its paths are resolved against the data folder, and it is checked; only what
//! passes goes to the supervisor.

use std::collections::BTreeMap;

use run_protocol::{AcceptedKey, ConfigErrors, Parsed, Report, RunConfig};
use serde_json::Value;

use crate::config::ServerConfig;

/// Most characters of a run's name.
pub const MAX_NAME_LENGTH: usize = 200;

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
        let is_default = config.data.dataset_dir == RunConfig::default().data.dataset_dir;
        if is_default && !server.data_dir.join(&config.data.dataset_dir).is_dir() {
            config.data.dataset_dir = server.datasets_dir();
        }
        config.resolve_paths(&server.data_dir);
        Self {
            config,
            input_yaml,
            accepted_without_effect: parsed.accepted_without_effect,
        }
    }

    /// Says what is wrong with the config, and what is probably not meant.
    pub fn check(&self) -> Report {
        self.config.check()
    }
}
