//! The store as its users see it.

mod ingest;
mod open;
mod replay;
mod runs;
mod series;
mod support;
