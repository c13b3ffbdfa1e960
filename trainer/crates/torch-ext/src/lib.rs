//! Extensions.
