//! From names of datasets to tokenised rows.

mod read;
mod tokenize;

use std::path::PathBuf;

use jiff::civil::Date;
use read::Rows;

use crate::dataset_info::DatasetInfo;
use crate::error::DataError;
use crate::example::{Example, ExampleOptions};
use crate::order::{Purpose, rng, shuffle};
use crate::template::{ChatTemplate, TemplateOptions};
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
    /// Rows to keep for evaluation: below 1 a share (rounded up), from 1 a number, 0 none.
    pub val_size: f64,
    /// The first rows to take of each dataset; all where `None`.
    pub max_samples: Option<usize>,
    /// Decides which rows are kept for evaluation, and which `num_samples` takes.
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
    /// To evaluate on, in the order of the files; empty where there is no evaluation data.
    pub eval: Vec<Example>,
    /// The name of the chat template used.
    pub template: String,
    /// What happened on the way.
    pub report: PrepareReport,
}

/// Reads and tokenises the rows for supervised fine-tuning.
///
/// The tokenizer is changed where the template says so (its end-of-sequence token, new special tokens).
/// `progress` is called from several threads, with a growing `done`.
pub fn prepare_sft(
    options: &PrepareOptions,
    tokenizer: &mut Tokenizer,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Prepared, DataError> {
    let mut report = PrepareReport::default();
    let template = choose_template(options, tokenizer, &mut report)?;
    report.added_tokens = template.fix_special_tokens(tokenizer);

    let info = DatasetInfo::load(&options.dataset_dir)?;
    let mut rows = Rows::default();
    for name in &options.dataset {
        rows.read(&info, name, options)?;
    }
    let num_train_rows = rows.conversations.len();
    for name in &options.eval_dataset {
        rows.read(&info, name, options)?;
    }
    report.num_read = rows.num_read;
    report.warnings.append(&mut rows.warnings);

    let encode =
        |conversation: &_| Example::encode(conversation, &template, tokenizer, &options.example);
    let conversations = std::mem::take(&mut rows.conversations);
    let results = tokenize::in_parallel(conversations, &encode, progress)?;
    let (mut train, mut eval) = sort_out(results, num_train_rows, &mut rows, &mut report);
    if train.is_empty() || (eval.is_empty() && !options.eval_dataset.is_empty()) {
        let reasons = report
            .dropped
            .into_iter()
            .map(|dropped| (dropped.reason, dropped.count))
            .collect();
        return Err(DataError::NoValidSamples { reasons });
    }
    if options.val_size > 0.0 && eval.is_empty() {
        (train, eval) = split(train, options.val_size, options.seed)?;
    }
    Ok(Prepared {
        train,
        eval,
        template: template.name().into(),
        report,
    })
}

/// Parts the rows for training from those for evaluation, and both from those that cannot be used.
fn sort_out(
    results: Vec<Result<Example, String>>,
    num_train_rows: usize,
    rows: &mut Rows,
    report: &mut PrepareReport,
) -> (Vec<Example>, Vec<Example>) {
    let mut train = Vec::with_capacity(num_train_rows);
    let mut eval = Vec::new();
    for (index, result) in results.into_iter().enumerate() {
        match result.and_then(tokenize::check_learnable) {
            Ok(example) => {
                report.num_truncated += usize::from(example.is_truncated);
                if index < num_train_rows {
                    train.push(example);
                } else {
                    eval.push(example);
                }
            }
            Err(reason) => rows.dropped.add(reason, rows.origins[index]),
        }
    }
    report.dropped = rows.dropped.listed(&rows.names);
    (train, eval)
}

fn choose_template(
    options: &PrepareOptions,
    tokenizer: &Tokenizer,
    report: &mut PrepareReport,
) -> Result<ChatTemplate, DataError> {
    let template = match &options.template {
        Some(name) => ChatTemplate::named(name, &options.template_options)?,
        None => ChatTemplate::of_model(tokenizer, &options.template_options)?,
    };
    if options.template.is_none() {
        report.warnings.push(format!(
            "`template` is not set: {} is used",
            match tokenizer.chat_template() {
                Some(_) => "the model's own chat template",
                None => "the template `empty`",
            }
        ));
    }
    Ok(template)
}

/// Splits off rows for evaluation. Which ones depends on the seed alone; both parts keep the order of the file (the
/// reference shuffles both even with `disable_shuffling`, which then would not mean what it says).
fn split(
    rows: Vec<Example>,
    val_size: f64,
    seed: u64,
) -> Result<(Vec<Example>, Vec<Example>), DataError> {
    let num_eval = eval_count(rows.len(), val_size);
    if num_eval >= rows.len() {
        return Err(DataError::ValSize {
            val_size,
            num_rows: rows.len(),
        });
    }
    let mut order: Vec<usize> = (0..rows.len()).collect();
    shuffle(&mut order, &mut rng(seed, 0, Purpose::Split));
    let mut is_eval = vec![false; rows.len()];
    for &row in &order[..num_eval] {
        is_eval[row] = true;
    }
    let (mut train, mut eval) = (
        Vec::with_capacity(rows.len() - num_eval),
        Vec::with_capacity(num_eval),
    );
    for (row, is_eval) in rows.into_iter().zip(is_eval) {
        if is_eval {
            eval.push(row);
        } else {
            train.push(row);
        }
    }
    Ok((train, eval))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be positive; too large is refused after"
)]
fn eval_count(num_rows: usize, val_size: f64) -> usize {
    if val_size < 1.0 {
        (val_size * num_rows as f64).ceil() as usize
    } else {
        val_size as usize
    }
}

/// Returns the date that some templates write: that of `SOURCE_DATE_EPOCH` (seconds since 1970, UTC) where given, else
/// today's local one.
pub fn today(source_date_epoch: Option<&str>) -> Result<Date, DataError> {
    let Some(value) = source_date_epoch
        .map(str::trim)
        .filter(|value| !value.is_empty())
    else {
        return Ok(jiff::ZonedDateTime::now().date());
    };
    let refused = || DataError::SourceDate {
        value: value.into(),
    };
    let seconds = value.parse::<i64>().map_err(|_| refused())?;
    let time = jiff::Timestamp::from_second(seconds).map_err(|_| refused())?;
    Ok(time.to_zoned_datetime(jiff::tz::TimeZone::UTC).date())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows(count: i32) -> Vec<Example> {
        (0..count)
            .map(|id| Example {
                input_ids: vec![id],
                labels: vec![id],
                is_truncated: false,
            })
            .collect()
    }

    proptest! {
        #[test]
        fn a_split_loses_no_row_and_keeps_the_order(count in 2..200_i32, share in 0.01..0.5_f64, seed: u64) {
            let (train, eval) = split(rows(count), share, seed).expect("a part is left");
            prop_assert_eq!(eval.len(), eval_count(usize::try_from(count).expect("small"), share));
            let ids = |rows: &[Example]| rows.iter().map(|row| row.input_ids[0]).collect::<Vec<_>>();
            prop_assert!(ids(&train).is_sorted() && ids(&eval).is_sorted());
            let mut all = [ids(&train), ids(&eval)].concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn val_size_is_a_share_below_one_and_a_number_from_one() {
        assert_eq!(eval_count(200, 0.1), 20);
        assert_eq!(eval_count(201, 0.1), 21);
        assert_eq!(eval_count(200, 1.0), 1);
        assert_eq!(eval_count(200, 50.0), 50);
        let error = split(rows(5), 5.0, 1).expect_err("nothing is left");
        assert_eq!(
            error.to_string(),
            "`val_size` 5 leaves no row to train on (5 rows)"
        );
    }

    #[test]
    fn the_date_is_that_of_the_source_where_given() {
        assert_eq!(
            today(Some("1796000000")).expect("a time"),
            Date::constant(2026, 11, 30)
        );
        assert!(today(Some("soon")).is_err());
        assert!(today(None).is_ok());
    }
}
