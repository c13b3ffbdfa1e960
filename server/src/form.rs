//! The new-run form: what was typed, what it means, and how each field is shown.
//!
//! Everything a field shows (type, range, default, choices, what it needs) comes from the key
//! table of `run-protocol`; labels and help in the reader's language come from the catalogue.

pub mod faults;
pub mod field;
pub mod kept;
pub mod layout;
pub mod picker;
pub mod preflight;
pub mod values;

pub use faults::{Fault, Faults};
pub use field::{Control, FieldView, OptionView};
pub use values::FormValues;
