//! Making a run directory and starting a launcher in it.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Stdio;

use board_store::ProcessKey;
use run_protocol::exit::replace_file;
use run_protocol::{LauncherRecord, RunDir};
use tokio::process::{Child, Command};

use crate::error::SupervisorError;
use crate::process;
use crate::settings::Settings;

/// Starts a program with what it writes hidden from other users. `exec` keeps the pid, so the program is the launcher.
const PRIVATE_START: &str = "umask 077; exec \"$@\"";

/// A launcher that was started.
pub(crate) struct Launched {
    pub(crate) child: Child,
    pub(crate) key: ProcessKey,
}

/// Tells what is wrong with the trainer program, if anything is.
pub(crate) fn check_trainer(path: &Path) -> Result<(), SupervisorError> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(SupervisorError::TrainerMissing {
                path: path.to_path_buf(),
            })
        }
        Err(source) => Err(SupervisorError::Start {
            path: path.to_path_buf(),
            source,
        }),
        Ok(metadata) if metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 => Ok(()),
        Ok(_) => Err(SupervisorError::TrainerNotExecutable {
            path: path.to_path_buf(),
        }),
    }
}

/// Makes a run directory, readable by its owner alone, with the configuration in it.
pub(crate) fn make_run_dir(
    dir: &RunDir,
    input_yaml: &str,
    config_yaml: &str,
) -> Result<(), SupervisorError> {
    RunDir::create(dir.root()).map_err(|error| SupervisorError::write(dir.root(), error))?;
    for (path, text) in [
        (dir.training_args(), input_yaml),
        (dir.config(), config_yaml),
    ] {
        write_private(&path, text.as_bytes())
            .map_err(|error| SupervisorError::write(&path, error))?;
    }
    Ok(())
}

fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    replace_file(path, content)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
}

/// Removes what an earlier attempt left and would be taken for the word of the next.
pub(crate) fn clear(dir: &RunDir) -> Result<(), SupervisorError> {
    match fs::remove_file(dir.exit()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(SupervisorError::write(&dir.exit(), error))
        }
        _ => Ok(()),
    }
}

/// Starts the launcher of an attempt: a process group of its own, no input, its output in a file, only the allowed part of
/// the environment, working in the run directory.
pub(crate) fn start(
    settings: &Settings,
    dir: &RunDir,
    attempt: u32,
    resume_from: Option<&str>,
) -> Result<Launched, SupervisorError> {
    check_trainer(&settings.trainer)?;
    let log_path = dir.launcher_log();
    let log_failed = |error| SupervisorError::write(&log_path, error);
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&log_path)
        .map_err(log_failed)?;
    let also_log = log.try_clone().map_err(log_failed)?;
    let start_failed = |source| SupervisorError::Start {
        path: settings.trainer.clone(),
        source,
    };

    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(PRIVATE_START).arg("sh");
    command
        .arg(&settings.trainer)
        .arg("train")
        .arg(dir.config())
        .arg("--run-dir")
        .arg(dir.root());
    if let Some(checkpoint) = resume_from {
        command.arg("--resume").arg(checkpoint);
    }
    command
        .env_clear()
        .envs(
            settings
                .allowed_environment()
                .map(|(name, value)| (name, value)),
        )
        .current_dir(dir.root())
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(also_log)
        .process_group(0)
        .kill_on_drop(false);
    let child = command.spawn().map_err(start_failed)?;
    // A process that was not waited for keeps its entry, even after its end.
    let key = child
        .id()
        .and_then(process::key_of)
        .ok_or_else(|| start_failed(io::ErrorKind::NotFound.into()))?;
    let record = LauncherRecord {
        pid: key.pid,
        start_time: key.start_time,
        attempt,
    };
    if let Err(error) = record.write(&dir.launcher()) {
        // Without the record the launcher is still found by its command line.
        tracing::warn!(path = %dir.launcher().display(), %error, "the launcher's record was not written");
    }
    Ok(Launched { child, key })
}
