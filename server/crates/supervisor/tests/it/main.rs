//! Runs with a stub in the trainer's place: a shell script that writes events.
#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that is not as it should be"
)]

mod crash;
mod faults;
mod life;
mod recovery;
mod stop;
mod support;
