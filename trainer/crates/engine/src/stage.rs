//! The stages: what each one reads, and which objective it trains with.

pub(crate) mod sft;
