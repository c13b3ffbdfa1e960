//! The board as its users meet it: over HTTP, with a stub for a trainer.

#![expect(
    clippy::unwrap_used,
    reason = "a test may panic, and so may what supports it"
)]

mod api_catalog;
mod api_create;
mod api_metrics;
mod api_openapi;
mod api_parts;
mod api_runs;
mod budgets;
mod live;
mod pages;
mod pages_form;
mod pages_run;
mod security;
mod serve;
mod support;
