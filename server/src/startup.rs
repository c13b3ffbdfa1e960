//! From settings to a listening board, and back down.
