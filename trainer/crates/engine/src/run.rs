//! One rank's run from configuration to results.

use std::path::{Path, PathBuf};
use std::time::Duration;

use run_protocol::events::{EventKind, Finished, MetricValue, Phase, Started};
use run_protocol::{AcceptedKey, Backend, FinetuningType, LrScheduler, RunConfig, RunDir, Stage};
use serde_json::{Map, Value, json};
use tch::Device;
use trainer_data::{Prepared, RowOrder, Sampler, Tokenizer};
use trainer_models::Model;
use trainer_parallel::{OptimizerOptions, RunOptions, Single, Strategy};

use crate::checkpoint::{
    OPTIMIZER_FILE, Progress, disown_after, read_history, remove_leftovers, write_json,
};
use crate::error::EngineError;
use crate::loading::load_options;
use crate::monitor::Monitor;
use crate::outputs::{Artifacts, train_results, trainer_state, write_loss_curve, write_results};
use crate::recorder::{EventSink, Recorder, StepNumbers};
use crate::schedule::{Schedule, Shape};
use crate::stage::sft;
use crate::step::check_token_range;
use crate::stop::StopFlag;
use crate::trainer::{Outcome, Trainer};

/// Time between two `system` events.
const MONITOR_INTERVAL: Duration = Duration::from_secs(3);

/// What a rank is told beside its configuration.
#[derive(Debug, Clone)]
pub struct RankOptions {
    /// A complete checkpoint to go on from.
    pub resume: Option<PathBuf>,
    /// Keys that were given but change nothing, to be shown.
    pub accepted_without_effect: Vec<AcceptedKey>,
    /// `SOURCE_DATE_EPOCH`, where it is set.
    pub source_date_epoch: Option<String>,
    /// Threads of one operation, for the log.
    pub num_threads: usize,
}

/// Runs the whole of it on this rank, the only one.
pub fn run(
    config: &RunConfig,
    run_dir: &RunDir,
    options: &RankOptions,
    events: &EventSink,
    stop: &StopFlag,
) -> Result<Outcome, EngineError> {
    if config.stage != Stage::Sft {
        return Err(EngineError::Config {
            field: "stage",
            reason: format!("`{}` cannot be trained yet", config.stage),
            hint: Some("use `sft`".into()),
        });
    }
    let resumed = options
        .resume
        .as_deref()
        .map(|checkpoint| read_progress(checkpoint, config))
        .transpose()?;
    remove_leftovers(run_dir)?;
    events.stage(Phase::Loading, None, None)?;
    let (model, (prepared, tokenizer)) =
        load(config, options, events).map_err(|error| of_resumed(error, options))?;
    check_token_range(&prepared, model.config().vocab_size)?;
    let (num_trainable, num_parameters) = model.num_parameters();
    tracing::info!(num_trainable, num_parameters, "loaded the model");
    let mut strategy = Single::new(model, optimizer_options(config), run_options(config))?;
    if let Some(checkpoint) = &options.resume {
        strategy
            .load_optimizer(&checkpoint.join(OPTIMIZER_FILE))
            .map_err(|error| of_resumed(error.into(), options))?;
    }
    let mut trainer = assemble(
        config, run_dir, options, events, stop, strategy, prepared, tokenizer, resumed,
    )?;
    if let Some(checkpoint) = &options.resume {
        leave_later_checkpoints(run_dir, checkpoint, trainer.progress.step)?;
    }
    events.emit(EventKind::Started(Box::new(started(
        config,
        options,
        &trainer,
        num_trainable,
        num_parameters,
    ))))?;
    let first_step = trainer.progress.step;
    let outcome = trainer.run()?;
    finish(&mut trainer, outcome, first_step)?;
    Ok(outcome)
}

/// Reads where the checkpoint stands; one of another method has other files.
fn read_progress(checkpoint: &Path, config: &RunConfig) -> Result<Progress, EngineError> {
    let progress = Progress::read(checkpoint)?;
    let wanted = config.method.finetuning_type.as_str();
    if progress.finetuning_type == wanted {
        return Ok(progress);
    }
    Err(EngineError::Checkpoint {
        path: checkpoint.to_owned(),
        reason: format!(
            "it is of a run with `finetuning_type: {}`, and this one has `{wanted}`",
            progress.finetuning_type
        ),
    })
}

/// A run that goes on from an older checkpoint of its own leaves the steps after it behind.
fn leave_later_checkpoints(
    run_dir: &RunDir,
    checkpoint: &Path,
    step: u64,
) -> Result<(), EngineError> {
    let real = |path: &Path| path.canonicalize().ok();
    let own = real(&run_dir.checkpoint(step));
    if own.is_some() && own == real(checkpoint) {
        disown_after(run_dir, step)?;
    }
    Ok(())
}

fn of_resumed(error: EngineError, options: &RankOptions) -> EngineError {
    match &options.resume {
        Some(checkpoint) => error.of_checkpoint(checkpoint),
        None => error,
    }
}

/// Loads weights in a thread of its own while this one tokenises.
fn load(
    config: &RunConfig,
    options: &RankOptions,
    events: &EventSink,
) -> Result<(Model, (Prepared, Tokenizer)), EngineError> {
    let (folder, load_options) = load_options(config, options.resume.as_deref())?;
    std::thread::scope(|scope| {
        let weights = scope.spawn(|| Model::load(&folder, &load_options));
        let data = sft::prepare(config, options.source_date_epoch.as_deref(), events);
        let model = weights.join().map_err(|panic| {
            let message = panic
                .downcast_ref::<String>()
                .cloned()
                .unwrap_or_else(|| "no message".into());
            EngineError::Internal(format!("loading the model broke: {message}"))
        })?;
        Ok((model?, data?))
    })
}

#[expect(
    clippy::too_many_arguments,
    reason = "puts the parts of a run together, in one place"
)]
fn assemble<'a>(
    config: &'a RunConfig,
    run_dir: &'a RunDir,
    options: &RankOptions,
    events: &EventSink,
    stop: &StopFlag,
    strategy: Single,
    prepared: Prepared,
    tokenizer: Tokenizer,
    resumed: Option<Progress>,
) -> Result<Trainer<'a>, EngineError> {
    let training = &config.training;
    let global_batch_size = global_batch_size(config);
    let seed = order_seed(config);
    let num_rows = prepared.train.len();
    let order = RowOrder::new(
        num_rows,
        global_batch_size,
        seed,
        !config.data.disable_shuffling,
    )?;
    let total_steps = order.total_steps(training.num_train_epochs, training.max_steps);
    let sampler = match &resumed {
        Some(progress) => Sampler::resume(order, progress.sampler)?,
        None => Sampler::new(order),
    };
    if let Some(progress) = &resumed {
        warn_of_changes(config, progress, num_rows, global_batch_size);
    }
    let history = options
        .resume
        .as_deref()
        .map(read_history)
        .unwrap_or_default();
    let progress =
        resumed.unwrap_or_else(|| fresh_progress(config, num_rows, global_batch_size, &sampler));
    let mut recorder = Recorder::open(run_dir, events.clone(), history, progress.step)?;
    recorder.set_pending(progress.pending_loss);
    let (objective, eval_objective) = sft::objectives();
    Ok(Trainer {
        config,
        run_dir,
        strategy: Box::new(strategy),
        objective: Box::new(objective),
        eval_objective: Box::new(eval_objective),
        train: prepared.train,
        eval: prepared.eval,
        schedule: Schedule::new(
            shape(training.lr_scheduler_type),
            training.warmup(total_steps),
            total_steps,
        ),
        total_steps,
        sampler,
        last_saved: options.resume.is_some().then_some(progress.step),
        progress,
        recorder,
        monitor: Monitor::start(events.clone(), 0, MONITOR_INTERVAL),
        artifacts: Artifacts {
            tokenizer,
            base: config.model.model_name_or_path.clone(),
            is_adapter: config.method.finetuning_type == FinetuningType::Lora,
        },
        stop: stop.clone(),
        last_evaluation: None,
        num_skipped: 0,
    })
}

fn fresh_progress(
    config: &RunConfig,
    num_rows: usize,
    global_batch_size: usize,
    sampler: &Sampler,
) -> Progress {
    Progress {
        format: Progress::format(),
        step: 0,
        epoch: 0.0,
        sampler: sampler.state(),
        seed: config.training.seed,
        order_seed: Some(order_seed(config)),
        disable_shuffling: Some(config.data.disable_shuffling),
        num_rows: num_rows as u64,
        global_batch_size: global_batch_size as u64,
        num_input_tokens_seen: 0,
        total_loss: 0.0,
        num_non_finite_losses: 0,
        pending_loss: (0.0, 0),
        seconds: 0.0,
        precision: config.training.precision().as_str().to_owned(),
        finetuning_type: config.method.finetuning_type.as_str().to_owned(),
    }
}

/// A changed setting does not stop a resumed run, but it is no longer the run that it was.
fn warn_of_changes(
    config: &RunConfig,
    progress: &Progress,
    num_rows: usize,
    global_batch_size: usize,
) {
    let precision = config.training.precision().as_str();
    let (order_seed, disable_shuffling) = (order_seed(config), config.data.disable_shuffling);
    let changes = [
        (
            "rows of the data",
            progress.num_rows.to_string(),
            num_rows.to_string(),
        ),
        (
            "global batch size",
            progress.global_batch_size.to_string(),
            global_batch_size.to_string(),
        ),
        (
            "seed",
            progress.seed.to_string(),
            config.training.seed.to_string(),
        ),
        (
            "seed of the order of rows",
            progress.order_seed.unwrap_or(order_seed).to_string(),
            order_seed.to_string(),
        ),
        (
            "disable_shuffling",
            progress
                .disable_shuffling
                .unwrap_or(disable_shuffling)
                .to_string(),
            disable_shuffling.to_string(),
        ),
        (
            "precision",
            progress.precision.clone(),
            precision.to_owned(),
        ),
    ];
    for (what, before, now) in changes {
        if before != now {
            tracing::warn!(
                before,
                now,
                "{what} changed since the checkpoint; the run goes on differently"
            );
        }
    }
}

fn order_seed(config: &RunConfig) -> u64 {
    config.training.data_seed.unwrap_or(config.training.seed)
}

fn global_batch_size(config: &RunConfig) -> usize {
    let training = &config.training;
    training.global_batch_size.unwrap_or(
        training.per_device_train_batch_size * training.gradient_accumulation_steps.max(1),
    )
}

fn optimizer_options(config: &RunConfig) -> OptimizerOptions {
    let training = &config.training;
    OptimizerOptions {
        beta1: training.adam_beta1,
        beta2: training.adam_beta2,
        eps: training.adam_epsilon,
        weight_decay: training.weight_decay,
    }
}

fn run_options(config: &RunConfig) -> RunOptions {
    RunOptions {
        activation_checkpointing: !config.training.disable_gradient_checkpointing,
        seed: config.training.seed,
    }
}

fn shape(scheduler: LrScheduler) -> Shape {
    match scheduler {
        LrScheduler::Constant | LrScheduler::ReduceLrOnPlateau => Shape::Constant,
        LrScheduler::ConstantWithWarmup => Shape::ConstantWithWarmup,
        LrScheduler::Linear => Shape::Linear,
        LrScheduler::Cosine => Shape::Cosine,
        LrScheduler::CosineWithRestarts => Shape::CosineWithRestarts { cycles: 1.0 },
        LrScheduler::CosineWithMinLr | LrScheduler::CosineWarmupWithMinLr => {
            Shape::CosineWithMin { min: 0.1 }
        }
        LrScheduler::Polynomial => Shape::Polynomial {
            end: 0.0,
            power: 1.0,
        },
        LrScheduler::InverseSqrt => Shape::InverseSqrt,
        LrScheduler::WarmupStableDecay => Shape::WarmupStableDecay,
    }
}

fn started(
    config: &RunConfig,
    options: &RankOptions,
    trainer: &Trainer<'_>,
    num_trainable: usize,
    num_parameters: usize,
) -> Started {
    let mut notes = vec![
        "attention: libtorch's scaled_dot_product_attention, each row by itself (no padding)"
            .to_owned(),
        format!("{} threads", options.num_threads),
    ];
    if !config.training.disable_gradient_checkpointing {
        notes.push("activation checkpointing is on; `disable_gradient_checkpointing: true` is faster where memory allows".into());
    }
    Started {
        world_size: 1,
        backend: Backend::Single.as_str().to_owned(),
        devices: vec![device_name(trainer.strategy.model().device())],
        precision: config.training.precision().as_str().to_owned(),
        config: config.to_flat_json(),
        config_hash: config.hash(),
        accepted_without_effect: options.accepted_without_effect.clone(),
        notes,
        trainable_parameters: num_trainable as u64,
        total_parameters: num_parameters as u64,
        total_steps: Some(trainer.total_steps),
        num_examples: Some(trainer.train.len() as u64),
        resumed_from: options.resume.is_some().then_some(trainer.progress.step),
        trainer_version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Started::default()
    }
}

fn device_name(device: Device) -> String {
    match device {
        Device::Cpu => "cpu".into(),
        Device::Cuda(index) => format!("cuda:{index}"),
        other => format!("{other:?}").to_lowercase(),
    }
}

/// Evaluates once more where that was asked for, and writes model, results and curve.
fn finish(trainer: &mut Trainer<'_>, outcome: Outcome, first_step: u64) -> Result<(), EngineError> {
    let seconds = trainer.recorder.elapsed_seconds();
    let mut results = Map::new();
    if outcome == Outcome::Finished {
        results = write_outputs(trainer, first_step, seconds)?;
    }
    let values = results
        .iter()
        .filter_map(|(name, value)| Some((name.clone(), MetricValue(value.as_f64()?))))
        .collect();
    let step = trainer.progress.step;
    let is_stopped = outcome == Outcome::Stopped;
    trainer
        .recorder
        .events()
        .emit(EventKind::Finished(Finished {
            step,
            stopped: is_stopped,
            results: values,
        }))?;
    tracing::info!(step, is_stopped, seconds, "finished");
    Ok(())
}

fn write_outputs(
    trainer: &mut Trainer<'_>,
    first_step: u64,
    seconds: f64,
) -> Result<Map<String, Value>, EngineError> {
    let events = trainer.recorder.events().clone();
    let numbers = StepNumbers {
        step: trainer.progress.step,
        epoch: trainer.progress.epoch,
        num_tokens_seen: trainer.progress.num_input_tokens_seen,
        ..StepNumbers::default()
    };
    let rows_per_step = global_batch_size(trainer.config) as f64;
    let train = train_results(&trainer.progress, first_step, seconds, rows_per_step);
    trainer.recorder.results(&numbers, &train)?;
    events.stage(Phase::Exporting, None, None)?;
    trainer
        .artifacts
        .export_model(trainer.strategy.model(), trainer.run_dir)?;
    let eval = final_evaluation(trainer, &numbers)?;
    write_results(trainer.run_dir, &train, eval.as_ref())?;
    let state = trainer_state(
        trainer.config,
        &trainer.progress,
        trainer.total_steps,
        trainer.recorder.history(),
    );
    write_json(&trainer.run_dir.trainer_state(), &state)?;
    if trainer.config.logging.plot_loss {
        let name = trainer
            .config
            .logging
            .run_name
            .clone()
            .unwrap_or_else(|| folder_name(trainer.run_dir.root()));
        write_loss_curve(trainer.run_dir, &name, trainer.recorder.history())?;
    }
    let mut all = train;
    all.extend(eval.unwrap_or_default());
    Ok(all)
}

fn folder_name(path: &Path) -> String {
    path.file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Returns the evaluation of the last step, running it where the loop did not.
fn final_evaluation(
    trainer: &mut Trainer<'_>,
    numbers: &StepNumbers,
) -> Result<Option<Map<String, Value>>, EngineError> {
    if trainer.eval.is_empty()
        || trainer.config.evaluation.eval_strategy == run_protocol::EvalStrategy::No
    {
        return Ok(None);
    }
    if trainer
        .last_evaluation
        .as_ref()
        .is_none_or(|(step, _)| *step != numbers.step)
    {
        trainer.evaluate(numbers)?;
    }
    let Some((step, evaluation)) = &trainer.last_evaluation else {
        return Ok(None);
    };
    if *step != numbers.step {
        return Ok(None);
    }
    let mut values = Map::new();
    values.insert("epoch".into(), json!(numbers.epoch));
    for (name, value) in &evaluation.values {
        values.insert(name.clone(), json!(MetricValue(*value)));
    }
    values.insert("eval_runtime".into(), json!(evaluation.seconds));
    Ok(Some(values))
}
