//! Follows one run from the start of its launcher, or its adoption, to its end.

use std::process::ExitStatus;
use std::time::Duration;

use board_store::{Ingest, ProcessKey, ReadMark, StateChange, Store, StoreError};
use nix::sys::signal::Signal;
use run_protocol::events::{Batch, EventError, now_ms};
use run_protocol::{EventReader, RunDir, RunId, RunState};
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::end::{self, Gone, Kill};
use crate::process;

/// States of a run that has a launcher.
pub(crate) const ACTIVE: &[RunState] = &[RunState::Starting, RunState::Running, RunState::Stopping];

/// The name under which the read mark of the event file is kept.
const EVENT_FILE: &str = "events.jsonl";
/// Events read at a time.
const BATCH_EVENTS: usize = 4096;
/// Pause between two looks at the file while events come.
const SHORT_PAUSE: Duration = Duration::from_millis(50);
/// Pause once none came for a while.
const LONG_PAUSE: Duration = Duration::from_millis(200);
/// Pause before the store or the file is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Times that the event file of a launcher that is gone is tried, until the run ends without its rest.
const LAST_TRIES: u32 = 5;

/// What a person wants of a launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Save and end; killed after this time.
    Stop(Duration),
    /// End at once.
    Kill,
}

/// A run that has or had a launcher.
pub(crate) struct Watch {
    pub(crate) store: Store,
    pub(crate) run: RunId,
    pub(crate) dir: RunDir,
    /// The launcher; `None` if it is known to be gone.
    pub(crate) key: Option<ProcessKey>,
    /// The launcher, if this board started it.
    pub(crate) child: Option<Child>,
    pub(crate) orders: mpsc::Receiver<Order>,
    /// Ends the watch and leaves the launcher alone.
    pub(crate) cancel: CancellationToken,
    /// How long a launcher may take to stop.
    pub(crate) grace: Duration,
}

/// What happened to the launcher so far.
#[derive(Default)]
struct Progress {
    status: Option<ExitStatus>,
    kill: Option<Kill>,
    kill_at: Option<Instant>,
    failures: u32,
}

impl Watch {
    /// Follows the run to its end and stores how it ended; returns early, without that, when cancelled.
    pub(crate) async fn follow(mut self) -> Result<(), StoreError> {
        let mut progress = Progress::default();
        let (store, run) = (self.store.clone(), self.run);
        let read_offset = || store.read_offset(run, EVENT_FILE);
        let Some(offset) = self.persist(&mut progress, read_offset).await? else {
            return Ok(());
        };
        let mut reader = EventReader::new(self.dir.events(), offset);
        let mut pause = SHORT_PAUSE;
        loop {
            // Asked before reading: what a launcher has written before its end is read after it.
            let is_gone = self.is_gone(&mut progress);
            let (reader_back, result) = read(reader).await;
            reader = reader_back;
            match result {
                Ok(batch) => {
                    progress.failures = 0;
                    let is_done = is_gone && batch.is_at_end;
                    let has_events = !batch.events.is_empty();
                    let is_at_end = batch.is_at_end;
                    if !self.take_in(batch, &mut progress).await? {
                        return Ok(());
                    }
                    if is_done {
                        break;
                    }
                    if !is_at_end {
                        continue;
                    }
                    pause = if has_events {
                        SHORT_PAUSE
                    } else {
                        (pause * 2).min(LONG_PAUSE)
                    };
                }
                Err(error) => {
                    if progress.failures == 0 {
                        tracing::warn!(run.id = %self.run, %error, "the event file cannot be read");
                    }
                    progress.failures += 1;
                    if is_gone && progress.failures >= LAST_TRIES {
                        break;
                    }
                    pause = RETRY_PAUSE;
                }
            }
            if self.wait(pause, &mut progress).await.is_none() {
                return Ok(());
            }
        }
        self.end(progress).await
    }

    fn is_gone(&mut self, progress: &mut Progress) -> bool {
        if progress.status.is_some() {
            return true;
        }
        if let Some(child) = &mut self.child {
            match child.try_wait() {
                Ok(status) => progress.status = status,
                Err(error) => {
                    tracing::warn!(run.id = %self.run, %error, "the launcher cannot be waited for");
                }
            }
            if progress.status.is_some() {
                return true;
            }
        }
        !self.key.is_some_and(process::is_alive)
    }

    /// Waits for an order, the end of the launcher, the end of its time, or the pause. `None` when cancelled.
    async fn wait(&mut self, pause: Duration, progress: &mut Progress) -> Option<()> {
        let kill_at = progress.kill_at;
        let child = &mut self.child;
        let has_child = child.is_some() && progress.status.is_none();
        tokio::select! {
            () = self.cancel.cancelled() => return None,
            Some(order) = self.orders.recv() => self.obey(order, progress),
            Some(Ok(status)) = async { Some(child.as_mut()?.wait().await) }, if has_child => {
                progress.status = Some(status);
            }
            () = async { tokio::time::sleep_until(kill_at.unwrap_or_else(Instant::now)).await }, if kill_at.is_some() => {
                tracing::warn!(run.id = %self.run, "the run did not stop in time and is killed");
                self.kill(Kill::Grace(self.grace), progress);
            }
            () = tokio::time::sleep(pause) => {}
        }
        Some(())
    }

    fn obey(&mut self, order: Order, progress: &mut Progress) {
        let Some(key) = self.key else {
            return;
        };
        match order {
            // Its launcher is gone in a moment.
            Order::Stop(_) if progress.kill.is_some() => {}
            Order::Stop(time_left) => {
                // Told once: a launcher may take a second signal for impatience.
                if progress.kill_at.is_none() {
                    process::signal(key, Signal::SIGTERM);
                }
                let kill_at = Instant::now() + time_left;
                progress.kill_at = Some(
                    progress
                        .kill_at
                        .map_or(kill_at, |before| before.min(kill_at)),
                );
            }
            Order::Kill => self.kill(Kill::Asked, progress),
        }
    }

    fn kill(&mut self, kill: Kill, progress: &mut Progress) {
        progress.kill_at = None;
        if self.key.is_some_and(process::kill_group) {
            progress.kill = Some(kill);
        }
    }

    /// Stores a batch, however long that takes. Returns whether the run goes on.
    async fn take_in(&mut self, batch: Batch, progress: &mut Progress) -> Result<bool, StoreError> {
        for line in &batch.bad_lines {
            let (offset, reason) = (line.offset, &line.reason);
            tracing::warn!(run.id = %self.run, offset, reason, "a line of the event file is no event");
        }
        if batch.events.is_empty() && batch.bad_lines.is_empty() {
            return Ok(true);
        }
        let mark = ReadMark {
            file: EVENT_FILE.to_owned(),
            offset: batch.offset,
        };
        let ingest = Ingest {
            run: self.run,
            events: batch.events,
            mark: Some(mark),
        };
        let store = self.store.clone();
        let stored = self
            .persist(progress, || store.ingest(ingest.clone()))
            .await?;
        Ok(stored.is_some())
    }

    async fn end(&mut self, mut progress: Progress) -> Result<(), StoreError> {
        if let Some(key) = self.key {
            let num_killed = process::kill_left_over(key.pid, self.dir.root());
            if num_killed > 0 {
                tracing::warn!(run.id = %self.run, num_killed, "processes that outlived their launcher were killed");
            }
        }
        let (store, id) = (self.store.clone(), self.run);
        let found = self.persist(&mut progress, || store.find_run(id)).await?;
        let Some(run) = found.flatten() else {
            return Ok(());
        };
        let was_stopping = run.state == RunState::Stopping;
        let (state, exit) = end::decide(
            &self.dir,
            Gone {
                status: progress.status,
                kill: progress.kill,
                was_stopping,
            },
        );
        tracing::info!(run.id = %self.run, state = state.as_str(), message = exit.message, "the run ended");
        let change = StateChange {
            exit,
            ..StateChange::new(ACTIVE, state, now_ms())
        };
        self.persist(&mut progress, || store.change_state(id, change.clone()))
            .await?;
        Ok(())
    }

    /// Asks the store until it answers: a full disk or a locked database passes, and nothing may be
    /// lost meanwhile. Orders are obeyed all the same. Returns `None` when cancelled or when the
    /// run was deleted.
    async fn persist<T, F>(
        &mut self,
        progress: &mut Progress,
        ask: impl Fn() -> F,
    ) -> Result<Option<T>, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let mut is_told = false;
        loop {
            match ask().await {
                Ok(answer) => return Ok(Some(answer)),
                Err(StoreError::RunNotFound(_)) => return Ok(None),
                Err(error @ (StoreError::Closed | StoreError::State { .. })) => return Err(error),
                Err(error) => {
                    if !is_told {
                        tracing::error!(run.id = %self.run, %error, "the store fails; trying again");
                        is_told = true;
                    }
                }
            }
            let next_try = Instant::now() + RETRY_PAUSE;
            while Instant::now() < next_try {
                let pause = next_try.saturating_duration_since(Instant::now());
                if self.wait(pause, progress).await.is_none() {
                    return Ok(None);
                }
            }
        }
    }
}

/// Reads what is new, off the async threads. Most looks find nothing, and cost one system call.
async fn read(mut reader: EventReader) -> (EventReader, Result<Batch, EventError>) {
    let length = std::fs::metadata(reader.path()).map_or(0, |metadata| metadata.len());
    if length == reader.offset() {
        let batch = Batch {
            offset: length,
            is_at_end: true,
            ..Batch::default()
        };
        return (reader, Ok(batch));
    }
    let path = reader.path().to_path_buf();
    let offset = reader.offset();
    let task = tokio::task::spawn_blocking(move || {
        let batch = reader.read(BATCH_EVENTS);
        (reader, batch)
    });
    match task.await {
        Ok(answer) => answer,
        // The task can only have been aborted, by a runtime that is ending.
        Err(_) => (
            EventReader::new(path, offset),
            Ok(Batch {
                offset,
                is_at_end: true,
                ..Batch::default()
            }),
        ),
    }
}
