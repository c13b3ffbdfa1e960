//! Parallel.
