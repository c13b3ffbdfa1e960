//! How a run stands, in the words and figures of its page.

use board_store::{Point, Run, RunSeries, RunTexts, SeriesQuery};
use run_protocol::{ExitRecord, RunConfig, RunDir, RunId, RunState};

use super::Tab;
use super::facts::{AlertView, Facts, alerts};
use super::figures::{FigureView, figures, outcome};
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
/// Alerts in view; the rest is folded.
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
    pub epoch: Option<String>,
    pub elapsed: Option<String>,
    /// What came of it, once it is finished.
    pub outcome: Vec<String>,
    pub figures: Vec<FigureView>,
    pub alerts: Vec<AlertView>,
    /// Alerts that are folded away.
    pub more_alerts: Vec<AlertView>,
    pub later: Vec<LaterAction>,
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
    pub label: String,
    pub title: String,
    pub text: String,
}

/// What cannot be done with the run now, and why.
pub(super) struct LaterAction {
    pub icon: &'static str,
    pub label: String,
    pub why: String,
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
        let facts = Facts::load(state, run.id).await?;
        Ok(Self::new(t, run, &stored, &recent, disk, &facts, config))
    }

    fn new(
        t: Tr,
        run: Run,
        stored: &RunSeries,
        recent: &[Point],
        disk: Disk,
        facts: &Facts,
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
        let mut alerts = alerts(t, &run, facts);
        let more_alerts = alerts.split_off(alerts.len().min(MOST_ALERTS));
        let end = run.ended_ms.unwrap_or(now);
        Self {
            t,
            href: format!("/runs/{}", run.id),
            about_state: about_state(t, &run, disk.checkpoint),
            chips: chips(t, &run),
            strip: strip(t, &run, &facts.stages, end),
            eta: eta.map(duration),
            eta_about: gap
                .map(|gap| t.f2("run.eta_about", duration_of_step(gap), t.count(left)))
                .unwrap_or_default(),
            quiet: quiet(t, &run, recent, gap, now),
            epoch: run
                .epoch
                .filter(|_| is_running)
                .map(|epoch| t.f1("metric.epoch", format!("{epoch:.2}"))),
            elapsed: facts.elapsed(&run, end).filter(|_| !run.state.is_final()),
            outcome: outcome(t, &run, &series, facts, end),
            figures: figures(t, &run, &series, facts),
            alerts,
            more_alerts,
            later: later(t, &run, disk.checkpoint),
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
}

impl Disk {
    fn read(dir: &RunDir, is_failed: bool) -> Self {
        let checkpoints = dir.checkpoints().unwrap_or_default();
        let resumable = dir.latest_resumable_checkpoint().ok().flatten();
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
            checkpoint: resumable.map(|checkpoint| checkpoint.0),
            num_checkpoints: checkpoints.len(),
        }
    }
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

fn about_state(t: Tr, run: &Run, checkpoint: Option<u64>) -> Option<String> {
    match run.state {
        RunState::Queued => Some(t.s("run.waits")),
        RunState::Stopping => Some(t.s("run.stopping_about")),
        RunState::Stopped => {
            let place = match checkpoint {
                Some(step) => t.f2("run.stopped_at", t.count(run.steps_done), t.count(step)),
                None => t.f1("run.stopped_bare", t.count(run.steps_done)),
            };
            Some(match kill_reason(run) {
                Some(reason) => format!("{place} · {}", t.said(reason)),
                None => place,
            })
        }
        _ => None,
    }
}

/// Returns why a stop ended by force; one on request needs no words.
fn kill_reason(run: &Run) -> Option<&str> {
    let exit = run.exit.as_ref()?;
    let message = exit.message.as_deref()?;
    let is_kill = exit.class.as_deref() == Some("killed") || message.starts_with("killed");
    is_kill.then_some(message)
}

fn chips(t: Tr, run: &Run) -> Vec<ChipView> {
    let chip = |icon, label: &str, title: Option<&str>, text: String| {
        let label = t.s(label);
        ChipView {
            icon,
            title: title.map_or_else(|| label.clone(), |title| format!("{label}: {title}")),
            label,
            text,
        }
    };
    let model = run
        .model
        .rsplit(['/', '\\'])
        .find(|part| !part.is_empty())
        .unwrap_or(&run.model);
    let datasets = run.datasets.join(", ");
    let mut chips = vec![
        chip("runs", "run.task", None, super::task_of(t, run)),
        chip(
            "models",
            "new.model",
            Some(&run.model),
            middle_cut(model, 32),
        ),
        chip(
            "datasets",
            "new.data",
            Some(&datasets),
            middle_cut(&datasets, 40),
        ),
    ];
    if run.attempt > 1 {
        chips.push(chip("play", "run.attempts", None, run.attempt.to_string()));
    }
    chips.retain(|chip| !chip.text.is_empty());
    chips
}

/// Returns the actions that do not fit the run as it stands, each with its reason.
fn later(t: Tr, run: &Run, checkpoint: Option<u64>) -> Vec<LaterAction> {
    let action = |icon, label: &str, why: &str| LaterAction {
        icon,
        label: t.s(label),
        why: t.s(why),
    };
    let mut later = Vec::new();
    let why_no_resume = match run.state {
        RunState::Finished => Some("why.resume_finished"),
        RunState::Stopped | RunState::Failed => {
            checkpoint.is_none().then_some("why.resume_no_checkpoint")
        }
        _ => Some("why.resume_active"),
    };
    later.extend(why_no_resume.map(|why| action("play", "run.resume_bare", why)));
    if run.state.is_final() {
        later.push(action("stop", "run.stop", "why.stop_over"));
    } else if run.state == RunState::Stopping {
        later.push(action("stop", "run.stop", "why.stop_stopping"));
    }
    for (icon, label) in [
        ("chat", "nav.chat"),
        ("evaluate", "nav.evaluate"),
        ("export", "nav.export"),
    ] {
        later.push(action(icon, label, "nav.later"));
    }
    later
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

fn failure(t: Tr, run: &Run, disk: &Disk) -> FailureView {
    let exit = run.exit.clone().unwrap_or_default();
    let class = exit.class.as_deref().unwrap_or("internal");
    let sentence = exit
        .message
        .as_ref()
        .map_or_else(|| t.s("fail.unknown"), |message| t.said(message));
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
        hint: exit.hint.map(|hint| t.said(hint)),
        evidence,
        source,
        lines: lines.join("\n"),
        is_fixable,
    }
}
