//! What the stored events of a run say beside its curves: phases, memory, alerts.

use std::collections::BTreeMap;

use askama::Template;
use askama::filters::HtmlSafe;
use board_store::{MemoryPoint, Run, StageTime};
use run_protocol::RunId;
use run_protocol::events::{Alert, Level, System};

use crate::error::Error;
use crate::i18n::Tr;
use crate::state::AppState;
use crate::view::curve::Series;
use crate::view::figure::duration;

/// Alerts that are read.
const MOST_ALERTS: usize = 50;
/// Readings that are read for the peak: one a rank is enough, since a peak only grows.
const MOST_READINGS: usize = 64;
/// Points of a rank's memory curve.
const MEMORY_POINTS: usize = 200;

const GIB: f64 = (1_u64 << 30) as f64;

/// What the events of one run say.
pub(super) struct Facts {
    pub stages: Vec<StageTime>,
    /// The most that one rank had in use.
    pub peak_bytes: Option<u64>,
    /// Newest first.
    pub alerts: Vec<Alert>,
}

impl Facts {
    pub(super) async fn load(state: &AppState, run: RunId) -> Result<Self, Error> {
        let stages = state.store.stage_times(run).await?;
        let alerts = state.store.newest_events(run, "alert", MOST_ALERTS).await?;
        let readings = state
            .store
            .newest_events(run, "system", MOST_READINGS)
            .await?;
        let peaks = readings
            .iter()
            .filter_map(|event| serde_json::from_str::<System>(&event.body).ok())
            .filter_map(|reading| Some(reading.values.get("peak_rss_bytes")?.get()))
            .filter(|bytes| bytes.is_finite() && *bytes > 0.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "finite and positive"
        )]
        let peak_bytes = peaks.max_by(f64::total_cmp).map(|bytes| bytes as u64);
        Ok(Self {
            stages,
            peak_bytes,
            alerts: alerts
                .iter()
                .filter_map(|event| serde_json::from_str(&event.body).ok())
                .collect(),
        })
    }

    /// Returns how long the run has worked until `end`, without the pauses between its attempts.
    pub(super) fn elapsed(&self, run: &Run, end: i64) -> Option<String> {
        let ms = if run.attempt > 1 {
            self.stages
                .iter()
                .map(|stage| stage.time_ms + stage.since_ms.map_or(0, |since| (end - since).max(0)))
                .sum()
        } else {
            end - run.started_ms?
        };
        Some(duration(ms))
    }
}

/// Something a person should see.
#[derive(Debug, Template)]
#[template(
    ext = "html",
    source = r#"<li class="note {{ class }}">{{ crate::view::icon(self.icon()) }}<span>{{ crate::view::prose(text) }}{% if let Some(step) = step %} <span class="second">{{ step }}</span>{% endif %}</span></li>"#
)]
pub(super) struct AlertView {
    class: &'static str,
    text: String,
    /// At which step, in words.
    step: Option<String>,
}

impl HtmlSafe for AlertView {}

impl AlertView {
    fn icon(&self) -> &'static str {
        if self.class == "bad" { "error" } else { "warn" }
    }
}

/// Returns the alerts of a run, newest first.
pub(super) fn alerts(t: Tr, run: &Run, facts: &Facts) -> Vec<AlertView> {
    let mut alerts = Vec::new();
    let is_nan = run.last_loss.is_some_and(|loss| !loss.is_finite());
    let is_said = facts
        .alerts
        .first()
        .is_some_and(|alert| alert.code == "non_finite_loss" && alert.step == Some(run.steps_done));
    if is_nan && !is_said {
        alerts.push(AlertView {
            class: "bad",
            text: t.s("alert.nan_now"),
            step: None,
        });
    }
    alerts.extend(facts.alerts.iter().map(|alert| AlertView {
        class: if alert.level == Level::Error {
            "bad"
        } else {
            "warn"
        },
        text: alert.hint.as_ref().map_or_else(
            || t.said(&alert.message),
            |hint| t.f2("alert.with_hint", t.said(&alert.message), t.said(hint)),
        ),
        step: alert.step.map(|step| t.f1("run.at_step", t.count(step))),
    }));
    alerts
}

/// Returns the memory of each rank in GiB over the steps, thinned for a curve.
pub(super) async fn memory(state: &AppState, t: Tr, run: RunId) -> Result<Vec<Series>, Error> {
    let points = state.store.memory(run, MEMORY_POINTS).await?;
    let mut ranks: BTreeMap<u32, Vec<(u64, f64)>> = BTreeMap::new();
    for MemoryPoint {
        rank,
        step,
        rss_bytes,
    } in points
    {
        ranks.entry(rank).or_default().push((step, rss_bytes / GIB));
    }
    let series = ranks.into_iter().take(8).enumerate();
    let series = series.map(|(index, (rank, points))| Series {
        name: t.f1("log.rank", rank),
        colour: u8::try_from(index + 1).unwrap_or(1),
        points,
        is_smoothed: false,
    });
    Ok(series.collect())
}

/// Returns the curves as the page's script reads them: `[[name, [steps], [values]], …]`.
pub(super) fn memory_json(series: &[Series]) -> String {
    let series: Vec<_> = series
        .iter()
        .map(|series| {
            let (steps, values): (Vec<_>, Vec<_>) = series.points.iter().copied().unzip();
            serde_json::json!([series.name, steps, values])
        })
        .collect();
    serde_json::Value::from(series).to_string()
}
