//! What must fit before a collective is launched: c10d and gloo do not look at all of it, or end the process.

use tch::{Kind, Tensor};

use crate::{C10dError, ProcessGroup, ReduceOp};

impl ProcessGroup {
    /// Checks that `whole` is as many `part`s as there are ranks.
    pub(crate) fn parts(
        &self,
        operation: &'static str,
        whole: &Tensor,
        part: &Tensor,
    ) -> Result<(), C10dError> {
        contiguous(operation, &[whole, part])?;
        same_kind(operation, whole, part)?;
        let (have, each) = (whole.numel(), part.numel());
        if have == each * self.size() {
            return Ok(());
        }
        let message = format!(
            "`{have}` elements are not `{}` parts of `{each}`",
            self.size()
        );
        Err(C10dError::mismatch(operation, message))
    }

    /// Returns the rows from or to each rank.
    pub(crate) fn rows(
        &self,
        operation: &'static str,
        tensor: &Tensor,
        splits: &[i64],
    ) -> Result<Vec<i64>, C10dError> {
        let ranks = self.size_in_torch();
        let rows = tensor.size().first().copied().unwrap_or(0);
        if splits.is_empty() && rows % ranks == 0 {
            return Ok(vec![rows / ranks; self.size()]);
        }
        let fits = splits.len() == self.size()
            && splits.iter().all(|split| *split >= 0)
            && splits.iter().sum::<i64>() == rows;
        if fits {
            return Ok(splits.to_vec());
        }
        let message = format!("`{rows}` rows are not split over `{ranks}` ranks by {splits:?}");
        Err(C10dError::mismatch(operation, message))
    }

    /// Checks that a rank is in the group.
    pub(crate) fn member(&self, operation: &'static str, rank: usize) -> Result<(), C10dError> {
        if rank < self.size() {
            return Ok(());
        }
        let message = format!(
            "rank `{rank}` is not below the group's size `{}`",
            self.size()
        );
        Err(C10dError::mismatch(operation, message))
    }

    /// Returns the number of ranks as tensors have their sizes.
    pub(crate) fn size_in_torch(&self) -> i64 {
        i64::try_from(self.size()).expect("c10d took the size as a C int")
    }
}

/// Checks that tensors lie without gaps, as c10d sends them.
pub(crate) fn contiguous(operation: &'static str, tensors: &[&Tensor]) -> Result<(), C10dError> {
    for tensor in tensors {
        if !tensor.is_contiguous() {
            let message = format!("a tensor of shape {:?} is not contiguous", tensor.size());
            return Err(C10dError::mismatch(operation, message));
        }
    }
    Ok(())
}

/// Checks that two tensors have one element type.
pub(crate) fn same_kind(operation: &'static str, a: &Tensor, b: &Tensor) -> Result<(), C10dError> {
    if a.kind() == b.kind() {
        return Ok(());
    }
    let message = format!("`{:?}` and `{:?}` in one collective", a.kind(), b.kind());
    Err(C10dError::mismatch(operation, message))
}

/// Checks that the values of a tensor can be reduced so.
pub(crate) fn averages(
    operation: &'static str,
    op: ReduceOp,
    tensor: &Tensor,
) -> Result<(), C10dError> {
    let kind = tensor.kind();
    let float = matches!(
        kind,
        Kind::Float | Kind::Double | Kind::BFloat16 | Kind::Half
    );
    if op != ReduceOp::Avg || float {
        return Ok(());
    }
    let message = format!("`{kind:?}` has no mean of its own type");
    Err(C10dError::mismatch(operation, message))
}
