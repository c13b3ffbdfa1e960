//! How failures reach the person: a line and a hint on the terminal, an exit code for programs.

use std::io::Write as _;
use std::process::ExitCode as Code;

use run_protocol::{ConfigErrors, ExitCode};
use trainer_engine::EngineError;

/// A failure with its class, as `exit.json` and the `failed` event name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The class.
    pub(crate) code: ExitCode,
    /// What happened.
    pub(crate) message: String,
    /// What the user can do.
    pub(crate) hint: Option<String>,
}

impl Failure {
    /// Sorts an error by where it came from.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        if let Some(error) = error.downcast_ref::<EngineError>() {
            return Self {
                code: error.exit_code(),
                message: error.to_string(),
                hint: error.hint(),
            };
        }
        if let Some(errors) = error.downcast_ref::<ConfigErrors>() {
            return Self {
                code: ExitCode::BadConfig,
                message: errors.to_string(),
                hint: None,
            };
        }
        if let Some(refusal) = error.downcast_ref::<Refusal>() {
            return Self {
                code: ExitCode::BadConfig,
                message: refusal.message.clone(),
                hint: refusal.hint.clone(),
            };
        }
        let is_full = error.chain().any(|cause| {
            cause
                .downcast_ref::<std::io::Error>()
                .is_some_and(run_protocol::events::is_disk_full)
        });
        if is_full {
            let hint =
                Some("free some room, then resume the run from its last checkpoint".to_owned());
            return Self {
                code: ExitCode::DiskFull,
                message: format!("{error:#}"),
                hint,
            };
        }
        let is_io = error
            .chain()
            .any(|cause| cause.downcast_ref::<std::io::Error>().is_some());
        Self {
            code: ExitCode::Internal,
            message: format!("{error:#}"),
            hint: is_io
                .then(|| "check that the folder exists and that you may write to it".to_owned()),
        }
    }

    /// Sorts a panic by its message; libtorch's failures inside a model's forward arrive so.
    pub(crate) fn of_panic(message: &str) -> Self {
        if message.contains("can't allocate memory") || message.contains("out of memory") {
            return Self {
                code: ExitCode::OutOfMemory,
                message: first_line(message),
                hint: Some(
                    "lower `per_device_train_batch_size` or `cutoff_len`, or use `bf16: true`"
                        .into(),
                ),
            };
        }
        Self {
            code: ExitCode::Internal,
            message: format!("the trainer broke: {}", first_line(message)),
            hint: Some("this is a fault of the trainer; the rank's log has the details".into()),
        }
    }

    /// Writes message and hint to the terminal.
    pub(crate) fn print(&self) {
        let mut text = format!("error: {}\n", self.message);
        if let Some(hint) = &self.hint {
            text.push_str("  hint: ");
            text.push_str(hint);
            text.push('\n');
        }
        // Nobody is left to tell if the terminal is gone.
        drop(std::io::stderr().write_all(text.as_bytes()));
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// A refusal by the command line itself, before there is a configuration.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Refusal {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Refusal {
    /// Makes a refusal with what to do instead.
    pub(crate) fn error(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
        Self {
            message: message.into(),
            hint: Some(hint.into()),
        }
        .into()
    }
}

/// Prints an error and returns the code that the process ends with.
pub(crate) fn report(error: &anyhow::Error) -> Code {
    let failure = Failure::of(error);
    failure.print();
    Code::from(failure.code.code())
}
