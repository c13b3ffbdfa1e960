//! Everything between a file of conversations and a batch of token ids.
//!
//! The way of a row: a file named in `dataset_info.json` ([`DatasetInfo`]) is read row by row into [`Conversation`]s;
//! a [`ChatTemplate`] and a [`Tokenizer`] turn each into an [`Example`] (token ids and labels); a [`RowOrder`] says
//! which rows the optimizer step k takes; [`Batch::collate`] lays the rows of a micro-batch end to end, without padding.
//!
//! There is no tensor here: the trainer turns a [`Batch`] into tensors, and the board uses the listing and counting alone.

pub mod batch;
pub mod conversation;
pub mod dataset_info;
pub mod error;
pub mod example;
pub mod listing;
pub mod order;
pub mod prepare;
pub mod source;
pub mod template;
pub mod tokenizer;

pub use batch::{Batch, IGNORE_INDEX};
pub use conversation::{Conversation, Message, Role};
pub use dataset_info::{DatasetDescription, DatasetInfo, Formatting, Source};
pub use error::DataError;
pub use example::{Example, ExampleOptions};
pub use listing::{DatasetEntry, count_rows, list_datasets, preview_rows};
pub use order::{RowOrder, Sampler, SamplerState, StepRows, eval_batches};
pub use prepare::{
    DroppedRows, PrepareOptions, PrepareReport, Prepared, Progress, prepare_sft, today,
};
pub use template::{ChatTemplate, TemplateOptions};
pub use tokenizer::Tokenizer;
