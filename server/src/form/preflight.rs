//! What the run will do, and what stands in its way, before anything is started.
//!
//! The answer of `check()` and a plan of rows, steps and memory. Counts rows: call it where blocking is allowed.

use askama::Template;
use askama::filters::HtmlSafe;
use run_protocol::{Backend, Code, ConfigError, Facts, FinetuningType, Precision, RunConfig};
use trainer_data::RowOrder;

use super::faults::{Fault, Faults};
use super::field::label;
use super::values::FormValues;
use crate::catalog::{self, ModelFolder};
use crate::config::ServerConfig;
use crate::draft::Draft;
use crate::i18n::Tr;
use crate::view::figure::bytes;

/// The verdict beside the form.
#[derive(Debug, Template)]
#[template(path = "runs/_preflight.html")]
pub struct Preflight {
    t: Tr,
    rows: Vec<CheckRow>,
    /// Whether it was made for the values that the page shows; if not it asks at once.
    is_fresh: bool,
    /// What the run waits for, if it has to.
    queue_note: Option<String>,
    /// Optimizer steps, where they are known.
    steps: Option<u64>,
}

impl HtmlSafe for Preflight {}

/// One fact, warning or refusal.
#[derive(Debug)]
pub struct CheckRow {
    kind: CheckKind,
    field: Option<String>,
    label: String,
    text: String,
    hint: Option<String>,
    code: &'static str,
}

/// How grave a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckKind {
    /// The run cannot start.
    Bad,
    /// Nothing is wrong yet, something is still to be chosen.
    Todo,
    /// It will run, probably not as meant.
    Warn,
    /// A fact.
    Ok,
    /// Not known yet.
    Unknown,
}

impl CheckKind {
    const fn class(self) -> &'static str {
        match self {
            Self::Bad => "bad",
            Self::Todo => "todo",
            Self::Warn => "warn",
            Self::Ok => "ok",
            Self::Unknown => "unknown",
        }
    }

    const fn icon(self) -> &'static str {
        match self {
            Self::Bad => "failed",
            Self::Todo => "todo",
            Self::Warn => "warn",
            Self::Ok => "check",
            Self::Unknown => "unknown",
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Bad => "preflight.bad",
            Self::Todo => "preflight.todo",
            Self::Warn => "preflight.warn",
            Self::Ok => "preflight.ok",
            Self::Unknown => "preflight.unknown",
        }
    }
}

impl CheckRow {
    fn fact(kind: CheckKind, label: String, text: String) -> Self {
        Self {
            kind,
            field: None,
            label,
            text,
            hint: None,
            code: "",
        }
    }

    /// Shows a fault; what is only missing is no fault before the form was sent.
    fn refusal(t: Tr, fault: Fault, is_sent: bool) -> Self {
        if !is_sent
            && fault.code == Code::Missing.as_str()
            && let Some(todo) = t.find(format!("todo.{}", fault.field))
        {
            return Self {
                kind: CheckKind::Todo,
                label: todo.to_owned(),
                text: String::new(),
                hint: None,
                code: fault.code,
                field: Some(fault.field),
            };
        }
        let label = if fault.field.is_empty() {
            String::new()
        } else {
            label(t, &fault.field)
        };
        Self {
            kind: CheckKind::Bad,
            label,
            text: fault.reason,
            hint: fault.hint,
            code: fault.code,
            field: Some(fault.field),
        }
    }

    /// Returns where the field of the row stands.
    fn href(&self) -> Option<String> {
        self.field
            .as_ref()
            .filter(|field| !field.is_empty())
            .map(|field| format!("#f-{}", field.replace('.', "-")))
    }
}

impl Preflight {
    /// Returns a panel that asks for its rows as soon as it stands in the page.
    pub fn pending(t: Tr) -> Self {
        let waiting = CheckRow::fact(CheckKind::Unknown, String::new(), t.s("preflight.pending"));
        Self {
            t,
            rows: vec![waiting],
            is_fresh: false,
            queue_note: None,
            steps: None,
        }
    }

    /// Checks and plans what the form says; the faults stand beside their fields too.
    pub fn of_form(
        t: Tr,
        values: &FormValues,
        server: &ServerConfig,
        num_ahead: usize,
        is_sent: bool,
    ) -> (Self, Faults) {
        let (mut rows, mut steps) = (Vec::new(), None);
        let faults = match Draft::from_pairs(server, &values.to_pairs()) {
            Err(errors) => Faults::of_form(t, values, &errors.0),
            Ok(draft) => plan(t, values, server, &draft, &mut rows, &mut steps),
        };
        rows.extend(
            faults
                .0
                .iter()
                .cloned()
                .map(|fault| CheckRow::refusal(t, fault, is_sent)),
        );
        rows.sort_by_key(|row| row.kind);
        let queue_note = (num_ahead > 0).then(|| t.n("preflight.ahead", num_ahead));
        (
            Self {
                t,
                rows,
                is_fresh: true,
                queue_note,
                steps,
            },
            faults,
        )
    }

    fn num(&self, kind: CheckKind) -> usize {
        self.rows.iter().filter(|row| row.kind == kind).count()
    }

    fn num_bad(&self) -> usize {
        self.num(CheckKind::Bad)
    }

    fn num_warn(&self) -> usize {
        self.num(CheckKind::Warn)
    }

    fn num_ok(&self) -> usize {
        self.num(CheckKind::Ok)
    }

    /// Returns what is still to be chosen, if that alone stands in the way.
    fn first_todo(&self) -> Option<&CheckRow> {
        self.rows
            .iter()
            .find(|row| row.kind == CheckKind::Todo)
            .filter(|_| self.num_bad() == 0)
    }

    fn first_problem(&self) -> Option<&str> {
        let row = self.rows.iter().find(|row| row.kind == CheckKind::Bad)?;
        Some(
            row.field
                .as_deref()
                .filter(|field| !field.is_empty())
                .unwrap_or(&row.text),
        )
    }

    fn start_label(&self) -> &'static str {
        if self.queue_note.is_some() {
            "new.queue"
        } else {
            "new.start"
        }
    }
}

/// Adds warnings and facts of a configuration that can be read, and returns what speaks against it.
fn plan(
    t: Tr,
    values: &FormValues,
    server: &ServerConfig,
    draft: &Draft,
    rows: &mut Vec<CheckRow>,
    steps: &mut Option<u64>,
) -> Faults {
    let config = &draft.config;
    let num_rows = count_rows(t, config);
    let rows_found = num_rows.as_ref().ok().copied().flatten();
    let num_examples = rows_found.map(|rows| rows - num_held_back(config, rows));
    let facts = Facts {
        world_size: None,
        num_examples,
    };
    let mut report = config.check_with(&facts);
    if let Err(errors) = draft.clone().into_checked(server) {
        let is_new =
            |error: &ConfigError| report.errors.iter().all(|known| known.field != error.field);
        let more: Vec<_> = errors.0.into_iter().filter(is_new).collect();
        report.errors.extend(more);
    }
    let mut faults = Faults::of_form(t, values, &report.errors);
    if let Err(fault) = num_rows
        && faults.of("dataset").is_empty()
    {
        faults.0.push(fault);
    }
    for warning in report.warnings {
        let label = label(t, &warning.field);
        let text = t.said(warning.message);
        let hint = warning.hint.map(|hint| t.said(hint));
        rows.push(CheckRow {
            kind: CheckKind::Warn,
            field: Some(warning.field),
            label,
            text,
            hint,
            code: "",
        });
    }
    *steps = plan_rows(t, config, rows_found, rows);
    plan_memory(t, config, &catalog::list_models(server), server, rows);
    for key in &draft.accepted_without_effect {
        rows.push(CheckRow::fact(
            CheckKind::Warn,
            key.key.clone(),
            t.f1("preflight.no_effect", t.said(&key.reason)),
        ));
    }
    faults
}

/// Counts the rows of the chosen datasets; `None` while none is chosen.
fn count_rows(t: Tr, config: &RunConfig) -> Result<Option<u64>, Fault> {
    if config.data.dataset.is_empty() {
        return Ok(None);
    }
    let mut sum = 0;
    for name in &config.data.dataset {
        let count =
            trainer_data::count_rows(&config.data.dataset_dir, name).map_err(|error| Fault {
                field: "dataset".into(),
                reason: t.said(error.to_string()),
                hint: error.hint().map(|hint| t.said(hint)),
                code: "bad_data",
            })?;
        sum += config
            .data
            .max_samples
            .map_or(count, |most| count.min(most)) as u64;
    }
    Ok(Some(sum))
}

/// Rows held back for evaluation.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a checked share or count of rows"
)]
fn num_held_back(config: &RunConfig, rows: u64) -> u64 {
    let size = config.data.val_size;
    let count = if size < 1.0 {
        (size * rows as f64).ceil() as u64
    } else {
        size as u64
    };
    if config.data.eval_dataset.is_empty() {
        count.min(rows)
    } else {
        0
    }
}

fn plan_rows(t: Tr, config: &RunConfig, rows: Option<u64>, out: &mut Vec<CheckRow>) -> Option<u64> {
    let training = &config.training;
    let (batch, accumulation) = (
        training.per_device_train_batch_size,
        training.gradient_accumulation_steps,
    );
    let per_step = batch * accumulation;
    let product = t.f3("preflight.batch", batch, accumulation, per_step);
    let Some(rows) = rows else {
        out.push(CheckRow::fact(
            CheckKind::Ok,
            t.s("preflight.batch_label"),
            product,
        ));
        return None;
    };
    let held_back = num_held_back(config, rows);
    let train = rows - held_back;
    let split = t.f3(
        "preflight.rows",
        t.count(rows),
        t.count(train),
        t.count(held_back),
    );
    out.push(CheckRow::fact(
        CheckKind::Ok,
        t.s("preflight.rows_label"),
        split,
    ));
    out.push(CheckRow::fact(
        CheckKind::Ok,
        t.s("preflight.batch_label"),
        product,
    ));
    let num_train = usize::try_from(train).unwrap_or(usize::MAX);
    let order = RowOrder::new(num_train, per_step, training.seed, true).ok()?;
    let total = order.total_steps(training.num_train_epochs, training.max_steps);
    let steps = match training.max_steps {
        Some(steps) => t.n("preflight.steps_fixed", steps),
        None => t.f3(
            "preflight.steps",
            t.count(order.steps_per_epoch()),
            crate::view::figure::setting(training.num_train_epochs),
            t.count(total),
        ),
    };
    out.push(CheckRow::fact(
        CheckKind::Ok,
        t.s("preflight.steps_label"),
        steps,
    ));
    plan_events(
        t,
        config,
        &order,
        total,
        held_back > 0 || !config.data.eval_dataset.is_empty(),
        out,
    );
    Some(total)
}

fn plan_events(
    t: Tr,
    config: &RunConfig,
    order: &RowOrder,
    total: u64,
    has_eval: bool,
    out: &mut Vec<CheckRow>,
) {
    use run_protocol::{EvalStrategy, SaveStrategy};
    let per_epoch = order.steps_per_epoch().max(1);
    let num_evals = match config.evaluation.eval_strategy {
        EvalStrategy::No => 0,
        EvalStrategy::Steps => {
            total
                / config
                    .evaluation
                    .eval_steps
                    .unwrap_or(config.logging.logging_steps)
                    .max(1)
        }
        EvalStrategy::Epoch => total.div_ceil(per_epoch),
    };
    let num_saves = match config.checkpoint.save_strategy {
        SaveStrategy::Steps => total / config.checkpoint.save_steps.max(1),
        SaveStrategy::Epoch => total.div_ceil(per_epoch),
        _ => 0,
    };
    let warmup = config.training.warmup(total);
    let text = t.f3(
        "preflight.events",
        t.count(warmup),
        t.count(num_evals),
        t.count(num_saves),
    );
    out.push(CheckRow::fact(
        CheckKind::Ok,
        t.s("preflight.events_label"),
        text,
    ));
    let mut warn = |field: &str, text: String| {
        let label = label(t, field);
        out.push(CheckRow {
            kind: CheckKind::Warn,
            field: Some(field.into()),
            label,
            text,
            hint: None,
            code: "",
        });
    };
    if warmup >= total && total > 0 && warmup > 0 {
        warn("warmup_steps", t.f2("preflight.long_warmup", warmup, total));
    }
    if has_eval && num_evals == 0 {
        warn("eval_strategy", t.s("preflight.no_eval"));
    }
}

/// Estimates the memory of weights, gradients and optimizer from the size of the weight files.
fn plan_memory(
    t: Tr,
    config: &RunConfig,
    models: &[ModelFolder],
    server: &ServerConfig,
    out: &mut Vec<CheckRow>,
) {
    let path = &config.model.model_name_or_path;
    let is_chosen = |model: &&ModelFolder| {
        server.data_dir.join(&model.path) == *path && model.refusal.is_none()
    };
    let Some(model) = models.iter().find(is_chosen) else {
        if !path.as_os_str().is_empty() {
            out.push(CheckRow::fact(
                CheckKind::Unknown,
                t.s("preflight.memory_label"),
                t.s("preflight.unknown_model"),
            ));
        }
        return;
    };
    let width = if model.dtype.as_deref() == Some("float32") {
        4
    } else {
        2
    };
    let parameters = model.size_bytes / width;
    let precision = config.training.precision();
    let (weight, whole): (u64, u64) = match precision {
        Precision::Fp32 => (4, 16),
        Precision::PureBf16 => (2, 8),
        _ => (2, 18),
    };
    let need = match config.method.finetuning_type {
        FinetuningType::Full => parameters * whole,
        _ => parameters * weight,
    };
    let Ok(mut system) = sysinfo::System::new() else {
        return;
    };
    system.refresh_memory();
    let (total, free) = (system.total_memory(), system.available_memory());
    let text = t.f2("preflight.memory", bytes(need), bytes(total));
    let label = t.s("preflight.memory_label");
    if need > free {
        let hint = Some(t.f1("preflight.memory_hint", bytes(free)));
        out.push(CheckRow {
            kind: CheckKind::Warn,
            field: None,
            label,
            text,
            hint,
            code: "",
        });
    } else {
        out.push(CheckRow::fact(CheckKind::Ok, label, text));
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let device = match config.backend(None) {
        Backend::Single => t.n("preflight.cpu", cores),
        other => other.as_str().to_owned(),
    };
    out.push(CheckRow::fact(
        CheckKind::Ok,
        t.s("preflight.device_label"),
        device,
    ));
}
