//! The handles that every request shares.

use std::sync::Arc;

use board_store::Store;
use tokio_util::sync::CancellationToken;

use crate::config::ServerConfig;
use crate::live::Live;

/// What a handler reaches: settings, store, supervisor and the live hub. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AppState {
    /// What the server was told at its start.
    pub config: Arc<ServerConfig>,
    /// Runs, events and series.
    pub store: Store,
    /// Streams of live events.
    pub live: Live,
    /// Ends when the board stops; open streams then say goodbye and close.
    pub shutdown: CancellationToken,
}

impl AppState {
    /// Bundles the handles.
    pub fn new(config: ServerConfig, store: Store) -> Self {
        let shutdown = CancellationToken::new();
        Self {
            config: Arc::new(config),
            live: Live::new(store.clone(), shutdown.clone()),
            store,
            shutdown,
        }
    }
}
