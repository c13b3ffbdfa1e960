//! The table `runs`: what a run is and how runs are found.

pub(crate) mod change;
mod read;
mod types;

pub(crate) use read::{count, find, find_texts, list, queued};
pub use types::{
    NewRun, Phase, ProcessKey, Run, RunEdit, RunExit, RunFilter, RunPage, RunTexts, StateChange,
    StateCounts,
};
