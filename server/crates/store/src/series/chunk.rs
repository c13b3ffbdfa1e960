//! How the points of a series lie in a BLOB: column after column, ids, steps and times as differences, values bit for bit.
//! Knows nothing of SQL.

use super::point::Point;

/// The first byte of every chunk.
const VERSION: u8 = 1;

/// Why a BLOB is not a chunk.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ChunkError {
    /// It was written by a version this one does not know.
    #[error("chunk format `{0}` is unknown, expected `{VERSION}`")]
    Version(u8),
    /// It ends before its last column does, or goes on after it.
    #[error("chunk of {0} bytes has not the length its header tells")]
    Length(usize),
}

/// Returns the points as a BLOB.
pub(crate) fn encode(points: &[Point]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + points.len() * 20);
    bytes.push(VERSION);
    put_varint(&mut bytes, points.len() as u64);
    put_column(&mut bytes, points.iter().map(|point| point.id));
    put_column(&mut bytes, points.iter().map(|point| point.step));
    put_column(&mut bytes, points.iter().map(|point| point.time_ms));
    for point in points {
        bytes.extend_from_slice(&point.epoch.unwrap_or(f64::NAN).to_le_bytes());
    }
    for point in points {
        bytes.extend_from_slice(&point.value.to_le_bytes());
    }
    bytes
}

/// Appends the points of a BLOB to `points`.
pub(crate) fn decode_into(blob: &[u8], points: &mut Vec<Point>) -> Result<(), ChunkError> {
    let length = || ChunkError::Length(blob.len());
    let mut reader = Reader { bytes: blob };
    let version = reader.byte().ok_or_else(length)?;
    if version != VERSION {
        return Err(ChunkError::Version(version));
    }
    let num_points = reader.varint().ok_or_else(length)?;
    // Every point takes at least 19 bytes, so a lying count cannot make us reserve much.
    let num_points = usize::try_from(num_points).map_err(|_| length())?;
    if num_points > blob.len() / 19 {
        return Err(length());
    }
    let start = points.len();
    let mut last = 0_i64;
    for _ in 0..num_points {
        last = last.wrapping_add(reader.signed().ok_or_else(length)?);
        points.push(Point {
            id: last,
            ..Point::default()
        });
    }
    let fresh = &mut points[start..];
    let mut last = 0_i64;
    for point in fresh.iter_mut() {
        last = last.wrapping_add(reader.signed().ok_or_else(length)?);
        point.step = last;
    }
    let mut last = 0_i64;
    for point in fresh.iter_mut() {
        last = last.wrapping_add(reader.signed().ok_or_else(length)?);
        point.time_ms = last;
    }
    for point in fresh.iter_mut() {
        let epoch = reader.double().ok_or_else(length)?;
        point.epoch = (!epoch.is_nan()).then_some(epoch);
    }
    for point in fresh.iter_mut() {
        point.value = reader.double().ok_or_else(length)?;
    }
    if reader.bytes.is_empty() {
        Ok(())
    } else {
        Err(length())
    }
}

fn put_column(bytes: &mut Vec<u8>, column: impl Iterator<Item = i64>) {
    let mut last = 0_i64;
    for value in column {
        let difference = value.wrapping_sub(last);
        // Zigzag: small differences of either sign become small numbers.
        put_varint(
            bytes,
            ((difference << 1) ^ (difference >> 63)).cast_unsigned(),
        );
        last = value;
    }
}

fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push((value & 0x7f) as u8);
}

struct Reader<'blob> {
    bytes: &'blob [u8],
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    fn double(&mut self) -> Option<f64> {
        let (first, rest) = self.bytes.split_first_chunk::<8>()?;
        self.bytes = rest;
        Some(f64::from_le_bytes(*first))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_point() -> impl Strategy<Value = Point> {
        (
            any::<i64>(),
            any::<i64>(),
            any::<i64>(),
            proptest::option::of(-1e9..1e9),
            any::<u64>(),
        )
            .prop_map(|(id, step, time_ms, epoch, bits)| Point {
                id,
                step,
                time_ms,
                epoch,
                value: f64::from_bits(bits),
            })
    }

    proptest! {
        #[test]
        fn points_come_back_bit_for_bit(points in proptest::collection::vec(any_point(), 0..50)) {
            let mut read = Vec::new();
            decode_into(&encode(&points), &mut read).unwrap();
            prop_assert_eq!(read.len(), points.len());
            for (a, b) in read.iter().zip(&points) {
                prop_assert_eq!((a.id, a.step, a.time_ms, a.epoch), (b.id, b.step, b.time_ms, b.epoch));
                prop_assert_eq!(a.value.to_bits(), b.value.to_bits());
            }
        }

        #[test]
        fn any_bytes_are_points_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut read = Vec::new();
            let _ = decode_into(&bytes, &mut read);
        }
    }

    #[test]
    fn truncated_chunk_is_refused() {
        let blob = encode(
            &[Point {
                id: 1,
                step: 2,
                time_ms: 3,
                epoch: None,
                value: 4.0,
            }; 3],
        );
        let error = decode_into(&blob[..blob.len() - 1], &mut Vec::new()).unwrap_err();
        assert_eq!(error, ChunkError::Length(blob.len() - 1));
    }
}
