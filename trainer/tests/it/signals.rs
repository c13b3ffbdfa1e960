//! Stopping, killing, and the last word that is left.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use run_protocol::events::EventKind;

use crate::support::{Lab, assert_ended, events, exit, metrics, wait_for_step, wait_until};

const LONG: &str =
    "finetuning_type: full\nmax_steps: 100000\nsave_steps: 100000\nlogging_steps: 1000";

/// Returns the process of rank 0 of a launcher.
fn rank_of(launcher: u32) -> Pid {
    let path = format!("/proc/{launcher}/task/{launcher}/children");
    let mut pid = None;
    wait_until(|| fs::read_to_string(&path).is_ok_and(|text| !text.trim().is_empty()));
    if let Ok(text) = fs::read_to_string(&path) {
        pid = text
            .split_whitespace()
            .next()
            .and_then(|word| word.parse().ok());
    }
    Pid::from_raw(pid.expect("the rank's process"))
}

#[test]
fn stopped_run_keeps_its_checkpoint() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let lab = Lab::new();
        lab.config(LONG);
        let running = lab.start(&[]);
        wait_for_step(&lab.run_dir(), 3);
        running.signal(signal);
        assert_eq!(running.wait(), Some(130));
        let dir = lab.run_dir();
        let record = exit(&dir);
        assert_eq!((record.code, record.class.as_str()), (130, "stopped"));
        assert_eq!(record.hint.as_deref(), Some("go on with `--resume auto`"));
        let (step, _) = *metrics(&events(&dir), "loss").last().expect("a step");
        assert_eq!(
            dir.latest_checkpoint().unwrap().map(|found| found.0),
            Some(step)
        );
        assert!(
            matches!(&events(&dir).last().unwrap().kind, EventKind::Finished(finished) if finished.stopped)
        );
    }
}

#[test]
fn stopped_run_without_optimizer_state_does_not_offer_to_go_on() {
    let lab = Lab::new();
    lab.config(&format!("{LONG}\nsave_only_model: true"));
    let running = lab.start(&[]);
    wait_for_step(&lab.run_dir(), 1);
    running.signal(Signal::SIGTERM);
    assert_eq!(running.wait(), Some(130));
    let record = exit(&lab.run_dir());
    assert!(record.message.unwrap().contains("holds the model only"));
    assert!(!record.hint.unwrap().contains("--resume"));
}

#[test]
fn rank_without_its_launcher_ends() {
    let lab = Lab::new();
    fs::create_dir_all(lab.path().join("out")).unwrap();
    let output = lab
        .command()
        .args(["rank", "out", "--launcher=1"])
        .output()
        .unwrap();
    assert_ended(&output, 14, &["the launcher is gone"]);
}

#[test]
fn killed_rank_is_named_with_its_signal() {
    let lab = Lab::new();
    lab.config(LONG);
    let running = lab.start(&[]);
    wait_for_step(&lab.run_dir(), 2);
    kill(rank_of(running.child.id()), Signal::SIGKILL).expect("the rank lives");
    assert_eq!(running.wait(), Some(14));
    let record = exit(&lab.run_dir());
    assert_eq!(
        (record.class.as_str(), record.rank, record.signal),
        ("rank_lost", Some(0), Some(9))
    );
    assert!(record.message.unwrap().contains("SIGKILL") && record.hint.unwrap().contains("memory"));
    let events = events(&lab.run_dir());
    assert!(
        matches!(&events.last().unwrap().kind, EventKind::Failed(failed) if failed.class == "rank_lost")
    );
    assert!(events.iter().all(|event| event.attempt == 1));
}

#[test]
fn killed_launcher_takes_its_rank_along() {
    let lab = Lab::new();
    lab.config(LONG);
    let running = lab.start(&[]);
    wait_for_step(&lab.run_dir(), 1);
    let rank = rank_of(running.child.id());
    running.signal(Signal::SIGKILL);
    drop(running);
    wait_until(|| !std::path::Path::new(&format!("/proc/{rank}")).exists() || is_zombie(rank));
    assert!(!lab.run_dir().exit().exists());
    assert!(!metrics(&events(&lab.run_dir()), "loss").is_empty());
}

fn is_zombie(pid: Pid) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
}

#[test]
fn several_ranks_are_refused_for_now() {
    let lab = Lab::new();
    lab.config(LONG);
    let output = lab
        .command()
        .args(["train", "run.yaml"])
        .env("NPROC_PER_NODE", "2")
        .output()
        .unwrap();
    assert_ended(&output, 10, &["NPROC_PER_NODE is 2", "distributed engine"]);
}

#[test]
fn second_trainer_in_a_folder_is_refused_and_leaves_the_first_alone() {
    let lab = Lab::new();
    lab.config(LONG);
    let first = lab.start(&[]);
    let dir = lab.run_dir();
    wait_for_step(&dir, 3);
    for arguments in [
        &[][..],
        &["--run-dir", "out"],
        &["overwrite_output_dir=true"],
    ] {
        let words = ["another trainer is at work", "hint: wait"];
        assert_ended(&lab.train(arguments), 10, &words);
    }
    assert!(!dir.exit().exists(), "the first one's end is its own");
    first.signal(Signal::SIGTERM);
    assert_eq!(first.wait(), Some(130));
    let seqs: Vec<u64> = events(&dir).iter().map(|event| event.seq).collect();
    assert!(seqs.iter().copied().eq(1..=seqs.len() as u64), "{seqs:?}");
}
