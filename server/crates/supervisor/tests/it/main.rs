//! Runs with a stub in the trainer's place: a shell script that writes events.

mod crash;
mod faults;
mod life;
mod recovery;
mod stop;
mod support;
