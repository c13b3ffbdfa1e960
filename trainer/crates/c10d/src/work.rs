//! Collectives under way.

use std::{
    ptr::NonNull,
    time::{Duration, Instant},
};

use crate::{C10dError, ffi};

/// What is left to do on this rank once everything has arrived.
pub(crate) type Finish = Box<dyn FnOnce() -> Result<(), C10dError> + Send>;

/// A collective under way. Its tensors must be neither read, written nor resized until [`Work::wait`] returned; c10d holds
/// them alive.
///
/// Dropped before that, it goes on in the background, but a rank's own last step (the sum of `reduce_scatter`) is left out.
#[must_use = "the result is there only after `wait`"]
pub struct Work {
    operation: &'static str,
    running: Vec<Running>,
    finish: Option<Finish>,
}

/// One of c10d's works.
pub(crate) struct Running(NonNull<ffi::RawWork>);

// SAFETY: the shim's handle is a reference-counted pointer with atomic counts; c10d completes works in other threads.
unsafe impl Send for Running {}

impl Running {
    pub(crate) fn new(raw: NonNull<ffi::RawWork>) -> Self {
        Self(raw)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: the handle came from the shim and is freed once; a collective under way holds itself.
        unsafe { ffi::c10d_work_free(self.0.as_ptr()) }
    }
}

impl Work {
    pub(crate) fn new(operation: &'static str, running: Vec<Running>) -> Self {
        Self {
            operation,
            running,
            finish: None,
        }
    }

    /// Adds what the rank itself does at the end of `wait`.
    pub(crate) fn and_then(mut self, finish: Finish) -> Self {
        self.finish = Some(finish);
        self
    }

    /// Whether `wait` would return at once. A send or receive answers only after its `wait`.
    pub fn is_done(&self) -> Result<bool, C10dError> {
        for running in &self.running {
            let mut done = 0;
            ffi::check(self.operation, |error| {
                // SAFETY: the shim writes `done` and `error` only.
                unsafe { ffi::c10d_work_done(running.0.as_ptr(), &raw mut done, error) }
            })?;
            if done == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits until the collective ends, or fails, at the latest by its group's timeout.
    pub fn wait(&mut self) -> Result<(), C10dError> {
        for running in &self.running {
            self.wait_one(running, 0)?;
        }
        self.finish()
    }

    /// Waits at most this long. A collective that took longer goes on and may be waited for again; a send or receive may
    /// not, since gloo then gives its connection up.
    pub fn wait_for(&mut self, limit: Duration) -> Result<(), C10dError> {
        let end = Instant::now() + limit;
        for running in &self.running {
            let left = end.saturating_duration_since(Instant::now());
            self.wait_one(running, ffi::milliseconds(left))?;
        }
        self.finish()
    }

    fn wait_one(&self, running: &Running, limit: i64) -> Result<(), C10dError> {
        ffi::check(self.operation, |error| {
            // SAFETY: the handle lives over the call; the shim writes `error` only.
            unsafe { ffi::c10d_work_wait(running.0.as_ptr(), limit, error) }
        })
    }

    fn finish(&mut self) -> Result<(), C10dError> {
        self.finish.take().map_or(Ok(()), |finish| finish())
    }
}

impl std::fmt::Debug for Work {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Work")
            .field("operation", &self.operation)
            .finish_non_exhaustive()
    }
}
