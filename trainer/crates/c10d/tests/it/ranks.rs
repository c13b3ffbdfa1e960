//! Runs the same function on several ranks.

use std::{thread, time::Duration};

use trainer_c10d::{GlooOptions, ProcessGroup, Store};

/// Longer than any collective of a test takes on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// Options with a limit that no good test reaches.
pub(crate) fn options() -> GlooOptions {
    GlooOptions {
        timeout: LIMIT,
        ..GlooOptions::default()
    }
}

/// Runs `rank` on `size` threads, each with its own handle to a store, and returns what each returned.
pub(crate) fn with_store<T: Send>(size: usize, rank: impl Fn(usize, Store) -> T + Sync) -> Vec<T> {
    trainer_c10d::quiet_logs();
    let store = Store::in_process(LIMIT).unwrap();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..size)
            .map(|number| {
                let (store, rank) = (store.try_clone().unwrap(), &rank);
                scope.spawn(move || rank(number, store))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

/// Runs `rank` on `size` threads, each with its own group, which it may drop.
pub(crate) fn with_group<T: Send>(
    size: usize,
    options: &GlooOptions,
    rank: impl Fn(ProcessGroup) -> T + Sync,
) -> Vec<T> {
    with_store(size, |number, store| {
        rank(ProcessGroup::gloo(&store, number, size, options).unwrap())
    })
}
