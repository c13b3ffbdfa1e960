//! Ranks as threads of one process, each with its own gloo group over one store.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests may unwrap as the tests themselves"
)]
#![expect(
    clippy::cast_possible_wrap,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "ranks and sizes are small"
)]
#![expect(clippy::float_cmp, reason = "values are exact")]

mod collectives;
mod failures;
mod meshes;
mod ranks;
mod stores;
