//! One rank: reads the run directory, trains, and leaves a word of its own if it fails.

use std::any::Any;
use std::os::unix::process::parent_id;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode as Code;

use anyhow::{Context as _, Result};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal};
use run_protocol::events::{EventKind, Failed};
use run_protocol::{AcceptedKey, ExitCode, RunConfig, RunDir};
use trainer_engine::{EventSink, Outcome, RankOptions, StopFlag};

use crate::cli::RankArgs;
use crate::failure::{Failure, Refusal};
use crate::prepare::reserve_path;

/// Runs the rank that a launcher started.
pub(crate) fn run(arguments: &RankArgs) -> Code {
    // Without its launcher nobody would name this rank's end, and a second run could write beside it.
    if let Err(error) = set_pdeathsig(Signal::SIGKILL) {
        tracing::warn!(%error, "this rank would outlive its launcher");
    }
    // The launcher may have ended before the system was asked to tell.
    if arguments
        .launcher
        .is_some_and(|launcher| launcher != parent_id())
    {
        tracing::error!("the launcher is gone");
        return Code::from(ExitCode::RankLost.code());
    }
    let run_dir = RunDir::new(&arguments.run_dir);
    let accepted = arguments
        .accepted
        .as_deref()
        .map_or_else(Vec::new, read_accepted);
    let options = RankOptions {
        resume: arguments.resume.clone(),
        accepted_without_effect: accepted,
        source_date_epoch: std::env::var("SOURCE_DATE_EPOCH").ok(),
        num_threads: trainer_torch_ext::num_threads(),
    };
    run_in(&run_dir, &options, arguments.attempt)
}

/// Runs the only rank in this process.
pub(crate) fn run_in(run_dir: &RunDir, options: &RankOptions, attempt: u32) -> Code {
    // A step asks for the same large blocks again and again; giving them back in between costs page faults.
    trainer_torch_ext::keep_freed_memory();
    let stop = StopFlag::default();
    wait_for_stop(stop.clone());
    let events = match EventSink::open(run_dir, attempt) {
        Ok(events) => events,
        Err(error) => return fail(run_dir, None, &Failure::of(&error.into())),
    };
    // A panic is logged by the standard hook with its place; here it becomes the run's last word.
    let result = catch_unwind(AssertUnwindSafe(|| train(run_dir, options, &events, &stop)));
    match result {
        Ok(Ok(Outcome::Finished)) => Code::from(ExitCode::Finished.code()),
        Ok(Ok(Outcome::Stopped)) => Code::from(ExitCode::Stopped.code()),
        Ok(Err(error)) => fail(run_dir, Some(&events), &Failure::of(&error)),
        Err(panic) => fail(
            run_dir,
            Some(&events),
            &Failure::of_panic(panic_message(panic.as_ref())),
        ),
    }
}

fn train(
    run_dir: &RunDir,
    options: &RankOptions,
    events: &EventSink,
    stop: &StopFlag,
) -> Result<Outcome> {
    let world_size = std::env::var("WORLD_SIZE")
        .ok()
        .map_or(Ok(1), |size| size.parse::<usize>());
    if world_size.as_ref().is_ok_and(|size| *size != 1) || world_size.is_err() {
        return Err(Refusal::error(
            "WORLD_SIZE is not 1, and training on several ranks arrives with the distributed engine",
            "start one process",
        ));
    }
    let path = run_dir.config();
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read `{}`", path.display()))?;
    let parsed = RunConfig::from_yaml(&text, &[])?;
    Ok(trainer_engine::run(
        &parsed.config,
        run_dir,
        options,
        events,
        stop,
    )?)
}

/// Waits in a thread of its own for the launcher's word to stop. Later ones change nothing: the launcher kills.
fn wait_for_stop(stop: StopFlag) {
    std::thread::spawn(move || {
        let signals: SigSet = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]
            .into_iter()
            .collect();
        while let Ok(signal) = signals.wait() {
            tracing::info!(
                signal = signal.as_str(),
                "asked to stop: the step in hand is finished and saved"
            );
            stop.request();
        }
    });
}

/// Says why the rank ends, in the log and in the event file, and returns its exit code.
fn fail(run_dir: &RunDir, events: Option<&EventSink>, failure: &Failure) -> Code {
    if failure.code == ExitCode::DiskFull {
        // Room for the last words.
        drop(std::fs::remove_file(reserve_path(run_dir)));
    }
    tracing::error!(
        class = failure.code.class(),
        hint = failure.hint,
        "{}",
        failure.message
    );
    if let Some(events) = events {
        let failed = Failed {
            class: failure.code.class().to_owned(),
            rank: Some(0),
            message: failure.message.clone(),
            hint: failure.hint.clone(),
        };
        if let Err(error) = events.emit(EventKind::Failed(failed)) {
            tracing::error!(%error, "cannot write the last event");
        }
    }
    Code::from(failure.code.code())
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message")
}

fn read_accepted(json: &str) -> Vec<AcceptedKey> {
    serde_json::from_str(json).unwrap_or_else(|error| {
        tracing::warn!(%error, "the list of keys without effect is unreadable");
        Vec::new()
    })
}
