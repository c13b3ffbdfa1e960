//! How a run stands, in the words and figures of its page.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};

use board_store::{Point, Run, RunSeries, RunTexts, SeriesQuery};
use run_protocol::events::{Alert, Level};
use run_protocol::{Event, EventKind, ExitRecord, RunConfig, RunDir, RunId, RunState};

use super::Tab;
use super::panels;
use super::progress::{StageView, median_gap, strip};
use crate::error::Error;
use crate::i18n::Tr;
use crate::pages::files::{Tail, tail_of};
use crate::pages::runs::percent_of;
use crate::run_files::LogSource;
use crate::state::AppState;
use crate::view::curve::Series;
use crate::view::figure::{duration, figure, middle_cut, now_ms};

/// Points of a curve's first picture.
const POINTS: usize = 200;
/// Steps whose times give the ETA.
const ETA_STEPS: i64 = 50;
/// Lines of the log below a failure.
const EVIDENCE_LINES: usize = 20;
/// Bytes at the end of the event file that are searched for alerts.
const ALERT_BYTES: u64 = 128 * 1024;
/// Alerts that are shown.
const MOST_ALERTS: usize = 3;
/// Silence that is never called quiet.
const SHORT_SILENCE_MS: i64 = 10_000;

/// A run as its page shows it.
pub(super) struct RunView {
    pub t: Tr,
    pub id: RunId,
    pub href: String,
    pub name: String,
    pub state: RunState,
    pub about_state: Option<String>,
    pub chips: Vec<ChipView>,
    pub strip: Vec<StageView>,
    pub eta: Option<String>,
    pub eta_about: String,
    pub quiet: Option<String>,
    pub figures: Vec<FigureView>,
    pub alerts: Vec<AlertView>,
    pub failure: Option<FailureView>,
    pub last_line: String,
    pub series: Vec<Series>,
    pub config: Option<RunConfig>,
    loss: Option<String>,
    percent: u64,
    steps_done: u64,
    steps_total: Option<u64>,
    checkpoint: Option<u64>,
    num_checkpoints: usize,
}

/// A fact beside the name.
pub(super) struct ChipView {
    pub icon: &'static str,
    pub title: String,
    pub text: String,
}

/// A headline figure.
pub(super) struct FigureView {
    pub label: &'static str,
    pub key: &'static str,
    pub value: Option<String>,
    pub is_nan: bool,
    pub note: Option<String>,
}

/// Something a person should see.
pub(super) struct AlertView {
    pub class: &'static str,
    pub text: String,
    pub step: Option<u64>,
}

impl AlertView {
    pub(super) fn icon(&self) -> &'static str {
        if self.class == "bad" { "error" } else { "warn" }
    }
}

/// Why a run failed, with its evidence.
pub(super) struct FailureView {
    pub sentence: String,
    pub hint: Option<String>,
    pub evidence: String,
    pub source: String,
    pub lines: String,
    pub is_fixable: bool,
}

impl RunView {
    /// Reads what the page needs of a run.
    pub(super) async fn load(
        t: Tr,
        state: &AppState,
        run: Run,
        dir: RunDir,
        texts: Option<&RunTexts>,
    ) -> Result<Self, Error> {
        let query = SeriesQuery {
            max_points: POINTS,
            ..SeriesQuery::default()
        };
        let stored = state.store.series(run.id, &query).await?;
        let recent = recent_points(state, &run).await?;
        let (dir, is_failed) = (dir.clone(), run.state == RunState::Failed);
        let disk = tokio::task::spawn_blocking(move || Disk::read(&dir, is_failed));
        let disk = disk.await.map_err(|error| Error::Internal(error.into()))?;
        let config = texts
            .and_then(|texts| RunConfig::from_yaml(&texts.config_yaml, &[]).ok())
            .map(|parsed| parsed.config);
        Ok(Self::new(t, run, &stored, &recent, disk, config))
    }

    fn new(
        t: Tr,
        run: Run,
        stored: &RunSeries,
        recent: &[Point],
        disk: Disk,
        config: Option<RunConfig>,
    ) -> Self {
        let now = now_ms();
        let gap = median_gap(recent);
        let left = run.steps_total.unwrap_or(0).saturating_sub(run.steps_done);
        let is_running = run.state == RunState::Running;
        let eta = gap
            .filter(|_| is_running && left > 0 && recent.len() > 2)
            .map(|gap| gap * i64::try_from(left).unwrap_or(0));
        let series = panels::series_of(stored);
        Self {
            t,
            href: format!("/runs/{}", run.id),
            about_state: about_state(t, &run, disk.checkpoint),
            chips: chips(t, &run),
            strip: strip(t, &run),
            eta: eta.map(duration),
            eta_about: gap
                .map(|gap| t.f2("run.eta_about", duration_of_step(gap), t.count(left)))
                .unwrap_or_default(),
            quiet: quiet(t, &run, recent, gap, now),
            figures: figures(t, &run, &series, now),
            alerts: alerts(t, &run, &disk),
            failure: (run.state == RunState::Failed).then(|| failure(t, &run, &disk)),
            last_line: disk.last_line,
            loss: run.last_loss.map(figure),
            percent: percent_of(&run),
            steps_done: run.steps_done,
            steps_total: run.steps_total,
            checkpoint: disk.checkpoint,
            num_checkpoints: disk.num_checkpoints,
            series,
            config,
            id: run.id,
            name: run.name,
            state: run.state,
        }
    }

    pub(super) fn tab_title(&self) -> String {
        let name = middle_cut(&self.name, 30);
        match self.state {
            RunState::Finished => format!("✓ {name}"),
            RunState::Failed => format!("✕ {name}"),
            RunState::Stopped => format!("■ {name}"),
            RunState::Queued => format!("{} · {name}", self.t.s("state.queued")),
            _ => match &self.loss {
                Some(loss) => format!("{} % · {loss} · {name}", self.percent),
                None => format!("{} · {name}", self.t.s(self.state_label())),
            },
        }
    }

    pub(super) fn tab_icon(&self) -> String {
        crate::assets::url(&format!("icons/{}.svg", self.state))
    }

    pub(super) fn short_name(&self) -> String {
        middle_cut(&self.name, 48)
    }

    pub(super) fn state_label(&self) -> String {
        super::state_label(self.state)
    }

    pub(super) fn can_stop(&self) -> bool {
        matches!(
            self.state,
            RunState::Queued | RunState::Starting | RunState::Running
        )
    }

    pub(super) fn can_resume(&self) -> bool {
        matches!(self.state, RunState::Stopped | RunState::Failed) && self.checkpoint.is_some()
    }

    /// Whether going on is the next thing to do: not where the same fault would come again.
    pub(super) fn is_resume_next(&self) -> bool {
        self.failure
            .as_ref()
            .is_none_or(|failure| !failure.is_fixable)
    }

    pub(super) fn resume_label(&self) -> String {
        self.t
            .f1("run.resume", self.t.count(self.checkpoint.unwrap_or(0)))
    }

    pub(super) fn stop_about(&self) -> &'static str {
        if self.state == RunState::Queued {
            "run.stop_queued"
        } else {
            "run.stop_about"
        }
    }

    pub(super) fn kill_loss(&self) -> String {
        let t = self.t;
        match self.checkpoint {
            Some(step) if step >= self.steps_done => t.s("kill.nothing_lost"),
            Some(step) => t.f2("kill.lost", t.count(step + 1), t.count(self.steps_done)),
            None if self.steps_done == 0 => t.s("kill.nothing_done"),
            None => t.f1("kill.all_lost", t.count(self.steps_done)),
        }
    }

    pub(super) fn count_of(&self, tab: Tab) -> Option<String> {
        match tab {
            Tab::Config => self
                .config
                .as_ref()
                .map(|config| config.changed_keys().len().to_string()),
            Tab::Files if self.num_checkpoints > 0 => Some(self.num_checkpoints.to_string()),
            _ => None,
        }
    }

    /// Returns the steps that the curves span.
    pub(super) fn step_range(&self) -> (u64, u64) {
        (
            0,
            self.steps_total
                .filter(|_| self.state == RunState::Finished)
                .unwrap_or(self.steps_done)
                .max(self.steps_done)
                .max(1),
        )
    }
}

/// What the run directory says.
struct Disk {
    exit: Option<ExitRecord>,
    tail: Option<Tail>,
    last_line: String,
    checkpoint: Option<u64>,
    num_checkpoints: usize,
    /// Newest first.
    alerts: Vec<Alert>,
}

impl Disk {
    fn read(dir: &RunDir, is_failed: bool) -> Self {
        let checkpoints = dir.checkpoints().unwrap_or_default();
        let exit = ExitRecord::read(&dir.exit()).ok().flatten();
        let rank = exit
            .as_ref()
            .and_then(|exit| exit.rank)
            .and_then(|rank| usize::try_from(rank).ok())
            .unwrap_or(0);
        let tail = tail_of(dir, LogSource::Rank(rank), EVIDENCE_LINES)
            .filter(|tail| !tail.lines.is_empty())
            .or_else(|| tail_of(dir, LogSource::Launcher, EVIDENCE_LINES));
        let last_line = tail
            .as_ref()
            .and_then(|tail| tail.lines.last().cloned())
            .unwrap_or_default();
        Self {
            exit,
            tail: tail.filter(|_| is_failed),
            last_line,
            checkpoint: checkpoints.last().map(|checkpoint| checkpoint.0),
            num_checkpoints: checkpoints.len(),
            alerts: recent_alerts(dir),
        }
    }
}

/// Reads the last alerts from the end of the event file; the page shows a few, and never reads a long file for them.
fn recent_alerts(dir: &RunDir) -> Vec<Alert> {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(dir.events())?;
        let start = file.metadata()?.len().saturating_sub(ALERT_BYTES);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(ALERT_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let newest_first = text.lines().rev().filter(|line| line.contains("\"alert\""));
    let alerts = newest_first.filter_map(|line| serde_json::from_str::<Event>(line).ok());
    alerts
        .filter_map(|event| {
            if let EventKind::Alert(alert) = event.kind {
                Some(alert)
            } else {
                None
            }
        })
        .take(MOST_ALERTS)
        .collect()
}

async fn recent_points(state: &AppState, run: &Run) -> Result<Vec<Point>, Error> {
    let last = i64::try_from(run.steps_done).unwrap_or(i64::MAX);
    let query = SeriesQuery {
        names: Some(vec!["loss".into()]),
        from_step: Some(last.saturating_sub(ETA_STEPS)),
        ..SeriesQuery::default()
    };
    let series = state.store.series(run.id, &query).await?.series;
    Ok(series
        .into_iter()
        .next()
        .map(|series| series.points)
        .unwrap_or_default())
}

fn alerts(t: Tr, run: &Run, disk: &Disk) -> Vec<AlertView> {
    let mut alerts = Vec::new();
    if run.last_loss.is_some_and(|loss| !loss.is_finite()) {
        alerts.push(AlertView {
            class: "bad",
            text: t.s("alert.nan_now"),
            step: None,
        });
    }
    alerts.extend(disk.alerts.iter().map(|alert| AlertView {
        class: if alert.level == Level::Error {
            "bad"
        } else {
            "warn"
        },
        text: alert.hint.as_ref().map_or_else(
            || alert.message.clone(),
            |hint| format!("{}; {hint}", alert.message),
        ),
        step: alert.step,
    }));
    alerts
}

fn about_state(t: Tr, run: &Run, checkpoint: Option<u64>) -> Option<String> {
    match run.state {
        RunState::Queued => Some(t.s("run.waits")),
        RunState::Stopping => Some(t.s("run.stopping_about")),
        RunState::Stopped => Some(match checkpoint {
            Some(step) => t.f2("run.stopped_at", t.count(run.steps_done), t.count(step)),
            None => t.f1("run.stopped_bare", t.count(run.steps_done)),
        }),
        RunState::Finished => {
            let ms = run.ended_ms? - run.started_ms?;
            Some(t.f2("run.finished_in", duration(ms), t.count(run.steps_done)))
        }
        _ => None,
    }
}

fn chips(t: Tr, run: &Run) -> Vec<ChipView> {
    let chip = |icon, title, text| ChipView { icon, title, text };
    let model = run
        .model
        .rsplit(['/', '\\'])
        .find(|part| !part.is_empty())
        .unwrap_or(&run.model);
    let mut chips = vec![
        chip("runs", t.s("run.task"), super::task_of(t, run)),
        chip("models", run.model.clone(), middle_cut(model, 32)),
        chip(
            "datasets",
            run.datasets.join(", "),
            middle_cut(&run.datasets.join(", "), 40),
        ),
    ];
    if run.attempt > 1 {
        chips.push(chip(
            "play",
            t.s("run.attempts"),
            t.f1("run.attempt", run.attempt),
        ));
    }
    chips.retain(|chip| !chip.text.is_empty());
    chips
}

fn duration_of_step(ms: i64) -> String {
    if ms < 1000 {
        format!("{ms} ms")
    } else {
        format!("{:.1} s", ms as f64 / 1000.0)
    }
}

fn quiet(t: Tr, run: &Run, recent: &[Point], gap: Option<i64>, now: i64) -> Option<String> {
    let last = recent.last()?.time_ms;
    let silence = now - last;
    let is_quiet = run.state == RunState::Running && silence > (3 * gap?).max(SHORT_SILENCE_MS);
    let phase = run
        .phase
        .as_ref()
        .map_or("training", |phase| phase.name.as_str());
    is_quiet.then(|| {
        t.f2(
            "run.quiet",
            t.s(format!("stage.{phase}")),
            duration(silence),
        )
    })
}

fn figures(t: Tr, run: &Run, series: &[Series], now: i64) -> Vec<FigureView> {
    let points = |name: &str| {
        series
            .iter()
            .find(|series| series.name == name)
            .map(|series| series.points.as_slice())
            .unwrap_or_default()
    };
    let plain = |label, key: &'static str, note: Option<String>| {
        let last = points(key).last().map(|point| point.1);
        FigureView {
            label,
            key,
            value: last.map(figure),
            is_nan: last.is_some_and(|value| !value.is_finite()),
            note,
        }
    };
    let best = points("eval_loss")
        .iter()
        .filter(|point| point.1.is_finite())
        .min_by(|a, b| a.1.total_cmp(&b.1));
    let speed = points("train_tokens_per_second")
        .last()
        .map(|point| point.1);
    let end = run.ended_ms.unwrap_or(now);
    let loss = FigureView {
        value: run.last_loss.map(figure),
        is_nan: run.last_loss.is_some_and(|loss| !loss.is_finite()),
        ..plain(
            "metric.loss",
            "loss",
            trend(points("loss")).map(str::to_owned),
        )
    };
    vec![
        loss,
        plain(
            "metric.eval_loss",
            "eval_loss",
            best.map(|best| t.f2("metric.best_at", figure(best.1), t.count(best.0))),
        ),
        plain("metric.learning_rate", "learning_rate", None),
        plain("metric.grad_norm", "grad_norm", None),
        FigureView {
            value: speed
                .filter(|speed| speed.is_finite() && *speed >= 0.0)
                .map(|speed| {
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "finite and not negative"
                    )]
                    t.count(speed.round() as u64)
                }),
            note: Some(t.s("unit.tokens_per_second")),
            is_nan: false,
            ..plain("metric.speed", "train_tokens_per_second", None)
        },
        FigureView {
            label: "metric.elapsed",
            key: "",
            value: run.started_ms.map(|start| duration(end - start)),
            is_nan: false,
            note: run
                .epoch
                .map(|epoch| t.f1("metric.epoch", format!("{epoch:.2}"))),
        },
    ]
}

/// Returns an arrow for where the loss went over its last tenth.
fn trend(points: &[(u64, f64)]) -> Option<&'static str> {
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

fn failure(t: Tr, run: &Run, disk: &Disk) -> FailureView {
    let exit = run.exit.clone().unwrap_or_default();
    let class = exit.class.as_deref().unwrap_or("internal");
    let sentence = exit.message.clone().unwrap_or_else(|| t.s("fail.unknown"));
    let code = exit
        .code
        .map_or_else(|| "–".to_owned(), |code| code.to_string());
    let mut evidence = t.f3(
        "fail.evidence",
        t.s(format!("class.{class}")),
        code,
        t.count(run.steps_done),
    );
    if let Some(signal) = disk.exit.as_ref().and_then(|exit| exit.signal) {
        evidence.push_str(&t.f1("fail.signal", signal));
    }
    let (source, lines) = disk.tail.as_ref().map_or_else(Default::default, |tail| {
        (tail.name.clone(), tail.lines.clone())
    });
    let is_fixable = matches!(
        class,
        "bad_config" | "bad_data" | "bad_model" | "out_of_memory"
    );
    FailureView {
        sentence,
        hint: exit.hint,
        evidence,
        source,
        lines: lines.join("\n"),
        is_fixable,
    }
}
