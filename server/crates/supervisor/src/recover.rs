//! After a start of the board: which runs have a launcher that lives, and which ended meanwhile.

use std::time::Duration;

use board_store::{ProcessKey, Run, RunFilter, StateChange, Store, StoreError};
use run_protocol::events::now_ms;
use run_protocol::{LauncherRecord, RunDir, RunState};

use crate::process;
use crate::watch::ACTIVE;

/// Runs read at a time.
const PAGE_LENGTH: usize = 100;

/// A run to be watched again.
pub(crate) struct Found {
    pub(crate) run: Run,
    /// Its launcher, alive or not; `None` if nothing is known of one.
    pub(crate) key: Option<ProcessKey>,
}

/// Returns the runs that had a launcher when the last board ended. One whose launcher was not even started goes back into
/// the queue.
pub(crate) async fn find(
    store: &Store,
    dir_of: impl Fn(&Run) -> RunDir,
) -> Result<Vec<Found>, StoreError> {
    let mut found = Vec::new();
    for run in active_runs(store).await? {
        let dir = dir_of(&run);
        let key = find_key(&run, &dir);
        if key.is_none() && run.state == RunState::Starting && !dir.exit().exists() {
            tracing::info!(run.id = %run.id, "the run was not started before the board ended; it waits again");
            let attempt = Some(run.attempt.saturating_sub(1));
            let back = StateChange {
                attempt,
                ..StateChange::new(&[RunState::Starting], RunState::Queued, now_ms())
            };
            store.change_state(run.id, back).await?;
            continue;
        }
        found.push(Found { run, key });
    }
    Ok(found)
}

async fn active_runs(store: &Store) -> Result<Vec<Run>, StoreError> {
    let filter = RunFilter {
        states: ACTIVE.to_vec(),
        ..RunFilter::default()
    };
    let mut runs = Vec::new();
    let mut after = None;
    loop {
        let page = store.list_runs(&filter, after, PAGE_LENGTH).await?;
        runs.extend(page.runs);
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(runs),
        }
    }
}

/// Returns the launcher of the run's attempt: as the store knows it, as `launcher.json` does, or as it is found by its
/// command line.
fn find_key(run: &Run, dir: &RunDir) -> Option<ProcessKey> {
    run.process
        .or_else(|| from_record(run, dir))
        .or_else(|| process::find_launcher(dir.root()))
}

fn from_record(run: &Run, dir: &RunDir) -> Option<ProcessKey> {
    let record = LauncherRecord::read(&dir.launcher()).ok().flatten()?;
    let LauncherRecord {
        pid,
        start_time,
        attempt,
    } = record;
    (attempt == run.attempt).then_some(ProcessKey { pid, start_time })
}

/// Returns how much of its time to stop a run has left. A clock that was set back does not lengthen it.
pub(crate) fn time_left(run: &Run, grace: Duration) -> Duration {
    let asked_ms = run.stop_requested_ms.unwrap_or(0);
    let since = u64::try_from(now_ms().saturating_sub(asked_ms)).unwrap_or(0);
    grace.saturating_sub(Duration::from_millis(since))
}
