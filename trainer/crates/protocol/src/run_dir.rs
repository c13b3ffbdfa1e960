//! The paths of a run directory.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A run directory. Every path in it is named here and nowhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir {
    root: PathBuf,
}

impl RunDir {
    /// Names a run directory without touching the disk.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Makes the directory and its log folder, readable by their owner alone.
    pub fn create(root: impl Into<PathBuf>) -> io::Result<Self> {
        let dir = Self::new(root);
        create_private(&dir.root)?;
        create_private(&dir.logs())?;
        Ok(dir)
    }

    /// Returns the directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of the input as given.
    pub fn training_args(&self) -> PathBuf {
        self.root.join("training_args.yaml")
    }

    /// Returns the path of the canonical config.
    pub fn config(&self) -> PathBuf {
        self.root.join("config.yaml")
    }

    /// Returns the path of the event file.
    pub fn events(&self) -> PathBuf {
        self.root.join("events.jsonl")
    }

    /// Returns the path of the exit record.
    pub fn exit(&self) -> PathBuf {
        self.root.join("exit.json")
    }

    /// Returns the path of the launcher record.
    pub fn launcher(&self) -> PathBuf {
        self.root.join("launcher.json")
    }

    /// Returns the log folder.
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// Returns the path of the launcher's output.
    pub fn launcher_log(&self) -> PathBuf {
        self.logs().join("launcher.log")
    }

    /// Returns the path of a rank's output.
    pub fn rank_log(&self, rank: usize) -> PathBuf {
        self.logs().join(format!("rank-{rank}.log"))
    }

    /// Returns the path of the log in LLaMA-Factory's form.
    pub fn trainer_log(&self) -> PathBuf {
        self.root.join("trainer_log.jsonl")
    }

    /// Returns the path of the trainer's state.
    pub fn trainer_state(&self) -> PathBuf {
        self.root.join("trainer_state.json")
    }

    /// Returns the path of all results.
    pub fn all_results(&self) -> PathBuf {
        self.root.join("all_results.json")
    }

    /// Returns the path of the training results.
    pub fn train_results(&self) -> PathBuf {
        self.root.join("train_results.json")
    }

    /// Returns the path of the evaluation results.
    pub fn eval_results(&self) -> PathBuf {
        self.root.join("eval_results.json")
    }

    /// Returns the path of the loss curve.
    pub fn training_loss(&self) -> PathBuf {
        self.root.join("training_loss.svg")
    }

    /// Returns the folder of the checkpoint of a step.
    pub fn checkpoint(&self, step: u64) -> PathBuf {
        self.root.join(format!("checkpoint-{step}"))
    }

    /// Returns the complete checkpoints, oldest step first.
    pub fn checkpoints(&self) -> io::Result<Vec<(u64, PathBuf)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            let name = entry.file_name();
            let step = name
                .to_str()
                .and_then(|name| name.strip_prefix("checkpoint-"))
                .and_then(|step| step.parse().ok());
            if let Some(step) = step
                && Self::is_checkpoint_complete(&entry.path())
            {
                found.push((step, entry.path()));
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Returns the newest complete checkpoint.
    pub fn latest_checkpoint(&self) -> io::Result<Option<(u64, PathBuf)>> {
        Ok(self.checkpoints()?.pop())
    }

    /// Returns the newest checkpoint that a run can go on from.
    pub fn latest_resumable_checkpoint(&self) -> io::Result<Option<(u64, PathBuf)>> {
        let mut found = self.checkpoints()?;
        found.retain(|(_, path)| Self::is_checkpoint_resumable(path));
        Ok(found.pop())
    }

    /// Whether a checkpoint folder is complete and holds what `save_only_model` leaves out.
    pub fn is_checkpoint_resumable(checkpoint: &Path) -> bool {
        Self::is_checkpoint_complete(checkpoint)
            && checkpoint.join("optimizer.safetensors").is_file()
    }

    /// Returns the path of the mark that is written last into a checkpoint.
    pub fn checkpoint_mark(checkpoint: &Path) -> PathBuf {
        checkpoint.join("CHECKPOINT_COMPLETE")
    }

    /// Whether a checkpoint folder carries its mark.
    pub fn is_checkpoint_complete(checkpoint: &Path) -> bool {
        Self::checkpoint_mark(checkpoint).is_file()
    }
}

/// Makes a folder and its missing parents, readable by their owner alone. An existing one is left as it is.
fn create_private(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.create(path)
}
