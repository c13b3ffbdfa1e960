//! The headline figures: the newest values of a live run, the best and final ones of a run that is over.

use board_store::Run;
use run_protocol::RunState;

use super::facts::Facts;
use crate::i18n::Tr;
use crate::view::curve::Series;
use crate::view::figure::{bytes, figure};

/// A headline figure.
pub(super) struct FigureView {
    pub label: &'static str,
    pub key: &'static str,
    pub value: Option<String>,
    pub is_nan: bool,
    pub note: Option<String>,
}

impl FigureView {
    fn new(
        label: &'static str,
        key: &'static str,
        value: Option<f64>,
        note: Option<String>,
    ) -> Self {
        Self {
            label,
            key,
            value: value.map(figure),
            is_nan: value.is_some_and(|value| !value.is_finite()),
            note,
        }
    }
}

type Points<'a> = &'a [(u64, f64)];

fn points<'a>(series: &'a [Series], name: &str) -> Points<'a> {
    series
        .iter()
        .find(|series| series.name == name)
        .map(|series| series.points.as_slice())
        .unwrap_or_default()
}

fn last(points: Points<'_>) -> Option<f64> {
    points.last().map(|point| point.1)
}

fn least(points: Points<'_>) -> Option<(u64, f64)> {
    let finite = points.iter().filter(|point| point.1.is_finite());
    finite.min_by(|a, b| a.1.total_cmp(&b.1)).copied()
}

fn most(points: Points<'_>) -> Option<(u64, f64)> {
    let finite = points.iter().filter(|point| point.1.is_finite());
    finite.max_by(|a, b| a.1.total_cmp(&b.1)).copied()
}

/// Returns the headline figures.
pub(super) fn figures(t: Tr, run: &Run, series: &[Series], facts: &Facts) -> Vec<FigureView> {
    let is_over = run.state == RunState::Finished;
    let at = |key: &str, point: (u64, f64)| t.f2(key, figure(point.1), t.count(point.0));
    let (loss, eval_loss) = (points(series, "loss"), points(series, "eval_loss"));
    let (rate, norm) = (points(series, "learning_rate"), points(series, "grad_norm"));
    let mut figures = if is_over {
        let best = least(eval_loss);
        vec![
            FigureView::new(
                "metric.final_loss",
                "loss",
                run.last_loss,
                least(loss).map(|point| at("metric.lowest_at", point)),
            ),
            FigureView::new(
                "metric.best_eval_loss",
                "eval_loss",
                best.map(|point| point.1),
                best.zip(last(eval_loss))
                    .map(|(best, last)| t.f2("metric.at_final", t.count(best.0), figure(last))),
            ),
            FigureView::new(
                "metric.learning_rate",
                "learning_rate",
                most(rate).map(|point| point.1),
                most(rate).map(|_| t.s("metric.highest")),
            ),
            FigureView::new(
                "metric.grad_norm",
                "grad_norm",
                last(norm),
                most(norm).map(|point| at("metric.highest_at", point)),
            ),
        ]
    } else {
        vec![
            FigureView::new(
                "metric.loss",
                "loss",
                run.last_loss,
                trend(loss).map(str::to_owned),
            ),
            FigureView::new(
                "metric.eval_loss",
                "eval_loss",
                last(eval_loss),
                least(eval_loss).map(|point| at("metric.best_at", point)),
            ),
            FigureView::new("metric.learning_rate", "learning_rate", last(rate), None),
            FigureView::new("metric.grad_norm", "grad_norm", last(norm), None),
        ]
    };
    let speed = points(series, "train_tokens_per_second");
    let speed = if is_over {
        mean_speed(series)
    } else {
        last(speed)
    };
    figures.push(FigureView {
        value: speed.and_then(|speed| whole(t, speed)),
        is_nan: false,
        ..FigureView::new(
            if is_over {
                "metric.mean_speed"
            } else {
                "metric.speed"
            },
            "train_tokens_per_second",
            speed,
            Some(t.s("unit.tokens_per_second")),
        )
    });
    figures.push(FigureView {
        value: facts.peak_bytes.map(bytes),
        is_nan: false,
        ..FigureView::new(
            "metric.peak_memory",
            "",
            None,
            total_memory().map(|total| t.f1("metric.of_total", bytes(total))),
        )
    });
    figures
}

/// Says in a few words what came of a finished run: duration, steps, tokens, speed, memory.
pub(super) fn outcome(t: Tr, run: &Run, series: &[Series], facts: &Facts, end: i64) -> Vec<String> {
    if run.state != RunState::Finished {
        return Vec::new();
    }
    let tokens = last(points(series, "num_input_tokens_seen")).and_then(|tokens| whole(t, tokens));
    let speed = mean_speed(series).and_then(|speed| whole(t, speed));
    let said = [
        facts.elapsed(run, end),
        Some(t.n("preflight.steps_short", run.steps_done)),
        tokens.map(|tokens| t.f1("run.tokens", tokens)),
        speed.map(|speed| t.f1("run.mean_speed", speed)),
        facts.peak_bytes.map(|peak| t.f1("run.peak", bytes(peak))),
    ];
    said.into_iter().flatten().collect()
}

fn total_memory() -> Option<u64> {
    let mut system = sysinfo::System::new().ok()?;
    system.refresh_memory();
    Some(system.total_memory()).filter(|total| *total > 0)
}

fn mean_speed(series: &[Series]) -> Option<f64> {
    let finite: Vec<f64> = points(series, "train_tokens_per_second")
        .iter()
        .map(|point| point.1)
        .filter(|speed| speed.is_finite())
        .collect();
    (!finite.is_empty()).then(|| finite.iter().sum::<f64>() / finite.len() as f64)
}

fn whole(t: Tr, value: f64) -> Option<String> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "finite and not negative"
    )]
    (value.is_finite() && value >= 0.0).then(|| t.count(value.round() as u64))
}

/// Returns an arrow for where the loss went over its last tenth.
fn trend(points: Points<'_>) -> Option<&'static str> {
    let finite: Vec<f64> = points
        .iter()
        .map(|point| point.1)
        .filter(|value| value.is_finite())
        .collect();
    if finite.len() < 10 {
        return None;
    }
    let part = (finite.len() / 5).max(3);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (before, after) = (
        mean(&finite[finite.len() - 2 * part..finite.len() - part]),
        mean(&finite[finite.len() - part..]),
    );
    let change = (after - before) / before.abs().max(1e-12);
    Some(if change < -0.01 {
        "↓"
    } else if change > 0.01 {
        "↑"
    } else {
        "→"
    })
}
