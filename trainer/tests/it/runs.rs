//! What a run that ends well writes down.

use std::fs;

use run_protocol::events::EventKind;
use serde_json::Value;
use tch::Device;
use trainer_models::{LoadOptions, Lora, Model, Precision, Tuning};

use crate::support::{Lab, assert_ended, events, exit, log, metrics, model};

#[test]
fn full_run_leaves_model_logs_and_results() {
    let lab = Lab::new();
    lab.config("finetuning_type: full\nnum_train_epochs: 2\nval_size: 4\neval_strategy: steps\neval_steps: 2\nplot_loss: true\noverwrite_cache: true");
    let output = lab.train(&[]);
    assert_ended(&output, 0, &["finished: the results are in"]);
    let dir = lab.run_dir();
    let events = events(&dir);
    assert!(
        events
            .iter()
            .zip(1..)
            .all(|(event, seq)| event.seq == seq && event.attempt == 1)
    );
    let losses = metrics(&events, "loss");
    assert_eq!(
        losses.iter().map(|(step, _)| *step).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 6]
    );
    assert_eq!(
        metrics(&events, "eval_loss")
            .iter()
            .map(|(step, _)| *step)
            .collect::<Vec<_>>(),
        [2, 4, 6]
    );
    for name in [
        "learning_rate",
        "grad_norm",
        "train_tokens_per_second",
        "num_input_tokens_seen",
        "step_time_ms",
    ] {
        assert_eq!(metrics(&events, name).len(), 6, "{name}");
    }
    let started = events.iter().find_map(|event| match &event.kind {
        EventKind::Started(started) => Some(started),
        _ => None,
    });
    let started = started.expect("a started event");
    assert_eq!(
        (started.total_steps, started.num_examples),
        (Some(6), Some(12))
    );
    assert_eq!(
        started
            .accepted_without_effect
            .iter()
            .map(|key| key.key.as_str())
            .collect::<Vec<_>>(),
        ["overwrite_cache"]
    );
    assert_eq!(started.trainable_parameters, started.total_parameters);
    assert!(
        matches!(&events.last().expect("events").kind, EventKind::Finished(finished) if finished.step == 6 && !finished.stopped)
    );
    let lines = log(&dir);
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.get("loss").is_some())
            .count(),
        6
    );
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.get("eval_loss").is_some())
            .count(),
        3
    );
    assert_eq!(lines[0]["lr"], 0.0);
    let results: Value = serde_json::from_slice(&fs::read(dir.all_results()).unwrap()).unwrap();
    assert!(
        results["train_loss"].as_f64().unwrap() > 0.0
            && results["eval_loss"].as_f64().unwrap() > 0.0
    );
    for path in [
        dir.training_loss(),
        dir.trainer_state(),
        dir.train_results(),
        dir.eval_results(),
        dir.training_args(),
    ] {
        assert!(path.is_file(), "{}", path.display());
    }
    assert_eq!(exit(&dir).code, 0);
    assert!(!dir.root().join(".reserve").exists() && !dir.root().join(".export.part").exists());
    let options = LoadOptions {
        precision: Precision::F32,
        tuning: Tuning::Frozen,
        device: Device::Cpu,
    };
    Model::load(dir.root(), &options).expect("the trained model loads");
    assert!(dir.root().join("tokenizer.json").is_file());
}

#[test]
fn adapter_run_leaves_an_adapter_that_loads() {
    let lab = Lab::new();
    lab.config(
        "finetuning_type: lora\nlora_rank: 4\nmax_steps: 3\nbf16: true\nsave_strategy: \"no\"",
    );
    assert_ended(&lab.train(&[]), 0, &[]);
    let dir = lab.run_dir();
    assert!(
        !dir.root().join("model.safetensors").exists() && dir.checkpoints().unwrap().is_empty()
    );
    let lora = Lora {
        adapters: vec![dir.root().to_owned()],
        ..Lora::new(4, 0)
    };
    let options = LoadOptions {
        precision: Precision::F32,
        tuning: Tuning::Lora(lora),
        device: Device::Cpu,
    };
    Model::load(&model("tiny-qwen2"), &options).expect("the adapter loads");
}

#[test]
fn gradient_checkpointing_changes_no_loss() {
    let losses = |switch: &str| {
        let lab = Lab::new();
        lab.config(&format!(
            "finetuning_type: full\nmax_steps: 3\ndisable_gradient_checkpointing: {switch}"
        ));
        assert_ended(&lab.train(&[]), 0, &[]);
        metrics(&events(&lab.run_dir()), "loss")
    };
    assert_eq!(losses("true"), losses("false"));
}

#[test]
fn dataset_smaller_than_one_batch_trains() {
    let lab = Lab::new();
    lab.config("finetuning_type: lora\nmax_samples: 1\nnum_train_epochs: 2");
    assert_ended(&lab.train(&[]), 0, &[]);
    assert_eq!(metrics(&events(&lab.run_dir()), "loss").len(), 2);
}

#[test]
fn overrides_and_the_stage_command_reach_the_run() {
    let lab = Lab::new();
    lab.config("finetuning_type: lora\nmax_steps: 9");
    let output = lab
        .command()
        .args(["sft", "run.yaml", "max_steps=1", "output_dir=elsewhere"])
        .output()
        .unwrap();
    assert_ended(&output, 0, &[]);
    let dir = run_protocol::RunDir::new(lab.path().join("elsewhere"));
    assert_eq!(metrics(&events(&dir), "loss").len(), 1);
    let output = lab.command().args(["dpo", "run.yaml"]).output().unwrap();
    assert_ended(&output, 10, &["`dpo`", "`stage: sft`", "trainer train"]);
}

#[test]
fn environment_and_version_are_shown() {
    let lab = Lab::new();
    let output = lab.command().arg("env").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success()
            && text.contains("libtorch         2.13.0")
            && text.contains("qwen3"),
        "{text}"
    );
    let output = lab.command().arg("version").output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("trainer {}\n", env!("CARGO_PKG_VERSION"))
    );
}
