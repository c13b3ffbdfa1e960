//! Paths of a config: absolute ones, and as text in JSON.

use std::path::{Component, Path, PathBuf};

use super::RunConfig;

impl RunConfig {
    /// Makes every path absolute, relative ones against `base`. A base that is no UTF-8 is taken as far as it can be read.
    pub fn resolve_paths(&mut self, base: &Path) {
        let base = PathBuf::from(base.to_string_lossy().into_owned());
        let resolve = |path: &mut PathBuf| *path = absolute(&base, path);
        resolve(&mut self.model.model_name_or_path);
        self.model.adapter_name_or_path.iter_mut().for_each(resolve);
        resolve(&mut self.data.dataset_dir);
        self.training.output_dir.iter_mut().for_each(resolve);
        if let Some(dist) = &mut self.distributed.dist_config {
            dist.dcp_path
                .iter_mut()
                .chain(&mut dist.config_file)
                .for_each(resolve);
        }
        if let Some(checkpoint) = self
            .checkpoint
            .resume_from_checkpoint
            .as_mut()
            .filter(|path| *path != "auto")
        {
            *checkpoint = absolute(&base, Path::new(checkpoint))
                .to_string_lossy()
                .into_owned();
        }
    }
}

/// Joins and drops `.` parts; `..` stays, since links may stand before it. An empty path stays empty.
fn absolute(base: &Path, path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() {
        return path.to_path_buf();
    }
    base.join(path)
        .components()
        .filter(|part| *part != Component::CurDir)
        .collect()
}

/// Paths as text, with what is not UTF-8 replaced, so that a config can always be written.
pub(super) mod text {
    use std::path::{Path, PathBuf};

    use serde::{Serialize, Serializer};

    /// Writes one path.
    pub(in super::super) fn one<S: Serializer>(
        path: &Path,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        path.to_string_lossy().serialize(serializer)
    }

    /// Writes a path or nothing.
    #[expect(clippy::ref_option, reason = "serde hands the field itself")]
    pub(in super::super) fn option<S: Serializer>(
        path: &Option<PathBuf>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_ref()
            .map(|path| path.to_string_lossy())
            .serialize(serializer)
    }

    /// Writes a list of paths.
    pub(in super::super) fn list<S: Serializer>(
        paths: &[PathBuf],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
    }
}
