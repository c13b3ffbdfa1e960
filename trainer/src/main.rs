//! The `trainer` program.

fn main() {}
