//! The event file: the only live channel from a run to whoever watches it.
//!
//! One JSON object a line, appended by rank 0. `docs/protocol.md` shows each kind.

mod kinds;
mod reader;
mod value;
mod writer;

use std::{
    io,
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};
use serde_json::{Map, Value};

pub use kinds::{
    Alert, CheckpointSaved, EventKind, Failed, Finished, Level, LogMessage, Metric, Phase, Sample,
    StageProgress, Started, System, Unknown,
};
pub use reader::{BadLine, Batch, EventReader};
pub use value::{MetricValue, MetricValues};
pub use writer::EventWriter;

/// Version of the event format.
pub const FORMAT_VERSION: u32 = 1;

/// One line of `events.jsonl`.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Version of the format.
    pub v: u32,
    /// Number of the event, from 1, growing over all attempts.
    pub seq: u64,
    /// Which attempt wrote it, from 1.
    pub attempt: u32,
    /// When, in milliseconds since 1970 (UTC).
    pub time: i64,
    /// What happened.
    pub kind: EventKind,
}

impl Event {
    /// Returns the event as one line of JSON, without its newline.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// Reads one line.
    pub fn from_line(line: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(line)
    }
}

/// Returns this moment in milliseconds since 1970.
pub fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut line = Map::new();
        line.insert("v".into(), self.v.into());
        line.insert("seq".into(), self.seq.into());
        line.insert("attempt".into(), self.attempt.into());
        line.insert("time".into(), self.time.into());
        line.insert("kind".into(), self.kind.name().into());
        for (name, value) in self.kind.fields().map_err(S::Error::custom)? {
            line.entry(name).or_insert(value);
        }
        line.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut line = Map::deserialize(deserializer)?;
        let mut take = |name: &'static str| {
            line.shift_remove(name)
                .ok_or_else(|| D::Error::missing_field(name))
        };
        let head = (
            take("v")?,
            take("seq")?,
            take("attempt")?,
            take("time")?,
            take("kind")?,
        );
        let kind: String = from_value(head.4)?;
        Ok(Self {
            v: from_value(head.0)?,
            seq: from_value(head.1)?,
            attempt: from_value(head.2)?,
            time: from_value(head.3)?,
            kind: EventKind::from_fields(kind, line).map_err(D::Error::custom)?,
        })
    }
}

fn from_value<T: serde::de::DeserializeOwned, E: serde::de::Error>(value: Value) -> Result<T, E> {
    serde_json::from_value(value).map_err(E::custom)
}

/// Why the event file cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// No room on the disk.
    #[error("no room on the disk for `{path}`")]
    DiskFull {
        /// The event file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another failure of the file.
    #[error("cannot {action} `{path}`: {source}")]
    Io {
        /// The event file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// An event that does not fit on a line.
    #[error("an event of {bytes} bytes is larger than the {limit} that a reader takes")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// An event that is no JSON.
    #[error("cannot write an event as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl EventError {
    pub(crate) fn new(action: &'static str, path: &std::path::Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        if is_disk_full(&source) {
            Self::DiskFull { path, source }
        } else {
            Self::Io {
                path,
                action,
                source,
            }
        }
    }

    /// Whether the disk is full, so that the trainer can end with that code.
    pub const fn is_disk_full(&self) -> bool {
        matches!(self, Self::DiskFull { .. })
    }

    /// Returns what the user can do.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::DiskFull { .. } => {
                Some("free some room, then resume the run from its last checkpoint")
            }
            Self::Io { .. } => Some("check that the folder exists and that you may write to it"),
            Self::TooLarge { .. } | Self::Json(_) => None,
        }
    }
}

/// Whether a failure means that the disk, or the user's share of it, is full.
pub fn is_disk_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}
