//! The `trainer` program end to end, as a person or the board starts it.

mod faults;
mod refusals;
mod resuming;
mod runs;
mod signals;
mod support;
