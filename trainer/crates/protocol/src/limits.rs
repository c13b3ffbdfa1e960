//! Sizes beyond which this crate refuses or cuts its input.

/// Largest configuration text, in bytes.
pub const MAX_CONFIG_BYTES: usize = 1024 * 1024;
/// Deepest nesting of a configuration.
pub const MAX_CONFIG_DEPTH: usize = 16;
/// Most nodes of a configuration.
pub const MAX_CONFIG_NODES: usize = 20_000;
/// Most keys of one map of a configuration.
pub const MAX_CONFIG_KEYS: usize = 2_000;
/// Most faults that are listed; what comes after them is not looked at.
pub const MAX_CONFIG_ERRORS: usize = 100;
/// Longest line of the event file that a reader takes, in bytes; a longer one is skipped and counted.
pub const MAX_EVENT_BYTES: usize = 1024 * 1024;
/// Longest text of one field in an event, in bytes; a writer cuts there.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024;
