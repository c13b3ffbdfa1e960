//! A run's identity and state.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A run's identity: a UUID of version 7, so that ids sort by the time of creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub Uuid);

impl RunId {
    /// Makes a new id of this moment.
    #[expect(
        clippy::new_without_default,
        reason = "two ids are never equal, so there is no default one"
    )]
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.as_hyphenated())
    }
}

/// A text that is no run id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a run id")]
pub struct RunIdError(pub String);

impl FromStr for RunId {
    type Err = RunIdError;

    /// Takes the hyphenated form only, so that an id has one spelling in addresses and folders.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match Uuid::parse_str(text) {
            Ok(id) if id.as_hyphenated().to_string() == text => Ok(Self(id)),
            _ => Err(RunIdError(text.to_owned())),
        }
    }
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It waits for its turn.
    Queued,
    /// Its launcher was started; no event came yet.
    Starting,
    /// Its ranks work.
    Running,
    /// It was told to stop and has not ended yet.
    Stopping,
    /// It ended by itself and is complete.
    Finished,
    /// It ended by a fault.
    Failed,
    /// It ended because somebody stopped it.
    Stopped,
}

impl RunState {
    /// Every state, in the order of a run's life.
    pub const ALL: &'static [Self] = &[
        Self::Queued,
        Self::Starting,
        Self::Running,
        Self::Stopping,
        Self::Finished,
        Self::Failed,
        Self::Stopped,
    ];

    /// Returns the word of the API and the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }

    /// Whether the run has ended.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Finished | Self::Failed | Self::Stopped)
    }

    /// Whether a launcher belongs to the run now.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Starting | Self::Running | Self::Stopping)
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no run state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a run state")]
pub struct RunStateError(pub String);

impl FromStr for RunState {
    type Err = RunStateError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .iter()
            .copied()
            .find(|state| state.as_str() == word)
            .ok_or_else(|| RunStateError(word.to_owned()))
    }
}

/// `launcher.json`: which process runs this attempt, so that a board that was restarted finds it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LauncherRecord {
    /// Process id of the launcher, which is also its process group.
    pub pid: u32,
    /// Start time of that process as the operating system gives it (clock ticks since boot), against reused ids.
    pub start_time: u64,
    /// Which attempt, from 1.
    pub attempt: u32,
}
