//! The page of one run: how it stands, its curves, log, configuration and files.

mod body;
mod facts;
mod figures;
mod panels;
mod progress;
mod view;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use axum_htmx::HxRequest;
use board_store::Run;
use run_protocol::{RunDir, RunId, RunState};
use serde::Deserialize;

use crate::error::Error;
use crate::i18n::Tr;
use crate::state::AppState;
use crate::view::{Chrome, Section};

use body::Body;
use facts::{memory, memory_json};
use view::RunView;

pub(super) use progress::{Bar, eta_of};

/// A part of the page, named by its tab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tab {
    /// The curves.
    #[default]
    Charts,
    /// The log.
    Log,
    /// The configuration.
    Config,
    /// Checkpoints and other files.
    Files,
}

impl Tab {
    const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::Charts, "", "run.tab_charts"),
        (Self::Log, "?tab=log", "run.tab_log"),
        (Self::Config, "?tab=config", "run.tab_config"),
        (Self::Files, "?tab=files", "run.tab_files"),
    ];
}

/// A block of the page that a script asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// Name, state and actions.
    Head,
    /// Progress, figures, alerts, failure.
    Live,
    /// The points of the memory curve.
    Memory,
}

/// What the page is asked for.
#[derive(Debug, Default, Deserialize)]
pub struct RunQuery {
    #[serde(default)]
    tab: Tab,
    block: Option<Block>,
    /// Whose log to show.
    rank: Option<String>,
}

struct TabLink {
    tab: Tab,
    query: &'static str,
    label: &'static str,
    count: Option<String>,
}

#[derive(Template)]
#[template(path = "runs/show.html", blocks = ["head_block", "live", "memory"])]
struct RunPage {
    chrome: Chrome,
    run: RunView,
    tab: Tab,
    tabs: Vec<TabLink>,
    body: Body,
    /// The memory of the ranks, for the curve's script.
    memory_points: Option<String>,
}

/// Answers with the page of a run, or with one of its blocks.
pub async fn show_run(
    HxRequest(is_htmx): HxRequest,
    chrome: Chrome,
    State(state): State<AppState>,
    Path(id): Path<String>,
    Query(query): Query<RunQuery>,
) -> Result<Response, Error> {
    let run = find_run(&state, &id).await?;
    let chrome = chrome.at(Section::Runs);
    let dir = dir_of(&state, run.id);
    let block = query.block.filter(|_| is_htmx);
    let texts = state.store.find_texts(run.id).await?;
    let view = RunView::load(chrome.t, &state, run, dir.clone(), texts.as_ref()).await?;
    let has_memory = match block {
        None => query.tab == Tab::Charts,
        Some(block) => block == Block::Memory,
    };
    let memory = if has_memory {
        memory(&state, chrome.t, view.id).await?
    } else {
        Vec::new()
    };
    let memory_points = has_memory.then(|| memory_json(&memory));
    let body = if block.is_some() {
        Body::Nothing
    } else {
        let rank = query.rank.as_deref();
        Body::load(chrome.t, &view, query.tab, dir, rank, texts, memory).await?
    };
    let tabs = Tab::ALL.map(|(tab, query, label)| TabLink {
        tab,
        query,
        label,
        count: view.count_of(tab),
    });
    let page = RunPage {
        chrome,
        run: view,
        tab: query.tab,
        tabs: tabs.into(),
        body,
        memory_points,
    };
    match block {
        Some(Block::Head) => super::answer(&page.as_head_block()),
        Some(Block::Live) => super::answer(&page.as_live()),
        Some(Block::Memory) => super::answer(&page.as_memory()),
        None => super::answer(&page),
    }
}

/// Returns the run that a path names. What is no id names no run, whatever it looks like.
pub(super) async fn find_run(state: &AppState, id: &str) -> Result<Run, Error> {
    let id: RunId = id.parse().map_err(|_| Error::RunNotFound)?;
    state.store.find_run(id).await?.ok_or(Error::RunNotFound)
}

/// Returns the directory of a run.
pub(super) fn dir_of(state: &AppState, id: RunId) -> RunDir {
    RunDir::new(state.config.runs_dir().join(id.to_string()))
}

/// Returns the key of a state's name.
pub(super) fn state_label(state: RunState) -> String {
    format!("state.{state}")
}

/// Returns task, method and backend of a run in a few words.
pub(super) fn task_of(t: Tr, run: &Run) -> String {
    let word = |kind: &str, value: &str| {
        t.find(format!("choice.{kind}.{value}"))
            .map_or_else(|| value.to_owned(), str::to_owned)
    };
    let stage = run.stage.to_uppercase();
    format!(
        "{stage} · {} · {}",
        word("finetuning_type", &run.finetuning_type),
        word("backend", &run.backend)
    )
}
