//! What breaks while a run is under way: numbers, and the disk.

use std::fs;
use std::process::{Command, Output, Stdio};

use run_protocol::events::EventKind;

use crate::support::{Lab, assert_ended, copy_model, events, exit, log, metrics};

#[test]
fn loss_that_is_no_number_is_logged_and_changes_nothing() {
    let lab = Lab::new();
    lab.config("finetuning_type: full\nmax_steps: 4\nsave_strategy: \"no\"");
    let folder = lab.path().join("model");
    copy_model("tiny-qwen2", &folder);
    let weights = folder.join("model.safetensors");
    let mut bytes = fs::read(&weights).unwrap();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(&weights, bytes).unwrap();
    assert_ended(
        &lab.train(&["model_name_or_path=model"]),
        16,
        &[
            "weights were left as they were",
            "no number for 4 steps in a row",
            "hint: lower `learning_rate`",
        ],
    );
    let dir = lab.run_dir();
    assert_eq!(exit(&dir).class, "non_finite_loss");
    let losses = metrics(&events(&dir), "loss");
    assert_eq!(losses.len(), 4);
    assert!(losses.iter().all(|(_, loss)| loss.is_nan()), "{losses:?}");
    let text = fs::read_to_string(dir.events()).unwrap();
    assert!(
        text.contains("\"loss\":\"NaN\""),
        "the number is kept as a word"
    );
    let is_alert = |kind: &EventKind| matches!(kind, EventKind::Alert(alert) if alert.code.starts_with("non_finite"));
    assert!(events(&dir).iter().any(|event| is_alert(&event.kind)));
    assert_eq!(log(&dir).len(), 4);
}

/// Runs the program with a limit on the size of a file, in KiB: what a full disk looks like to a writer.
fn train_with_file_limit(lab: &Lab, kib: u32) -> Output {
    let program = env!("CARGO_BIN_EXE_trainer");
    Command::new("bash")
        .args([
            "-c",
            &format!("ulimit -f {kib}; exec '{program}' train run.yaml"),
        ])
        .current_dir(lab.path())
        .env("OMP_NUM_THREADS", "1")
        .env_remove("RANK")
        .stdin(Stdio::null())
        .output()
        .expect("bash starts")
}

#[test]
fn file_that_cannot_grow_ends_the_run_and_loses_nothing() {
    let lab = Lab::new();
    lab.config("finetuning_type: full\nmax_steps: 6\nsave_steps: 3");
    let output = train_with_file_limit(&lab, 256);
    assert_ended(&output, 17, &["hint: free some room"]);
    let dir = lab.run_dir();
    assert_eq!(exit(&dir).class, "disk_full");
    assert_eq!(metrics(&events(&dir), "loss").len(), 3);
    assert_eq!(log(&dir).len(), 3);
    assert!(dir.checkpoints().unwrap().is_empty());
    let leftovers = fs::read_dir(dir.root())
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    assert!(
        !leftovers.into_iter().any(|name| name.contains("part")),
        "no half checkpoint stays"
    );
    assert_ended(&lab.train(&[]), 0, &[]);
}

#[test]
fn full_disk_ends_the_run_and_keeps_earlier_checkpoints() {
    let lab = Lab::new();
    lab.config("finetuning_type: full\nmax_steps: 40\nsave_steps: 2\nsave_total_limit: 20");
    let out = lab.path().join("out");
    fs::create_dir(&out).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=20m", "tmpfs"])
        .arg(&out)
        .stderr(Stdio::null())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("skipped: mounting a small disk needs root");
        return;
    }
    let output = lab.train(&[]);
    let dir = lab.run_dir();
    let found = std::panic::catch_unwind(|| {
        assert_ended(&output, 17, &["hint: free some room"]);
        assert_eq!(exit(&dir).class, "disk_full");
        let checkpoints = dir.checkpoints().unwrap();
        assert!(
            !checkpoints.is_empty(),
            "the checkpoints before it are there"
        );
        let last_step = metrics(&events(&dir), "loss").last().unwrap().0;
        assert!(last_step >= checkpoints.last().unwrap().0);
        assert!(
            events(&dir)
                .iter()
                .any(|event| matches!(event.kind, EventKind::Failed(_)))
        );
    });
    let unmounted = Command::new("umount").arg(&out).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    found.expect("the run ended as it should");
}
