//! What the board shows of datasets. Nothing here needs a tokenizer or a model.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::dataset_info::{DatasetDescription, DatasetInfo, Formatting, Source};
use crate::error::DataError;
use crate::source;

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

/// Lists the datasets of `dir`, in the order of `dataset_info.json`. No row is read.
pub fn list_datasets(dir: &Path) -> Result<Vec<DatasetEntry>, DataError> {
    let info = DatasetInfo::load(dir)?;
    Ok(info
        .names()
        .map(|name| entry(name, info.describe(name)))
        .collect())
}

/// Counts the rows of dataset `name` of `dir` without keeping them.
pub fn count_rows(dir: &Path, name: &str) -> Result<usize, DataError> {
    files(dir, name)?
        .iter()
        .map(|file| source::count(file))
        .sum()
}

/// Returns the raw rows `offset` … `offset + limit` of dataset `name`, reading no further.
pub fn preview_rows(
    dir: &Path,
    name: &str,
    offset: usize,
    limit: usize,
) -> Result<Vec<Value>, DataError> {
    let mut rows = Vec::new();
    let mut row = 0;
    for file in files(dir, name)? {
        let flow = source::for_each_row(&file, |value| {
            if rows.len() >= limit {
                return ControlFlow::Break(());
            }
            if row >= offset {
                rows.push(value);
            }
            row += 1;
            ControlFlow::Continue(())
        })?;
        if flow.is_break() {
            break;
        }
    }
    Ok(rows)
}

fn files(dir: &Path, name: &str) -> Result<Vec<PathBuf>, DataError> {
    let description = DatasetInfo::load(dir)?.describe(name)?;
    source::files(description.local_path()?)
}

fn entry(name: &str, description: Result<DatasetDescription, DataError>) -> DatasetEntry {
    let mut entry = DatasetEntry {
        name: name.into(),
        formatting: Formatting::default(),
        ranking: false,
        path: None,
        size_bytes: 0,
        problem: None,
    };
    let checked = description.and_then(|description| {
        entry.formatting = description.formatting;
        entry.ranking = description.ranking;
        if let Source::File(path) = &description.source {
            entry.path = Some(path.clone());
        }
        let files = source::files(description.local_path()?)?;
        entry.size_bytes = files
            .iter()
            .filter_map(|file| file.metadata().ok())
            .map(|metadata| metadata.len())
            .sum();
        description.check_supported()
    });
    if let Err(error) = checked {
        entry.problem = Some(match error.hint() {
            Some(hint) => format!("{error}: {hint}"),
            None => error.to_string(),
        });
    }
    entry
}
