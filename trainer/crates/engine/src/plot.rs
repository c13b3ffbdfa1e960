//! Draws a curve as an SVG file, with LLaMA-Factory's smoothing.
//!
//! The board draws its own live curves; this file is what a run of the command
//! line leaves behind.

use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 48.0;

/// Returns the smoothed curve: a moving average whose weight grows with the number of points.
pub(crate) fn smooth(values: &[f64]) -> Vec<f64> {
    let Some(&first) = values.first() else {
        return Vec::new();
    };
    let weight = smoothing_weight(values.len());
    let mut last = first;
    values
        .iter()
        .map(|value| {
            last = last * weight + (1.0 - weight) * value;
            last
        })
        .collect()
}

/// Returns the share of the past in the moving average of `num_points` points.
pub(crate) fn smoothing_weight(num_points: usize) -> f64 {
    1.8 * (1.0 / (1.0 + (-0.05 * num_points as f64).exp()) - 0.5)
}

/// Draws one curve over the steps; points that are not finite leave a gap.
pub(crate) fn curve_svg(title: &str, name: &str, points: &[(u64, f64)]) -> String {
    let finite: Vec<(u64, f64)> = points
        .iter()
        .copied()
        .filter(|(_, y)| y.is_finite())
        .collect();
    let mut svg = String::new();
    // Writing to a String cannot fail.
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"{}\" y=\"24\" \
         text-anchor=\"middle\" font-size=\"14\">{}</text>\n",
        WIDTH / 2.0,
        escape(title)
    );
    if let (Some(x_range), Some(y_range)) = (
        range(finite.iter().map(|p| p.0 as f64)),
        range(finite.iter().map(|p| p.1)),
    ) {
        let at = |x: f64, y: f64| {
            (
                LEFT + (x - x_range.0) / (x_range.1 - x_range.0) * (WIDTH - LEFT - RIGHT),
                HEIGHT
                    - BOTTOM
                    - (y - y_range.0) / (y_range.1 - y_range.0) * (HEIGHT - TOP - BOTTOM),
            )
        };
        for i in 0..=4 {
            let share = f64::from(i) / 4.0;
            let x = x_range.0 + share * (x_range.1 - x_range.0);
            let y = y_range.0 + share * (y_range.1 - y_range.0);
            let (px, py) = at(x, y);
            let _ = write!(
                svg,
                "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{py:.1}\" y2=\"{py:.1}\" stroke=\"#ddd\"/>\n<text x=\"{}\" \
                 y=\"{:.1}\" text-anchor=\"end\">{y:.4}</text>\n<text x=\"{px:.1}\" y=\"{}\" \
                 text-anchor=\"middle\">{x:.0}</text>\n",
                WIDTH - RIGHT,
                LEFT - 6.0,
                py + 4.0,
                HEIGHT - BOTTOM + 18.0
            );
        }
        let smoothed = smooth(&finite.iter().map(|p| p.1).collect::<Vec<_>>());
        let raw = path(finite.iter().map(|p| at(p.0 as f64, p.1)));
        let soft = path(
            finite
                .iter()
                .zip(&smoothed)
                .map(|(p, y)| at(p.0 as f64, *y)),
        );
        let _ = write!(
            svg,
            "<path d=\"{raw}\" fill=\"none\" stroke=\"#1f77b4\" stroke-opacity=\"0.4\"/>\n<path d=\"{soft}\" \
             fill=\"none\" stroke=\"#1f77b4\" stroke-width=\"2\"/>\n<text x=\"{}\" y=\"{}\" \
             text-anchor=\"middle\">step</text>\n<text x=\"14\" y=\"{TOP}\">{}</text>\n",
            WIDTH / 2.0,
            HEIGHT - 10.0,
            escape(name)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Returns smallest and largest value, widened where they are equal.
fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
        (low.min(v), high.max(v))
    });
    if low > high {
        None
    } else if high - low < 1e-12 {
        Some((low - 0.5, high + 0.5))
    } else {
        Some((low, high))
    }
}

fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (i, (x, y)) in points.enumerate() {
        let _ = write!(path, "{}{x:.1} {y:.1}", if i == 0 { "M" } else { "L" });
    }
    path
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smoothing_has_the_reference_values() {
        for (n, expected) in [
            (1, 0.022_495),
            (4, 0.089_701),
            (10, 0.220_427),
            (50, 0.763_455),
            (100, 0.887_953),
            (1000, 0.9),
        ] {
            assert!((smoothing_weight(n) - expected).abs() < 1e-6, "{n}");
        }
        let smoothed = smooth(&[4.0, 3.0, 2.0, 1.0]);
        for (value, expected) in smoothed
            .iter()
            .zip([4.0, 3.089_701_2, 2.097_747_5, 1.098_469_3])
        {
            assert!((value - expected).abs() < 1e-6);
        }
    }

    #[test]
    fn a_curve_without_a_finite_point_is_an_empty_frame() {
        let svg = curve_svg("loss <1>", "loss", &[(1, f64::NAN)]);
        assert!(svg.contains("loss &lt;1&gt;") && !svg.contains("<path"));
        let svg = curve_svg("t", "loss", &[(1, 2.0), (2, 2.0), (3, f64::INFINITY)]);
        assert!(svg.contains("<path") && !svg.contains("NaN") && !svg.contains("inf"));
    }
}
