//! The one error of this crate.

/// What sort of failure it is, which decides what to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Another rank, or the store, did not answer in time.
    Timeout,
    /// A connection broke or could not be made; often another rank ended.
    Network,
    /// The ranks, or the tensors of one rank, do not fit the collective.
    Mismatch,
    /// Anything else that libtorch says.
    Other,
}

/// A C++ exception of c10d, or arguments that do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{operation}` failed: {message}")]
pub struct C10dError {
    /// The function that failed.
    pub operation: &'static str,
    /// What sort of failure it is.
    pub kind: ErrorKind,
    /// What libtorch said, without its backtrace.
    pub message: String,
}

impl C10dError {
    pub(crate) fn new(
        operation: &'static str,
        kind: ErrorKind,
        message: impl Into<String>,
    ) -> Self {
        Self {
            operation,
            kind,
            message: message.into(),
        }
    }

    pub(crate) fn mismatch(operation: &'static str, message: impl Into<String>) -> Self {
        Self::new(operation, ErrorKind::Mismatch, message)
    }

    pub(crate) fn from_tch(operation: &'static str, error: &tch::TchError) -> Self {
        Self::new(operation, ErrorKind::Other, error.to_string())
    }

    /// Returns what the user can do.
    pub fn hint(&self) -> Option<&'static str> {
        let message = self.message.to_ascii_lowercase();
        match self.kind {
            ErrorKind::Network
                if message.contains("already in use") || message.contains("eaddrinuse") =>
            {
                Some("another program listens on this port; choose another `MASTER_PORT`")
            }
            ErrorKind::Network => Some(
                "another rank ended, or cannot be reached: see the logs of the other ranks, then `MASTER_ADDR` and `MASTER_PORT`",
            ),
            ErrorKind::Timeout => Some(
                "another rank is behind or never started: see the logs of the other ranks, or raise `dist_timeout`",
            ),
            ErrorKind::Mismatch => Some(
                "every rank must run the same collectives in the same order, with the same types and fitting sizes",
            ),
            ErrorKind::Other => None,
        }
    }

    /// Returns the ranks of the group that a monitored barrier waited for in vain.
    pub fn missing_ranks(&self) -> Vec<usize> {
        let Some((before, _)) = self.message.split_once(" failed to pass monitoredBarrier") else {
            return Vec::new();
        };
        let named = before.rsplit("Rank").next().unwrap_or_default();
        named
            .trim_start_matches('s')
            .split(|letter: char| !letter.is_ascii_digit())
            .filter_map(|rank| rank.parse().ok())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_ranks_are_read() {
        for (message, ranks) in [
            (
                "[Rank 0]: Rank 1 failed to pass monitoredBarrier in 300 ms",
                vec![1],
            ),
            (
                "[Rank 0]: Ranks 1, 12 failed to pass monitoredBarrier in 300 ms\nmore",
                vec![1, 12],
            ),
            ("Connection closed by peer [127.0.0.1]:4000", vec![]),
        ] {
            let error = C10dError::new("monitored_barrier", ErrorKind::Timeout, message);
            assert_eq!(error.missing_ranks(), ranks, "{message}");
        }
    }

    #[test]
    fn hints_follow_the_kind() {
        let hint = |kind, message: &str| C10dError::new("wait", kind, message).hint();
        assert!(hint(ErrorKind::Network, "EADDRINUSE").is_some_and(|hint| hint.contains("port")));
        assert!(hint(ErrorKind::Timeout, "").is_some_and(|hint| hint.contains("`dist_timeout`")));
        assert!(hint(ErrorKind::Network, "").is_some() && hint(ErrorKind::Mismatch, "").is_some());
        assert_eq!(hint(ErrorKind::Other, ""), None);
    }
}
