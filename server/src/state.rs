//! The handles that every request shares.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::config::ServerConfig;

/// What a handler reaches: settings, store, supervisor and the live hub. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AppState {
    /// What the server was told at its start.
    pub config: Arc<ServerConfig>,
    /// Ends when the board stops; open streams then say goodbye and close.
    pub shutdown: CancellationToken,
}

impl AppState {
    /// Bundles the handles.
    pub fn new(config: ServerConfig) -> Self {
        Self {
            config: Arc::new(config),
            shutdown: CancellationToken::new(),
        }
    }
}
