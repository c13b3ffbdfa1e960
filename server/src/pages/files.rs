//! The files of a run directory: logs that are followed, checkpoints, results.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Component, Path, PathBuf};

use axum::body::Body;
use axum::extract::{Path as UrlPath, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use run_protocol::RunDir;
use tokio_util::io::ReaderStream;

use super::run::{dir_of, find_run};
use crate::error::Error;
use crate::i18n::Tr;
use crate::run_files::{LogSource, read_log};
use crate::state::AppState;
use crate::view::figure::{Moment, bytes, now_ms};

/// Bytes of a log that come with the page.
const TAIL_BYTES: usize = 48 * 1024;
/// Lines of a log that come with the page.
const PAGE_LINES: usize = 400;
/// Logs that are offered.
const MOST_RANKS: usize = 64;
/// Files that are listed.
const MOST_FILES: usize = 400;

/// The last lines of a log.
#[derive(Debug, Clone)]
pub(super) struct Tail {
    /// Whose it is.
    pub name: String,
    /// Its last lines.
    pub lines: Vec<String>,
    /// Where the next look begins.
    pub end: u64,
}

/// Reads the last lines of a log, if there is one.
pub(super) fn tail_of(dir: &RunDir, source: LogSource, most: usize) -> Option<Tail> {
    let part = read_log(dir, source, None, Some(TAIL_BYTES)).ok()?;
    let mut lines: Vec<String> = part.text.lines().map(plain).collect();
    let lines = lines.split_off(lines.len().saturating_sub(most));
    Some(Tail {
        name: part.rank,
        lines,
        end: part.next_offset,
    })
}

/// Drops escape sequences and shows other control characters.
fn plain(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' if chars.peek() == Some(&'[') => {
                chars.next();
                while chars.next().is_some_and(|c| !c.is_ascii_alphabetic()) {}
            }
            '\t' => out.push(c),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// One line with the class of its level.
#[derive(Debug)]
pub(super) struct LogLine {
    pub text: String,
    pub class: &'static str,
}

impl LogLine {
    fn new(text: String) -> Self {
        let class = if text.contains("ERROR") || text.contains("panicked") {
            "e"
        } else if text.contains("WARN") {
            "w"
        } else {
            ""
        };
        Self { text, class }
    }
}

/// The log of a run as its page shows it.
#[derive(Debug)]
pub(super) struct LogView {
    /// Each log with its label.
    pub sources: Vec<(String, String)>,
    pub rank: String,
    pub path: String,
    pub note: String,
    pub lines: Vec<LogLine>,
    pub end: u64,
    pub has_file: bool,
}

impl LogView {
    /// Reads the last lines of a log, by default rank 0's, and the launcher's where there are no ranks.
    pub(super) fn read(t: Tr, dir: &RunDir, wanted: Option<&str>) -> Self {
        let sources = log_names(dir);
        let default = if sources.iter().any(|name| name == "0") {
            "0"
        } else {
            "launcher"
        };
        let rank = wanted
            .filter(|name| sources.iter().any(|known| known == name))
            .unwrap_or(default)
            .to_owned();
        let tail = rank
            .parse()
            .ok()
            .and_then(|source| tail_of(dir, source, PAGE_LINES));
        let has_file = tail.is_some();
        let (lines, end) = tail.map_or((Vec::new(), 0), |tail| (tail.lines, tail.end));
        Self {
            note: t.n("log.lines", lines.len()),
            lines: lines.into_iter().map(LogLine::new).collect(),
            path: if rank == "launcher" {
                "logs/launcher.log".into()
            } else {
                format!("logs/rank-{rank}.log")
            },
            end,
            has_file,
            rank,
            sources: sources
                .into_iter()
                .map(|source| (source.clone(), source_label(t, &source)))
                .collect(),
        }
    }
}

fn source_label(t: Tr, source: &str) -> String {
    if source == "launcher" {
        t.s("log.launcher")
    } else {
        t.f1("log.rank", source)
    }
}

fn log_names(dir: &RunDir) -> Vec<String> {
    let entries = fs::read_dir(dir.logs()).into_iter().flatten().flatten();
    let name = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let name = name.strip_suffix(".log")?;
        Some(name.strip_prefix("rank-").unwrap_or(name).to_owned())
    };
    let mut names: Vec<String> = entries
        .filter_map(name)
        .filter(|name| name.parse::<LogSource>().is_ok())
        .collect();
    names.sort_by_key(|name| name.parse::<u64>().unwrap_or(u64::MAX));
    names.truncate(MOST_RANKS);
    names
}

/// The files of a run.
#[derive(Debug)]
pub(super) struct FileList {
    pub checkpoints: Vec<FileRow>,
    pub all: Vec<FileRow>,
    pub folder: String,
}

/// One file or checkpoint.
#[derive(Debug)]
pub(super) struct FileRow {
    pub name: String,
    pub path: String,
    pub size: String,
    pub when: Moment,
    pub step: u64,
}

impl FileList {
    /// Lists a run directory.
    pub(super) fn read(t: Tr, dir: &RunDir) -> Self {
        let now = now_ms();
        let row = |path: &Path, step| {
            let name = path
                .strip_prefix(dir.root())
                .unwrap_or(path)
                .to_string_lossy()
                .into_owned();
            let found = fs::metadata(path).ok();
            let size = if path.is_dir() {
                size_of(path)
            } else {
                found.as_ref().map_or(0, fs::Metadata::len)
            };
            let when = found
                .and_then(|found| found.modified().ok())
                .and_then(|time| jiff::Timestamp::try_from(time).ok());
            let when = Moment::new(t, when.map_or(now, jiff::Timestamp::as_millisecond), now);
            FileRow {
                path: encode(&name),
                name,
                size: bytes(size),
                when,
                step,
            }
        };
        let mut checkpoints: Vec<_> = dir
            .checkpoints()
            .unwrap_or_default()
            .iter()
            .map(|(step, path)| row(path, *step))
            .collect();
        checkpoints.reverse();
        let mut files = Vec::new();
        collect(dir.root(), 0, &mut files);
        files.sort();
        files.truncate(MOST_FILES);
        Self {
            checkpoints,
            all: files.iter().map(|path| row(path, 0)).collect(),
            folder: dir.root().display().to_string(),
        }
    }
}

/// Finds files, but not those within checkpoints, which are listed as wholes.
fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .take(MOST_FILES)
    {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_file() {
            files.push(path);
        } else if kind.is_dir()
            && depth < 2
            && !entry
                .file_name()
                .to_string_lossy()
                .starts_with("checkpoint-")
        {
            collect(&path, depth + 1, files);
        }
    }
}

fn size_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .take(MOST_FILES);
    entries
        .filter_map(|entry| entry.metadata().ok())
        .map(|found| found.len())
        .sum()
}

/// Writes a relative path as an address.
fn encode(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'/') {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Answers with one file of a run directory, to be saved.
pub async fn show_file(
    State(state): State<AppState>,
    UrlPath((id, path)): UrlPath<(String, String)>,
) -> Result<Response, Error> {
    let run = find_run(&state, &id).await?;
    let root = dir_of(&state, run.id).root().to_owned();
    let missing = || Error::PartNotFound {
        what: "file of that name".into(),
    };
    let relative = PathBuf::from(&path);
    if !relative
        .components()
        .all(|part| matches!(part, Component::Normal(_)))
    {
        return Err(missing());
    }
    let open = tokio::task::spawn_blocking(move || {
        let (root, path) = (root.canonicalize()?, root.join(relative).canonicalize()?);
        let is_inside = path.starts_with(&root) && path.is_file();
        if is_inside {
            File::open(&path).map(|file| (file, path))
        } else {
            Err(std::io::ErrorKind::NotFound.into())
        }
    });
    let (file, path) = open
        .await
        .map_err(|error| Error::Internal(error.into()))?
        .map_err(|_| missing())?;
    let name: String = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let name = encode(&name).replace('/', "");
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (
            header::CONTENT_DISPOSITION,
            format!("attachment; filename*=UTF-8''{name}"),
        ),
    ];
    Ok((
        headers,
        Body::from_stream(ReaderStream::new(tokio::fs::File::from_std(file))),
    )
        .into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_of_a_terminal_are_dropped() {
        assert_eq!(
            plain("\u{1b}[31mred\u{1b}[0m\ttab\u{7}"),
            "red\ttab\u{fffd}"
        );
    }

    #[test]
    fn paths_are_written_as_addresses() {
        assert_eq!(encode("a b/ü?.json"), "a%20b/%C3%BC%3F.json");
    }
}
