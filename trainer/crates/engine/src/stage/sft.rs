//! Supervised fine-tuning: conversations, cross-entropy on the answers.

use run_protocol::RunConfig;
use run_protocol::events::{Alert, EventKind, Level, Phase};
use trainer_data::{
    ExampleOptions, PrepareOptions, PrepareReport, Prepared, Progress, TemplateOptions, Tokenizer,
    prepare_sft, today,
};
use trainer_parallel::CrossEntropy;

use crate::error::EngineError;
use crate::recorder::EventSink;

/// Returns the objective of training and that of evaluation.
pub(crate) fn objectives() -> (CrossEntropy, CrossEntropy) {
    (CrossEntropy::default(), CrossEntropy::default())
}

/// Returns what the data crate needs of the configuration.
pub(crate) fn prepare_options(
    config: &RunConfig,
    source_date_epoch: Option<&str>,
) -> Result<PrepareOptions, EngineError> {
    let data = &config.data;
    Ok(PrepareOptions {
        dataset_dir: data.dataset_dir.clone(),
        dataset: data.dataset.clone(),
        eval_dataset: data.eval_dataset.clone(),
        val_size: data.val_size,
        max_samples: data.max_samples,
        seed: config.training.seed,
        template: data.template.map(|template| template.as_str().to_owned()),
        template_options: TemplateOptions {
            default_system: data.default_system.clone(),
            enable_thinking: data.enable_thinking,
            preserve_thinking: data.preserve_thinking,
            today: today(source_date_epoch)?,
        },
        example: ExampleOptions {
            cutoff_len: data.cutoff_len,
            mask_history: data.mask_history,
            train_on_prompt: data.train_on_prompt,
        },
    })
}

/// Reads and tokenises the rows; progress goes out as events.
pub(crate) fn prepare(
    config: &RunConfig,
    source_date_epoch: Option<&str>,
    events: &EventSink,
) -> Result<(Prepared, Tokenizer), EngineError> {
    let mut tokenizer = Tokenizer::load(&config.model.model_name_or_path)?;
    let options = prepare_options(config, source_date_epoch)?;
    let throttle = Throttle::default();
    let prepared = prepare_sft(&options, &mut tokenizer, &|progress: Progress| {
        if throttle.passes(progress.done == progress.total) {
            // Progress is a courtesy; a full disk shows itself at the next event that matters.
            if let Err(error) = events.stage(
                Phase::Tokenizing,
                Some(progress.done as u64),
                Some(progress.total as u64),
            ) {
                tracing::warn!(%error, "cannot write the progress");
            }
        }
    })?;
    report(&prepared, events)?;
    if prepared
        .train
        .iter()
        .all(|example| example.num_valid_tokens() == 0)
    {
        return Err(EngineError::NoLabels);
    }
    Ok((prepared, tokenizer))
}

/// Tells what happened to the rows on the way.
fn report(prepared: &Prepared, events: &EventSink) -> Result<(), EngineError> {
    let PrepareReport {
        num_read,
        num_truncated,
        dropped,
        added_tokens,
        warnings,
    } = &prepared.report;
    tracing::info!(
        num_read,
        num_truncated,
        train = prepared.train.len(),
        eval = prepared.eval.len(),
        added_tokens = added_tokens.len(),
        "tokenised the data"
    );
    let left_out = dropped.iter().map(|rows| {
        let (dataset, row) = &rows.first;
        format!(
            "{} rows were left out ({}), the first is row {} of `{dataset}`",
            rows.count,
            rows.reason,
            row + 1
        )
    });
    for message in left_out.chain(warnings.iter().cloned()) {
        tracing::warn!("{message}");
        let alert = Alert {
            level: Level::Warn,
            code: "data".into(),
            message,
            hint: None,
            step: None,
        };
        events.emit(EventKind::Alert(alert))?;
    }
    Ok(())
}

/// Lets an event through every now and then, whatever thread asks.
#[derive(Debug, Default)]
struct Throttle {
    last: std::sync::Mutex<Option<std::time::Instant>>,
}

impl Throttle {
    fn passes(&self, is_last: bool) -> bool {
        let Ok(mut last) = self.last.lock() else {
            return false;
        };
        let is_due = last.is_none_or(|last| last.elapsed().as_millis() >= 500);
        if is_due || is_last {
            *last = Some(std::time::Instant::now());
        }
        is_due || is_last
    }
}
