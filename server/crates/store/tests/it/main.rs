//! The store as its users see it.
#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that is not as it should be"
)]
#![expect(clippy::float_cmp, reason = "values come back bit for bit")]

mod ingest;
mod kinds;
mod open;
mod replay;
mod runs;
mod series;
mod support;
