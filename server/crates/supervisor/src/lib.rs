//! Starts, follows, stops and re-adopts the launchers of runs.
//!
//! A run waits in a queue; its launcher is started in a process group of its own and writes `events.jsonl` in the run
//! directory, which a watch follows by byte offset into the store. How the run ended is decided by `exit.json`, once the
//! launcher is gone. Nothing of a run depends on this process: it may end at any moment, and the next one finds the
//! launchers that live, takes in what was written meanwhile, and decides what became of the others.
//!
//! Knows nothing of HTTP, and reads no environment: what the launchers inherit is given by [`Settings`].

mod end;
mod error;
mod launch;
mod process;
mod queue;
mod recover;
mod settings;
mod supervisor;
mod watch;

pub use error::SupervisorError;
pub use settings::{Settings, Submission};
pub use supervisor::Supervisor;
