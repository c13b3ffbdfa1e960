//! A resumed run is the unbroken run, to the last bit.

use std::fs;

use nix::sys::signal::Signal;

use crate::support::{Lab, assert_ended, copy_folder, events, log, metrics, wait_until};

/// Returns the losses that the log holds, by step.
fn losses(lab: &Lab) -> Vec<(u64, f64)> {
    let lines = log(&lab.run_dir());
    let loss = |line: &serde_json::Value| {
        Some((line["current_steps"].as_u64()?, line.get("loss")?.as_f64()?))
    };
    lines.iter().filter_map(loss).collect()
}

fn assert_resumes_exactly(more: &str, weights: &str) {
    let (whole, broken) = (Lab::new(), Lab::new());
    let config = format!("{more}\nmax_steps: 10\nsave_steps: 4\nlogging_steps: 1");
    whole.config(&config);
    assert_ended(&whole.train(&[]), 0, &[]);
    broken.config(&config);
    let checkpoint = whole.run_dir().checkpoint(4);
    copy_folder(&checkpoint, &broken.run_dir().checkpoint(4));
    assert_ended(&broken.train(&[]), 0, &["going on from it"]);
    let (expected, found) = (losses(&whole), losses(&broken));
    assert_eq!(found, expected[4..], "{more}");
    let read =
        |lab: &Lab| fs::read(lab.run_dir().root().join(weights)).expect("the weights are there");
    assert!(
        read(&whole) == read(&broken),
        "the final weights differ: {more}"
    );
    let norms = |lab: &Lab| metrics(&events(&lab.run_dir()), "grad_norm");
    assert_eq!(norms(&broken), norms(&whole)[4..]);
}

#[test]
fn resumed_full_run_equals_the_unbroken_one() {
    assert_resumes_exactly(
        "finetuning_type: full\nweight_decay: 0.1",
        "model.safetensors",
    );
    assert_resumes_exactly("finetuning_type: full\nbf16: true", "model.safetensors");
}

#[test]
fn resumed_adapter_run_equals_the_unbroken_one() {
    assert_resumes_exactly(
        "finetuning_type: lora\nlora_dropout: 0.2",
        "adapter_model.safetensors",
    );
    assert_resumes_exactly(
        "finetuning_type: lora\nbf16: true\nlora_dropout: 0.1",
        "adapter_model.safetensors",
    );
}

#[test]
fn killed_run_resumes_from_its_newest_checkpoint() {
    let (whole, killed) = (Lab::new(), Lab::new());
    let config = "finetuning_type: full\nmax_steps: 30\nsave_steps: 5\nsave_total_limit: 2";
    whole.config(config);
    assert_ended(&whole.train(&[]), 0, &[]);
    killed.config(config);
    let running = killed.start(&[]);
    wait_until(|| {
        killed
            .run_dir()
            .checkpoint(5)
            .join("CHECKPOINT_COMPLETE")
            .exists()
    });
    running.signal(Signal::SIGKILL);
    drop(running);
    let before = events(&killed.run_dir()).len();
    assert_ended(&killed.train(&["--resume", "auto"]), 0, &[]);
    let after = events(&killed.run_dir());
    assert!(after.len() > before && after.iter().zip(1..).all(|(event, seq)| event.seq == seq));
    assert!(after.iter().any(|event| event.attempt == 2));
    assert_eq!(losses(&killed), losses(&whole));
    let steps: Vec<u64> = killed
        .run_dir()
        .checkpoints()
        .unwrap()
        .into_iter()
        .map(|found| found.0)
        .collect();
    assert_eq!(steps, [25, 30]);
}

#[test]
fn finished_folder_is_not_overwritten_by_accident() {
    let lab = Lab::new();
    lab.config("finetuning_type: lora\nmax_steps: 2\nsave_strategy: \"no\"");
    assert_ended(&lab.train(&[]), 0, &[]);
    assert_ended(
        &lab.train(&[]),
        10,
        &["already holds a finished model", "overwrite_output_dir"],
    );
    assert_ended(&lab.train(&["overwrite_output_dir=true"]), 0, &[]);
    assert_eq!(losses(&lab).len(), 2);
}

#[test]
fn incomplete_checkpoint_is_refused_by_name_and_passed_over_by_auto() {
    let lab = Lab::new();
    lab.config("finetuning_type: lora\nmax_steps: 4\nsave_steps: 2");
    assert_ended(&lab.train(&[]), 0, &[]);
    let dir = lab.run_dir();
    fs::remove_file(dir.checkpoint(4).join("CHECKPOINT_COMPLETE")).unwrap();
    let named = dir.checkpoint(4).display().to_string();
    assert_ended(
        &lab.train(&["--resume", &named]),
        10,
        &["CHECKPOINT_COMPLETE"],
    );
    assert_ended(&lab.train(&["--resume", "auto"]), 0, &[]);
    let num_events = events(&dir)
        .iter()
        .filter(|event| event.attempt == 2)
        .count();
    assert!(num_events > 3);
    assert_eq!(
        losses(&lab)
            .iter()
            .map(|(step, _)| *step)
            .collect::<Vec<_>>(),
        [1, 2, 3, 4]
    );
}

#[test]
fn damaged_checkpoint_is_refused_with_what_to_do() {
    let lab = Lab::new();
    lab.config("finetuning_type: full\nmax_steps: 4\nsave_steps: 2");
    assert_ended(&lab.train(&[]), 0, &[]);
    let newest = lab.run_dir().checkpoint(4);
    for name in ["optimizer.safetensors", "model.safetensors", "config.json"] {
        let path = newest.join(name);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let words = ["checkpoint-4` cannot be resumed", name, "remove this one"];
        assert_ended(&lab.train(&["--resume", "auto"]), 10, &words);
        fs::write(&path, bytes).unwrap();
    }
    let words = ["cannot be resumed", "`finetuning_type: full`", "`lora`"];
    assert_ended(
        &lab.train(&["--resume", "auto", "finetuning_type=lora"]),
        10,
        &words,
    );
    fs::remove_dir_all(newest).unwrap();
    assert_ended(&lab.train(&["--resume", "auto"]), 0, &[]);
}

#[test]
fn checkpoints_without_optimizer_are_passed_over() {
    let lab = Lab::new();
    lab.config("finetuning_type: lora\nmax_steps: 4\nsave_steps: 2");
    assert_ended(&lab.train(&[]), 0, &[]);
    let dir = lab.run_dir();
    fs::remove_file(dir.checkpoint(4).join("optimizer.safetensors")).unwrap();
    assert_ended(&lab.train(&[]), 0, &["going on from it", "step=2"]);
    for step in [2, 4] {
        fs::remove_file(dir.checkpoint(step).join("optimizer.safetensors")).unwrap();
    }
    for arguments in [
        &[][..],
        &["--resume", "auto"],
        &["resume_from_checkpoint=auto"],
    ] {
        let words = ["already holds a finished model", "overwrite_output_dir"];
        assert_ended(&lab.train(arguments), 10, &words);
    }
}
