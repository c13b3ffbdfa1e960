//! What checked mode adds to c10d's own checks, which do not look at the parts of an all-to-all.

use tch::{Device, Kind, Tensor};

use crate::{C10dError, ProcessGroup};

/// What one rank is about to do in an all-to-all: numbers that every rank can compare.
pub(crate) struct Plan {
    to: Vec<i64>,
    from: Vec<i64>,
    /// Element type, elements a row, and what else must be the same on every rank.
    same: [i64; 3],
}

impl Plan {
    /// A plan with the rows from and to each rank.
    pub(crate) fn new(output_rows: &[i64], input_rows: &[i64], input: &Tensor) -> Self {
        let row = input.size().iter().skip(1).product();
        Self {
            to: input_rows.to_vec(),
            from: output_rows.to_vec(),
            same: [input.kind() as i64, row, 0],
        }
    }

    /// A plan in which every rank gets an equal part.
    pub(crate) fn even(ranks: usize, input: &Tensor, also: i64) -> Self {
        let part = i64::try_from(input.numel() / ranks.max(1)).unwrap_or(i64::MAX);
        Self {
            to: vec![part; ranks],
            from: vec![part; ranks],
            same: [input.kind() as i64, 1, also],
        }
    }
}

impl ProcessGroup {
    /// Compares the plans of all ranks; where they do not fit, every rank gets the same error.
    pub(crate) fn agree(&self, operation: &'static str, plan: &Plan) -> Result<(), C10dError> {
        let own: Vec<i64> = [&plan.to[..], &plan.from, &plan.same].concat();
        let own = Tensor::from_slice(&own);
        let ranks = self.size();
        let each = own.numel();
        let count = i64::try_from(ranks * each).unwrap_or(i64::MAX);
        let all = Tensor::zeros([count], (Kind::Int64, Device::Cpu));
        self.all_gather_into(&all, &own)?.wait()?;
        let all =
            Vec::<i64>::try_from(&all).map_err(|error| C10dError::from_tch(operation, &error))?;
        let plans: Vec<&[i64]> = all.chunks(each).collect();
        match misfit(&plans, ranks) {
            Some(message) => Err(C10dError::mismatch(operation, message)),
            None => Ok(()),
        }
    }
}

/// Returns the first pair of ranks whose plans do not fit.
fn misfit(plans: &[&[i64]], ranks: usize) -> Option<String> {
    for (a, left) in plans.iter().enumerate() {
        for (b, right) in plans.iter().enumerate() {
            let names = [
                "another element type",
                "another row size",
                "another reduction",
            ];
            let same = left[2 * ranks..].iter().zip(&right[2 * ranks..]);
            if let Some(((x, y), name)) = same.zip(names).find(|((x, y), _)| x != y) {
                return Some(format!(
                    "rank {a} and rank {b} do not fit: {name} (`{x}`, `{y}`)"
                ));
            }
            let (sent, expected) = (left[b], right[ranks + a]);
            if sent != expected {
                return Some(format!(
                    "rank {a} sends `{sent}` rows to rank {b}, which expects `{expected}`"
                ));
            }
        }
    }
    None
}
