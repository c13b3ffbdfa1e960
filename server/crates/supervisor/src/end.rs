//! What became of a run whose launcher is gone.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use board_store::RunExit;
use nix::sys::signal::Signal;
use run_protocol::{ExitCode, ExitRecord, RunDir, RunState};

/// Bytes of the launcher's log that are searched for its last words.
const LOG_TAIL_BYTES: i64 = 4096;
/// Most characters of the last words.
const LAST_WORDS_LENGTH: usize = 300;
/// The class of a run whose launcher left no word.
const KILLED: &str = "killed";

/// Why this board has killed a launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kill {
    /// A person asked for it.
    Asked,
    /// It did not stop in time.
    Grace(Duration),
}

/// What is known about the end of a launcher, beside its run directory.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Gone {
    /// How the process ended; unknown if it was not our child.
    pub(crate) status: Option<ExitStatus>,
    /// Whether this board killed it.
    pub(crate) kill: Option<Kill>,
    /// Whether somebody had asked it to stop.
    pub(crate) was_stopping: bool,
}

/// Decides the state of the run. `exit.json` has the word; without one the launcher was killed.
pub(crate) fn decide(dir: &RunDir, gone: Gone) -> (RunState, RunExit) {
    match ExitRecord::read(&dir.exit()) {
        Ok(Some(record)) => from_record(record),
        Ok(None) => without_record(dir, gone),
        Err(error) => {
            tracing::warn!(path = %dir.exit().display(), %error, "the exit record cannot be read");
            without_record(dir, gone)
        }
    }
}

fn from_record(record: ExitRecord) -> (RunState, RunExit) {
    let state = match record.exit_code() {
        Some(ExitCode::Finished) => RunState::Finished,
        Some(ExitCode::Stopped) => RunState::Stopped,
        _ => RunState::Failed,
    };
    let message = record.message.or_else(|| {
        let rank = record
            .rank
            .map(|rank| format!("rank {rank} "))
            .unwrap_or_default();
        let signal = record
            .signal
            .map(|signal| format!(", ended by {}", signal_name(signal)))
            .unwrap_or_default();
        (state == RunState::Failed)
            .then(|| format!("{rank}failed: {}{signal}", record.class.replace('_', " ")))
    });
    let exit = RunExit {
        code: Some(record.code),
        class: Some(record.class),
        message,
        hint: record.hint,
    };
    (state, exit)
}

fn without_record(dir: &RunDir, gone: Gone) -> (RunState, RunExit) {
    let stopped = |message: String| {
        let exit = RunExit {
            code: None,
            class: Some(KILLED.to_owned()),
            message: Some(message),
            hint: None,
        };
        (RunState::Stopped, exit)
    };
    match gone.kill {
        Some(Kill::Asked) => return stopped("it was killed as asked".to_owned()),
        Some(Kill::Grace(grace)) => {
            return stopped(format!(
                "it did not stop within {} s and was killed",
                grace.as_secs_f64()
            ));
        }
        None if gone.was_stopping => {
            return stopped("it ended while it was stopping, before it was done".to_owned());
        }
        None => {}
    }
    let signal = gone.status.and_then(|status| status.signal());
    let code = gone.status.and_then(|status| status.code());
    let message = match (signal, code) {
        (Some(signal), _) => format!("the launcher was killed by {}", signal_name(signal)),
        (None, Some(code)) => match last_words(&dir.launcher_log()) {
            Some(words) => format!("the trainer ended with code {code}: {words}"),
            None => format!("the trainer ended with code {code} without a word"),
        },
        (None, None) => "killed by SIGKILL or the machine restarted".to_owned(),
    };
    let has_checkpoint = dir
        .latest_resumable_checkpoint()
        .is_ok_and(|checkpoint| checkpoint.is_some());
    let again = if has_checkpoint {
        "resume it from its last checkpoint"
    } else {
        "start it again"
    };
    let hint = match (signal, code) {
        (Some(signal), _) if signal == Signal::SIGKILL as i32 => {
            format!(
                "the system may have run out of memory: try a smaller batch or a shorter cutoff, or {again}"
            )
        }
        (None, Some(_)) => "logs/launcher.log in the run directory has more".to_owned(),
        _ => again.to_owned(),
    };
    (
        RunState::Failed,
        RunExit {
            code,
            class: Some(KILLED.to_owned()),
            message: Some(message),
            hint: Some(hint),
        },
    )
}

fn signal_name(signal: i32) -> String {
    Signal::try_from(signal).map_or_else(
        |_| format!("signal {signal}"),
        |signal| signal.as_str().to_owned(),
    )
}

/// Returns the last line of a log that is not empty.
fn last_words(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    if file.seek(SeekFrom::End(-LOG_TAIL_BYTES)).is_err() {
        // The file is shorter than that.
        file.rewind().ok()?;
    }
    let mut tail = Vec::new();
    file.read_to_end(&mut tail).ok()?;
    let text = String::from_utf8_lossy(&tail);
    let line = text
        .lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty())?;
    let words: String = line
        .chars()
        .filter(|letter| !letter.is_control())
        .take(LAST_WORDS_LENGTH)
        .collect();
    (!words.is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir() -> (tempfile::TempDir, RunDir) {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::create(folder.path().join("run")).unwrap();
        (folder, dir)
    }

    #[test]
    fn exit_record_has_the_word() {
        let (_folder, dir) = dir();
        for (code, state) in [
            (ExitCode::Finished, RunState::Finished),
            (ExitCode::Stopped, RunState::Stopped),
            (ExitCode::OutOfMemory, RunState::Failed),
        ] {
            ExitRecord::new(code, 1).write(&dir.exit()).unwrap();
            let (decided, exit) = decide(
                &dir,
                Gone {
                    was_stopping: true,
                    ..Gone::default()
                },
            );
            assert_eq!(decided, state);
            assert_eq!(exit.class.as_deref(), Some(code.class()));
        }
    }

    #[test]
    fn unknown_end_is_told_as_such() {
        let (_folder, dir) = dir();
        let (state, exit) = decide(&dir, Gone::default());
        assert_eq!(state, RunState::Failed);
        assert_eq!(
            exit.message.as_deref(),
            Some("killed by SIGKILL or the machine restarted")
        );
    }

    #[test]
    fn memory_is_suspected_after_sigkill_and_the_log_after_a_code() {
        let (_folder, dir) = dir();
        let ended = |raw| Gone {
            status: Some(ExitStatus::from_raw(raw)),
            ..Gone::default()
        };
        let (_, exit) = decide(&dir, ended(9));
        assert_eq!(
            exit.message.as_deref(),
            Some("the launcher was killed by SIGKILL")
        );
        assert!(exit.hint.is_some_and(|hint| hint.contains("memory")));
        std::fs::write(dir.launcher_log(), "first\nlibtorch.so: cannot open\n\n").unwrap();
        let (state, exit) = decide(&dir, ended(127 << 8));
        assert_eq!(state, RunState::Failed);
        assert_eq!(
            exit.message.as_deref(),
            Some("the trainer ended with code 127: libtorch.so: cannot open")
        );
    }
}
