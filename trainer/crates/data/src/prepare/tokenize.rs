//! Tokenising on all cores.

use std::sync::{Mutex, PoisonError};
use std::thread;

use super::Progress;
use crate::conversation::Conversation;
use crate::error::DataError;
use crate::example::Example;

/// Rows that a thread takes at a time.
const CHUNK: usize = 32;

/// Tokenises every conversation. The results come in the order of the rows; a row that cannot be written has a reason.
pub(super) fn in_parallel(
    conversations: Vec<Conversation>,
    encode: &(dyn Fn(&Conversation) -> Result<Example, DataError> + Sync),
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Vec<Result<Example, String>>, DataError> {
    let total = conversations.len();
    let num_threads = thread::available_parallelism()
        .map_or(1, usize::from)
        .min(total.div_ceil(CHUNK))
        .max(1);
    // Threads own the conversations that they take, so memory is given back on the way.
    let queue = Mutex::new(conversations.into_iter().enumerate());
    let finished = Mutex::new((0, Vec::with_capacity(total)));
    let work = || -> Result<(), DataError> {
        loop {
            let chunk: Vec<(usize, Conversation)> = queue
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .by_ref()
                .take(CHUNK)
                .collect();
            let Some(&(first, _)) = chunk.first() else {
                return Ok(());
            };
            let results = chunk
                .iter()
                .map(|(_, conversation)| reason_or_error(encode(conversation)));
            let results = results.collect::<Result<Vec<_>, DataError>>()?;
            let mut finished = finished.lock().unwrap_or_else(PoisonError::into_inner);
            finished.0 += results.len();
            finished.1.push((first, results));
            progress(Progress {
                done: finished.0,
                total,
            });
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (1..num_threads).map(|_| scope.spawn(work)).collect();
        let own = work();
        let others = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        others.fold(own, Result::and)
    })?;
    let mut chunks = finished
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .1;
    chunks.sort_by_key(|(first, _)| *first);
    Ok(chunks
        .into_iter()
        .flat_map(|(_, results)| results)
        .collect())
}

/// A row whose tools or calls cannot be written is dropped; any other error ends the work.
fn reason_or_error(
    result: Result<Example, DataError>,
) -> Result<Result<Example, String>, DataError> {
    match result {
        Ok(example) => Ok(Ok(example)),
        Err(DataError::Tools { reason }) => Ok(Err(reason)),
        Err(error) => Err(error),
    }
}

/// Refuses a row from which nothing is learned.
pub(super) fn check_learnable(example: Example) -> Result<Example, String> {
    match example {
        example if example.num_valid_tokens() > 0 => Ok(example),
        example if example.is_truncated => {
            Err("no label is left after truncation to `cutoff_len`".into())
        }
        _ => Err("the row has no token to learn".into()),
    }
}
