//! Follows the event file by byte offset and yields whole lines only.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use super::{Event, EventError};
use crate::limits::MAX_EVENT_BYTES;

/// How much is read at a time.
const CHUNK_BYTES: usize = 256 * 1024;
/// Longest excerpt of a bad line.
const EXCERPT_BYTES: usize = 120;

/// A line that is no event. It is reported and passed over; the lines after it count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Where it begins in the file.
    pub offset: u64,
    /// Why it is no event.
    pub reason: String,
    /// Its beginning, with what is not UTF-8 replaced.
    pub excerpt: String,
}

/// What one reading found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    /// The events, in the order of the file.
    pub events: Vec<Event>,
    /// Lines that are no events.
    pub bad_lines: Vec<BadLine>,
    /// Offset after the last whole line read; a reader that starts there goes on without loss.
    pub offset: u64,
    /// Whether the end of the file was reached.
    pub is_at_end: bool,
}

/// Follows an event file.
#[derive(Debug)]
pub struct EventReader {
    path: PathBuf,
    /// After the last whole line yielded.
    offset: u64,
    /// Bytes after `offset` that have no newline yet.
    torn: Vec<u8>,
    /// Bytes of an oversized line passed over so far, after `offset`.
    passed_over: u64,
    bad_lines: u64,
}

impl EventReader {
    /// Follows `path` from the byte `offset` on, 0 or what [`EventReader::offset`] gave. The file need not exist yet.
    pub fn new(path: impl Into<PathBuf>, offset: u64) -> Self {
        Self {
            path: path.into(),
            offset,
            torn: Vec::new(),
            passed_over: 0,
            bad_lines: 0,
        }
    }

    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the offset after the last whole line yielded.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns how many lines were no events so far.
    pub const fn bad_lines(&self) -> u64 {
        self.bad_lines
    }

    /// Reads the whole lines that are there, about `max_events` of them (never fewer than what one read holds).
    pub fn read(&mut self, max_events: usize) -> Result<Batch, EventError> {
        let mut batch = Batch {
            offset: self.offset,
            ..Batch::default()
        };
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                batch.is_at_end = true;
                return Ok(batch);
            }
            Err(error) => return Err(EventError::new("open", &self.path, error)),
        };
        let result = self.read_from(&mut file, max_events, &mut batch);
        result.map_err(|error| EventError::new("read", &self.path, error))?;
        batch.offset = self.offset;
        Ok(batch)
    }

    fn read_from(
        &mut self,
        file: &mut File,
        max_events: usize,
        batch: &mut Batch,
    ) -> io::Result<()> {
        let length = file.metadata()?.len();
        if length < self.offset {
            self.report(
                batch,
                self.offset,
                "the file became shorter; reading it again from the start",
                b"",
            );
            self.offset = 0;
        }
        if length < self.offset + self.passed_over {
            self.passed_over = 0;
        }
        // What had no newline is read again: the writer may have cut it away and written something else there.
        self.torn.clear();
        file.seek(SeekFrom::Start(self.offset + self.passed_over))?;
        let mut chunk = vec![0; CHUNK_BYTES];
        while batch.events.len() < max_events {
            let count = match file.read(&mut chunk) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if count == 0 {
                batch.is_at_end = true;
                break;
            }
            self.take_chunk(&chunk[..count], batch);
        }
        Ok(())
    }

    fn take_chunk(&mut self, chunk: &[u8], batch: &mut Batch) {
        let mut rest = chunk;
        while let Some(index) = rest.iter().position(|byte| *byte == b'\n') {
            self.torn.extend_from_slice(&rest[..index]);
            rest = &rest[index + 1..];
            self.take_line(batch);
        }
        self.torn.extend_from_slice(rest);
        if self.torn.len() > MAX_EVENT_BYTES {
            self.passed_over += self.torn.len() as u64;
            self.torn.clear();
        }
    }

    fn take_line(&mut self, batch: &mut Batch) {
        let line = std::mem::take(&mut self.torn);
        let start = self.offset;
        let length = self.passed_over + line.len() as u64;
        self.offset += length + 1;
        self.passed_over = 0;
        if length > MAX_EVENT_BYTES as u64 {
            self.report(
                batch,
                start,
                &format!("the line has {length} bytes, more than {MAX_EVENT_BYTES}"),
                b"",
            );
            return;
        }
        match std::str::from_utf8(&line) {
            Err(_) => self.report(batch, start, "the line is not UTF-8", &line),
            Ok(text) => match Event::from_line(text) {
                Ok(event) => batch.events.push(event),
                Err(error) => self.report(
                    batch,
                    start,
                    &format!("the line is no event: {error}"),
                    &line,
                ),
            },
        }
    }

    fn report(&mut self, batch: &mut Batch, offset: u64, reason: &str, line: &[u8]) {
        self.bad_lines += 1;
        let excerpt = String::from_utf8_lossy(&line[..line.len().min(EXCERPT_BYTES)]).into_owned();
        batch.bad_lines.push(BadLine {
            offset,
            reason: reason.to_owned(),
            excerpt,
        });
    }
}
