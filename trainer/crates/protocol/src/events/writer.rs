//! Appends events: whole lines only, one `write` each.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use super::{Event, EventError, EventKind, FORMAT_VERSION, now_ms};
use crate::limits::MAX_EVENT_BYTES;

/// How much of the file's end is read at a time when looking for the last event.
const TAIL_BYTES: u64 = 64 * 1024;

/// Appends events to a file. One writer a file: rank 0.
#[derive(Debug)]
pub struct EventWriter {
    file: File,
    path: PathBuf,
    length: u64,
    next_seq: u64,
    attempt: u32,
}

impl EventWriter {
    /// Opens or makes the file, cuts a torn last line away, and continues the numbers: the next `seq`, the next attempt.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, EventError> {
        let path = path.into();
        let fail = |action| {
            let path = path.clone();
            move |error| EventError::new(action, &path, error)
        };
        let mut options = OpenOptions::new();
        options.create(true).read(true).append(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt as _;
            options.mode(0o600);
        }
        let mut file = options.open(&path).map_err(fail("open"))?;
        let length = whole_length(&mut file).map_err(fail("read"))?;
        file.set_len(length).map_err(fail("cut"))?;
        let last = last_event(&mut file, length).map_err(fail("read"))?;
        let (seq, attempt) = last.map_or((0, 0), |event| (event.seq, event.attempt));
        Ok(Self {
            file,
            path,
            length,
            next_seq: seq + 1,
            attempt: attempt + 1,
        })
    }

    /// Opens the file like [`EventWriter::open`], but for an attempt whose number is known: the launcher's last words
    /// belong to the attempt that its rank wrote in.
    pub fn open_attempt(path: impl Into<PathBuf>, attempt: u32) -> Result<Self, EventError> {
        let mut writer = Self::open(path)?;
        writer.attempt = attempt;
        Ok(writer)
    }

    /// Returns the number of this attempt, from 1.
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Returns the number that the next event gets.
    pub const fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends an event of this moment and returns it.
    pub fn write(&mut self, kind: EventKind) -> Result<Event, EventError> {
        self.write_at(now_ms(), kind)
    }

    /// Appends an event with a given time. After a failure the file ends with a whole line all the same.
    pub fn write_at(&mut self, time: i64, kind: EventKind) -> Result<Event, EventError> {
        let event = Event {
            v: FORMAT_VERSION,
            seq: self.next_seq,
            attempt: self.attempt,
            time,
            kind: kind.bounded(),
        };
        let mut line = event.to_line()?;
        line.push('\n');
        if line.len() > MAX_EVENT_BYTES {
            return Err(EventError::TooLarge {
                bytes: line.len(),
                limit: MAX_EVENT_BYTES,
            });
        }
        if let Err(error) = self.append(line.as_bytes()) {
            if self.file.set_len(self.length).is_err() {
                // A reader skips the torn line; the next writer cuts it.
            }
            return Err(EventError::new("write", &self.path, error));
        }
        self.length += line.len() as u64;
        self.next_seq += 1;
        Ok(event)
    }

    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        loop {
            match self.file.write(line) {
                Ok(written) if written == line.len() => return Ok(()),
                Ok(_) => return Err(io::ErrorKind::StorageFull.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns the length up to and with the last newline.
fn whole_length(file: &mut File) -> io::Result<u64> {
    let mut end = file.seek(SeekFrom::End(0))?;
    while end > 0 {
        let start = end.saturating_sub(TAIL_BYTES);
        let chunk = read_range(file, start, end)?;
        if let Some(index) = chunk.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + index as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Returns the last line that is an event, looking from the end.
fn last_event(file: &mut File, length: u64) -> io::Result<Option<Event>> {
    let mut end = length;
    let mut carried: Vec<u8> = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(TAIL_BYTES);
        let mut bytes = read_range(file, start, end)?;
        bytes.append(&mut carried);
        let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        let first = if start > 0 {
            lines.remove(0).to_vec()
        } else {
            Vec::new()
        };
        for line in lines.into_iter().rev() {
            if let Ok(event) = serde_json::from_slice(line) {
                return Ok(Some(event));
            }
        }
        carried = if first.len() > MAX_EVENT_BYTES {
            Vec::new()
        } else {
            first
        };
        end = start;
    }
    Ok(None)
}

fn read_range(file: &mut File, start: u64, end: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(end - start).read_to_end(&mut bytes)?;
    Ok(bytes)
}
