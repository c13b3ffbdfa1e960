//! Reading files row by row.
