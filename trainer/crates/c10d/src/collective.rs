//! The collectives of a [`ProcessGroup`]; its documentation shows what travels where.

use std::{ffi::c_int, sync::Arc};

use tch::{Tensor, no_grad_guard};

use crate::{
    C10dError, ProcessGroup, Work,
    checked::Plan,
    ffi,
    fit::{averages, contiguous, same_kind},
    work::{Finish, Running},
};

/// How values of the ranks become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReduceOp {
    /// Their sum.
    Sum,
    /// Their mean; floating-point types only.
    Avg,
    /// The largest.
    Max,
}

impl ReduceOp {
    /// The number of c10d's `ReduceOp`.
    pub(crate) fn code(self) -> c_int {
        match self {
            Self::Sum => 0,
            Self::Avg => 1,
            Self::Max => 4,
        }
    }
}

impl ProcessGroup {
    /// Replaces the tensor by the sum, mean or maximum of all ranks' tensors.
    pub fn all_reduce(&self, tensor: &Tensor, op: ReduceOp) -> Result<Work, C10dError> {
        const OPERATION: &str = "all_reduce";
        contiguous(OPERATION, &[tensor])?;
        averages(OPERATION, op, tensor)?;
        self.launch(OPERATION, |timeout, out, error| {
            // SAFETY: group and tensor live over the call; c10d holds the tensor on.
            unsafe {
                ffi::c10d_all_reduce(
                    self.raw(),
                    ffi::pointer(tensor),
                    op.code(),
                    timeout,
                    out,
                    error,
                )
            }
        })
        .map(|running| Work::new(OPERATION, vec![running]))
    }

    /// Writes every rank's input into the output, in the order of the ranks. The input may be this rank's part of it.
    pub fn all_gather_into(&self, output: &Tensor, input: &Tensor) -> Result<Work, C10dError> {
        const OPERATION: &str = "all_gather_into";
        self.parts(OPERATION, output, input)?;
        if self.native || self.checked {
            return self
                .launch(OPERATION, |timeout, out, error| {
                    let (output, input) = (ffi::pointer(output), ffi::pointer(input));
                    // SAFETY: group and tensors live over the call; c10d holds the tensors on.
                    unsafe { ffi::c10d_all_gather(self.raw(), output, input, timeout, out, error) }
                })
                .map(|running| Work::new(OPERATION, vec![running]));
        }
        let failed = |error: tch::TchError| C10dError::from_tch(OPERATION, &error);
        let _guard = no_grad_guard();
        let parts = output
            .f_view([-1])
            .and_then(|flat| flat.f_chunk(self.size_in_torch(), 0))
            .map_err(failed)?;
        if let Some(own) = parts.get(self.rank())
            && own.data_ptr() != input.data_ptr()
        {
            let flat = input.f_view([-1]).map_err(failed)?;
            own.shallow_clone().f_copy_(&flat).map_err(failed)?;
        }
        let mut running = Vec::with_capacity(parts.len());
        for (root, part) in parts.iter().enumerate() {
            running.push(self.launch_broadcast(OPERATION, part, root)?);
        }
        Ok(Work::new(OPERATION, running))
    }

    /// Writes this rank's part of the reduced inputs into the output: the input is as many parts as there are ranks.
    pub fn reduce_scatter(
        &self,
        output: &Tensor,
        input: &Tensor,
        op: ReduceOp,
    ) -> Result<Work, C10dError> {
        const OPERATION: &str = "reduce_scatter";
        self.parts(OPERATION, input, output)?;
        averages(OPERATION, op, input)?;
        if self.native {
            return self
                .launch(OPERATION, |timeout, out, error| {
                    let (output, input) = (ffi::pointer(output), ffi::pointer(input));
                    // SAFETY: group and tensors live over the call; c10d holds the tensors on.
                    unsafe {
                        ffi::c10d_reduce_scatter(
                            self.raw(),
                            output,
                            input,
                            op.code(),
                            timeout,
                            out,
                            error,
                        )
                    }
                })
                .map(|running| Work::new(OPERATION, vec![running]));
        }
        let failed = |error: tch::TchError| C10dError::from_tch(OPERATION, &error);
        let _guard = no_grad_guard();
        let flat = input.f_view([-1]).map_err(failed)?;
        let (buffer, received) = self.spare.take(&flat).map_err(failed)?;
        if self.checked {
            let plan = Plan::even(self.size(), &flat, i64::from(op.code()) + 1);
            self.agree(OPERATION, &plan)?;
        }
        let running = self.launch_all_to_all(OPERATION, &received, &flat, &[], &[])?;
        let (ranks, output) = (self.size_in_torch(), output.shallow_clone());
        let spare = Arc::clone(&self.spare);
        let finish: Finish = Box::new(move || {
            reduce_parts(&received, &output, ranks, op)
                .map_err(|error| C10dError::from_tch(OPERATION, &error))?;
            spare.give(buffer);
            Ok(())
        });
        Ok(Work::new(OPERATION, vec![running]).and_then(finish))
    }

    /// Sends a part of the input to each rank and receives one from each. The splits are the numbers of rows (dimension 0)
    /// from and to each rank; without any, all parts are equal.
    pub fn all_to_all_single(
        &self,
        output: &Tensor,
        input: &Tensor,
        output_splits: &[i64],
        input_splits: &[i64],
    ) -> Result<Work, C10dError> {
        const OPERATION: &str = "all_to_all_single";
        contiguous(OPERATION, &[output, input])?;
        same_kind(OPERATION, output, input)?;
        let output_rows = self.rows(OPERATION, output, output_splits)?;
        let input_rows = self.rows(OPERATION, input, input_splits)?;
        if self.checked {
            let plan = Plan::new(&output_rows, &input_rows, input);
            self.agree(OPERATION, &plan)?;
        }
        // c10d takes even splits from both lists or from neither.
        let (output_splits, input_splits): (&[i64], &[i64]) =
            if output_splits.is_empty() && input_splits.is_empty() {
                (&[], &[])
            } else {
                (&output_rows, &input_rows)
            };
        self.launch_all_to_all(OPERATION, output, input, output_splits, input_splits)
            .map(|running| Work::new(OPERATION, vec![running]))
    }

    /// Replaces the tensor by that of rank `root`.
    pub fn broadcast(&self, tensor: &Tensor, root: usize) -> Result<Work, C10dError> {
        const OPERATION: &str = "broadcast";
        contiguous(OPERATION, &[tensor])?;
        self.member(OPERATION, root)?;
        self.launch_broadcast(OPERATION, tensor, root)
            .map(|running| Work::new(OPERATION, vec![running]))
    }

    /// Waits until every rank is here.
    pub fn barrier(&self) -> Result<(), C10dError> {
        const OPERATION: &str = "barrier";
        let running = self.launch(OPERATION, |timeout, out, error| {
            // SAFETY: the group lives over the call; the shim writes `out` and `error` only.
            unsafe { ffi::c10d_barrier(self.raw(), timeout, out, error) }
        })?;
        Work::new(OPERATION, vec![running]).wait()
    }

    /// Waits until every rank is here; where some are not in time, the error on rank 0 names them. Gloo only.
    pub fn monitored_barrier(&self) -> Result<(), C10dError> {
        let timeout = self.launching();
        ffi::check("monitored_barrier", |error| {
            // SAFETY: the group lives over the call; the shim writes `error` only.
            unsafe { ffi::c10d_monitored_barrier(self.raw(), ffi::milliseconds(*timeout), error) }
        })
    }

    fn launch_broadcast(
        &self,
        operation: &'static str,
        tensor: &Tensor,
        root: usize,
    ) -> Result<Running, C10dError> {
        let root = ffi::int(operation, root)?;
        self.launch(operation, |timeout, out, error| {
            // SAFETY: group and tensor live over the call; c10d holds the tensor on.
            unsafe {
                ffi::c10d_broadcast(self.raw(), ffi::pointer(tensor), root, timeout, out, error)
            }
        })
    }

    fn launch_all_to_all(
        &self,
        operation: &'static str,
        output: &Tensor,
        input: &Tensor,
        output_splits: &[i64],
        input_splits: &[i64],
    ) -> Result<Running, C10dError> {
        self.launch(operation, |timeout, out, error| {
            // SAFETY: both lists have `count` numbers and are copied; c10d holds the tensors on.
            unsafe {
                ffi::c10d_all_to_all(
                    self.raw(),
                    ffi::pointer(output),
                    ffi::pointer(input),
                    output_splits.as_ptr(),
                    input_splits.as_ptr(),
                    output_splits.len(),
                    timeout,
                    out,
                    error,
                )
            }
        })
    }

    /// Launches a collective, one at a time, with the group's timeout.
    pub(crate) fn launch(
        &self,
        operation: &'static str,
        call: impl FnOnce(i64, *mut *mut ffi::RawWork, ffi::Message) -> c_int,
    ) -> Result<Running, C10dError> {
        let timeout = self.launching();
        ffi::make(operation, |out, error| {
            call(ffi::milliseconds(*timeout), out, error)
        })
        .map(Running::new)
    }
}

/// Reduces the parts that the ranks sent, in the order of the ranks, so that the result is the same each time.
fn reduce_parts(
    received: &Tensor,
    output: &Tensor,
    ranks: i64,
    op: ReduceOp,
) -> Result<(), tch::TchError> {
    let _guard = no_grad_guard();
    let parts = received.f_view([ranks, -1])?;
    let mut output = output.f_view([-1])?;
    match op {
        ReduceOp::Max => {
            drop(parts.f_amax_out(&output, [0_i64].as_slice(), false)?);
        }
        // The faster of the two; both round once.
        ReduceOp::Sum | ReduceOp::Avg if ranks == 2 => {
            drop(parts.f_get(0)?.f_add_out(&output, &parts.f_get(1)?)?);
        }
        ReduceOp::Sum | ReduceOp::Avg => {
            let kind = parts.kind();
            drop(parts.f_sum_intlist_out(&output, [0_i64].as_slice(), false, kind)?);
        }
    }
    if op == ReduceOp::Avg {
        drop(output.f_div_scalar_(ranks)?);
    }
    Ok(())
}
