//! The list of runs.

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use axum_htmx::HxRequest;
use board_store::{Run, RunFilter};
use run_protocol::{RunId, RunState};
use serde::Deserialize;

use super::run::{Bar, eta_of, state_label, task_of};
use crate::error::Error;
use crate::state::AppState;
use crate::view::curve::Spark;
use crate::view::figure::{Moment, figure, middle_cut, now_ms};
use crate::view::{Chrome, Section};

/// Runs on one page.
const PAGE: usize = 50;

/// What the list is asked for.
#[derive(Debug, Default, Deserialize)]
pub struct ListQuery {
    state: Option<String>,
    #[serde(default)]
    q: String,
    after: Option<String>,
}

#[derive(Template)]
#[template(path = "runs/index.html", blocks = ["list"])]
struct RunsPage {
    chrome: Chrome,
    is_first_visit: bool,
    has_demo: bool,
    once: RunId,
    total: u64,
    state: Option<RunState>,
    search: String,
    chips: Vec<StateChip>,
    rows: Vec<RunRow>,
    here: String,
    next: Option<String>,
}

struct StateChip {
    state: RunState,
    count: u64,
    is_on: bool,
}

impl StateChip {
    fn label(&self) -> String {
        state_label(self.state)
    }
}

struct RunRow {
    id: RunId,
    href: String,
    name: String,
    state: RunState,
    task: String,
    data: String,
    data_title: String,
    loss: Option<String>,
    is_nan: bool,
    spark: Option<Spark>,
    steps: String,
    percent: u64,
    eta: Option<String>,
    started: Option<Moment>,
    reason: Option<String>,
}

impl RunRow {
    fn new(chrome: &Chrome, run: Run, now: i64) -> Self {
        let t = chrome.t;
        let total = run
            .steps_total
            .map_or_else(|| "–".to_owned(), |total| t.count(total));
        let datasets = run.datasets.join(", ");
        let model = run.model.trim_end_matches(['/', '\\']);
        let model = model.rsplit(['/', '\\']).next().unwrap_or(model);
        let steps = if run.steps_done == 0 && run.steps_total.is_none() {
            "–".to_owned()
        } else {
            format!("{} / {total}", t.count(run.steps_done))
        };
        Self {
            href: format!("/runs/{}", run.id),
            task: task_of(t, &run),
            data: format!("{} · {}", middle_cut(model, 28), middle_cut(&datasets, 28)),
            data_title: format!("{} · {datasets}", run.model),
            is_nan: run.last_loss.is_some_and(f64::is_nan),
            loss: run.last_loss.map(figure),
            spark: Spark::new(&run.sparkline),
            steps,
            percent: percent_of(&run),
            eta: eta_of(&run, now),
            started: Some(Moment::new(
                t,
                run.started_ms.unwrap_or(run.created_ms),
                now,
            )),
            reason: run
                .exit
                .and_then(|exit| exit.message)
                .filter(|_| run.state == RunState::Failed)
                .map(|message| t.said(message)),
            id: run.id,
            name: run.name,
            state: run.state,
        }
    }

    fn short_name(&self) -> String {
        middle_cut(&self.name, 40)
    }

    fn state_label(&self) -> String {
        state_label(self.state)
    }

    /// Whether there is something of a bar to show.
    fn has_begun(&self) -> bool {
        self.percent > 0 || matches!(self.state, RunState::Running | RunState::Stopping)
    }

    fn bar(&self) -> Bar {
        Bar {
            state: self.state,
            percent: self.percent,
        }
    }
}

/// Returns how much of a run is done.
pub(super) fn percent_of(run: &Run) -> u64 {
    match run.steps_total {
        _ if run.state == RunState::Finished => 100,
        Some(total) if total > 0 => (run.steps_done * 100 / total).min(100),
        _ => 0,
    }
}

/// Answers with the list, or with its rows alone.
pub async fn list_runs(
    HxRequest(is_htmx): HxRequest,
    chrome: Chrome,
    State(state): State<AppState>,
    Query(query): Query<ListQuery>,
) -> Result<Response, Error> {
    let counts = state.store.count_runs().await?;
    let wanted: Option<RunState> = query.state.as_deref().and_then(|word| word.parse().ok());
    let search: String = query.q.trim().chars().take(200).collect();
    let filter = RunFilter {
        states: wanted.into_iter().collect(),
        text: Some(search.clone()).filter(|text| !text.is_empty()),
    };
    let after = query.after.as_deref().and_then(|id| id.parse().ok());
    let page = state.store.list_runs(&filter, after, PAGE).await?;
    let now = now_ms();
    let chrome = chrome.at(Section::Runs);
    let chips = RunState::ALL.iter().map(|&state| StateChip {
        state,
        count: counts.of(state),
        is_on: wanted == Some(state),
    });
    let next = page.next.map(|id| {
        let state = wanted
            .map(|state| format!("&state={state}"))
            .unwrap_or_default();
        format!("/runs?after={id}{state}")
    });
    let page = RunsPage {
        is_first_visit: counts.total() == 0,
        has_demo: state
            .config
            .models_dir()
            .join(crate::demo::DEMO_NAME)
            .join("config.json")
            .is_file(),
        once: RunId::new(),
        total: counts.total(),
        state: wanted,
        search,
        chips: chips.filter(|chip| chip.count > 0 || chip.is_on).collect(),
        rows: page
            .runs
            .into_iter()
            .map(|run| RunRow::new(&chrome, run, now))
            .collect(),
        here: chrome.here.clone(),
        next,
        chrome,
    };
    if is_htmx {
        super::answer(&page.as_list())
    } else {
        super::answer(&page)
    }
}
