//! What c10d writes to stderr by itself.

use crate::ffi;

/// Stops the long traces that c10d writes to stderr beside the errors that it throws. Call it once, when the process
/// starts; where `TORCH_CPP_LOG_LEVEL` is set, its level holds instead.
pub fn quiet_logs() {
    // SAFETY: takes nothing; it writes c10's own log level, which is meant to be set before the first use.
    unsafe { ffi::c10d_quiet_logs() }
}
