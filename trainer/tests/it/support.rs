//! Runs of the real program in a folder of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use run_protocol::events::{EventKind, EventReader, Metric};
use run_protocol::{Event, ExitRecord, RunDir};
use serde_json::Value;
use tempfile::TempDir;

/// A folder with a dataset, and runs in it.
pub(crate) struct Lab {
    temp: TempDir,
}

impl Lab {
    /// Makes the folder and a dataset of 16 rows, named `rows`.
    pub(crate) fn new() -> Self {
        let lab = Self {
            temp: tempfile::tempdir().expect("a folder"),
        };
        let rows: Vec<Value> = (0..16_u32)
            .map(|i| {
                serde_json::json!({
                    "instruction": format!("Say the number after {i}."),
                    "input": if i % 3 == 0 { "Use words where you can." } else { "" },
                    "output": format!("The number after {i} is {}, of course.{}", i + 1, " Yes.".repeat(i as usize % 5)),
                })
            })
            .collect();
        lab.write(
            "data/rows.json",
            &serde_json::to_string(&rows).expect("JSON"),
        );
        lab.write(
            "data/dataset_info.json",
            r#"{"rows": {"file_name": "rows.json"}}"#,
        );
        lab
    }

    pub(crate) fn path(&self) -> &Path {
        self.temp.path()
    }

    /// Writes a file, with its folder.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is made");
        fs::write(&path, text).expect("the file is written");
        path
    }

    /// Writes the configuration of a short run; the lines of `more` are added or take the place of its own.
    pub(crate) fn config(&self, more: &str) -> PathBuf {
        let text = format!(
            "stage: sft\nmodel_name_or_path: {}\ndataset: rows\ndataset_dir: data\ntemplate: qwen\noutput_dir: out\n\
             cutoff_len: 128\nper_device_train_batch_size: 2\ngradient_accumulation_steps: 2\nlearning_rate: 1.0e-3\n\
             lr_scheduler_type: cosine\nwarmup_ratio: 0.1\nlogging_steps: 1\nseed: 7",
            model("tiny-qwen2").display()
        );
        let key = |line: &str| line.split(':').next().unwrap_or_default().to_owned();
        let given: Vec<String> = more.lines().map(key).collect();
        let kept: Vec<&str> = text
            .lines()
            .filter(|line| !given.contains(&key(line)))
            .collect();
        self.write("run.yaml", &format!("{}\n{more}\n", kept.join("\n")))
    }

    /// Prepares the program in this folder, without the variables of an outer launcher.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trainer"));
        command
            .current_dir(self.path())
            .env("OMP_NUM_THREADS", "1")
            .stdin(Stdio::null());
        for name in [
            "RANK",
            "WORLD_SIZE",
            "LOCAL_RANK",
            "NNODES",
            "NPROC_PER_NODE",
            "RUST_LOG",
        ] {
            command.env_remove(name);
        }
        command
    }

    /// Runs `trainer train run.yaml` with more arguments to its end.
    pub(crate) fn train(&self, arguments: &[&str]) -> Output {
        self.command()
            .args(["train", "run.yaml"])
            .args(arguments)
            .output()
            .expect("the program starts")
    }

    /// Starts `trainer train run.yaml` and leaves it running.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        let child = self
            .command()
            .args(["train", "run.yaml"])
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        Running { child }
    }

    pub(crate) fn run_dir(&self) -> RunDir {
        RunDir::new(self.path().join("out"))
    }
}

/// A run in the background, which does not outlive its test.
pub(crate) struct Running {
    pub(crate) child: Child,
}

impl Running {
    /// Sends a signal to the launcher.
    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).expect("a process id"));
        nix::sys::signal::kill(pid, signal).expect("the launcher lives");
    }

    /// Waits for its end and returns its code.
    pub(crate) fn wait(mut self) -> Option<i32> {
        self.child.wait().expect("the program ends").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns the folder of a tiny model.
pub(crate) fn model(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/models")
        .join(name)
}

/// Copies a tiny model so that a test may damage it.
pub(crate) fn copy_model(name: &str, to: &Path) {
    copy_folder(&model(name), to);
}

/// Copies a folder of files.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the folder is made");
    for entry in fs::read_dir(from).expect("the folder is read") {
        let path = entry.expect("an entry").path();
        fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("the file is copied");
    }
}

/// Reads all events; a line that is none fails the test.
pub(crate) fn events(dir: &RunDir) -> Vec<Event> {
    let mut reader = EventReader::new(dir.events(), 0);
    let mut events = Vec::new();
    loop {
        let batch = reader.read(10_000).expect("the events are read");
        assert!(batch.bad_lines.is_empty(), "{:?}", batch.bad_lines);
        events.extend(batch.events);
        if batch.is_at_end {
            return events;
        }
    }
}

/// Returns the metric events that hold `name`, with its values.
pub(crate) fn metrics(events: &[Event], name: &str) -> Vec<(u64, f64)> {
    let metrics = events.iter().filter_map(|event| match &event.kind {
        EventKind::Metric(Metric { step, values, .. }) => {
            values.get(name).map(|value| (*step, value.get()))
        }
        _ => None,
    });
    metrics.collect()
}

/// Waits until the run has logged `step`, or fails after a minute.
pub(crate) fn wait_for_step(dir: &RunDir, step: u64) {
    wait_until(|| {
        dir.events().exists()
            && metrics(&events(dir), "loss")
                .iter()
                .any(|(found, _)| *found >= step)
    });
}

/// Waits until `is_done`, or fails after two minutes.
pub(crate) fn wait_until(is_done: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_done() {
        assert!(
            started.elapsed() < Duration::from_mins(2),
            "waited too long"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Reads `exit.json`.
pub(crate) fn exit(dir: &RunDir) -> ExitRecord {
    ExitRecord::read(&dir.exit())
        .expect("exit.json is read")
        .expect("exit.json is there")
}

/// Reads `trainer_log.jsonl`.
pub(crate) fn log(dir: &RunDir) -> Vec<Value> {
    let text = fs::read_to_string(dir.trainer_log()).expect("the log is there");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a whole line"))
        .collect()
}

/// Asserts that the program ended with `code` and said `words`.
pub(crate) fn assert_ended(output: &Output, code: i32, words: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is not in:\n{text}");
    }
}
