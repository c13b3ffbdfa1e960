//! How a run ended: the process's exit code and `exit.json`.

use std::{
    fmt,
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
};

use serde::{Deserialize, Serialize};

/// Exit code of the launcher and of each rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExitCode {
    /// The run is complete.
    Finished,
    /// The run was told to stop and did, after saving.
    Stopped,
    /// The configuration was refused.
    BadConfig,
    /// A dataset cannot be used.
    BadData,
    /// The model cannot be used.
    BadModel,
    /// Memory ran out.
    OutOfMemory,
    /// A rank ended without a word of its own.
    RankLost,
    /// A collective waited too long.
    CollectiveTimeout,
    /// The loss is no number, and the run was told to end then.
    NonFiniteLoss,
    /// A file could not be written for lack of room.
    DiskFull,
    /// A fault of the program.
    Internal,
}

impl ExitCode {
    /// Every code.
    pub const ALL: &'static [Self] = &[
        Self::Finished,
        Self::Stopped,
        Self::BadConfig,
        Self::BadData,
        Self::BadModel,
        Self::OutOfMemory,
        Self::RankLost,
        Self::CollectiveTimeout,
        Self::NonFiniteLoss,
        Self::DiskFull,
        Self::Internal,
    ];

    /// Returns the number that the process exits with.
    pub const fn code(self) -> u8 {
        match self {
            Self::Finished => 0,
            Self::Stopped => 130,
            Self::BadConfig => 10,
            Self::BadData => 11,
            Self::BadModel => 12,
            Self::OutOfMemory => 13,
            Self::RankLost => 14,
            Self::CollectiveTimeout => 15,
            Self::NonFiniteLoss => 16,
            Self::DiskFull => 17,
            Self::Internal => 70,
        }
    }

    /// Returns the word in `exit.json`.
    pub const fn class(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Stopped => "stopped",
            Self::BadConfig => "bad_config",
            Self::BadData => "bad_data",
            Self::BadModel => "bad_model",
            Self::OutOfMemory => "out_of_memory",
            Self::RankLost => "rank_lost",
            Self::CollectiveTimeout => "collective_timeout",
            Self::NonFiniteLoss => "non_finite_loss",
            Self::DiskFull => "disk_full",
            Self::Internal => "internal",
        }
    }

    /// Returns the code of a number, if it is one of ours.
    pub fn from_code(code: i32) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|exit| i32::from(exit.code()) == code)
    }
}

impl fmt::Display for ExitCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.class())
    }
}

/// `exit.json`, the launcher's last act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// The number the launcher exits with.
    pub code: i32,
    /// The word for it, as [`ExitCode::class`] gives it.
    pub class: String,
    /// Which attempt ended, from 1.
    #[serde(default = "first_attempt")]
    pub attempt: u32,
    /// The rank that failed first.
    #[serde(default)]
    pub rank: Option<u32>,
    /// The signal that ended that rank.
    #[serde(default)]
    pub signal: Option<i32>,
    /// What happened, in one line.
    #[serde(default)]
    pub message: Option<String>,
    /// What the user can do.
    #[serde(default)]
    pub hint: Option<String>,
}

const fn first_attempt() -> u32 {
    1
}

impl ExitRecord {
    /// Makes a record of a code without further words.
    pub fn new(code: ExitCode, attempt: u32) -> Self {
        Self {
            code: i32::from(code.code()),
            class: code.class().to_owned(),
            attempt,
            rank: None,
            signal: None,
            message: None,
            hint: None,
        }
    }

    /// Returns the code, if it is one of ours.
    pub fn exit_code(&self) -> Option<ExitCode> {
        ExitCode::from_code(self.code)
    }

    /// Writes the record beside and renames it, so that a reader sees a whole one or none.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        write_json(path, self)
    }

    /// Reads a record; `None` if there is none yet.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        read_json(path)
    }
}

impl crate::run::LauncherRecord {
    /// Writes the record beside and renames it.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        write_json(path, self)
    }

    /// Reads a record; `None` if there is none yet.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        read_json(path)
    }
}

/// Writes a small JSON file whole: beside, flushed to the disk, renamed, and the folder flushed too.
fn write_json<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    replace_file(path, &text)
}

/// Replaces a file's content so that a reader sees the old or the new one, never a part, even after a power cut.
pub fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    let written =
        write_synced(Path::new(&beside), content).and_then(|()| fs::rename(&beside, path));
    if let Err(error) = written {
        if fs::remove_file(&beside).is_err() {
            // The first failure is the one to report.
        }
        return Err(error);
    }
    match path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

fn write_synced(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_all()
}

fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
