//! A board in a folder of its own, driven without a socket.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use board::{AppState, ServerConfig, app, startup};
use board_store::{Ingest, NewRun, RunTexts};
use http_body_util::BodyExt as _;
use run_protocol::events::FORMAT_VERSION;
use run_protocol::{Event, EventKind, RunId, RunState};
use serde_json::Value;
use tempfile::TempDir;
use tower::ServiceExt as _;

/// How long a test waits for anything.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A config that passes the check.
pub(crate) const GOOD_YAML: &str = "\
stage: sft
do_train: true
model_name_or_path: models/demo
dataset: demo
template: chatml
finetuning_type: full
learning_rate: 1.0e-4
";

/// A board under test.
pub(crate) struct TestBoard {
    pub(crate) state: AppState,
    app: Router,
    root: TempDir,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// Checks that this is a failure in the API's form, and returns it.
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        assert_eq!(self.header("content-type"), "application/problem+json");
        let problem = self.json();
        assert_eq!(
            (problem["status"].as_u64(), problem["code"].as_str()),
            (Some(u64::from(status)), Some(code))
        );
        problem
    }
}

impl TestBoard {
    /// Opens a board whose trainer is the stub.
    pub(crate) async fn open() -> Self {
        let root = tempfile::tempdir().unwrap();
        let config = config(root.path());
        let state = startup::open(config).await.unwrap();
        Self {
            app: app(state.clone()),
            state,
            root,
        }
    }

    /// Lets the stub go on to its end.
    pub(crate) fn let_go(&self) {
        fs::write(self.root.path().join("go"), "").unwrap();
    }

    /// Makes the stub fail.
    pub(crate) fn let_fail(&self) {
        fs::write(self.root.path().join("fail"), "").unwrap();
    }

    /// Returns a request as a script on this machine sends it.
    pub(crate) fn request(method: Method, path: &str) -> axum::http::request::Builder {
        Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "127.0.0.1:7860")
    }

    /// Sends a request and reads its answer.
    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let (parts, body) = self.stream(request).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body,
        }
    }

    /// Sends a request and gives the answer before its body is read.
    pub(crate) async fn stream(&self, request: Request<Body>) -> axum::response::Response {
        self.app.clone().oneshot(request).await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(
            Self::request(Method::GET, path)
                .body(Body::empty())
                .unwrap(),
        )
        .await
    }

    pub(crate) async fn post(&self, path: &str, kind: &str, body: impl Into<Body>) -> Answer {
        let request = Self::request(Method::POST, path).header(header::CONTENT_TYPE, kind);
        self.send(request.body(body.into()).unwrap()).await
    }

    pub(crate) async fn post_json(&self, path: &str, body: &Value) -> Answer {
        self.post(path, "application/json", body.to_string()).await
    }

    /// Starts a run of the good config and returns its id.
    pub(crate) async fn start_run(&self) -> String {
        let answer = self
            .post("/api/v1/runs", "application/yaml", GOOD_YAML)
            .await;
        assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
        answer.json()["run"]["id"].as_str().unwrap().to_owned()
    }

    /// Waits until a run has a state.
    pub(crate) async fn wait_for_state(&self, id: &str, state: RunState) {
        let mut events = self.state.store.subscribe();
        let id: RunId = id.parse().unwrap();
        let reached = async {
            while self.state.store.find_run(id).await.unwrap().unwrap().state != state {
                events.recv().await.unwrap();
            }
        };
        tokio::time::timeout(LIMIT, reached)
            .await
            .unwrap_or_else(|_| panic!("the run is not `{state}` in time"));
    }

    /// Waits until a run has logged a step.
    pub(crate) async fn wait_for_step(&self, id: &str, step: u64) {
        let mut events = self.state.store.subscribe();
        let id: RunId = id.parse().unwrap();
        let reached = async {
            while self
                .state
                .store
                .find_run(id)
                .await
                .unwrap()
                .unwrap()
                .steps_done
                < step
            {
                events.recv().await.unwrap();
            }
        };
        tokio::time::timeout(LIMIT, reached)
            .await
            .unwrap_or_else(|_| panic!("step {step} does not come in time"));
    }

    /// Puts a run into the store that no trainer works on: the queue is closed from then on.
    pub(crate) async fn make_run(&self, name: &str) -> RunId {
        self.state.supervisor.shutdown().await;
        let id = RunId::new();
        let new = NewRun {
            id,
            name: name.into(),
            stage: "sft".into(),
            backend: "single".into(),
            finetuning_type: "lora".into(),
            model: "models/demo".into(),
            datasets: vec!["demo".into()],
            texts: RunTexts {
                input_yaml: GOOD_YAML.into(),
                config_yaml: GOOD_YAML.into(),
                config_hash: "0".into(),
            },
            steps_total: None,
            tags: Vec::new(),
            created_ms: 1_700_000_000_000,
        };
        self.state.store.create_run(new).await.unwrap();
        id
    }

    /// Stores metric events with the steps `from..=to` and their step as `seq`.
    pub(crate) async fn log_steps(
        &self,
        run: RunId,
        from: u64,
        to: u64,
        loss: impl Fn(u64) -> f64,
    ) {
        let events = (from..=to).map(|step| {
            let kind = EventKind::metric(
                step,
                Some(step as f64 / 8.0),
                [("loss", loss(step)), ("learning_rate", 1e-4)],
            );
            event(step, kind)
        });
        let batch = Ingest {
            run,
            events: events.collect(),
            mark: None,
        };
        self.state.store.ingest(batch).await.unwrap();
    }
}

/// Makes an event of the first attempt.
pub(crate) fn event(seq: u64, kind: EventKind) -> Event {
    let time = 1_700_000_000_000 + i64::try_from(seq).unwrap();
    Event {
        v: FORMAT_VERSION,
        seq,
        attempt: 1,
        time,
        kind,
    }
}

/// Returns the settings of a board in a folder, with a stub for a trainer.
pub(crate) fn config(root: &Path) -> ServerConfig {
    let mut config = ServerConfig::new(root.join("data"));
    config.trainer = stub_trainer(root);
    config.environment = vec![("PATH".into(), std::env::var_os("PATH").unwrap())];
    config
}

/// Copies the stub into a folder, where its `go` and `fail` will lie.
pub(crate) fn stub_trainer(folder: &Path) -> PathBuf {
    let path = folder.join("stub-trainer");
    fs::copy(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/stub-trainer"),
        &path,
    )
    .unwrap();
    path
}
