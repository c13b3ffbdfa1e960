//! What the supervisor is told.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use run_protocol::RunConfig;

/// How runs are started and stopped.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The folder of the run directories.
    pub runs_dir: PathBuf,
    /// The trainer program.
    pub trainer: PathBuf,
    /// Runs that may go on at the same time; the others wait. At least 1.
    pub max_running: usize,
    /// How long a run that was asked to stop may take until it is killed.
    pub grace: Duration,
    /// The environment from which the launchers get what is on the list of allowed names.
    pub environment: Vec<(OsString, OsString)>,
}

impl Settings {
    /// One run at a time, a minute to stop, nothing of the environment.
    pub fn new(runs_dir: impl Into<PathBuf>, trainer: impl Into<PathBuf>) -> Self {
        Self {
            runs_dir: runs_dir.into(),
            trainer: trainer.into(),
            max_running: 1,
            grace: Duration::from_mins(1),
            environment: Vec::new(),
        }
    }

    /// Returns the part of the environment that a launcher inherits.
    pub(crate) fn allowed_environment(&self) -> impl Iterator<Item = &(OsString, OsString)> {
        self.environment
            .iter()
            .filter(|(name, _)| name.to_str().is_some_and(is_allowed))
    }
}

/// Whether a variable may reach a trainer: what it needs to find programs, libraries, devices and caches, and no secret.
fn is_allowed(name: &str) -> bool {
    const NAMES: [&str; 8] = [
        "PATH",
        "HOME",
        "LANG",
        "LD_LIBRARY_PATH",
        "SOURCE_DATE_EPOCH",
        "TMPDIR",
        "TZ",
        "RUST_BACKTRACE",
    ];
    const PREFIXES: [&str; 8] = [
        "LC_", "OMP_", "MKL_", "CUDA_", "NCCL_", "GLOO_", "HF_", "XDG_",
    ];
    // A token of the Hub opens private models; the trainer works on local folders.
    name != "HF_TOKEN"
        && (NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
}

/// A run to be made.
#[derive(Debug, Clone)]
pub struct Submission {
    /// Its name; the model and the dataset name it if `None`.
    pub name: Option<String>,
    /// What the trainer shall do, checked, every path absolute.
    pub config: RunConfig,
    /// The input as given.
    pub input_yaml: String,
    /// Its marks.
    pub tags: Vec<String>,
}

impl Submission {
    /// Returns the name, or one made of model and dataset.
    pub(crate) fn name_or_default(&self) -> String {
        const NAME_LENGTH: usize = 200;
        let given = self
            .name
            .as_deref()
            .map(str::trim)
            .filter(|name| !name.is_empty());
        let name = given.map_or_else(|| self.default_name(), str::to_owned);
        name.chars().take(NAME_LENGTH).collect()
    }

    fn default_name(&self) -> String {
        let model = self.config.model.model_name_or_path.file_name();
        let model = model.map_or_else(|| "run".into(), |model| model.to_string_lossy());
        match self.config.data.dataset.first() {
            Some(dataset) => format!("{model} on {dataset}"),
            None => model.into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_reach_the_trainer() {
        for name in ["PATH", "OMP_NUM_THREADS", "HF_HOME", "CUDA_VISIBLE_DEVICES"] {
            assert!(is_allowed(name), "{name}");
        }
        for name in [
            "HF_TOKEN",
            "BOARD_SECRET",
            "AWS_SECRET_ACCESS_KEY",
            "LD_PRELOAD",
            "path",
        ] {
            assert!(!is_allowed(name), "{name}");
        }
    }
}
