//! Reading files row by row, so that the size of a file does not matter.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IgnoredAny, SeqAccess, Visitor,
};

use crate::error::DataError;

/// Returns the files of a dataset: the file itself, or those of a folder in the order of their names.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, DataError> {
    if !path.exists() {
        return Err(DataError::NotFound { path: path.into() });
    }
    let mut files = Vec::new();
    if path.is_dir() {
        let refused = |source| DataError::Open {
            path: path.into(),
            source,
        };
        for entry in std::fs::read_dir(path).map_err(refused)? {
            let entry = entry.map_err(refused)?;
            if entry.path().is_file() && !entry.file_name().to_string_lossy().starts_with('.') {
                files.push(entry.path());
            }
        }
        files.sort();
        if files.is_empty() {
            return Err(DataError::NotFound {
                path: path.join("*.json"),
            });
        }
    } else {
        files.push(path.into());
    }
    let kind = check_type(&files[0])?;
    for file in &files[1..] {
        if check_type(file)? != kind {
            return Err(DataError::MixedFileTypes { path: path.into() });
        }
    }
    Ok(files)
}

fn check_type(path: &Path) -> Result<String, DataError> {
    let extension = path
        .extension()
        .map(|extension| extension.to_string_lossy().to_lowercase())
        .unwrap_or_default();
    match extension.as_str() {
        "json" | "jsonl" => Ok(extension),
        "arrow" | "csv" | "parquet" | "txt" => Err(DataError::FileTypeLater {
            path: path.into(),
            extension,
        }),
        _ => Err(DataError::FileType { path: path.into() }),
    }
}

/// Hands each row of a json or jsonl file to `visit`, until it breaks. Returns whether it did.
///
/// A file is a JSON list of rows, or one row after another (usually one a line).
pub fn for_each_row<T, F>(path: &Path, mut visit: F) -> Result<ControlFlow<()>, DataError>
where
    T: DeserializeOwned,
    F: FnMut(T) -> ControlFlow<()>,
{
    let opened = |source| DataError::Open {
        path: path.into(),
        source,
    };
    let mut reader = BufReader::with_capacity(1 << 18, File::open(path).map_err(opened)?);
    skip_byte_order_mark(&mut reader).map_err(opened)?;
    match first_character(&mut reader).map_err(opened)? {
        (None, _) => Ok(ControlFlow::Continue(())),
        (Some(b'['), newlines) => visit_list(path, reader, newlines, &mut visit),
        (Some(_), newlines)
            if path
                .extension()
                .is_some_and(|extension| extension == "jsonl") =>
        {
            visit_lines(path, reader, newlines, &mut visit)
        }
        (Some(_), newlines) => visit_values(path, reader, newlines, &mut visit),
    }
}

/// Counts the rows of a file without keeping them.
pub fn count(path: &Path) -> Result<usize, DataError> {
    let mut rows = 0;
    let _whole = for_each_row(path, |_: IgnoredAny| {
        rows += 1;
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

fn skip_byte_order_mark(reader: &mut impl BufRead) -> std::io::Result<()> {
    if reader.fill_buf()?.starts_with(b"\xef\xbb\xbf") {
        reader.consume(3);
    }
    Ok(())
}

/// Skips empty lines. Returns their number and the first byte that is no white space, which is not taken.
fn first_character(reader: &mut impl BufRead) -> std::io::Result<(Option<u8>, usize)> {
    let mut skipped_lines = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok((None, skipped_lines));
        }
        // The blanks before the first character stay where they are, so that its column is counted right.
        let blank = buffer.len() - buffer.trim_ascii_start().len();
        let mut line_start = 0;
        for (position, &byte) in buffer[..blank].iter().enumerate() {
            if byte == b'\n' {
                skipped_lines += 1;
                line_start = position + 1;
            }
        }
        let first = buffer.get(blank).copied();
        if first.is_some() {
            reader.consume(line_start);
            return Ok((first, skipped_lines));
        }
        reader.consume(blank);
    }
}

fn visit_list<T: DeserializeOwned>(
    path: &Path,
    reader: impl Read,
    skipped_lines: usize,
    visit: &mut impl FnMut(T) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, DataError> {
    let mut has_stopped = false;
    let mut deserializer = serde_json::Deserializer::from_reader(reader);
    let list = List {
        visit,
        has_stopped: &mut has_stopped,
        rows: PhantomData,
    };
    let result = list
        .deserialize(&mut deserializer)
        .and_then(|()| deserializer.end());
    match result {
        _ if has_stopped => Ok(ControlFlow::Break(())),
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(error) => Err(DataError::json(path, &error).after_lines(skipped_lines)),
    }
}

/// A JSON list whose elements are handed on, not kept.
struct List<'a, T, F> {
    visit: &'a mut F,
    has_stopped: &'a mut bool,
    rows: PhantomData<T>,
}

impl<'de, T: DeserializeOwned, F: FnMut(T) -> ControlFlow<()>> DeserializeSeed<'de>
    for List<'_, T, F>
{
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: DeserializeOwned, F: FnMut(T) -> ControlFlow<()>> Visitor<'de> for List<'_, T, F> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a list of rows")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        while let Some(row) = rows.next_element()? {
            if (self.visit)(row).is_break() {
                *self.has_stopped = true;
                return Err(A::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}

fn visit_lines<T: DeserializeOwned>(
    path: &Path,
    mut reader: impl BufRead,
    skipped_lines: usize,
    visit: &mut impl FnMut(T) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, DataError> {
    let mut line = Vec::new();
    for number in skipped_lines.. {
        line.clear();
        let length = reader
            .read_until(b'\n', &mut line)
            .map_err(|source| DataError::Open {
                path: path.into(),
                source,
            })?;
        if length == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let row = serde_json::from_slice(line.trim_ascii_end())
            .map_err(|error| DataError::json(path, &error).after_lines(number))?;
        if visit(row).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn visit_values<T: DeserializeOwned>(
    path: &Path,
    reader: impl Read,
    skipped_lines: usize,
    visit: &mut impl FnMut(T) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, DataError> {
    for row in serde_json::Deserializer::from_reader(reader).into_iter() {
        let row = row.map_err(|error| DataError::json(path, &error).after_lines(skipped_lines))?;
        if visit(row).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}
