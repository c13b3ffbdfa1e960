//! Process groups: ranks that communicate together.

use std::{
    ffi::c_int,
    ptr::NonNull,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{C10dError, Store, ffi, spare::Spare};

/// What carries a group's collectives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// TCP between CPUs.
    Gloo,
    /// NVIDIA's library between GPUs.
    #[cfg(feature = "nccl")]
    Nccl,
}

/// How a gloo group is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlooOptions {
    /// How long a collective, and the start of the group, may take.
    pub timeout: Duration,
    /// The name or address of this machine at which the other ranks reach this one.
    pub host: String,
    /// Threads that run collectives; so many can be under way at once, the others queue.
    pub threads: usize,
    /// Whether ranks first compare what each is about to do, so that a mismatch is an error on every rank. Without it
    /// gloo ends the process when sizes differ. For tests: each collective costs some small ones before it.
    pub checked: bool,
    /// Whether to use gloo's own all-gather and reduce-scatter, although others of its collectives are faster.
    pub native: bool,
}

impl Default for GlooOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_mins(30),
            host: "127.0.0.1".to_owned(),
            threads: 2,
            checked: false,
            native: false,
        }
    }
}

/// Ranks that communicate together; a rank's number is its index in the group.
///
/// The collectives return a [`Work`](crate::Work) at once. Every rank of the group calls the same ones in the same order, with
/// contiguous tensors of the group's device. With n ranks and a buffer of B bytes (the larger of input and output):
///
/// | collective | what travels, gloo | bytes sent by a rank |
/// |---|---|---|
/// | `all_reduce` | ring: reduce-scatter, then all-gather | 2 B (n-1)/n |
/// | `all_gather_into` | a broadcast of each rank's part, all at once | up to B (n-1)/n |
/// | `reduce_scatter` | all-to-all, then a sum on each rank | B (n-1)/n |
/// | `all_to_all_single` | each pair of ranks exchanges its part | B (n-1)/n |
/// | `broadcast` | a tree from the root | up to B log2 n |
/// | `barrier`, `monitored_barrier` | empty messages; with the second, rank 0 hears every other | – |
///
/// With NCCL each is NCCL's own. `reduce_scatter` over gloo takes one more buffer of the input's size; the
/// group keeps up to two for the next ones.
///
/// Drop a group on the rank that failed: the others get a network error at once, where a group that lives on makes them
/// wait for the timeout. Dropping waits for the collectives of this rank that are under way.
#[derive(Debug)]
pub struct ProcessGroup {
    raw: NonNull<ffi::RawGroup>,
    rank: usize,
    size: usize,
    backend: Backend,
    pub(crate) checked: bool,
    pub(crate) native: bool,
    pub(crate) spare: Arc<Spare>,
    /// Held while a collective is launched: c10d counts launches without a lock of its own.
    timeout: Mutex<Duration>,
}

// SAFETY: the shim's handle is a reference-counted pointer with atomic counts, and may be freed in any thread.
unsafe impl Send for ProcessGroup {}
// SAFETY: launches take the lock; abort only closes connections, which gloo guards with locks of its own.
unsafe impl Sync for ProcessGroup {}

impl ProcessGroup {
    /// Joins a gloo group of `size` ranks over `store`; returns once all of them have, or fails after the timeout.
    pub fn gloo(
        store: &Store,
        rank: usize,
        size: usize,
        options: &GlooOptions,
    ) -> Result<Self, C10dError> {
        const OPERATION: &str = "group_gloo";
        let (rank_in_c, size_in_c) = place(OPERATION, rank, size)?;
        let host = ffi::text(OPERATION, &options.host)?;
        let threads = ffi::int(OPERATION, options.threads.max(1))?;
        let raw = ffi::make(OPERATION, |out, error| {
            // SAFETY: store and host live over the call; the group shares ownership of the store.
            unsafe {
                ffi::c10d_group_gloo(
                    store.raw(),
                    rank_in_c,
                    size_in_c,
                    ffi::milliseconds(options.timeout),
                    host.as_ptr(),
                    threads,
                    c_int::from(options.checked),
                    out,
                    error,
                )
            }
        })?;
        Ok(Self {
            raw,
            rank,
            size,
            backend: Backend::Gloo,
            checked: options.checked,
            native: options.native,
            spare: Arc::default(),
            timeout: Mutex::new(options.timeout),
        })
    }

    /// Joins an NCCL group of `size` ranks over `store`. Choose the rank's device before; connections are made by the
    /// first collective.
    #[cfg(feature = "nccl")]
    pub fn nccl(
        store: &Store,
        rank: usize,
        size: usize,
        timeout: Duration,
    ) -> Result<Self, C10dError> {
        const OPERATION: &str = "group_nccl";
        let (rank_in_c, size_in_c) = place(OPERATION, rank, size)?;
        let raw = ffi::make(OPERATION, |out, error| {
            // SAFETY: the store lives over the call; the group shares ownership of it.
            unsafe {
                ffi::c10d_group_nccl(
                    store.raw(),
                    rank_in_c,
                    size_in_c,
                    ffi::milliseconds(timeout),
                    out,
                    error,
                )
            }
        })?;
        Ok(Self {
            raw,
            rank,
            size,
            backend: Backend::Nccl,
            checked: false,
            native: true,
            spare: Arc::default(),
            timeout: Mutex::new(timeout),
        })
    }

    /// Returns this rank's number in the group.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of ranks.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns what carries the collectives.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Returns how long a collective may take.
    pub fn timeout(&self) -> Duration {
        *self.launching()
    }

    /// Changes how long a collective launched from now on may take.
    pub fn set_timeout(&self, timeout: Duration) {
        *self.launching() = timeout;
    }

    /// Ends the group for every rank, from any thread: the others' collectives fail at once with a network error, and so does
    /// what this rank launches from now on. Over gloo, what this rank already waits for ends by its timeout.
    pub fn abort(&self) -> Result<(), C10dError> {
        ffi::check("abort", |error| {
            // SAFETY: the handle lives over the call; the shim writes `error` only.
            unsafe { ffi::c10d_group_abort(self.raw.as_ptr(), error) }
        })
    }

    /// Takes the lock of launches.
    pub(crate) fn launching(&self) -> MutexGuard<'_, Duration> {
        self.timeout.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn raw(&self) -> *mut ffi::RawGroup {
        self.raw.as_ptr()
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // SAFETY: the handle came from the shim and is freed once.
        unsafe { ffi::c10d_group_free(self.raw.as_ptr()) }
    }
}

fn place(operation: &'static str, rank: usize, size: usize) -> Result<(c_int, c_int), C10dError> {
    if rank >= size {
        let message = format!("rank `{rank}` is not below the group's size `{size}`");
        return Err(C10dError::mismatch(operation, message));
    }
    Ok((ffi::int(operation, rank)?, ffi::int(operation, size)?))
}
