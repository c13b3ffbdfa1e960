//! The handle that everybody else holds, and the queue.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use board_store::{NewRun, Run, RunExit, RunTexts, StateChange, Store, StoreError};
use run_protocol::events::now_ms;
use run_protocol::{RunDir, RunId, RunState};
use tokio::process::Child;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::error::SupervisorError;
use crate::launch::{self, Launched};
use crate::recover;
use crate::settings::{Settings, Submission};
use crate::watch::{Order, Watch};

/// Orders that a watch may be behind.
const ORDERS_LENGTH: usize = 8;
/// Pause before the queue is looked at again after the store failed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// What the trainer takes for "the newest complete checkpoint".
const NEWEST_CHECKPOINT: &str = "auto";

/// Owns every launcher. Cheap to clone; the last clone that is dropped ends the watching, never the launchers.
#[derive(Clone, Debug)]
pub struct Supervisor {
    inner: Arc<Inner>,
    _guard: Arc<DropGuard>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    settings: Settings,
    /// Runs that have a launcher, or will have one in a moment.
    watched: Mutex<HashMap<RunId, mpsc::Sender<Order>>>,
    /// The queue or the places changed.
    changed: Notify,
    cancel: CancellationToken,
    tasks: TaskTracker,
}

impl Supervisor {
    /// Takes up the runs that the last board left and begins to work through the queue.
    pub async fn start(store: Store, settings: Settings) -> Result<Self, SupervisorError> {
        let settings = with_real_folder(settings)?;
        let cancel = CancellationToken::new();
        let inner = Arc::new(Inner {
            store,
            settings,
            watched: Mutex::default(),
            changed: Notify::new(),
            cancel: cancel.clone(),
            tasks: TaskTracker::new(),
        });
        for found in recover::find(&inner.store, |run| inner.run_dir(run.id)).await? {
            inner.adopt(found);
        }
        let queue = Arc::clone(&inner);
        inner
            .tasks
            .spawn(async move { queue.work_through_queue().await });
        Ok(Self {
            inner,
            _guard: Arc::new(cancel.drop_guard()),
        })
    }

    /// Returns the run directory of a run.
    pub fn run_dir(&self, id: RunId) -> RunDir {
        self.inner.run_dir(id)
    }

    /// Returns the queue, first in first out.
    pub async fn queue(&self) -> Result<Vec<RunId>, SupervisorError> {
        Ok(self.inner.store.queued_runs().await?)
    }

    /// Makes a run and its directory, and puts it into the queue.
    pub async fn create_run(&self, submission: Submission) -> Result<Run, SupervisorError> {
        let id = RunId::new();
        let dir = self.run_dir(id);
        let config = &submission.config;
        let new = NewRun {
            id,
            name: submission.name_or_default(),
            stage: config.stage.as_str().to_owned(),
            backend: config.backend(None).as_str().to_owned(),
            finetuning_type: config.method.finetuning_type.as_str().to_owned(),
            model: config
                .model
                .model_name_or_path
                .to_string_lossy()
                .into_owned(),
            datasets: config.data.dataset.clone(),
            steps_total: config.training.max_steps,
            tags: submission.tags,
            created_ms: now_ms(),
            texts: RunTexts {
                input_yaml: submission.input_yaml,
                config_yaml: config.to_yaml(),
                config_hash: config.hash(),
            },
        };
        let trainer = self.inner.settings.trainer.clone();
        let (made, texts) = (dir.clone(), new.texts.clone());
        blocking(move || {
            launch::check_trainer(&trainer)?;
            let result = launch::make_run_dir(&made, &texts.input_yaml, &texts.config_yaml);
            if result.is_err() {
                remove_folder(&made);
            }
            result
        })
        .await?;
        match self.inner.store.create_run(new).await {
            Ok(run) => {
                self.inner.changed.notify_one();
                Ok(run)
            }
            Err(error) => {
                blocking(move || {
                    remove_folder(&dir);
                    Ok(())
                })
                .await?;
                Err(error.into())
            }
        }
    }

    /// Asks a run to save and end; one that waits ends at once. Asking again changes nothing.
    pub async fn stop_run(&self, id: RunId) -> Result<Run, SupervisorError> {
        self.end_run(id, Order::Stop(self.inner.settings.grace))
            .await
    }

    /// Kills the processes of a run; one that waits ends at once.
    pub async fn kill_run(&self, id: RunId) -> Result<Run, SupervisorError> {
        self.end_run(id, Order::Kill).await
    }

    /// Puts a run that has ended back into the queue, to go on from a checkpoint: the newest, unless one is given.
    pub async fn resume_run(
        &self,
        id: RunId,
        checkpoint: Option<PathBuf>,
    ) -> Result<Run, SupervisorError> {
        const ENDED: &[RunState] = &[RunState::Finished, RunState::Failed, RunState::Stopped];
        let checkpoint = checkpoint.map(|path| path.to_string_lossy().into_owned());
        let resume_from = Some(checkpoint.unwrap_or_else(|| NEWEST_CHECKPOINT.to_owned()));
        let change = StateChange {
            resume_from,
            ..StateChange::new(ENDED, RunState::Queued, now_ms())
        };
        match self.inner.store.change_state(id, change).await {
            Ok(run) => {
                self.inner.changed.notify_one();
                Ok(run)
            }
            Err(StoreError::State { .. }) => Err(SupervisorError::NotEnded(id)),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes a run that has no launcher, and its directory.
    pub async fn delete_run(&self, id: RunId) -> Result<(), SupervisorError> {
        if self.inner.watched().contains_key(&id) {
            return Err(StoreError::StillActive(id).into());
        }
        self.inner.store.delete_run(id, now_ms()).await?;
        let dir = self.run_dir(id);
        blocking(move || {
            remove_folder(&dir);
            Ok(())
        })
        .await
    }

    /// Ends the watching and returns when every task is done. The launchers go on.
    pub async fn shutdown(&self) {
        self.inner.cancel.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    async fn end_run(&self, id: RunId, order: Order) -> Result<Run, SupervisorError> {
        loop {
            let run = self
                .inner
                .store
                .find_run(id)
                .await?
                .ok_or(StoreError::RunNotFound(id))?;
            let change = match run.state {
                RunState::Queued => {
                    let exit = RunExit {
                        message: Some("stopped before it began".to_owned()),
                        ..RunExit::default()
                    };
                    let change = StateChange::new(&[RunState::Queued], RunState::Stopped, now_ms());
                    Some(StateChange { exit, ..change })
                }
                RunState::Starting | RunState::Running => {
                    const FROM: &[RunState] = &[RunState::Starting, RunState::Running];
                    Some(StateChange::new(FROM, RunState::Stopping, now_ms()))
                }
                RunState::Stopping if order == Order::Kill => None,
                RunState::Stopping => return Ok(run),
                RunState::Finished | RunState::Failed | RunState::Stopped => {
                    return Err(SupervisorError::NotRunning(id));
                }
            };
            let run = match change {
                None => run,
                Some(change) => match self.inner.store.change_state(id, change).await {
                    Ok(run) => run,
                    // It moved on between the look and the change.
                    Err(StoreError::State { .. }) => continue,
                    Err(error) => return Err(error.into()),
                },
            };
            let sender = self.inner.watched().get(&id).cloned();
            if let Some(sender) = sender
                && sender.send(order).await.is_err()
            {
                // The launcher ended by itself in this moment, and its watch with it.
            }
            return Ok(run);
        }
    }
}

impl Inner {
    fn run_dir(&self, id: RunId) -> RunDir {
        RunDir::new(self.settings.runs_dir.join(id.to_string()))
    }

    fn watched(&self) -> MutexGuard<'_, HashMap<RunId, mpsc::Sender<Order>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn work_through_queue(self: Arc<Self>) {
        while !self.cancel.is_cancelled() {
            let wait = match self.start_next().await {
                Ok(true) => continue,
                Ok(false) => None,
                Err(error) => {
                    tracing::error!(%error, "the queue cannot be worked through; trying again");
                    Some(RETRY_PAUSE)
                }
            };
            tokio::select! {
                () = self.cancel.cancelled() => {}
                () = self.changed.notified() => {}
                () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {}
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
        self.watched().insert(id, sender);
        match self.launch(&run).await {
            Ok(Some(launched)) => {
                let Launched { child, key } = launched;
                self.watch(id, Some(key), Some(child), orders);
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
    async fn launch(&self, run: &Run) -> Result<Option<Launched>, StoreError> {
        let attempt = run.attempt + 1;
        let starting = StateChange {
            attempt: Some(attempt),
            ..StateChange::new(&[RunState::Queued], RunState::Starting, now_ms())
        };
        match self.store.change_state(run.id, starting).await {
            Ok(_) => {}
            Err(StoreError::State { .. } | StoreError::RunNotFound(_)) => return Ok(None),
            Err(error) => return Err(error),
        }
        let dir = self.run_dir(run.id);
        match launch::start(&self.settings, &dir, attempt, run.resume_from.as_deref()) {
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
                let exit = RunExit {
                    code: None,
                    class: Some("not_started".to_owned()),
                    message: Some(error.to_string()),
                    hint: error.hint(),
                };
                let failed = StateChange {
                    exit,
                    ..StateChange::new(crate::watch::ACTIVE, RunState::Failed, now_ms())
                };
                self.store.change_state(run.id, failed).await?;
                Ok(None)
            }
        }
    }

    /// Watches a run that the last board has started.
    fn adopt(self: &Arc<Self>, found: recover::Found) {
        let recover::Found { run, key } = found;
        tracing::info!(run.id = %run.id, pid = key.map(|key| key.pid), "a run of the last board is taken up");
        let (sender, orders) = mpsc::channel(ORDERS_LENGTH);
        if run.state == RunState::Stopping {
            let time_left = recover::time_left(&run, self.settings.grace);
            if sender.try_send(Order::Stop(time_left)).is_err() {
                tracing::error!(run.id = %run.id, "a new channel has no room");
            }
        }
        self.watched().insert(run.id, sender);
        self.watch(run.id, key, None, orders);
    }

    fn watch(
        self: &Arc<Self>,
        run: RunId,
        key: Option<board_store::ProcessKey>,
        child: Option<Child>,
        orders: mpsc::Receiver<Order>,
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
        let inner = Arc::clone(self);
        self.tasks.spawn(async move {
            if let Err(error) = watch.follow().await {
                tracing::error!(run.id = %run, %error, "the run is no longer followed");
            }
            inner.watched().remove(&run);
            inner.changed.notify_one();
        });
    }
}

/// Makes the folder of the run directories and returns its path without links: launchers are recognised by it.
fn with_real_folder(settings: Settings) -> Result<Settings, SupervisorError> {
    let make = || {
        std::fs::create_dir_all(&settings.runs_dir)?;
        std::fs::canonicalize(&settings.runs_dir)
    };
    let runs_dir = make().map_err(|error| SupervisorError::write(&settings.runs_dir, error))?;
    Ok(Settings {
        runs_dir,
        ..settings
    })
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SupervisorError> + Send + 'static,
) -> Result<T, SupervisorError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| SupervisorError::ShuttingDown)?
}

fn remove_folder(dir: &RunDir) {
    match std::fs::remove_dir_all(dir.root()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(path = %dir.root().display(), %error, "a run directory was not removed");
        }
        _ => {}
    }
}
