//! The queue: which run is started when, and who watches it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use board_store::{ProcessKey, Run, RunExit, StateChange, Store, StoreError};
use run_protocol::events::now_ms;
use run_protocol::{RunDir, RunId, RunState};
use tokio::process::Child;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::SupervisorError;
use crate::launch::{self, Launched};
use crate::recover;
use crate::settings::Settings;
use crate::watch::{ACTIVE, Order, Watch};

/// Orders that a watch may be behind.
const ORDERS_LENGTH: usize = 8;
/// Pause before the queue is looked at again after the store failed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Pause after which the queue is looked at even if nobody told that it changed.
const LOOK_PAUSE: Duration = Duration::from_secs(5);

/// What the handle and every task share.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) store: Store,
    pub(crate) settings: Settings,
    /// Runs that have a launcher, or will have one in a moment.
    watched: Mutex<HashMap<RunId, mpsc::Sender<Order>>>,
    /// The queue or the places changed.
    pub(crate) changed: Notify,
    pub(crate) cancel: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

impl Queue {
    pub(crate) fn new(store: Store, settings: Settings, cancel: CancellationToken) -> Self {
        Self {
            store,
            settings,
            watched: Mutex::default(),
            changed: Notify::new(),
            cancel,
            tasks: TaskTracker::new(),
        }
    }

    /// Begins to work through the queue.
    pub(crate) fn begin(self: &Arc<Self>) {
        self.tasks.spawn(Arc::clone(self).work_through());
    }

    /// Gives an order to the watch of a run, if it has one. A watch that is behind has orders enough.
    pub(crate) fn order(&self, id: RunId, order: Order) {
        let sender = self.watched().get(&id).cloned();
        if let Some(sender) = sender
            && let Err(error) = sender.try_send(order)
        {
            tracing::debug!(run.id = %id, %error, "an order found nobody");
        }
    }

    pub(crate) fn run_dir(&self, id: RunId) -> RunDir {
        RunDir::new(self.settings.runs_dir.join(id.to_string()))
    }

    pub(crate) fn watched(&self) -> MutexGuard<'_, HashMap<RunId, mpsc::Sender<Order>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a watch that has ended, unless the run was resumed meanwhile and has another by now.
    fn forget(&self, id: RunId, sender: &mpsc::Sender<Order>) {
        let mut watched = self.watched();
        if watched
            .get(&id)
            .is_some_and(|known| known.same_channel(sender))
        {
            watched.remove(&id);
        }
    }

    async fn work_through(self: Arc<Self>) {
        while !self.cancel.is_cancelled() {
            let wait = match self.start_next().await {
                Ok(true) => continue,
                Ok(false) => LOOK_PAUSE,
                Err(error) => {
                    tracing::error!(%error, "the queue cannot be worked through; trying again");
                    RETRY_PAUSE
                }
            };
            tokio::select! {
                () = self.cancel.cancelled() => {}
                () = self.changed.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Starts the next run if there is a place for it. Returns whether there may be another.
    async fn start_next(self: &Arc<Self>) -> Result<bool, StoreError> {
        if self.watched().len() >= self.settings.max_running.max(1) {
            return Ok(false);
        }
        let Some(id) = self.store.queued_runs().await?.into_iter().next() else {
            return Ok(false);
        };
        let Some(run) = self.store.find_run(id).await? else {
            return Ok(true);
        };
        // Registered before its state changes, so that an order given from then on is not lost.
        let (sender, orders) = mpsc::channel(ORDERS_LENGTH);
        self.watched().insert(id, sender.clone());
        match self.launch(&run).await {
            Ok(Some(launched)) => {
                let Launched { child, key } = launched;
                self.watch(id, Some(key), Some(child), (sender, orders));
            }
            Ok(None) => drop(self.watched().remove(&id)),
            Err(error) => {
                self.watched().remove(&id);
                return Err(error);
            }
        }
        Ok(true)
    }

    /// Starts the launcher of a run. `None` if the run was stopped meanwhile or could not be started, which is then its
    /// end.
    async fn launch(self: &Arc<Self>, run: &Run) -> Result<Option<Launched>, StoreError> {
        let attempt = run.attempt + 1;
        let dir = self.run_dir(run.id);
        // Before the run counts as starting: a board that ends in between must find nothing to mistake.
        let cleared = {
            let dir = dir.clone();
            blocking(move || launch::clear(&dir)).await
        };
        let starting = StateChange {
            attempt: Some(attempt),
            ..StateChange::new(&[RunState::Queued], RunState::Starting, now_ms())
        };
        match self.store.change_state(run.id, starting).await {
            Ok(_) => {}
            Err(StoreError::State { .. } | StoreError::RunNotFound(_)) => return Ok(None),
            Err(error) => return Err(error),
        }
        let launched = match cleared {
            Ok(()) => {
                let (queue, resume_from) = (Arc::clone(self), run.resume_from.clone());
                let start =
                    move || launch::start(&queue.settings, &dir, attempt, resume_from.as_deref());
                blocking(start).await
            }
            Err(error) => Err(error),
        };
        match launched {
            Ok(launched) => {
                const FROM: &[RunState] = &[RunState::Starting];
                let started = StateChange {
                    process: Some(launched.key),
                    ..StateChange::new(FROM, RunState::Starting, now_ms())
                };
                if let Err(error) = self.store.change_state(run.id, started).await {
                    // It was asked to stop in this moment, or the disk is full. `launcher.json` has the pid too.
                    tracing::debug!(run.id = %run.id, %error, "the launcher's pid was not stored");
                }
                tracing::info!(run.id = %run.id, attempt, pid = launched.key.pid, "the run was started");
                Ok(Some(launched))
            }
            Err(error) => {
                tracing::warn!(run.id = %run.id, %error, "the run could not be started");
                self.fail(run.id, &error).await?;
                Ok(None)
            }
        }
    }

    /// Ends a run that could not be started. What kept it from starting, a full disk, may keep the
    /// store from taking that, so it is tried until it is done.
    async fn fail(&self, id: RunId, error: &SupervisorError) -> Result<(), StoreError> {
        let exit = RunExit {
            code: None,
            class: Some("not_started".to_owned()),
            message: Some(error.to_string()),
            hint: error.hint(),
        };
        let failed = StateChange {
            exit,
            ..StateChange::new(ACTIVE, RunState::Failed, now_ms())
        };
        loop {
            match self.store.change_state(id, failed.clone()).await {
                Ok(_) => return Ok(()),
                Err(error @ (StoreError::Closed | StoreError::State { .. })) => return Err(error),
                Err(error) => tracing::error!(run.id = %id, %error, "its end cannot be stored yet"),
            }
            tokio::select! {
                () = self.cancel.cancelled() => return Ok(()),
                () = tokio::time::sleep(RETRY_PAUSE) => {}
            }
        }
    }

    /// Watches a run that the last board has started.
    pub(crate) fn adopt(self: &Arc<Self>, found: recover::Found) {
        let recover::Found { run, key } = found;
        tracing::info!(run.id = %run.id, pid = key.map(|key| key.pid), "a run of the last board is taken up");
        let (sender, orders) = mpsc::channel(ORDERS_LENGTH);
        if run.state == RunState::Stopping {
            let time_left = recover::time_left(&run, self.settings.grace);
            if sender.try_send(Order::Stop(time_left)).is_err() {
                tracing::error!(run.id = %run.id, "a new channel has no room");
            }
        }
        self.watched().insert(run.id, sender.clone());
        self.watch(run.id, key, None, (sender, orders));
    }

    fn watch(
        self: &Arc<Self>,
        run: RunId,
        key: Option<ProcessKey>,
        child: Option<Child>,
        (sender, orders): (mpsc::Sender<Order>, mpsc::Receiver<Order>),
    ) {
        let watch = Watch {
            store: self.store.clone(),
            run,
            dir: self.run_dir(run),
            key,
            child,
            orders,
            cancel: self.cancel.clone(),
            grace: self.settings.grace,
        };
        let queue = Arc::clone(self);
        self.tasks.spawn(async move {
            if let Err(error) = watch.follow().await {
                tracing::error!(run.id = %run, %error, "the run is no longer followed");
            }
            queue.forget(run, &sender);
            queue.changed.notify_one();
        });
    }
}

/// Does work that would hold up an async thread.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SupervisorError> + Send + 'static,
) -> Result<T, SupervisorError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| SupervisorError::ShuttingDown)?
}
