//! What several test files need.

use run_protocol::{ConfigErrors, Parsed, RunConfig};

/// A config that `check` accepts as it is.
pub(crate) const SOUND: &str = "model_name_or_path: /models/tiny\ndataset: demo\ntemplate: qwen3\n";

pub(crate) fn read(text: &str) -> Result<Parsed, ConfigErrors> {
    RunConfig::from_yaml(text, &[])
}

/// Reads a sound config with more lines.
pub(crate) fn sound_with(lines: &str) -> Parsed {
    read(&format!("{SOUND}{lines}")).expect("the lines are legal keys")
}

/// Returns every reason that parsing or checking gives.
pub(crate) fn reasons(text: &str) -> Vec<String> {
    let errors = match read(text) {
        Ok(parsed) => parsed.check().errors,
        Err(errors) => errors.0,
    };
    errors.into_iter().map(|error| error.reason).collect()
}
