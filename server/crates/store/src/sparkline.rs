//! The small curve in a list: at most 64 means of the loss, kept up at ingest. Knows nothing of SQL.

/// Most values of a sparkline; at this many, neighbours are joined.
const MOST_BINS: usize = 64;

/// The small curve of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sparkline {
    /// Points that one bin stands for.
    stride: u32,
    /// Points in the bin that is still filling, and their sum.
    num_pending: u32,
    pending: f64,
    bins: Vec<f32>,
}

impl Default for Sparkline {
    fn default() -> Self {
        Self {
            stride: 1,
            num_pending: 0,
            pending: 0.0,
            bins: Vec::new(),
        }
    }
}

impl Sparkline {
    /// Adds a value; one that is no finite number is left out.
    pub(crate) fn push(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        self.pending += value;
        self.num_pending += 1;
        if self.num_pending < self.stride {
            return;
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a small curve needs no more than f32"
        )]
        self.bins
            .push((self.pending / f64::from(self.num_pending)) as f32);
        self.pending = 0.0;
        self.num_pending = 0;
        if self.bins.len() == MOST_BINS {
            let joined = self
                .bins
                .chunks(2)
                .map(|pair| pair.iter().sum::<f32>() / pair.len() as f32);
            self.bins = joined.collect();
            self.stride = self.stride.saturating_mul(2);
        }
    }

    /// Returns the values to draw.
    pub(crate) fn into_values(self) -> Vec<f32> {
        self.bins
    }

    /// Returns it as a BLOB.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16 + 4 * self.bins.len());
        bytes.extend_from_slice(&self.stride.to_le_bytes());
        bytes.extend_from_slice(&self.num_pending.to_le_bytes());
        bytes.extend_from_slice(&self.pending.to_le_bytes());
        for bin in &self.bins {
            bytes.extend_from_slice(&bin.to_le_bytes());
        }
        bytes
    }

    /// Reads a BLOB; one that is damaged begins a new curve, since nothing depends on it.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let read = || {
            let (stride, bytes) = bytes.split_first_chunk::<4>()?;
            let (num_pending, bytes) = bytes.split_first_chunk::<4>()?;
            let (pending, bytes) = bytes.split_first_chunk::<8>()?;
            let bins = bytes.as_chunks::<4>().0.iter().take(MOST_BINS - 1);
            Some(Self {
                stride: u32::from_le_bytes(*stride).max(1),
                num_pending: u32::from_le_bytes(*num_pending),
                pending: f64::from_le_bytes(*pending),
                bins: bins.map(|bin| f32::from_le_bytes(*bin)).collect(),
            })
        };
        read().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_curve_stays_short_and_keeps_its_shape() {
        let mut sparkline = Sparkline::default();
        for step in 0..10_000 {
            sparkline.push(f64::from(step));
            sparkline.push(f64::NAN);
            sparkline = Sparkline::from_bytes(&sparkline.to_bytes());
        }
        let values = sparkline.into_values();
        assert!(
            (MOST_BINS / 2 - 1..MOST_BINS).contains(&values.len()),
            "{}",
            values.len()
        );
        assert!(values.is_sorted());
        assert!(values[0] < 400.0);
    }
}
