//! A real `board` process on a data folder of its own, and its REST as a script would use it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::wait::until;

/// A board under test. Dropping it ends the board and every trainer that it left.
pub(crate) struct Board {
    process: Child,
    port: u16,
    data_dir: PathBuf,
    models: Option<PathBuf>,
}

impl Board {
    /// Starts a board on a free port; `models` is a further folder whose model folders it offers.
    pub(crate) fn start(data_dir: &Path, models: Option<&Path>) -> Self {
        let (process, port) = spawn(data_dir, models, 0);
        Self {
            process,
            port,
            data_dir: data_dir.into(),
            models: models.map(Into::into),
        }
    }

    /// Ends the board by SIGKILL, as a crash would.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts the board again where it was: same port, same data folder.
    pub(crate) fn restart(&mut self) {
        (self.process, self.port) = spawn(&self.data_dir, self.models.as_deref(), self.port);
    }

    /// Returns the address of a page.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Returns the directory of a run.
    pub(crate) fn run_dir(&self, run: &str) -> PathBuf {
        self.data_dir.join("runs").join(run)
    }

    /// Returns the run as `GET /api/v1/runs/{id}` shows it.
    pub(crate) async fn run(&self, run: &str) -> Value {
        let answer = reqwest::get(self.url(&format!("/api/v1/runs/{run}")))
            .await
            .unwrap();
        assert!(answer.status().is_success(), "{}", answer.status());
        answer.json::<Value>().await.unwrap()["run"].clone()
    }

    /// Returns the state of a run.
    pub(crate) async fn state(&self, run: &str) -> String {
        self.run(run).await["state"].as_str().unwrap().to_owned()
    }

    /// Waits until the run has this state; another end state ends the wait at once.
    pub(crate) async fn wait_for_state(&self, run: &str, wanted: &str, limit: Duration) {
        until(&format!("run is {wanted}"), limit, async || {
            let state = self.state(run).await;
            let is_end = matches!(state.as_str(), "finished" | "failed" | "stopped");
            assert!(
                state == wanted || !is_end,
                "the run is {state} instead of {wanted}: {:#}\n{}",
                self.run(run).await,
                log_tail(&self.run_dir(run))
            );
            (state == wanted).then_some(())
        })
        .await;
    }

    /// Returns, for each metric of the CSV export, its steps in the order of the file.
    pub(crate) async fn csv_steps(&self, run: &str) -> BTreeMap<String, Vec<u64>> {
        let path = format!("/api/v1/runs/{run}/metrics?format=csv");
        let csv = reqwest::get(self.url(&path))
            .await
            .unwrap()
            .text()
            .await
            .unwrap();
        let mut lines = csv.lines();
        assert_eq!(lines.next(), Some("step,epoch,time,name,value"));
        let mut steps = BTreeMap::<String, Vec<u64>>::new();
        for line in lines {
            let columns: Vec<_> = line.split(',').collect();
            let step = columns[0].parse().unwrap();
            steps.entry(columns[3].to_owned()).or_default().push(step);
        }
        steps
    }

    /// Checks that the CSV has every step exactly once, from 1 to the last, and returns the last.
    pub(crate) async fn assert_no_step_is_missing_or_doubled(&self, run: &str) -> u64 {
        let steps = self.csv_steps(run).await;
        let mut losses = steps["loss"].clone();
        losses.sort_unstable();
        let last = *losses.last().unwrap();
        assert_eq!(losses, (1..=last).collect::<Vec<_>>());
        last
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // A test that ends with the board killed has nothing left to end.
        drop(self.process.kill());
        drop(self.process.wait());
        for pid in trainers(&self.data_dir.join("runs")) {
            // The launcher leads its own process group.
            let ended = Command::new("kill")
                .args(["-KILL", "--", &format!("-{pid}")])
                .status();
            drop(ended); // it may be gone already
        }
    }
}

/// Returns the launchers whose runs have not ended.
fn trainers(runs: &Path) -> Vec<u64> {
    let open = |entry: std::io::Result<std::fs::DirEntry>| {
        let dir = entry.ok()?.path();
        let text = std::fs::read(dir.join("launcher.json")).ok()?;
        let pid = serde_json::from_slice::<Value>(&text).ok()?["pid"].as_u64()?;
        (!dir.join("exit.json").exists() && Path::new(&format!("/proc/{pid}")).exists())
            .then_some(pid)
    };
    std::fs::read_dir(runs)
        .into_iter()
        .flatten()
        .filter_map(open)
        .collect()
}

/// Returns the last lines that the trainer wrote.
fn log_tail(run_dir: &Path) -> String {
    let tail = |name: &str| {
        let log = std::fs::read_to_string(run_dir.join(name)).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(20)..].join("\n");
        format!("-- {name}\n{last}\n")
    };
    ["logs/launcher.log", "logs/rank-0.log"].map(tail).concat()
}

fn spawn(data_dir: &Path, models: Option<&Path>, port: u16) -> (Child, u16) {
    let program = Path::new(env!("CARGO_BIN_EXE_board"));
    let trainer = std::env::var_os("BOARD_TRAINER")
        .map_or_else(|| program.with_file_name("trainer"), PathBuf::from);
    assert!(
        trainer.is_file(),
        "`{}` is missing: build it, or set BOARD_TRAINER",
        trainer.display()
    );
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(data_dir.with_extension("log"))
        .unwrap();
    let mut command = Command::new(program);
    command
        .args(["serve", "--port", &port.to_string(), "--data-dir"])
        .arg(data_dir)
        .args(models.map(|dir| format!("--models={}", dir.display())))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .process_group(0);
    let mut process = command.spawn().unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(process.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    let port = line
        .trim()
        .rsplit(':')
        .next()
        .and_then(|text| text.parse().ok());
    let port = port.unwrap_or_else(|| panic!("the board said `{line}`"));
    (process, port)
}
