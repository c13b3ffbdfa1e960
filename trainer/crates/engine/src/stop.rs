//! The wish to stop, as a flag that a signal thread sets and the loop reads between steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set once, read often; clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct StopFlag {
    is_requested: Arc<AtomicBool>,
}

impl StopFlag {
    /// Asks the run to save and end after the step in hand.
    pub fn request(&self) {
        self.is_requested.store(true, Ordering::SeqCst);
    }

    /// Says whether somebody asked.
    pub fn is_requested(&self) -> bool {
        self.is_requested.load(Ordering::SeqCst)
    }
}
