//! Placeholder table.

use super::Key;

pub(super) const KEYS: &[Key] = &[];
