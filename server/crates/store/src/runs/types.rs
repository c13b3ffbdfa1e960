//! What is known of a run.

use run_protocol::{RunId, RunState};
use serde::Serialize;

/// A run as the store keeps it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// The name people gave it.
    pub name: String,
    /// Where it stands.
    pub state: RunState,
    /// What is trained: `sft`, `dpo`, …
    pub stage: String,
    /// How the ranks divide the work: `single`, `ddp`, `fsdp2`, …
    pub backend: String,
    /// Which parameters are trained: `full`, `freeze`, `lora`.
    pub finetuning_type: String,
    /// Name or path of the model.
    pub model: String,
    /// Names of the datasets.
    pub datasets: Vec<String>,
    /// Marks that people gave it, in alphabetical order.
    pub tags: Vec<String>,
    /// What people wrote about it.
    pub notes: String,
    /// When it was made.
    pub created_ms: i64,
    /// When it last joined the queue.
    pub queued_ms: i64,
    /// When its last attempt was started.
    pub started_ms: Option<i64>,
    /// When it ended.
    pub ended_ms: Option<i64>,
    /// When somebody asked it to stop.
    pub stop_requested_ms: Option<i64>,
    /// The attempt it is in, from 1; 0 before the first.
    pub attempt: u32,
    /// The checkpoint that the next or running attempt resumes from.
    pub resume_from: Option<String>,
    /// The launcher of this attempt.
    pub process: Option<ProcessKey>,
    /// How it ended, once it has.
    pub exit: Option<RunExit>,
    /// What it is busy with.
    pub phase: Option<Phase>,
    /// Optimizer steps done.
    pub steps_done: u64,
    /// Optimizer steps that the run will have, once known.
    pub steps_total: Option<u64>,
    /// Epoch of the last step.
    pub epoch: Option<f64>,
    /// The last training loss; may be NaN.
    pub last_loss: Option<f64>,
    /// The last evaluation loss; may be NaN.
    pub last_eval_loss: Option<f64>,
    /// Up to 64 means of the training loss, for a small curve.
    pub sparkline: Vec<f32>,
}

/// Which process a launcher is: a pid may be used again, together with the start time it is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ProcessKey {
    /// The process id.
    pub pid: u32,
    /// When it started, in clock ticks since the machine did.
    pub start_time: u64,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct RunExit {
    /// The launcher's exit code, where it is known.
    pub code: Option<i32>,
    /// The class of failure, such as `out_of_memory`.
    pub class: Option<String>,
    /// What happened, in one sentence.
    pub message: Option<String>,
    /// What to try.
    pub hint: Option<String>,
}

/// What a run is busy with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Phase {
    /// `loading`, `tokenizing`, `training`, …
    pub name: String,
    /// How much of it is done, where it can be counted.
    pub done: Option<u64>,
    /// How much there is.
    pub total: Option<u64>,
}

/// A run to be made; it begins as queued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun {
    /// Its id.
    pub id: RunId,
    /// Its name, 1 to 200 characters.
    pub name: String,
    /// What is trained.
    pub stage: String,
    /// How the ranks divide the work.
    pub backend: String,
    /// Which parameters are trained.
    pub finetuning_type: String,
    /// Name or path of the model.
    pub model: String,
    /// Names of the datasets.
    pub datasets: Vec<String>,
    /// Its texts.
    pub texts: RunTexts,
    /// Optimizer steps, where they are known before the start.
    pub steps_total: Option<u64>,
    /// Its marks.
    pub tags: Vec<String>,
    /// When it was made.
    pub created_ms: i64,
}

/// The configuration of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunTexts {
    /// The input as given.
    pub input_yaml: String,
    /// What the trainer acts on.
    pub config_yaml: String,
    /// Hash of the latter.
    pub config_hash: String,
}

/// What a person changes of a run; `None` leaves it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunEdit {
    /// The new name.
    pub name: Option<String>,
    /// The new notes.
    pub notes: Option<String>,
    /// The new marks, all of them.
    pub tags: Option<Vec<String>>,
}

/// A change of state. It is refused if the run is in none of the states of `from`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateChange {
    /// The states in which the change is right.
    pub from: &'static [RunState],
    /// The state to take.
    pub to: RunState,
    /// When.
    pub time_ms: i64,
    /// The attempt that begins with it.
    pub attempt: Option<u32>,
    /// The launcher that was started.
    pub process: Option<ProcessKey>,
    /// The checkpoint to resume from; kept for the next attempt.
    pub resume_from: Option<String>,
    /// How the run ended; stored with a final state only.
    pub exit: RunExit,
}

impl StateChange {
    /// Makes a change without further facts.
    pub fn new(from: &'static [RunState], to: RunState, time_ms: i64) -> Self {
        Self {
            from,
            to,
            time_ms,
            attempt: None,
            process: None,
            resume_from: None,
            exit: RunExit::default(),
        }
    }
}

/// Which runs a list has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunFilter {
    /// Only runs in one of these states; empty for all.
    pub states: Vec<RunState>,
    /// Only runs whose name, model or a tag contains this text, whatever its case.
    pub text: Option<String>,
}

/// One page of a list, newest run first.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPage {
    /// The runs.
    pub runs: Vec<Run>,
    /// Where the next page begins: the last run of this one, if there are more.
    pub next: Option<RunId>,
}

/// How many runs are in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct StateCounts {
    /// Waiting.
    pub queued: u64,
    /// Started, without an event so far.
    pub starting: u64,
    /// At work.
    pub running: u64,
    /// Told to stop.
    pub stopping: u64,
    /// Complete.
    pub finished: u64,
    /// Ended by a fault.
    pub failed: u64,
    /// Ended by a person.
    pub stopped: u64,
}

impl StateCounts {
    /// Returns the count of one state.
    pub fn of(&self, state: RunState) -> u64 {
        match state {
            RunState::Queued => self.queued,
            RunState::Starting => self.starting,
            RunState::Running => self.running,
            RunState::Stopping => self.stopping,
            RunState::Finished => self.finished,
            RunState::Failed => self.failed,
            RunState::Stopped => self.stopped,
        }
    }

    /// Returns how many runs there are.
    pub fn total(&self) -> u64 {
        RunState::ALL.iter().map(|state| self.of(*state)).sum()
    }
}
