//! The `board` program.

fn main() {}
