//! The handles that every request shares.

use std::sync::Arc;

use board_store::{Run, Store};
use board_supervisor::{Submission, Supervisor};
use tokio_util::sync::CancellationToken;

use crate::config::ServerConfig;
use crate::draft::{self, Draft};
use crate::error::{Error, blocking};
use crate::idempotency::IdempotencyKeys;
use crate::live::Live;

/// What a handler reaches: settings, store, supervisor and the live hub. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AppState {
    /// What the server was told at its start.
    pub config: Arc<ServerConfig>,
    /// Runs, events and series.
    pub store: Store,
    /// The processes of the runs.
    pub supervisor: Supervisor,
    /// Streams of live events.
    pub live: Live,
    /// Keys of requests that may be sent twice.
    pub idempotency: IdempotencyKeys,
    /// Ends when the board stops; open streams then say goodbye and close.
    pub shutdown: CancellationToken,
}

impl AppState {
    /// Bundles the handles.
    pub fn new(config: ServerConfig, store: Store, supervisor: Supervisor) -> Self {
        let shutdown = CancellationToken::new();
        Self {
            config: Arc::new(config),
            live: Live::new(store.clone(), shutdown.clone()),
            store,
            supervisor,
            idempotency: IdempotencyKeys::default(),
            shutdown,
        }
    }

    /// Makes a run of a draft that passes its check; a refused one makes nothing.
    pub async fn start_run(
        &self,
        draft: Draft,
        name: Option<String>,
        tags: Vec<String>,
    ) -> Result<Run, Error> {
        let named = || draft.config.logging.run_name.clone();
        let name = name.or_else(|| named().filter(|name| !name.is_empty()));
        draft::check_labels(name.as_deref(), &tags)?;
        let config = Arc::clone(&self.config);
        let draft = blocking(move || draft.into_checked(&config)).await??;
        let submission = Submission {
            name,
            config: draft.config,
            input_yaml: draft.input_yaml,
            tags,
        };
        Ok(self.supervisor.create_run(submission).await?)
    }
}
