//! The log of this process: readable lines on standard error, which for a rank is its log file.

use tracing_subscriber::EnvFilter;

/// Starts logging; `RUST_LOG` changes how much.
pub(crate) fn start() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .init();
}
