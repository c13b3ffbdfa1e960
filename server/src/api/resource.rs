//! The shapes of the answers: what a run looks like in JSON.

use board_store::{Run, RunExit};
use jiff::Timestamp;
use run_protocol::{MetricValue, RunId, RunState};
use serde::Serialize;
use utoipa::ToSchema;

/// One run under its name.
#[derive(Debug, Serialize, ToSchema)]
pub struct RunAnswer {
    /// The run.
    pub run: RunResource,
}

/// A page of runs.
#[derive(Debug, Serialize, ToSchema)]
pub struct RunList {
    /// Newest first.
    pub runs: Vec<RunResource>,
    /// What to send as `cursor` for the next page. `null` at the end.
    pub next: Option<String>,
}

/// One execution of one config.
#[derive(Debug, Serialize, ToSchema)]
pub struct RunResource {
    /// Its id, a UUID.
    #[schema(value_type = String, format = "uuid")]
    pub id: RunId,
    /// The name people gave it.
    pub name: String,
    /// Where it stands.
    #[schema(value_type = String, example = "running")]
    pub state: RunState,
    /// What is trained: `sft`, …
    pub stage: String,
    /// How the ranks divide the work: `single`, `ddp`, …
    pub backend: String,
    /// Which parameters are trained: `full`, `freeze`, `lora`.
    pub finetuning_type: String,
    /// The model it starts from.
    pub model: String,
    /// Names of its datasets.
    pub datasets: Vec<String>,
    /// Marks that people gave it.
    pub tags: Vec<String>,
    /// What people wrote about it.
    pub notes: String,
    /// When it was made.
    #[schema(value_type = String, format = "date-time")]
    pub created_at: Timestamp,
    /// When its last attempt began.
    #[schema(value_type = Option<String>, format = "date-time")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[schema(value_type = Option<String>, format = "date-time")]
    pub ended_at: Option<Timestamp>,
    /// The attempt it is in, from 1; 0 before the first.
    pub attempt: u32,
    /// Optimizer steps done.
    pub step: u64,
    /// Optimizer steps it will have, once known.
    pub total_steps: Option<u64>,
    /// Epoch of the last step.
    pub epoch: Option<f64>,
    /// What it is busy with.
    pub phase: Option<PhaseResource>,
    /// The last training loss.
    #[schema(value_type = Option<Number>)]
    pub loss: Option<MetricValue>,
    /// The last evaluation loss.
    #[schema(value_type = Option<Number>)]
    pub eval_loss: Option<MetricValue>,
    /// How it ended, once it has.
    pub exit: Option<ExitResource>,
}

/// A number; those that JSON has no digits for are words.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Number {
    /// A finite one.
    Finite(f64),
    /// `NaN`, `Infinity` or `-Infinity`.
    Word(String),
}

/// A phase of a run.
#[derive(Debug, Serialize, ToSchema)]
pub struct PhaseResource {
    /// `loading`, `tokenizing`, `training`, `evaluating`, `saving`, `exporting`.
    pub name: String,
    /// What is done, where it can be counted.
    pub done: Option<u64>,
    /// Of how many.
    pub total: Option<u64>,
}

/// The end of a run.
#[derive(Debug, Serialize, ToSchema)]
pub struct ExitResource {
    /// The launcher's exit code, where it is known.
    pub code: Option<i32>,
    /// Class of the failure.
    pub class: Option<String>,
    /// What happened, in a sentence.
    pub message: Option<String>,
    /// What to try.
    pub hint: Option<String>,
}

impl From<Run> for RunResource {
    fn from(run: Run) -> Self {
        Self {
            id: run.id,
            name: run.name,
            state: run.state,
            stage: run.stage,
            backend: run.backend,
            finetuning_type: run.finetuning_type,
            model: run.model,
            datasets: run.datasets,
            tags: run.tags,
            notes: run.notes,
            created_at: to_time(run.created_ms),
            started_at: run.started_ms.map(to_time),
            ended_at: run.ended_ms.map(to_time),
            attempt: run.attempt,
            step: run.steps_done,
            total_steps: run.steps_total,
            epoch: run.epoch,
            phase: run.phase.map(|phase| PhaseResource {
                name: phase.name,
                done: phase.done,
                total: phase.total,
            }),
            loss: run.last_loss.map(MetricValue),
            eval_loss: run.last_eval_loss.map(MetricValue),
            exit: run.exit.map(ExitResource::from),
        }
    }
}

impl From<RunExit> for ExitResource {
    fn from(exit: RunExit) -> Self {
        Self {
            code: exit.code,
            class: exit.class,
            message: exit.message,
            hint: exit.hint,
        }
    }
}

/// A time outside of jiff's years is shown as their end.
fn to_time(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(milliseconds).unwrap_or(if milliseconds < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    })
}
