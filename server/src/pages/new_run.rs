//! The form for a new run, its check while it is filled in, and the start.

use askama::Template;
use axum::Form;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum_htmx::HxRequest;
use run_protocol::{RunConfig, RunId};
use serde::Deserialize;

use super::run::find_run;
use crate::catalog::{self, Dataset, ModelFolder};
use crate::demo::DEMO_NAME;
use crate::draft::Draft;
use crate::error::Error;
use crate::form::field::label;
use crate::form::kept::{KeptView, kept};
use crate::form::layout::{BasicFields, GroupView, basic, groups};
use crate::form::picker::{DatasetPicker, ModelPicker, suggest_template};
use crate::form::preflight::Preflight;
use crate::form::{Fault, Faults, FormValues};
use crate::i18n::Tr;
use crate::idempotency::Claim;
use crate::state::AppState;
use crate::view::{Chrome, Section};

/// How the configuration is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NewTab {
    Form,
    Yaml,
    Command,
}

impl NewTab {
    const ALL: &'static [Self] = &[Self::Form, Self::Yaml, Self::Command];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Form => "form",
            Self::Yaml => "yaml",
            Self::Command => "command",
        }
    }

    fn from_word(word: &str) -> Self {
        Self::ALL
            .iter()
            .copied()
            .find(|tab| tab.as_str() == word)
            .unwrap_or(Self::Form)
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Form => "new.tab_form",
            Self::Yaml => "new.tab_yaml",
            Self::Command => "new.tab_command",
        }
    }
}

/// What the form begins with.
#[derive(Debug, Default, Deserialize)]
pub struct NewQuery {
    demo: Option<String>,
    from: Option<String>,
    model: Option<String>,
    dataset: Option<String>,
}

#[derive(Template)]
#[template(path = "runs/new.html", blocks = ["form"])]
struct NewRunPage {
    chrome: Chrome,
    tab: NewTab,
    once: String,
    has_demo: bool,
    is_first_visit: bool,
    summary: Vec<SummaryRow>,
    models: ModelPicker,
    datasets: DatasetPicker,
    fields: BasicFields,
    groups: Vec<GroupView>,
    kept: Vec<KeptView>,
    preflight: Preflight,
    yaml: String,
    hidden: Vec<(String, String)>,
    command: CommandView,
}

/// A fault above the form, with the way to its field.
struct SummaryRow {
    href: String,
    label: String,
    reason: String,
    hint: Option<String>,
}

#[derive(Default)]
struct CommandView {
    board: String,
    shell: String,
}

/// What the page is made of, before it is put into words.
struct Parts {
    tab: NewTab,
    once: String,
    values: FormValues,
    faults: Faults,
    /// The YAML as it was typed, where that tab is open.
    yaml: Option<String>,
}

impl Parts {
    fn new(values: FormValues) -> Self {
        Self {
            tab: NewTab::Form,
            once: RunId::new().to_string(),
            values,
            faults: Faults::default(),
            yaml: None,
        }
    }
}

/// Answers with the form: fresh, filled with the demo's values, or with those of another run.
pub async fn show_form(
    chrome: Chrome,
    State(state): State<AppState>,
    Query(query): Query<NewQuery>,
) -> Result<Response, Error> {
    let mut values = match &query.from {
        Some(id) => values_of_run(&state, id).await?,
        None if query.demo.is_some() => FormValues::demo(),
        None => FormValues::fresh(),
    };
    for (key, value) in [
        ("model_name_or_path", &query.model),
        ("dataset", &query.dataset),
    ] {
        if let Some(value) = value {
            values.set(key, value);
        }
    }
    let page = build(chrome, &state, Parts::new(values)).await?;
    super::answer(&page)
}

async fn values_of_run(state: &AppState, id: &str) -> Result<FormValues, Error> {
    let run = find_run(state, id).await?;
    let texts = state
        .store
        .find_texts(run.id)
        .await?
        .ok_or(Error::RunNotFound)?;
    let parsed = RunConfig::from_yaml(&texts.input_yaml, &[])
        .or_else(|_| RunConfig::from_yaml(&texts.config_yaml, &[]));
    let mut values = parsed.map_or_else(
        |_| FormValues::fresh(),
        |parsed| FormValues::from_config(&parsed.config),
    );
    values.set("run_name", run.name);
    Ok(values)
}

/// Shows the same configuration in another way: form, YAML or command.
pub async fn switch_tab(
    HxRequest(is_htmx): HxRequest,
    chrome: Chrome,
    State(state): State<AppState>,
    Form(pairs): Form<Vec<(String, String)>>,
) -> Result<Response, Error> {
    let word = field(&pairs, "tab").unwrap_or("form");
    let once = field(&pairs, "once").unwrap_or_default().to_owned();
    let mut parts = Parts {
        tab: NewTab::from_word(word),
        once,
        ..Parts::new(FormValues::from_posted(&pairs))
    };
    if field(&pairs, "source") == Some("yaml") {
        let text = field(&pairs, "yaml").unwrap_or_default();
        if word == "discard" {
            parts.values = FormValues::from_posted(&before_yaml(&pairs));
        } else {
            read_yaml(chrome.t, text, &mut parts);
        }
    }
    let is_refused = !parts.faults.is_empty();
    let page = build(chrome, &state, parts).await?;
    let response = if is_htmx {
        super::answer(&page.as_form())?
    } else {
        super::answer(&page)?
    };
    Ok(if is_refused {
        refused(response)
    } else {
        response
    })
}

/// Reads the text of the YAML tab into the form, or keeps the tab open with its faults.
fn read_yaml(t: Tr, text: &str, parts: &mut Parts) {
    match RunConfig::from_yaml(text, &[]) {
        Ok(parsed) => parts.values = FormValues::from_config(&parsed.config),
        Err(errors) => {
            parts.faults = Faults::of_text(t, &errors);
            parts.tab = NewTab::Yaml;
            parts.yaml = Some(text.to_owned());
        }
    }
}

/// Returns the values that the form had before the YAML was edited.
fn before_yaml(pairs: &[(String, String)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .filter_map(|(key, value)| Some((key.strip_prefix("was.")?.to_owned(), value.clone())))
        .collect()
}

fn field<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs
        .iter()
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.as_str())
}

fn refused(response: Response) -> Response {
    (StatusCode::UNPROCESSABLE_ENTITY, response).into_response()
}

/// Answers with the verdict on the form as it stands.
pub async fn check_form(
    chrome: Chrome,
    State(state): State<AppState>,
    Form(pairs): Form<Vec<(String, String)>>,
) -> Result<Response, Error> {
    let values = FormValues::from_posted(&pairs);
    super::answer(&preflight(chrome.t, &state, values, false).await?.0)
}

async fn preflight(
    t: Tr,
    state: &AppState,
    values: FormValues,
    is_sent: bool,
) -> Result<(Preflight, Faults), Error> {
    let counts = state.store.count_runs().await?;
    let num_active =
        usize::try_from(counts.starting + counts.running + counts.stopping + counts.queued)
            .unwrap_or(usize::MAX);
    let config = state.config.clone();
    let num_ahead = (num_active + 1).saturating_sub(config.max_runs.max(1));
    let work = tokio::task::spawn_blocking(move || {
        Preflight::of_form(t, &values, &config, num_ahead, is_sent)
    });
    work.await.map_err(|error| Error::Internal(error.into()))
}

/// Starts the run that the form describes, or shows what is wrong with it.
pub async fn create_run(
    HxRequest(is_htmx): HxRequest,
    chrome: Chrome,
    State(state): State<AppState>,
    Form(pairs): Form<Vec<(String, String)>>,
) -> Result<Response, Error> {
    let once = field(&pairs, "once").unwrap_or_default().to_owned();
    let mut parts = Parts {
        once,
        ..Parts::new(FormValues::from_posted(&pairs))
    };
    if field(&pairs, "source") == Some("yaml") {
        read_yaml(
            chrome.t,
            field(&pairs, "yaml").unwrap_or_default(),
            &mut parts,
        );
    }
    if parts.faults.is_empty() {
        parts.faults = preflight(chrome.t, &state, parts.values.clone(), true)
            .await?
            .1;
    }
    if parts.faults.is_empty() {
        match start(&state, parts.values.clone(), &parts.once, is_htmx).await {
            Err(Error::Invalid(fields)) => parts.faults = Faults::of_fields(chrome.t, fields),
            answer => return answer,
        }
    }
    let page = build(chrome, &state, parts).await?;
    Ok(refused(if is_htmx {
        super::answer(&page.as_form())?
    } else {
        super::answer(&page)?
    }))
}

/// Starts the demo.
pub async fn create_demo_run(
    HxRequest(is_htmx): HxRequest,
    State(state): State<AppState>,
    Form(pairs): Form<Vec<(String, String)>>,
) -> Result<Response, Error> {
    let once = field(&pairs, "once").unwrap_or_default();
    start(&state, FormValues::demo(), &format!("demo-{once}"), is_htmx).await
}

/// Makes the run, once for each form however often it is sent.
async fn start(
    state: &AppState,
    values: FormValues,
    once: &str,
    is_htmx: bool,
) -> Result<Response, Error> {
    let pairs = values.to_pairs();
    let request = format!("{pairs:?}");
    let key = if once.is_empty() {
        RunId::new().to_string()
    } else {
        format!("form-{once}")
    };
    let run = match state.idempotency.claim(&key, request.as_bytes())? {
        Claim::Made(run) => run,
        Claim::New(reservation) => {
            let config = state.config.clone();
            let draft = tokio::task::spawn_blocking(move || Draft::from_pairs(&config, &pairs));
            let draft = draft
                .await
                .map_err(|error| Error::Internal(error.into()))??;
            let name = Some(values.get("run_name").to_owned()).filter(|name| !name.is_empty());
            let run = state.start_run(draft, name, Vec::new()).await?.id;
            reservation.keep(run);
            run
        }
    };
    Ok(super::go_to(&format!("/runs/{run}"), is_htmx))
}

/// What the lists of the form offer.
struct Offers {
    models: Vec<ModelFolder>,
    datasets: Vec<Dataset>,
}

async fn offers(state: &AppState) -> Result<Offers, Error> {
    let config = state.config.clone();
    let read = tokio::task::spawn_blocking(move || Offers {
        models: catalog::list_models(&config),
        datasets: catalog::list_datasets(&config).unwrap_or_default(),
    });
    read.await.map_err(|error| Error::Internal(error.into()))
}

async fn build(chrome: Chrome, state: &AppState, mut parts: Parts) -> Result<NewRunPage, Error> {
    let t = chrome.t;
    let offers = offers(state).await?;
    choose_model(&mut parts.values, &offers.models);
    choose_dataset(&mut parts.values, &offers.datasets, &offers.models);
    let Parts {
        tab,
        once,
        values,
        faults,
        yaml,
    } = parts;
    let parsed = values.parse().ok().map(|parsed| parsed.config);
    let yaml = yaml.unwrap_or_else(|| {
        parsed
            .as_ref()
            .map(|config| config.to_flat_yaml(true))
            .unwrap_or_default()
    });
    let preflight = match tab {
        NewTab::Form => {
            preflight(t, state, values.clone(), !faults.is_empty())
                .await?
                .0
        }
        _ => Preflight::pending(t),
    };
    let prefix = if tab == NewTab::Yaml { "was." } else { "" };
    let hidden = match tab {
        NewTab::Form => Vec::new(),
        _ => values
            .pairs()
            .map(|(key, value)| (format!("{prefix}{key}"), value.to_owned()))
            .collect(),
    };
    Ok(NewRunPage {
        is_first_visit: state.store.count_runs().await?.total() == 0,
        has_demo: offers.models.iter().any(|model| model.is_demo),
        summary: faults.0.iter().map(|fault| summary_row(t, fault)).collect(),
        models: ModelPicker::new(t, &offers.models, &values, &faults),
        datasets: DatasetPicker::new(t, &offers.datasets, &values, &faults),
        fields: basic(t, &values, &faults),
        groups: groups(t, &values, &faults),
        kept: kept(t, &values, &faults),
        command: if tab == NewTab::Command {
            command(state, &yaml)
        } else {
            CommandView::default()
        },
        chrome: chrome.at(Section::New),
        preflight,
        hidden,
        yaml,
        once,
        tab,
    })
}

/// Puts the only usable model and its prompt format into an empty form.
fn choose_model(values: &mut FormValues, models: &[ModelFolder]) {
    let mut usable = models.iter().filter(|model| model.refusal.is_none());
    if values.get("model_name_or_path").is_empty()
        && let (Some(model), true) = (usable.next(), values.is_fresh())
    {
        values.set("model_name_or_path", model.path.clone());
    }
    let chosen = models
        .iter()
        .find(|model| model.path == values.get("model_name_or_path"));
    if values.is_fresh()
        && values.get("template").is_empty()
        && let Some(template) = chosen
            .map(suggest_template)
            .filter(|template| !template.is_empty())
    {
        values.set("template", template);
    }
}

/// Chooses the only usable dataset in a form that nobody touched, and the demo's for the demo model.
fn choose_dataset(values: &mut FormValues, datasets: &[Dataset], models: &[ModelFolder]) {
    if !values.is_fresh() || !values.get("dataset").is_empty() {
        return;
    }
    let is_demo = models
        .iter()
        .any(|model| model.is_demo && model.path == values.get("model_name_or_path"));
    let mut usable = datasets
        .iter()
        .filter(|dataset| dataset.problem.is_none() && !dataset.ranking);
    let demo = usable
        .clone()
        .find(|dataset| is_demo && dataset.name == DEMO_NAME);
    let chosen = demo.or_else(|| usable.next().filter(|_| usable.next().is_none()));
    if let Some(dataset) = chosen {
        values.set("dataset", dataset.name.clone());
    }
}

fn summary_row(t: Tr, fault: &Fault) -> SummaryRow {
    SummaryRow {
        href: if fault.field.is_empty() {
            String::new()
        } else {
            format!("#f-{}", fault.field.replace('.', "-"))
        },
        label: if fault.field.is_empty() {
            t.s("new.tab_yaml")
        } else {
            label(t, &fault.field)
        },
        reason: fault.reason.clone(),
        hint: fault.hint.clone(),
    }
}

/// Returns what the board will execute, and the same for a shell.
fn command(state: &AppState, yaml: &str) -> CommandView {
    let dir = state.config.runs_dir().join("RUN");
    let dir = dir.display();
    CommandView {
        board: format!("cd {dir}\ntrainer train {dir}/config.yaml --run-dir {dir}"),
        shell: format!(
            "cat > train.yaml <<'YAML'\n{yaml}YAML\ntrainer sft train.yaml output_dir=output"
        ),
    }
}
