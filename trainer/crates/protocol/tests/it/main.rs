//! The contract, seen from outside the crate.

mod dialects;
mod documents;
mod errors;
mod events;
mod keys;
mod records;
mod refusals;
mod round_trip;
mod support;
