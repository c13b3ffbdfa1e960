//! Sizes beyond which this crate refuses or cuts its input.

/// Largest configuration text, in bytes.
pub const MAX_CONFIG_BYTES: usize = 1024 * 1024;
/// Deepest nesting of a configuration.
pub const MAX_CONFIG_DEPTH: usize = 16;
/// Most nodes of a configuration.
pub const MAX_CONFIG_NODES: usize = 20_000;
/// Longest line of the event file that a reader takes, in bytes; a longer one is skipped and counted.
pub const MAX_EVENT_BYTES: usize = 1024 * 1024;
/// Longest text of a log or error message in an event, in bytes; a writer cuts there.
pub const MAX_MESSAGE_BYTES: usize = 16 * 1024;
