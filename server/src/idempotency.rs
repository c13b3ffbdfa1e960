//! `Idempotency-Key`: the same request sent twice makes one run.
//!
//! The keys live in memory for a day: they are for retries over a broken connection, not for good.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use run_protocol::RunId;
use sha2::{Digest as _, Sha256};

use crate::error::Error;

/// How long a key is known.
const LIFETIME: Duration = Duration::from_hours(24);

/// Most keys that are known; the oldest go first.
const MAX_KEYS: usize = 10_000;

/// Longest key.
const MAX_KEY_LENGTH: usize = 200;

type Fingerprint = [u8; 32];

/// The keys of a board.
#[derive(Debug, Clone, Default)]
pub struct IdempotencyKeys {
    known: Arc<Mutex<HashMap<String, Known>>>,
}

#[derive(Debug)]
struct Known {
    request: Fingerprint,
    /// The run that the request made; `None` while it is being made.
    run: Option<RunId>,
    since: Instant,
}

/// What a key says about a request.
#[derive(Debug)]
pub enum Claim {
    /// It is new: make the run, then [`Reservation::keep`] it.
    New(Reservation),
    /// The run was made before.
    Made(RunId),
}

/// A key whose request is under way; dropped without a run, the key is free again.
#[derive(Debug)]
pub struct Reservation {
    keys: IdempotencyKeys,
    key: Option<String>,
}

impl IdempotencyKeys {
    /// Takes a key for a request of these bytes.
    pub fn claim(&self, key: &str, request: &[u8]) -> Result<Claim, Error> {
        if key.is_empty() || key.len() > MAX_KEY_LENGTH {
            let message = format!(
                "`Idempotency-Key` takes 1 to {MAX_KEY_LENGTH} bytes, got {}",
                key.len()
            );
            return Err(Error::BadRequest {
                code: "bad_idempotency_key",
                message,
                hint: None,
            });
        }
        let request: Fingerprint = Sha256::digest(request).into();
        let mut known = self.lock();
        known.retain(|_, entry| entry.since.elapsed() < LIFETIME);
        if let Some(entry) = known.get(key) {
            return match entry.run {
                _ if entry.request != request => Err(conflict(
                    "the key was used for another request",
                    "choose a new key",
                )),
                Some(run) => Ok(Claim::Made(run)),
                None => Err(conflict(
                    "a request with this key is under way",
                    "send it again in a moment",
                )),
            };
        }
        if known.len() >= MAX_KEYS
            && let Some(oldest) = known
                .iter()
                .min_by_key(|(_, entry)| entry.since)
                .map(|(key, _)| key.clone())
        {
            known.remove(&oldest);
        }
        known.insert(
            key.to_owned(),
            Known {
                request,
                run: None,
                since: Instant::now(),
            },
        );
        Ok(Claim::New(Reservation {
            keys: self.clone(),
            key: Some(key.to_owned()),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation {
    /// Remembers the run that the request made.
    pub fn keep(mut self, run: RunId) {
        if let Some(key) = self.key.take()
            && let Some(entry) = self.keys.lock().get_mut(&key)
        {
            entry.run = Some(run);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.keys.lock().remove(&key);
        }
    }
}

fn conflict(message: &str, hint: &str) -> Error {
    Error::Conflict {
        code: "idempotency_conflict",
        message: message.into(),
        hint: Some(hint.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_gives_the_same_run_again_and_refuses_another_request() {
        let keys = IdempotencyKeys::default();
        let Claim::New(first) = keys.claim("a", b"x").unwrap() else {
            panic!("the key is new")
        };
        assert!(keys.claim("a", b"x").is_err(), "it is under way");
        let run = RunId::new();
        first.keep(run);
        assert!(matches!(keys.claim("a", b"x").unwrap(), Claim::Made(made) if made == run));
        assert!(keys.claim("a", b"y").is_err());
    }

    #[test]
    fn failed_request_leaves_its_key_free() {
        let keys = IdempotencyKeys::default();
        drop(keys.claim("a", b"x").unwrap());
        assert!(matches!(keys.claim("a", b"y").unwrap(), Claim::New(_)));
    }
}
