//! The web board: pages, REST and live curves over the store and the supervisor.
//!
//! Everything that answers HTTP is here, so that tests drive [`app`] without a socket. The
//! board links no libtorch and never speaks to a trainer but through its run directory.

pub mod api;
pub mod assets;
pub mod catalog;
pub mod cli;
pub mod config;
pub mod demo;
pub mod draft;
pub mod error;
pub mod form;
pub mod i18n;
pub mod idempotency;
pub mod live;
pub mod pages;
pub mod router;
pub mod run_files;
pub mod security;
pub mod startup;
pub mod state;
pub mod telemetry;
pub mod view;

pub use config::ServerConfig;
pub use error::Error;
pub use router::app;
pub use state::AppState;
