//! Curves as SVG made on the server: the small one of a list, and the first picture of a panel,
//! which a script replaces by a canvas of the same box.

use std::fmt::Write as _;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::view::figure::figure;

/// The small curve of a list.
#[derive(Debug, Template)]
#[template(
    ext = "html",
    source = r#"<svg class="spark" viewBox="0 0 96 24" aria-hidden="true"><polyline points="{{ points }}"/><circle cx="{{ x }}" cy="{{ y }}" r="2"/></svg>"#
)]
pub struct Spark {
    points: String,
    x: String,
    y: String,
}

impl HtmlSafe for Spark {}

impl Spark {
    /// Draws values in their order; fewer than two draw nothing.
    pub fn new(values: &[f32]) -> Option<Self> {
        let finite: Vec<f64> = values
            .iter()
            .map(|value| f64::from(*value))
            .filter(|value| value.is_finite())
            .collect();
        if finite.len() < 2 {
            return None;
        }
        let frame = Frame::around(finite.iter().copied(), 2.0, 92.0, 21.0, 2.5);
        let last = finite.len() - 1;
        let place = |index: usize| frame.place(index as f64 / last as f64, finite[index]);
        let mut points = String::new();
        for index in 0..=last {
            let (x, y) = place(index);
            let _ = write!(points, "{x:.1},{y:.1} ");
        }
        let (x, y) = place(last);
        Some(Self {
            points: points.trim_end().to_owned(),
            x: format!("{x:.1}"),
            y: format!("{y:.1}"),
        })
    }
}

/// Maps values into a box.
#[derive(Debug, Clone, Copy)]
struct Frame {
    low: f64,
    high: f64,
    left: f64,
    right: f64,
    bottom: f64,
    top: f64,
}

impl Frame {
    fn around(
        values: impl Iterator<Item = f64>,
        left: f64,
        right: f64,
        bottom: f64,
        top: f64,
    ) -> Self {
        let (low, high) = values
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        let (low, high) = if low > high { (0.0, 1.0) } else { (low, high) };
        Self {
            low,
            high,
            left,
            right,
            bottom,
            top,
        }
    }

    /// Returns the place of a value at a share of the width.
    fn place(&self, share: f64, value: f64) -> (f64, f64) {
        let span = self.high - self.low;
        let height = if span > 0.0 {
            (value - self.low) / span
        } else {
            0.5
        };
        (
            self.left + share * (self.right - self.left),
            self.bottom - height * (self.bottom - self.top),
        )
    }
}

/// Returns LLaMA-Factory's smoothed curve: an average seeded with the first value whose weight grows with the
/// number of points. A value that is no finite number is passed through and leaves the average alone.
pub fn smooth_like_llamafactory(values: &[f64]) -> Vec<f64> {
    let weight = 1.8 * (1.0 / (1.0 + (-0.05 * values.len() as f64).exp()) - 0.5);
    let mut last = None;
    values
        .iter()
        .map(|&value| {
            if !value.is_finite() {
                return value;
            }
            let next = last.map_or(value, |last: f64| last * weight + (1.0 - weight) * value);
            last = Some(next);
            next
        })
        .collect()
}

/// One series of a panel.
#[derive(Debug, Clone)]
pub struct Series {
    /// The metric's name.
    pub name: String,
    /// Number of its colour, from 1.
    pub colour: u8,
    /// Steps and values in order.
    pub points: Vec<(u64, f64)>,
    /// Whether the smoothed line stands before the raw one.
    pub is_smoothed: bool,
}

impl Series {
    /// Returns the newest value.
    pub fn last(&self) -> Option<f64> {
        self.points.last().map(|point| point.1)
    }

    /// Writes the newest value.
    pub fn last_figure(&self) -> String {
        self.last().map_or_else(|| "–".to_owned(), figure)
    }
}

/// The first picture of a panel.
#[derive(Debug, Template)]
#[template(path = "macros/curve.html")]
pub struct CurveSvg {
    lines: Vec<Drawn>,
    high: String,
    low: String,
    first: u64,
    last: u64,
}

impl HtmlSafe for CurveSvg {}

#[derive(Debug)]
struct Drawn {
    colour: u8,
    raw: String,
    smooth: Option<String>,
    dots: Vec<(String, String)>,
}

/// Most points of one drawn line.
const MOST_POINTS: usize = 200;
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 200.0;

impl CurveSvg {
    /// Draws the series over one range of steps; none with a finite value draws nothing.
    pub fn new(series: &[Series], steps: (u64, u64)) -> Option<Self> {
        let values = || {
            series
                .iter()
                .flat_map(|series| series.points.iter().map(|point| point.1))
        };
        if !values().any(f64::is_finite) {
            return None;
        }
        let frame = Frame::around(values(), 0.0, WIDTH, HEIGHT - 4.0, 4.0);
        let span = (steps.1 - steps.0).max(1) as f64;
        let place = |(step, value): (u64, f64)| {
            frame.place((step.saturating_sub(steps.0)) as f64 / span, value)
        };
        let lines = series.iter().map(|series| draw(series, place)).collect();
        Some(Self {
            lines,
            high: figure(frame.high),
            low: figure(frame.low),
            first: steps.0,
            last: steps.1,
        })
    }
}

fn draw(series: &Series, place: impl Fn((u64, f64)) -> (f64, f64)) -> Drawn {
    let values: Vec<f64> = series.points.iter().map(|point| point.1).collect();
    let smooth = series
        .is_smoothed
        .then(|| smooth_like_llamafactory(&values));
    let stride = series.points.len().div_ceil(MOST_POINTS).max(1);
    let kept = |index: &usize| index.is_multiple_of(stride) || index + 1 == values.len();
    let path = |values: &[f64]| {
        let mut path = String::new();
        let mut is_down = false;
        for index in (0..values.len()).filter(kept) {
            if !values[index].is_finite() {
                is_down = false;
                continue;
            }
            let (x, y) = place((series.points[index].0, values[index]));
            let _ = write!(path, "{}{x:.1} {y:.1}", if is_down { 'L' } else { 'M' });
            is_down = true;
        }
        path
    };
    let finite: Vec<_> = series
        .points
        .iter()
        .filter(|point| point.1.is_finite())
        .collect();
    let dots = if finite.len() == 1 || !series.is_smoothed && finite.len() <= 12 {
        finite
    } else {
        Vec::new()
    };
    let dots = dots
        .into_iter()
        .map(|point| place(*point))
        .map(|(x, y)| (format!("{x:.1}"), format!("{y:.1}")))
        .collect();
    Drawn {
        colour: series.colour,
        raw: path(&values),
        smooth: smooth.map(|smooth| path(&smooth)),
        dots,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smoothing_is_llamafactorys() {
        let smooth = smooth_like_llamafactory(&[4.0, 3.0, 2.0, 1.0]);
        for (found, wanted) in smooth
            .iter()
            .zip([4.0, 3.089_701_2, 2.097_747_5, 1.098_469_3])
        {
            assert!((found - wanted).abs() < 1e-6, "{smooth:?}");
        }
    }

    #[test]
    fn a_line_breaks_at_nan_and_ignores_it_for_the_range() {
        let points = vec![(0, 1.0), (1, 2.0), (2, f64::NAN), (3, 3.0), (4, 2.0)];
        let series = [Series {
            name: "loss".into(),
            colour: 1,
            points,
            is_smoothed: false,
        }];
        let curve = CurveSvg::new(&series, (0, 4)).unwrap();
        assert_eq!(curve.lines[0].raw.matches('M').count(), 2);
        assert_eq!(
            (curve.low.as_str(), curve.high.as_str()),
            ("1.000", "3.000")
        );
    }

    #[test]
    fn a_sparkline_needs_two_values() {
        assert!(Spark::new(&[1.0]).is_none());
        assert!(Spark::new(&[1.0, f32::NAN, 0.5]).is_some());
    }
}
