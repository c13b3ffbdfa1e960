//! What a run may find in its output folder: a checkpoint to go on from, results, or its own inputs.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use run_protocol::{RunConfig, RunDir};
use trainer_engine::checkpoint::{self, OPTIMIZER_FILE};

use crate::cli::RunArgs;
use crate::failure::Refusal;
use crate::prepare::remove;

/// Refuses an output folder whose results would take the place of the model or of an adapter that the run starts from.
pub(crate) fn keep_inputs(root: &Path, config: &RunConfig) -> Result<()> {
    let Ok(root) = root.canonicalize() else {
        // What is not there yet holds no inputs.
        return Ok(());
    };
    let model = [("model", &config.model.model_name_or_path)];
    let adapters = config.model.adapter_name_or_path.iter();
    for (what, path) in model
        .into_iter()
        .chain(adapters.map(|path| ("adapter", path)))
    {
        let Ok(path) = path.canonicalize() else {
            continue;
        };
        let Ok(inner) = path.strip_prefix(&root) else {
            continue;
        };
        let is_root = inner.as_os_str().is_empty();
        if is_root || inner.to_string_lossy().starts_with("checkpoint-") {
            let whose = if is_root {
                format!("is the {what}'s own folder")
            } else {
                format!("holds the {what} `{}`", inner.display())
            };
            return Err(Refusal::error(
                format!("`{}` {whose}", root.display()),
                format!(
                    "choose another `output_dir`: the results would take the place of the {what}"
                ),
            ));
        }
    }
    Ok(())
}

/// Returns the newest checkpoint that a run can go on from: a complete one with the optimizer's state.
pub(crate) fn newest_resumable(dir: &RunDir) -> io::Result<Option<(u64, PathBuf)>> {
    let mut checkpoints = dir.checkpoints()?.into_iter().rev();
    Ok(checkpoints.find(|(_, path)| path.join(OPTIMIZER_FILE).is_file()))
}

/// Returns the checkpoint to go on from, by the rules for an output folder that is not empty.
pub(crate) fn resume_from(
    arguments: &RunArgs,
    config: &RunConfig,
    dir: &RunDir,
    base: &Path,
) -> Result<Option<PathBuf>> {
    let wanted = arguments
        .resume
        .as_deref()
        .or(config.checkpoint.resume_from_checkpoint.as_deref());
    let is_auto = matches!(wanted, Some("auto" | "true" | "True"));
    if let Some(path) = wanted.filter(|_| !is_auto) {
        let path = base.join(path);
        checkpoint::Progress::read(&path)?;
        return Ok(Some(path));
    }
    let overwrites = config.checkpoint.overwrite_output_dir;
    if is_auto || !overwrites {
        let newest = newest_resumable(dir).context("cannot list the checkpoints")?;
        if let Some((step, path)) = newest {
            tracing::info!(
                step,
                "the output folder holds a checkpoint: going on from it"
            );
            return Ok(Some(path));
        }
    }
    if overwrites {
        checkpoint::disown(dir)?;
        for old in [dir.events(), dir.trainer_log(), dir.trainer_state()] {
            remove(&old)?;
        }
    } else if has_weights(dir.root()) {
        return Err(Refusal::error(
            format!("`{}` already holds a finished model", dir.root().display()),
            "choose another `output_dir`, or set `overwrite_output_dir: true`",
        ));
    }
    Ok(None)
}

fn has_weights(root: &Path) -> bool {
    [
        "model.safetensors",
        "model.safetensors.index.json",
        "adapter_model.safetensors",
    ]
    .iter()
    .any(|name| root.join(name).is_file())
}
