//! Thinning: far fewer points with the same look. Keeps minima, maxima, marks (NaN and infinities) and both ends.
//! Knows nothing of SQL.

use super::point::Point;

/// The fewest points that thinning can be asked for.
pub const FEWEST_POINTS: usize = 16;

/// Returns at most `max_points` of the points (at least [`FEWEST_POINTS`]), in order.
///
/// The points are cut into buckets; each gives its smallest and its greatest finite value and the first of each kind of
/// value that is no finite number. The first and the last point always stay. Thinning what was thinned before loses none
/// of these.
pub(crate) fn thin(points: &[Point], max_points: usize) -> Vec<Point> {
    let max_points = max_points.max(FEWEST_POINTS);
    if points.len() <= max_points {
        return points.to_vec();
    }
    let has_marks = points.iter().any(|point| !point.value.is_finite());
    let per_bucket = if has_marks { 5 } else { 2 };
    let num_buckets = ((max_points - 2) / per_bucket).max(1);
    let mut kept = Vec::with_capacity(max_points);
    let last = points.len() - 1;
    for bucket in 0..num_buckets {
        let start = bucket * points.len() / num_buckets;
        let end = (bucket + 1) * points.len() / num_buckets;
        let mut chosen = choose(&points[start..end]).map(|index| index.map(|index| start + index));
        chosen.sort_unstable();
        let is_first = bucket == 0;
        let is_last = bucket + 1 == num_buckets;
        if is_first && !chosen.contains(&Some(0)) {
            kept.push(points[0]);
        }
        let mut previous = None;
        for index in chosen.into_iter().flatten() {
            if previous != Some(index) {
                kept.push(points[index]);
            }
            previous = Some(index);
        }
        if is_last && previous != Some(last) {
            kept.push(points[last]);
        }
    }
    kept
}

/// Returns the fewest points that show all of `points`: both ends, the extremes and the marks; at most seven.
pub(crate) fn summarize(points: &[Point]) -> Vec<Point> {
    let last = points.len().checked_sub(1);
    let mut chosen: Vec<usize> = choose(points)
        .into_iter()
        .flatten()
        .chain(last.map(|_| 0))
        .chain(last)
        .collect();
    chosen.sort_unstable();
    chosen.dedup();
    chosen.into_iter().map(|index| points[index]).collect()
}

/// Returns where the minimum, the maximum and the first NaN, infinity and negative infinity are.
fn choose(points: &[Point]) -> [Option<usize>; 5] {
    let mut min: Option<usize> = None;
    let mut max: Option<usize> = None;
    let mut marks = [None; 3];
    for (index, point) in points.iter().enumerate() {
        let value = point.value;
        if value.is_finite() {
            if min.is_none_or(|min| value < points[min].value) {
                min = Some(index);
            }
            if max.is_none_or(|max| value > points[max].value) {
                max = Some(index);
            }
        } else {
            let mark = if value.is_nan() {
                0
            } else {
                1 + usize::from(value < 0.0)
            };
            marks[mark].get_or_insert(index);
        }
    }
    [min, max, marks[0], marks[1], marks[2]]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_value() -> impl Strategy<Value = f64> {
        prop_oneof![20 => -1e6..1e6, 1 => Just(f64::NAN), 1 => Just(f64::INFINITY), 1 => Just(f64::NEG_INFINITY)]
    }

    fn finite(points: &[Point]) -> impl Iterator<Item = f64> {
        points
            .iter()
            .map(|point| point.value)
            .filter(|value| value.is_finite())
    }

    pub(crate) fn extremes(points: &[Point]) -> (f64, f64, bool, bool, bool) {
        let has = |test: fn(f64) -> bool| points.iter().any(|point| test(point.value));
        (
            finite(points).fold(f64::INFINITY, f64::min),
            finite(points).fold(f64::NEG_INFINITY, f64::max),
            has(f64::is_nan),
            has(|value| value == f64::INFINITY),
            has(|value| value == f64::NEG_INFINITY),
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn thinning_twice_keeps_extremes_marks_and_ends(
            values in proptest::collection::vec(any_value(), 1..3000),
            first in 16_usize..600,
            second in 16_usize..200,
        ) {
            let points: Vec<Point> = (1..)
                .zip(&values)
                .map(|(step, value)| Point { id: step, step, value: *value, ..Point::default() })
                .collect();
            let once = thin(&points, first);
            let twice = thin(&once, second);
            for (thinned, limit) in [(&once, first), (&twice, second)] {
                prop_assert!(thinned.len() <= limit);
                prop_assert!(thinned.is_sorted_by_key(|point| point.id));
                prop_assert!(thinned.windows(2).all(|pair| pair[0].id != pair[1].id));
                prop_assert_eq!(thinned[0].id, points[0].id);
                prop_assert_eq!(thinned[thinned.len() - 1].id, points[points.len() - 1].id);
                prop_assert_eq!(extremes(thinned), extremes(&points));
            }
        }
    }
}
