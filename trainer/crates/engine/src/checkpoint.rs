//! Checkpoint folders: written beside, flushed, marked complete and then renamed.
//!
//! ```text
//! checkpoint-<step>/
//!   model*.safetensors + config.json, or adapter_model.safetensors + adapter_config.json
//!   tokenizer files
//!   optimizer.safetensors    moments, step counts and float32 masters (not with `save_only_model`)
//!   progress.json            where the run stands: step, epoch, rows taken, seed, tokens
//!   trainer_state.json       Hugging Face's form, for people and other programs
//!   CHECKPOINT_COMPLETE      written last; a folder without it is never resumed from
//! ```
//! A crash, a kill or a full disk leaves older checkpoints as they were.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use run_protocol::RunDir;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trainer_data::SamplerState;

use crate::error::EngineError;

/// Version of `progress.json`.
const FORMAT_VERSION: u32 = 1;
const PROGRESS_FILE: &str = "progress.json";
const STATE_FILE: &str = "trainer_state.json";
/// The folder in which a finished model is put together before it is moved into place.
pub(crate) const EXPORT_PART: &str = ".export.part";
/// The file of the optimizer's tensors.
pub const OPTIMIZER_FILE: &str = "optimizer.safetensors";

/// Where a run stands after a step: all that exact resumption needs beside the tensors.
///
/// Random numbers are keyed by seed and step, so no generator state has to be kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Version of this file.
    pub format: u32,
    /// Optimizer steps done.
    pub step: u64,
    /// Passes over the data done.
    pub epoch: f64,
    /// Where the order of rows stands.
    pub sampler: SamplerState,
    /// Seed of the run.
    pub seed: u64,
    /// Seed of the order of rows; older files do not tell.
    #[serde(default)]
    pub order_seed: Option<u64>,
    /// Whether rows are taken in the order of the files; older files do not tell.
    #[serde(default)]
    pub disable_shuffling: Option<bool>,
    /// Rows of the training data.
    pub num_rows: u64,
    /// Rows of one optimizer step.
    pub global_batch_size: u64,
    /// Input tokens seen.
    pub num_input_tokens_seen: u64,
    /// Finite losses summed over all steps.
    pub total_loss: f64,
    /// Steps whose loss was no number, which `total_loss` leaves out.
    #[serde(default)]
    pub num_non_finite_losses: u64,
    /// Finite losses summed and counted since the last line of the log.
    pub pending_loss: (f64, u64),
    /// Seconds spent training.
    pub seconds: f64,
    /// Number format of the run.
    pub precision: String,
    /// Full or LoRA.
    pub finetuning_type: String,
}

impl Progress {
    /// Returns the version that this program writes.
    pub const fn format() -> u32 {
        FORMAT_VERSION
    }

    /// Reads the progress of a complete checkpoint.
    pub fn read(checkpoint: &Path) -> Result<Self, EngineError> {
        let refuse = |reason: String| EngineError::Checkpoint {
            path: checkpoint.to_owned(),
            reason,
        };
        if !checkpoint.is_dir() {
            return Err(refuse("there is no such folder".into()));
        }
        if !RunDir::is_checkpoint_complete(checkpoint) {
            return Err(refuse(
                "it has no CHECKPOINT_COMPLETE, so it was not written to its end".into(),
            ));
        }
        let path = checkpoint.join(PROGRESS_FILE);
        let text = fs::read(&path)
            .map_err(|error| refuse(format!("cannot read {PROGRESS_FILE}: {error}")))?;
        let progress: Self = serde_json::from_slice(&text)
            .map_err(|error| refuse(format!("{PROGRESS_FILE} is broken: {error}")))?;
        if progress.format != FORMAT_VERSION {
            return Err(refuse(format!(
                "its format is {}, this trainer reads {FORMAT_VERSION}",
                progress.format
            )));
        }
        if !checkpoint.join(OPTIMIZER_FILE).is_file() {
            return Err(refuse(
                "it holds the model only (`save_only_model`), which cannot be resumed".into(),
            ));
        }
        Ok(progress)
    }
}

/// Reads the log history of a checkpoint; an unreadable one only costs the history.
pub fn read_history(checkpoint: &Path) -> Vec<Value> {
    let state = fs::read(checkpoint.join(STATE_FILE))
        .ok()
        .and_then(|text| serde_json::from_slice::<Value>(&text).ok());
    state
        .and_then(|state| state.get("log_history").and_then(Value::as_array).cloned())
        .unwrap_or_default()
}

/// Writes a checkpoint. `write_tensors` puts model and optimizer files into the folder it is given.
///
/// Returns the folder and its size in bytes.
pub fn save(
    run_dir: &RunDir,
    progress: &Progress,
    state: &Value,
    write_tensors: impl FnOnce(&Path) -> Result<(), EngineError>,
) -> Result<(PathBuf, u64), EngineError> {
    let target = run_dir.checkpoint(progress.step);
    let beside = run_dir.root().join(part_name(progress.step));
    remove_folder(&beside)?;
    let written = fill(&beside, progress, state, write_tensors).and_then(|bytes| {
        remove_folder(&target)?;
        fs::rename(&beside, &target).map_err(|error| EngineError::io("rename", &beside, error))?;
        sync_folder(run_dir.root())?;
        Ok(bytes)
    });
    match written {
        Ok(bytes) => Ok((target, bytes)),
        Err(error) => {
            // Half a checkpoint is of no use, and its room may be what the rest of the run needs.
            if let Err(error) = remove_folder(&beside) {
                tracing::warn!(%error, "cannot remove an unfinished checkpoint");
            }
            Err(error)
        }
    }
}

fn part_name(step: u64) -> String {
    format!(".checkpoint-{step}.part")
}

/// Removes what saves that were killed on their way left in a run directory.
pub fn remove_leftovers(run_dir: &RunDir) -> Result<(), EngineError> {
    let root = run_dir.root();
    let fail = |error| EngineError::io("list", root, error);
    for entry in fs::read_dir(root).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name();
        let is_leftover = name.to_str().is_some_and(|name| {
            name == EXPORT_PART
                || name
                    .strip_prefix(".checkpoint-")
                    .and_then(|rest| rest.strip_suffix(".part"))
                    .is_some_and(|step| step.parse::<u64>().is_ok())
        });
        if is_leftover {
            remove_folder(&entry.path())?;
            tracing::info!(folder = %entry.path().display(), "removed what an unfinished save left");
        }
    }
    Ok(())
}

fn fill(
    folder: &Path,
    progress: &Progress,
    state: &Value,
    write_tensors: impl FnOnce(&Path) -> Result<(), EngineError>,
) -> Result<u64, EngineError> {
    fs::create_dir(folder).map_err(|error| EngineError::io("make", folder, error))?;
    write_tensors(folder)?;
    write_json(&folder.join(PROGRESS_FILE), progress)?;
    write_json(&folder.join(STATE_FILE), state)?;
    let bytes = sync_files(folder)?;
    let mark = RunDir::checkpoint_mark(folder);
    write_synced(&mark, b"")?;
    sync_folder(folder)?;
    Ok(bytes)
}

/// Removes the oldest complete checkpoints beyond `limit`, never that of the step just `saved`.
pub fn rotate(run_dir: &RunDir, limit: Option<usize>, saved: u64) -> Result<(), EngineError> {
    let Some(limit) = limit else { return Ok(()) };
    let found = list(run_dir)?;
    let num_surplus = found.len().saturating_sub(limit.max(1));
    let others = found.into_iter().filter(|(step, _)| *step != saved);
    for (step, folder) in others.take(num_surplus) {
        remove_folder(&folder)?;
        tracing::info!(step, "removed an old checkpoint");
    }
    Ok(())
}

/// Takes the mark off the checkpoints of an older run, so that nothing resumes from them by itself.
pub fn disown(run_dir: &RunDir) -> Result<(), EngineError> {
    take_marks_off(list(run_dir)?)
}

/// Takes the mark off the checkpoints after `step`: a run that goes on from there leaves their branch behind.
pub fn disown_after(run_dir: &RunDir, step: u64) -> Result<(), EngineError> {
    let mut found = list(run_dir)?;
    found.retain(|(later, _)| *later > step);
    if !found.is_empty() {
        tracing::warn!(
            step,
            count = found.len(),
            "later checkpoints are not resumed from any more; their weights stay"
        );
    }
    take_marks_off(found)
}

fn take_marks_off(checkpoints: Vec<(u64, PathBuf)>) -> Result<(), EngineError> {
    for (_, folder) in checkpoints {
        let mark = RunDir::checkpoint_mark(&folder);
        fs::remove_file(&mark).map_err(|error| EngineError::io("remove", &mark, error))?;
    }
    Ok(())
}

fn list(run_dir: &RunDir) -> Result<Vec<(u64, PathBuf)>, EngineError> {
    run_dir
        .checkpoints()
        .map_err(|error| EngineError::io("list", run_dir.root(), error))
}

/// Writes a JSON file, indented.
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), EngineError> {
    let mut text = serde_json::to_vec_pretty(value).map_err(EngineError::json)?;
    text.push(b'\n');
    fs::write(path, text).map_err(|error| EngineError::io("write", path, error))
}

fn write_synced(path: &Path, content: &[u8]) -> Result<(), EngineError> {
    let fail = |error| EngineError::io("write", path, error);
    let mut file = File::create(path).map_err(fail)?;
    file.write_all(content).map_err(fail)?;
    file.sync_all().map_err(fail)
}

/// Flushes every file of a folder to the disk and returns the sum of their sizes.
fn sync_files(folder: &Path) -> Result<u64, EngineError> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).map_err(|error| EngineError::io("list", folder, error))? {
        let path = entry
            .map_err(|error| EngineError::io("list", folder, error))?
            .path();
        let file = File::open(&path).map_err(|error| EngineError::io("open", &path, error))?;
        file.sync_all()
            .map_err(|error| EngineError::io("flush", &path, error))?;
        bytes += file.metadata().map_or(0, |metadata| metadata.len());
    }
    Ok(bytes)
}

fn sync_folder(folder: &Path) -> Result<(), EngineError> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|error| EngineError::io("flush", folder, error))
}

fn remove_folder(folder: &Path) -> Result<(), EngineError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(EngineError::io("remove", folder, error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn progress(step: u64) -> Progress {
        Progress {
            format: Progress::format(),
            step,
            epoch: 0.5,
            sampler: SamplerState {
                epoch: 0,
                row_offset: 8,
            },
            seed: 42,
            order_seed: Some(42),
            disable_shuffling: Some(false),
            num_rows: 16,
            global_batch_size: 8,
            num_input_tokens_seen: 100,
            total_loss: 1.0 / 3.0,
            num_non_finite_losses: 0,
            pending_loss: (0.0, 0),
            seconds: 1.5,
            precision: "fp32".into(),
            finetuning_type: "lora".into(),
        }
    }

    fn save_step(run_dir: &RunDir, step: u64) -> Result<(PathBuf, u64), EngineError> {
        save(
            run_dir,
            &progress(step),
            &serde_json::json!({"log_history": [{"step": step}]}),
            |folder| {
                fs::write(folder.join(OPTIMIZER_FILE), b"tensors")
                    .map_err(|error| EngineError::io("write", folder, error))
            },
        )
    }

    #[test]
    fn a_saved_checkpoint_is_complete_and_reads_back() {
        let temp = tempfile::tempdir().unwrap();
        let run_dir = RunDir::create(temp.path()).unwrap();
        let (folder, bytes) = save_step(&run_dir, 3).unwrap();
        assert!(bytes > 7 && RunDir::is_checkpoint_complete(&folder));
        assert_eq!(Progress::read(&folder).unwrap(), progress(3));
        assert_eq!(read_history(&folder), [serde_json::json!({"step": 3})]);
        save_step(&run_dir, 3).unwrap();
    }

    #[test]
    fn a_failed_write_leaves_older_checkpoints_and_no_part() {
        let temp = tempfile::tempdir().unwrap();
        let run_dir = RunDir::create(temp.path()).unwrap();
        save_step(&run_dir, 3).unwrap();
        let full = save(&run_dir, &progress(4), &Value::Null, |folder| {
            Err(EngineError::io(
                "write",
                folder,
                std::io::ErrorKind::StorageFull.into(),
            ))
        });
        assert_eq!(
            full.unwrap_err().exit_code(),
            run_protocol::ExitCode::DiskFull
        );
        let names: Vec<_> = run_dir.checkpoints().unwrap();
        assert_eq!(names.len(), 1);
        assert!(!temp.path().join(".checkpoint-4.part").exists());
    }

    fn steps(run_dir: &RunDir) -> Vec<u64> {
        let found = run_dir.checkpoints().unwrap();
        found.into_iter().map(|found| found.0).collect()
    }

    #[test]
    fn the_step_just_saved_stays_and_an_abandoned_branch_is_disowned() {
        let temp = tempfile::tempdir().unwrap();
        let run_dir = RunDir::create(temp.path()).unwrap();
        for step in [2, 3, 10, 20] {
            save_step(&run_dir, step).unwrap();
        }
        rotate(&run_dir, Some(2), 3).unwrap();
        assert_eq!(steps(&run_dir), [3, 20]);
        disown_after(&run_dir, 3).unwrap();
        assert_eq!(steps(&run_dir), [3]);
        assert!(run_dir.checkpoint(20).join(OPTIMIZER_FILE).is_file());
    }

    #[test]
    fn what_killed_saves_left_is_removed() {
        let temp = tempfile::tempdir().unwrap();
        let run_dir = RunDir::create(temp.path()).unwrap();
        save_step(&run_dir, 2).unwrap();
        for name in [".checkpoint-4.part", EXPORT_PART, ".checkpoint-mine.part"] {
            fs::create_dir(temp.path().join(name)).unwrap();
            fs::write(temp.path().join(name).join("half"), b"x").unwrap();
        }
        remove_leftovers(&run_dir).unwrap();
        assert!(!temp.path().join(".checkpoint-4.part").exists());
        assert!(!temp.path().join(EXPORT_PART).exists());
        assert!(temp.path().join(".checkpoint-mine.part").exists());
        assert_eq!(steps(&run_dir), [2]);
    }

    #[test]
    fn a_file_without_the_newer_fields_is_read() {
        let mut value = serde_json::to_value(progress(3)).unwrap();
        for name in ["num_non_finite_losses", "order_seed", "disable_shuffling"] {
            value.as_object_mut().unwrap().remove(name).unwrap();
        }
        let old: Progress = serde_json::from_value(value).unwrap();
        assert_eq!((old.num_non_finite_losses, old.order_seed), (0, None));
    }

    #[test]
    fn rotation_keeps_the_newest() {
        let temp = tempfile::tempdir().unwrap();
        let run_dir = RunDir::create(temp.path()).unwrap();
        for step in [2, 10, 4] {
            save_step(&run_dir, step).unwrap();
        }
        rotate(&run_dir, Some(2), 10).unwrap();
        assert_eq!(steps(&run_dir), [4, 10]);
        rotate(&run_dir, None, 10).unwrap();
        disown(&run_dir).unwrap();
        assert!(run_dir.checkpoints().unwrap().is_empty() && run_dir.checkpoint(10).is_dir());
    }

    #[test]
    fn a_checkpoint_without_mark_or_optimizer_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let run_dir = RunDir::create(temp.path()).unwrap();
        let (folder, _) = save_step(&run_dir, 1).unwrap();
        fs::remove_file(folder.join(OPTIMIZER_FILE)).unwrap();
        assert!(
            Progress::read(&folder)
                .unwrap_err()
                .to_string()
                .contains("save_only_model")
        );
        fs::remove_file(RunDir::checkpoint_mark(&folder)).unwrap();
        assert!(
            Progress::read(&folder)
                .unwrap_err()
                .to_string()
                .contains("CHECKPOINT_COMPLETE")
        );
        assert!(Progress::read(&temp.path().join("none")).is_err());
    }
}
