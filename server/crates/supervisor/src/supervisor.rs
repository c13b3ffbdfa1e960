//! The handle that everybody else holds.

use std::path::PathBuf;
use std::sync::Arc;

use board_store::{NewRun, Run, RunExit, RunTexts, StateChange, Store, StoreError};
use run_protocol::events::now_ms;
use run_protocol::{RunDir, RunId, RunState};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Instrument as _;

use crate::error::SupervisorError;
use crate::launch;
use crate::queue::{Queue, blocking};
use crate::recover;
use crate::settings::{Settings, Submission};
use crate::watch::Order;

/// What the trainer takes for "the newest complete checkpoint".
const NEWEST_CHECKPOINT: &str = "auto";

/// Owns every launcher. Cheap to clone; the last clone that is dropped ends the watching, never the launchers.
#[derive(Clone, Debug)]
pub struct Supervisor {
    queue: Arc<Queue>,
    _guard: Arc<DropGuard>,
}

impl Supervisor {
    /// Takes up the runs that the last board left and begins to work through the queue.
    pub async fn start(store: Store, settings: Settings) -> Result<Self, SupervisorError> {
        let settings = with_real_folder(settings)?;
        let cancel = CancellationToken::new();
        let queue = Arc::new(Queue::new(store, settings, cancel.clone()));
        for found in recover::find(&queue.store, |run| queue.run_dir(run.id)).await? {
            queue.adopt(found);
        }
        queue.begin();
        Ok(Self {
            queue,
            _guard: Arc::new(cancel.drop_guard()),
        })
    }

    /// Returns the run directory of a run.
    pub fn run_dir(&self, id: RunId) -> RunDir {
        self.queue.run_dir(id)
    }

    /// Returns the queue, first in first out.
    pub async fn queue(&self) -> Result<Vec<RunId>, SupervisorError> {
        Ok(self.queue.store.queued_runs().await?)
    }

    /// Makes a run and its directory, and puts it into the queue.
    ///
    /// Done to its end even if the caller stops waiting, as every change that this handle makes.
    pub async fn create_run(&self, submission: Submission) -> Result<Run, SupervisorError> {
        let this = self.clone();
        self.to_its_end(async move { this.make_run(submission).await })
            .await
    }

    async fn make_run(&self, submission: Submission) -> Result<Run, SupervisorError> {
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
        let trainer = self.queue.settings.trainer.clone();
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
        match self.queue.store.create_run(new).await {
            Ok(run) => {
                self.queue.changed.notify_one();
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
        let order = Order::Stop(self.queue.settings.grace);
        let this = self.clone();
        self.to_its_end(async move { this.end_run(id, order).await })
            .await
    }

    /// Kills the processes of a run; one that waits ends at once.
    pub async fn kill_run(&self, id: RunId) -> Result<Run, SupervisorError> {
        let this = self.clone();
        self.to_its_end(async move { this.end_run(id, Order::Kill).await })
            .await
    }

    /// Puts a run that has failed or was stopped back into the queue, to go on from a checkpoint: the newest, unless one
    /// is given.
    pub async fn resume_run(
        &self,
        id: RunId,
        checkpoint: Option<PathBuf>,
    ) -> Result<Run, SupervisorError> {
        let this = self.clone();
        self.to_its_end(async move { this.queue_again(id, checkpoint).await })
            .await
    }

    async fn queue_again(
        &self,
        id: RunId,
        checkpoint: Option<PathBuf>,
    ) -> Result<Run, SupervisorError> {
        const UNDONE: &[RunState] = &[RunState::Failed, RunState::Stopped];
        let run = self.queue.store.find_run(id).await?;
        match run.ok_or(StoreError::RunNotFound(id))?.state {
            RunState::Finished => return Err(SupervisorError::Finished(id)),
            state if !state.is_final() => return Err(SupervisorError::NotEnded(id)),
            _ => {}
        }
        let (dir, given) = (self.run_dir(id), checkpoint.clone());
        let is_resumable = blocking(move || {
            Ok(match given {
                Some(path) => RunDir::is_checkpoint_resumable(&path),
                None => matches!(dir.latest_resumable_checkpoint(), Ok(Some(_))),
            })
        });
        if !is_resumable.await? {
            return Err(SupervisorError::NoCheckpoint(id));
        }
        let checkpoint = checkpoint.map(|path| path.to_string_lossy().into_owned());
        let resume_from = Some(checkpoint.unwrap_or_else(|| NEWEST_CHECKPOINT.to_owned()));
        let change = StateChange {
            resume_from,
            ..StateChange::new(UNDONE, RunState::Queued, now_ms())
        };
        match self.queue.store.change_state(id, change).await {
            Ok(run) => {
                self.queue.changed.notify_one();
                Ok(run)
            }
            Err(StoreError::State { .. }) => Err(SupervisorError::NotEnded(id)),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes a run that has no launcher, and its directory.
    pub async fn delete_run(&self, id: RunId) -> Result<(), SupervisorError> {
        if self.queue.watched().contains_key(&id) {
            return Err(StoreError::StillActive(id).into());
        }
        self.queue.store.delete_run(id, now_ms()).await?;
        let dir = self.run_dir(id);
        blocking(move || {
            remove_folder(&dir);
            Ok(())
        })
        .await
    }

    /// Ends the watching and returns when every task is done. The launchers go on.
    pub async fn shutdown(&self) {
        self.queue.cancel.cancel();
        self.queue.tasks.close();
        self.queue.tasks.wait().await;
    }

    /// Does work in a task of its own. A request that its client gives up is dropped where it waits, which must not
    /// leave the work half done.
    async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, SupervisorError>> + Send + 'static,
    ) -> Result<T, SupervisorError> {
        let work = work.instrument(tracing::Span::current());
        self.queue
            .tasks
            .spawn(work)
            .await
            .map_err(|_| SupervisorError::ShuttingDown)?
    }

    async fn end_run(&self, id: RunId, order: Order) -> Result<Run, SupervisorError> {
        loop {
            let run = self
                .queue
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
                // The order goes out again: the one before may have been lost.
                RunState::Stopping => None,
                RunState::Finished | RunState::Failed | RunState::Stopped => {
                    return Err(SupervisorError::NotRunning(id));
                }
            };
            let run = match change {
                None => run,
                Some(change) => match self.queue.store.change_state(id, change).await {
                    Ok(run) => run,
                    // It moved on between the look and the change.
                    Err(StoreError::State { .. }) => continue,
                    Err(error) => {
                        // A full disk must not keep a run from being ended.
                        self.queue.order(id, order);
                        return Err(error.into());
                    }
                },
            };
            self.queue.order(id, order);
            return Ok(run);
        }
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

fn remove_folder(dir: &RunDir) {
    match std::fs::remove_dir_all(dir.root()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(path = %dir.root().display(), %error, "a run directory was not removed");
        }
        _ => {}
    }
}
