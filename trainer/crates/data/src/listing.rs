//! What the board shows of datasets.
use std::path::{Path, PathBuf};

use crate::dataset_info::Formatting;
use crate::error::DataError;

/// A dataset as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetEntry {
    /// Its name in `dataset_info.json`.
    pub name: String,
    /// The shape of its rows.
    pub formatting: Formatting,
    /// Preference data: for the stages rm and dpo alone.
    pub ranking: bool,
    /// Its file or folder, where it is local.
    pub path: Option<PathBuf>,
    /// Bytes of its files.
    pub size_bytes: u64,
    /// Why it cannot be used here, with what to do.
    pub problem: Option<String>,
}

/// Lists the datasets of `dir`, in the order of `dataset_info.json`.
pub fn list_datasets(dir: &Path) -> Result<Vec<DatasetEntry>, DataError> {
    let _ = dir;
    Ok(Vec::new())
}

/// Counts the rows of dataset `name` of `dir` without keeping them.
pub fn count_rows(dir: &Path, name: &str) -> Result<usize, DataError> {
    let _ = (dir, name);
    Ok(0)
}

/// Returns the raw rows `offset` … `offset + limit` of dataset `name`.
pub fn preview_rows(dir: &Path, name: &str, offset: usize, limit: usize) -> Result<Vec<serde_json::Value>, DataError> {
    let _ = (dir, name, offset, limit);
    Ok(Vec::new())
}
