//! How far a run is, and how long it still takes.

use askama::Template;
use askama::filters::HtmlSafe;
use board_store::{Point, Run, StageTime};
use run_protocol::RunState;

use crate::i18n::Tr;
use crate::pages::runs::percent_of;
use crate::view::figure::duration;

/// A bar whose width is an attribute, since styles in place are forbidden.
#[derive(Debug, Template)]
#[template(
    ext = "html",
    source = r#"<svg class="bar {{ state }}" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" height="6"/><rect class="fill" width="{{ percent }}" height="6"/></svg>"#
)]
pub(in crate::pages) struct Bar {
    /// Gives the colour.
    pub state: RunState,
    /// Filled part.
    pub percent: u64,
}

impl HtmlSafe for Bar {}

/// One part of a run's life.
#[derive(Debug)]
pub(super) struct StageView {
    /// `done`, `current`, `failed`, `skipped` or `todo`.
    pub class: &'static str,
    pub label: &'static str,
    pub bar: Option<Bar>,
    pub note: Option<String>,
    /// How long it took so far.
    pub time: Option<String>,
}

impl StageView {
    pub(super) fn icon(&self) -> &'static str {
        match self.class {
            "done" => "check",
            "current" => "running",
            "failed" => "failed",
            "stopped" => "stopped",
            _ => "todo",
        }
    }
}

const STAGES: [(&str, &str); 6] = [
    ("loading", "stage.loading"),
    ("tokenizing", "stage.tokenizing"),
    ("training", "stage.training"),
    ("evaluating", "stage.evaluating"),
    ("saving", "stage.saving"),
    ("exporting", "stage.exporting"),
];
const TRAINING: usize = 2;

/// Returns the parts of a run's life with how each stands, as of `end`. Evaluating and saving happen within training.
/// Of a finished run only the parts that it had are left.
pub(super) fn strip(t: Tr, run: &Run, times: &[StageTime], end: i64) -> Vec<StageView> {
    let phase = run.phase.as_ref();
    let current = phase.and_then(|phase| STAGES.iter().position(|stage| stage.0 == phase.name));
    let is_training = run.steps_done > 0 || current.is_some_and(|stage| stage >= TRAINING);
    let had = |name: &str| times.iter().any(|time| time.stage == name);
    STAGES
        .iter()
        .enumerate()
        .filter(|(_, (name, _))| had(name) || times.is_empty() || run.state != RunState::Finished)
        .map(|(index, (name, label))| {
            let is_now = current == Some(index);
            let class = match run.state {
                RunState::Finished => "done",
                RunState::Queued => "todo",
                RunState::Failed | RunState::Stopped
                    if index == TRAINING && is_training && !is_whole(run) =>
                {
                    ended(run.state)
                }
                RunState::Failed | RunState::Stopped if is_now => ended(run.state),
                RunState::Failed | RunState::Stopped => {
                    if is_before(index, current, is_training) || had(name) {
                        "done"
                    } else {
                        "skipped"
                    }
                }
                _ if is_now => "current",
                _ if index == TRAINING && is_training && !is_whole(run) => "current",
                _ if is_before(index, current, is_training) => "done",
                _ => "todo",
            };
            let is_counted = matches!(class, "current" | "failed" | "stopped");
            let counted = phase
                .filter(|phase| phase.name == *name)
                .and_then(|phase| phase.done.zip(phase.total));
            let (done, total) = match index {
                TRAINING => (run.steps_done, run.steps_total.unwrap_or(0)),
                _ => counted.unwrap_or((0, 0)),
            };
            let is_measured = is_counted && total > 0;
            let percent = if index == TRAINING {
                percent_of(run)
            } else {
                (done * 100).checked_div(total).unwrap_or(0)
            };
            StageView {
                class,
                label,
                time: times.iter().find(|time| time.stage == *name).map(|time| {
                    let going = time.since_ms.map_or(0, |since| (end - since).max(0));
                    duration(time.time_ms + going)
                }),
                bar: (is_measured && index == TRAINING).then(|| Bar {
                    state: run.state,
                    percent: percent.min(100),
                }),
                note: is_measured.then(|| {
                    let (done, total) = (t.count(done), t.count(total));
                    if index == TRAINING {
                        t.f3("stage.note", percent.min(100), done, total)
                    } else {
                        format!("{done} / {total}")
                    }
                }),
            }
        })
        .collect()
}

const fn ended(state: RunState) -> &'static str {
    if matches!(state, RunState::Failed) {
        "failed"
    } else {
        "stopped"
    }
}

fn is_whole(run: &Run) -> bool {
    run.steps_total
        .is_some_and(|total| total > 0 && run.steps_done >= total)
}

fn is_before(index: usize, current: Option<usize>, is_training: bool) -> bool {
    match current {
        Some(current) if index < TRAINING => index < current || is_training,
        Some(current) if index == TRAINING => current == 5,
        Some(current) => current == 5 && index < 5,
        None => index < TRAINING && is_training,
    }
}

/// Returns about how long a run of the list still takes, from its mean step.
pub(in crate::pages) fn eta_of(run: &Run, now: i64) -> Option<String> {
    let left = run
        .steps_total?
        .checked_sub(run.steps_done)
        .filter(|left| *left > 0)?;
    let elapsed = now - run.started_ms?;
    if run.state != RunState::Running || run.steps_done < 2 || run.attempt > 1 || elapsed <= 0 {
        return None;
    }
    let ms =
        elapsed.checked_mul(i64::try_from(left).ok()?)? / i64::try_from(run.steps_done).ok()?;
    Some(duration(ms))
}

/// Returns the median time of the last steps, in milliseconds.
pub(super) fn median_gap(points: &[Point]) -> Option<i64> {
    let mut gaps: Vec<i64> = points
        .windows(2)
        .filter(|pair| pair[1].step > pair[0].step)
        .map(|pair| (pair[1].time_ms - pair[0].time_ms) / (pair[1].step - pair[0].step))
        .collect();
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).copied()
}
