//! How a run ended, in the words of `exit.json` and of the terminal.

use std::fs;
use std::io::Write as _;

use nix::sys::signal::Signal;
use run_protocol::events::{EventKind, EventReader, EventWriter, Failed};
use run_protocol::{ExitCode, ExitRecord, RunDir};

use crate::launch::Ended;
use crate::resume::newest_resumable;

/// Lines of a rank's log that are quoted where the rank left no word of its own.
const NUM_LOG_LINES: usize = 8;

/// Makes the record; a rank that ended without a `failed` event gets one now.
pub(crate) fn exit_record(dir: &RunDir, offset: u64, attempt: u32, ended: &Ended) -> ExitRecord {
    let code = match (ended.code, ended.signal) {
        (Some(code), _) => ExitCode::from_code(code).unwrap_or(ExitCode::Internal),
        (None, Some(Signal::SIGKILL)) if ended.stop_signals >= 2 => ExitCode::Stopped,
        (None, _) => ExitCode::RankLost,
    };
    let mut record = ExitRecord::new(code, attempt);
    if code == ExitCode::Finished {
        return record;
    }
    record.rank = u32::try_from(ended.rank).ok();
    record.signal = ended.signal.map(|signal| signal as i32);
    if code == ExitCode::Stopped {
        let how = if ended.signal.is_some() {
            "killed by a second signal, before the step in hand was saved"
        } else {
            "stopped on request"
        };
        let (saved, hint) = going_on(dir);
        record.message = Some(format!("{how}; {saved}"));
        record.hint = Some(hint.to_owned());
        return record;
    }
    if let Some(failed) = last_failed(dir, offset) {
        record.message = Some(failed.message);
        record.hint = failed.hint;
        return record;
    }
    (record.message, record.hint) = describe(dir, ended);
    append_failed(dir, &record);
    record
}

/// Says what the run left to go on from, and how to.
fn going_on(dir: &RunDir) -> (String, &'static str) {
    match (newest_resumable(dir), dir.latest_checkpoint()) {
        (Ok(Some((step, _))), _) => (
            format!("its newest checkpoint is of step {step}"),
            "go on with `--resume auto`",
        ),
        (_, Ok(Some((step, _)))) => (
            format!("the checkpoint of step {step} holds the model only"),
            "start the run again; set `save_only_model: false` to be able to go on",
        ),
        _ => (
            "there is no checkpoint yet".to_owned(),
            "start the run again",
        ),
    }
}

/// Returns message and hint of a rank that left no word of its own.
fn describe(dir: &RunDir, ended: &Ended) -> (Option<String>, Option<String>) {
    let rank = ended.rank;
    let (what, hint) = match ended.signal {
        Some(Signal::SIGKILL) => (
            format!("rank {rank} was killed by SIGKILL"),
            format!(
                "where nobody sent it, the system ran out of memory: lower `per_device_train_batch_size` or \
                 `cutoff_len`; {}",
                going_on(dir).1
            ),
        ),
        Some(signal) => (
            format!("rank {rank} was ended by {}", signal.as_str()),
            "the rank's log has the details".to_owned(),
        ),
        None => (
            format!("rank {rank} ended with code {}", ended.code.unwrap_or(-1)),
            "the rank's log has the details".to_owned(),
        ),
    };
    let tail = log_tail(dir, rank);
    let message = if tail.is_empty() {
        what
    } else {
        format!("{what}; its last lines:\n{tail}")
    };
    (Some(message), Some(hint))
}

fn log_tail(dir: &RunDir, rank: usize) -> String {
    let text = fs::read(dir.rank_log(rank)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text[text.len().saturating_sub(8 * 1024)..]).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(NUM_LOG_LINES)..].join("\n")
}

/// Returns the last `failed` event after `offset`.
fn last_failed(dir: &RunDir, offset: u64) -> Option<Failed> {
    let mut reader = EventReader::new(dir.events(), offset);
    let mut last = None;
    while let Ok(batch) = reader.read(1024) {
        for event in batch.events {
            if let EventKind::Failed(failed) = event.kind {
                last = Some(failed);
            }
        }
        if batch.is_at_end {
            break;
        }
    }
    last
}

fn append_failed(dir: &RunDir, record: &ExitRecord) {
    let failed = Failed {
        class: record.class.clone(),
        rank: record.rank,
        message: record.message.clone().unwrap_or_default(),
        hint: record.hint.clone(),
    };
    let written = EventWriter::open_attempt(dir.events(), record.attempt)
        .and_then(|mut writer| writer.write(EventKind::Failed(failed)));
    if let Err(error) = written {
        tracing::error!(%error, "cannot write the last event");
    }
}

/// Tells the terminal how it went and where the results are.
pub(crate) fn print_ending(dir: &RunDir, record: &ExitRecord) {
    let mut text = match record.exit_code() {
        Some(ExitCode::Finished) => {
            format!("finished: the results are in {}\n", dir.root().display())
        }
        Some(ExitCode::Stopped) => format!(
            "stopped: {}\n",
            record.message.as_deref().unwrap_or_default()
        ),
        _ => format!(
            "failed ({}): {}\n",
            record.class,
            record.message.as_deref().unwrap_or("no message")
        ),
    };
    if let Some(hint) = &record.hint {
        text.push_str("  hint: ");
        text.push_str(hint);
        text.push('\n');
    }
    // Nobody is left to tell if the terminal is gone.
    drop(std::io::stderr().write_all(text.as_bytes()));
}
