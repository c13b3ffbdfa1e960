//! The panels of curves.

use board_store::RunSeries;

use super::view::RunView;
use crate::i18n::Tr;
use crate::view::curve::{CurveSvg, Series};
use crate::view::figure::figure;

/// What a panel draws, in order: id, label, names of its series, unit, whether its line is smoothed.
const PANELS: [(&str, &str, &[&str], &str, bool); 4] = [
    ("loss", "metric.loss", &["loss", "eval_loss"], "", true),
    (
        "learning_rate",
        "metric.learning_rate",
        &["learning_rate"],
        "",
        false,
    ),
    ("grad_norm", "metric.grad_norm", &["grad_norm"], "", true),
    (
        "speed",
        "metric.speed",
        &["train_tokens_per_second"],
        "unit.tokens_per_second",
        true,
    ),
];

/// Metrics that no panel draws by itself: they say where the others stand.
const NOT_DRAWN: [&str; 5] = [
    "epoch",
    "num_input_tokens_seen",
    "eval_runtime",
    "eval_samples_per_second",
    "eval_steps_per_second",
];

/// A panel with its first picture.
#[derive(Debug)]
pub(super) struct Panel {
    pub id: String,
    pub label: String,
    pub series: Vec<Series>,
    pub svg: Option<CurveSvg>,
    pub nothing: String,
    pub unit: String,
    pub best: String,
    pub reference: Option<f64>,
    pub is_smoothed: bool,
    pub spoken: String,
}

impl Panel {
    pub(super) fn names(&self) -> String {
        self.series
            .iter()
            .map(|series| series.name.as_str())
            .collect::<Vec<_>>()
            .join(",")
    }

    pub(super) fn first_name(&self) -> &str {
        self.series
            .first()
            .map_or("", |series| series.name.as_str())
    }

    pub(super) fn num_points(&self) -> usize {
        self.series.first().map_or(0, |series| series.points.len())
    }
}

/// Says what the picture shows.
fn spoken(t: Tr, series: &[Series]) -> Option<String> {
    let first = series.first()?;
    let finite = || {
        first
            .points
            .iter()
            .map(|point| point.1)
            .filter(|value| value.is_finite())
    };
    let (least, most) = (
        finite().min_by(f64::total_cmp)?,
        finite().max_by(f64::total_cmp)?,
    );
    let range = format!("{} – {}", figure(least), figure(most));
    Some(t.f3("chart.spoken", &first.name, figure(first.last()?), range))
}

/// Returns the stored series with the colours of their panels.
pub(super) fn series_of(stored: &RunSeries) -> Vec<Series> {
    let place = |name: &str| {
        PANELS.iter().find_map(|panel| {
            panel
                .2
                .iter()
                .position(|known| *known == name)
                .map(|index| (index, panel.4))
        })
    };
    let series = stored.series.iter().map(|series| {
        let (index, is_smoothed) = place(&series.name).unwrap_or((0, true));
        Series {
            name: series.name.clone(),
            colour: u8::try_from(index + 1).unwrap_or(1),
            points: series
                .points
                .iter()
                .map(|point| (point.step.max(0).cast_unsigned(), point.value))
                .collect(),
            is_smoothed: is_smoothed && index == 0,
        }
    });
    series.collect()
}

/// Returns the panels of a run: the known ones first, then whatever else it measures.
/// The memory of the ranks stands among them where anything is known of it.
pub(super) fn panels(t: Tr, run: &RunView, memory: Vec<Series>) -> Vec<Panel> {
    let mut panels: Vec<Panel> = PANELS
        .iter()
        .map(|(id, label, names, unit, is_smoothed)| {
            let series: Vec<_> = names
                .iter()
                .filter_map(|name| {
                    run.series
                        .iter()
                        .find(|series| series.name == *name)
                        .cloned()
                })
                .collect();
            let series = if series.is_empty() {
                vec![empty_series(names[0])]
            } else {
                series
            };
            let unit = if unit.is_empty() {
                String::new()
            } else {
                t.s(unit)
            };
            panel(
                t,
                run,
                (*id).to_owned(),
                t.s(label),
                series,
                unit,
                *is_smoothed,
            )
        })
        .collect();
    if !memory.is_empty() || !run.state.is_final() {
        let memory = if memory.is_empty() {
            vec![empty_series(&t.f1("log.rank", 0))]
        } else {
            memory
        };
        let unit = t.s("unit.gib");
        let label = t.s("metric.memory");
        panels.push(panel(t, run, "memory".into(), label, memory, unit, false));
    }
    let others = run.series.iter().filter(|series| {
        !NOT_DRAWN.contains(&series.name.as_str())
            && PANELS
                .iter()
                .all(|panel| !panel.2.contains(&series.name.as_str()))
    });
    for series in others {
        let label = t
            .find(format!("metric.{}", series.name))
            .map_or_else(|| series.name.clone(), str::to_owned);
        panels.push(panel(
            t,
            run,
            format!("more-{}", series.name),
            label,
            vec![series.clone()],
            String::new(),
            true,
        ));
    }
    panels
}

fn empty_series(name: &str) -> Series {
    Series {
        name: name.to_owned(),
        colour: 1,
        points: Vec::new(),
        is_smoothed: false,
    }
}

fn panel(
    t: Tr,
    run: &RunView,
    id: String,
    label: String,
    series: Vec<Series>,
    unit: String,
    is_smoothed: bool,
) -> Panel {
    let steps = run.step_range();
    let best = series
        .iter()
        .find(|series| series.name == "eval_loss")
        .and_then(|series| {
            let best = series
                .points
                .iter()
                .filter(|point| point.1.is_finite())
                .min_by(|a, b| a.1.total_cmp(&b.1))?;
            Some(t.f2("chart.best", figure(best.1), t.count(best.0)))
        });
    let no_eval = (id == "loss" && !series.iter().any(|series| series.name == "eval_loss"))
        .then(|| {
            run.config
                .as_ref()
                .filter(|config| config.data.val_size == 0.0 && config.data.eval_dataset.is_empty())
        })
        .flatten()
        .map(|_| t.s("chart.no_eval"));
    let reference = (id == "grad_norm")
        .then(|| {
            run.config
                .as_ref()
                .map(|config| config.training.max_grad_norm)
        })
        .flatten();
    let nothing = t.f1(
        "chart.nothing",
        series.first().map_or("", |series| series.name.as_str()),
    );
    Panel {
        spoken: spoken(t, &series).unwrap_or_else(|| nothing.clone()),
        svg: CurveSvg::new(&series, steps),
        nothing,
        best: best.or(no_eval).unwrap_or_default(),
        reference: reference.filter(|line| *line > 0.0),
        id,
        label,
        series,
        unit,
        is_smoothed,
    }
}
