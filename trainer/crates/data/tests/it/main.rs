//! Datasets, templates and tokenizers on small files.

mod datasets;
mod listing;
mod support;
mod templates;
mod tokenizers;
