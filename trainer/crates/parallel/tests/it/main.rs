//! The strategies against reference numbers and against themselves.

mod exactness;
mod support;
mod training;
