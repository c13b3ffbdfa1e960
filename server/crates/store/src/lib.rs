//! The run store.
