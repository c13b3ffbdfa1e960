//! Reading the rows of several datasets.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;

use super::{DroppedRows, PrepareOptions};
use crate::conversation::{Conversation, Converter};
use crate::dataset_info::{DatasetDescription, DatasetInfo};
use crate::error::DataError;
use crate::order::{Purpose, below, rng, shuffle};
use crate::source;

/// A dataset, by its number, and a row of it.
pub(super) type Origin = (usize, usize);

/// The rows of several datasets, one after another.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) names: Vec<String>,
    pub(super) conversations: Vec<Conversation>,
    /// Where each conversation comes from.
    pub(super) origins: Vec<Origin>,
    pub(super) num_read: usize,
    pub(super) dropped: Dropped,
    pub(super) warnings: Vec<String>,
}

impl Rows {
    /// Appends the rows of dataset `name`.
    pub(super) fn read(
        &mut self,
        info: &DatasetInfo,
        name: &str,
        options: &PrepareOptions,
    ) -> Result<(), DataError> {
        let description = info.describe(name)?;
        if description.ranking {
            return Err(DataError::NotApplicable {
                name: name.into(),
                ranking: true,
            });
        }
        description.check_supported()?;
        if !description.unknown_keys.is_empty() {
            let keys = description.unknown_keys.join("`, `");
            self.warnings.push(format!(
                "the description of dataset `{name}` has keys that mean nothing: `{keys}`"
            ));
        }
        let path = description.local_path()?;
        let first = self.conversations.len();
        let dataset = self.names.len();
        self.names.push(name.into());
        // `num_samples` chooses among all rows, so all are read; `max_samples` then takes the first of these.
        let limit = if description.num_samples.is_some() {
            None
        } else {
            options.max_samples
        };
        let num_read = self.read_files(&description, path, dataset, limit)?;
        if num_read == 0 {
            return Err(DataError::EmptyFile {
                name: name.into(),
                path: path.into(),
            });
        }
        if let Some(count) = description.num_samples {
            let count = options.max_samples.map_or(count, |limit| count.min(limit));
            self.sample(first, count, options.seed.wrapping_add(dataset as u64));
        }
        self.num_read += num_read;
        Ok(())
    }

    fn read_files(
        &mut self,
        description: &DatasetDescription,
        path: &Path,
        dataset: usize,
        limit: Option<usize>,
    ) -> Result<usize, DataError> {
        let limit = limit.unwrap_or(usize::MAX);
        let mut converter = Converter::new(description);
        let mut row = 0;
        let mut is_whole = true;
        for file in source::files(path)? {
            let flow = source::for_each_row(&file, |value| {
                if row >= limit {
                    return ControlFlow::Break(());
                }
                match converter.convert(value) {
                    Ok(conversation) => {
                        self.conversations.push(conversation);
                        self.origins.push((dataset, row));
                    }
                    Err(reason) => self.dropped.add(reason, (dataset, row)),
                }
                row += 1;
                ControlFlow::Continue(())
            })?;
            if flow.is_break() {
                is_whole = false;
                break;
            }
        }
        converter.check_columns(path, is_whole)?;
        Ok(row)
    }

    /// Replaces the conversations from `first` by `count` of them: a random choice, then random repeats.
    fn sample(&mut self, first: usize, count: usize, seed: u64) {
        let conversations = self.conversations.split_off(first);
        let origins = self.origins.split_off(first);
        if conversations.is_empty() {
            return;
        }
        let mut random = rng(seed, 0, Purpose::Sample);
        let mut chosen: Vec<usize> = (0..conversations.len()).collect();
        shuffle(&mut chosen, &mut random);
        chosen.truncate(count);
        while chosen.len() < count {
            chosen.push(below(conversations.len(), &mut random));
        }
        self.conversations
            .extend(chosen.iter().map(|&row| conversations[row].clone()));
        self.origins.extend(chosen.iter().map(|&row| origins[row]));
    }
}

/// Counts rows left out, by reason.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    by_reason: HashMap<String, (usize, Origin)>,
}

impl Dropped {
    pub(super) fn add(&mut self, reason: String, origin: Origin) {
        self.by_reason.entry(reason).or_insert((0, origin)).0 += 1;
    }

    /// Lists them, most frequent reason first.
    pub(super) fn listed(&self, names: &[String]) -> Vec<DroppedRows> {
        let mut listed: Vec<DroppedRows> = self
            .by_reason
            .iter()
            .map(|(reason, &(count, (dataset, row)))| DroppedRows {
                reason: reason.clone(),
                count,
                first: (names[dataset].clone(), row),
            })
            .collect();
        listed.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.reason.cmp(&b.reason)));
        listed
    }
}
