//! Reading a run directory for people: its logs and the list of its files.
//!
//! The directory is written by another process, so links in it are never followed. Everything
//! here reads files: call it where blocking is allowed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use jiff::Timestamp;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use run_protocol::RunDir;
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::Error;

/// Bytes of a log where nothing else is asked for.
const DEFAULT_LOG_BYTES: usize = 64 << 10;

/// Most bytes of a log at once.
const MAX_LOG_BYTES: usize = 1 << 20;

/// Most files that are listed.
const MAX_FILES: usize = 2_000;

/// How deep below the run directory files are listed.
const FILE_DEPTH: usize = 3;

/// Whose log is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogSource {
    /// A rank's.
    Rank(usize),
    /// The launcher's, with what went wrong before there were ranks.
    Launcher,
}

impl FromStr for LogSource {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text == "launcher" {
            return Ok(Self::Launcher);
        }
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse()
            .ok()
            .filter(|_| is_number)
            .map(Self::Rank)
            .ok_or_else(|| Error::BadRequest {
                code: "bad_query",
                message: "`rank` is no number of a rank".into(),
                hint: Some("send a rank from 0, or `launcher`".into()),
            })
    }
}

/// A part of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct LogPart {
    /// Whose log it is: a rank, or `launcher`.
    pub rank: String,
    /// The byte at which the part begins.
    pub offset: u64,
    /// The byte behind it: where to read on.
    pub next_offset: u64,
    /// Bytes of the whole log, as of now.
    pub size_bytes: u64,
    /// The part, in whole lines where they fit. What is no UTF-8 is replaced.
    pub text: String,
}

/// A file of a run directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RunFile {
    /// Its path below the run directory.
    pub path: String,
    /// Its size.
    pub size_bytes: u64,
    /// When it was last written.
    #[schema(value_type = Option<String>, format = "date-time")]
    pub modified_at: Option<Timestamp>,
}

/// Reads a part of a log: from `offset` on, or its end.
pub fn read_log(
    dir: &RunDir,
    source: LogSource,
    offset: Option<u64>,
    limit: Option<usize>,
) -> Result<LogPart, Error> {
    let (rank, path) = match source {
        LogSource::Rank(rank) => (rank.to_string(), dir.rank_log(rank)),
        LogSource::Launcher => ("launcher".to_owned(), dir.launcher_log()),
    };
    let failed = |error: io::Error| {
        let is_link = error.raw_os_error() == Some(Errno::ELOOP as i32);
        let is_missing = matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        );
        if is_link || is_missing {
            Error::PartNotFound {
                what: format!("log of `{rank}`"),
            }
        } else {
            Error::Internal(Box::new(error))
        }
    };
    let limit = limit.unwrap_or(DEFAULT_LOG_BYTES).clamp(1, MAX_LOG_BYTES);
    let mut file = open_no_links(dir.root(), &path).map_err(failed)?;
    let size_bytes = file.metadata().map_err(failed)?.len();
    let is_tail = offset.is_none();
    let mut begin = offset
        .unwrap_or_else(|| size_bytes.saturating_sub(limit as u64))
        .min(size_bytes);
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(begin)).map_err(failed)?;
    file.take(limit as u64)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if is_tail && begin > 0 {
        let cut = bytes
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        bytes.drain(..cut);
        begin += cut as u64;
    }
    bytes.truncate(whole_length(
        &bytes,
        begin + (bytes.len() as u64) < size_bytes,
    ));
    let next_offset = begin + bytes.len() as u64;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(LogPart {
        rank,
        offset: begin,
        next_offset,
        size_bytes,
        text,
    })
}

/// Returns how much of a part to give: whole lines where more follows, and never half a character.
fn whole_length(bytes: &[u8], has_more: bool) -> usize {
    if has_more && let Some(at) = bytes.iter().rposition(|byte| *byte == b'\n') {
        return at + 1;
    }
    match std::str::from_utf8(bytes) {
        // An unfinished character, not a wrong one: the rest comes with the next part.
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => error.valid_up_to(),
        _ => bytes.len(),
    }
}

/// Opens a file below `root`; neither it nor its folder may be a link.
fn open_no_links(root: &Path, path: &Path) -> io::Result<File> {
    let folder = path.parent().unwrap_or(root);
    if fs::symlink_metadata(folder)?.is_symlink() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let file = OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// Lists the files of a run, by path, without what begins with a dot.
pub fn list_files(dir: &RunDir) -> Vec<RunFile> {
    let mut files = Vec::new();
    walk(dir.root(), Path::new(""), FILE_DEPTH, &mut files);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn walk(root: &Path, below: &Path, depth: usize, files: &mut Vec<RunFile>) {
    let Ok(entries) = fs::read_dir(root.join(below)) else {
        return;
    };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        let path: PathBuf = below.join(entry.file_name());
        if entry.file_name().as_encoded_bytes().starts_with(b".") || files.len() >= MAX_FILES {
            continue;
        }
        if kind.is_dir() && depth > 0 {
            walk(root, &path, depth - 1, files);
        } else if kind.is_file()
            && let Ok(metadata) = entry.metadata()
        {
            let modified_at = metadata
                .modified()
                .ok()
                .and_then(|time| Timestamp::try_from(time).ok());
            files.push(RunFile {
                path: path.display().to_string(),
                size_bytes: metadata.len(),
                modified_at,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir_with_log(text: &[u8]) -> (tempfile::TempDir, RunDir) {
        let root = tempfile::tempdir().unwrap();
        let dir = RunDir::create(root.path().join("run")).unwrap();
        fs::write(dir.rank_log(0), text).unwrap();
        (root, dir)
    }

    #[test]
    fn log_is_read_in_whole_lines_without_gaps() {
        let (_root, dir) = dir_with_log("one\nzwei Wörter\nthree\nfour".as_bytes());
        let mut text = String::new();
        let mut offset = 0;
        loop {
            let part = read_log(&dir, LogSource::Rank(0), Some(offset), Some(16)).unwrap();
            if part.text.is_empty() {
                break;
            }
            offset = part.next_offset;
            text.push_str(&part.text);
        }
        assert_eq!(text, "one\nzwei Wörter\nthree\nfour");
        let tail = read_log(&dir, LogSource::Rank(0), None, Some(12)).unwrap();
        assert_eq!((tail.text.as_str(), tail.next_offset), ("three\nfour", 27));
        let beyond = read_log(&dir, LogSource::Rank(0), Some(1000), None).unwrap();
        assert_eq!((beyond.offset, beyond.text.as_str()), (27, ""));
    }

    #[test]
    fn links_out_of_the_run_directory_are_not_followed() {
        let (root, dir) = dir_with_log(b"own\n");
        let secret = root.path().join("secret");
        fs::write(&secret, "secret\n").unwrap();
        std::os::unix::fs::symlink(&secret, dir.rank_log(1)).unwrap();
        std::os::unix::fs::symlink(root.path(), dir.root().join("out")).unwrap();
        assert!(matches!(
            read_log(&dir, LogSource::Rank(1), None, None),
            Err(Error::PartNotFound { .. })
        ));
        assert!(matches!(
            read_log(&dir, LogSource::Rank(2), None, None),
            Err(Error::PartNotFound { .. })
        ));
        let paths: Vec<_> = list_files(&dir).into_iter().map(|file| file.path).collect();
        assert_eq!(paths, ["logs/rank-0.log"]);
    }

    #[test]
    fn only_numbers_and_the_launcher_name_a_log() {
        assert_eq!("3".parse::<LogSource>().unwrap(), LogSource::Rank(3));
        assert_eq!(
            "launcher".parse::<LogSource>().unwrap(),
            LogSource::Launcher
        );
        for strange in [
            "",
            "-1",
            "+1",
            "../../etc/passwd",
            "0/../../x",
            "99999999999999999999",
            "０",
        ] {
            assert!(strange.parse::<LogSource>().is_err(), "{strange}");
        }
    }
}
