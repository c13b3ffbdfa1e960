//! A board's data folder, stub trainers, and waiting for what shall happen.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use board_store::{MetricRow, Run, Store};
use board_supervisor::{Settings, Submission, Supervisor};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use run_protocol::{LauncherRecord, RunConfig, RunDir, RunId, RunState};

/// How long anything may take.
const LIMIT: Duration = Duration::from_mins(1);

/// The beginning of every stub: it is called as `trainer train CONFIG --run-dir DIR [--resume CHECKPOINT]`.
const STUB: &str = r#"#!/bin/sh
dir=$4
events="$dir/events.jsonl"
seq=0
attempt=1
if [ -f "$events" ]; then
    seq=$(wc -l < "$events")
    attempt=$(($(grep -c '"kind":"started"' "$events") + 1))
fi
emit() {
    seq=$((seq + 1))
    printf '{"v":1,"seq":%d,"attempt":%d,"time":%d,"kind":"%s"%s}\n' "$seq" "$attempt" $((1000 + seq)) "$1" "$2" >> "$events"
}
started() { emit started ',"total_steps":100'; }
metric() { emit metric ",\"step\":$1,\"values\":{\"loss\":$1.5}"; }
leave() {
    printf '{"code":%d,"class":"%s","attempt":%d,"message":%s,"hint":%s}' "$1" "$2" "$attempt" "${3:-null}" "${4:-null}" > "$dir/exit.tmp"
    mv "$dir/exit.tmp" "$dir/exit.json"
    exit "$1"
}
"#;

/// A data folder with a stub trainer.
pub(crate) struct Board {
    folder: tempfile::TempDir,
}

impl Board {
    pub(crate) fn new(stub: &str) -> Self {
        let board = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        board.replace_stub(stub);
        board
    }

    pub(crate) fn replace_stub(&self, stub: &str) {
        let beside = self.path().join("trainer.new");
        fs::write(&beside, format!("{STUB}\n{stub}\n")).unwrap();
        fs::set_permissions(&beside, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(beside, self.trainer()).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn trainer(&self) -> PathBuf {
        self.path().join("trainer")
    }

    pub(crate) fn exit_record(&self, id: RunId) -> PathBuf {
        self.path()
            .join("runs")
            .join(id.to_string())
            .join("exit.json")
    }

    pub(crate) fn settings(&self) -> Settings {
        settings(self.path())
    }

    pub(crate) async fn store(&self) -> Store {
        Store::open(&self.path().join("board.sqlite"))
            .await
            .unwrap()
    }

    pub(crate) async fn start(&self) -> (Store, Supervisor) {
        let store = self.store().await;
        let supervisor = Supervisor::start(store.clone(), self.settings())
            .await
            .unwrap();
        (store, supervisor)
    }
}

/// Ends the stubs that a test has left running: a launcher outlives its board, but not its folder.
impl Drop for Board {
    fn drop(&mut self) {
        let runs = fs::read_dir(self.path().join("runs")).into_iter().flatten();
        for run in runs.flatten() {
            let record = LauncherRecord::read(&RunDir::new(run.path()).launcher());
            let Some(pid) = record.ok().flatten().map(|record| record.pid) else {
                continue;
            };
            // A record may name a process of somebody else; a stub is known by its path.
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            if String::from_utf8_lossy(&command).contains(&*self.path().to_string_lossy()) {
                let group = Pid::from_raw(i32::try_from(pid).expect("a process id fits"));
                let _ = killpg(group, Signal::SIGKILL);
            }
        }
    }
}

pub(crate) fn settings(folder: &Path) -> Settings {
    Settings {
        environment: std::env::vars_os().collect(),
        ..Settings::new(folder.join("runs"), folder.join("trainer"))
    }
}

pub(crate) fn submission(name: &str) -> Submission {
    Submission {
        name: Some(name.to_owned()),
        config: RunConfig::default(),
        input_yaml: "# as given\nstage: sft\n".to_owned(),
        tags: Vec::new(),
    }
}

pub(crate) async fn create(supervisor: &Supervisor) -> RunId {
    supervisor.create_run(submission("a run")).await.unwrap().id
}

/// Waits until a run is as wanted.
pub(crate) async fn wait_for(store: &Store, id: RunId, is_wanted: impl Fn(&Run) -> bool) -> Run {
    let mut events = store.subscribe();
    let waiting = async {
        loop {
            let run = store.find_run(id).await.unwrap().unwrap();
            if is_wanted(&run) {
                return run;
            }
            // A lag is an event too: the run is looked at again.
            drop(events.recv().await);
        }
    };
    if let Ok(run) = tokio::time::timeout(LIMIT, waiting).await {
        return run;
    }
    panic!("waited too long; the run is {:?}", store.find_run(id).await)
}

pub(crate) async fn wait_for_state(store: &Store, id: RunId, state: RunState) -> Run {
    wait_for(store, id, |run| {
        run.state == state || (run.state.is_final() && !state.is_final())
    })
    .await
}

pub(crate) async fn wait_for_step(store: &Store, id: RunId, step: u64) -> Run {
    wait_for(store, id, |run| {
        run.steps_done >= step || run.state.is_final()
    })
    .await
}

/// Waits until something outside of the store is so.
pub(crate) async fn wait_until(what: &str, is_so: impl AsyncFn() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(
        tokio::time::timeout(LIMIT, waiting).await.is_ok(),
        "waited too long until {what}"
    );
}

pub(crate) fn is_process_there(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| {
        !stat
            .rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('Z'))
    })
}

pub(crate) async fn steps(store: &Store, id: RunId) -> Vec<i64> {
    let mut export = store.export(id).await.unwrap();
    let mut rows: Vec<MetricRow> = Vec::new();
    while let Some(batch) = export.next().await.unwrap() {
        rows.extend(batch);
    }
    rows.iter().map(|row| row.point.step).collect()
}
