//! Bad input: each ends with its code, a message that names the thing, and a hint.

use std::fs;

use crate::support::{Lab, assert_ended, copy_model, exit, model};

#[test]
fn faults_of_the_configuration_come_all_at_once() {
    let lab = Lab::new();
    lab.config("finetuning_type: lora\nlora_rnk: 4\nlearning_rate: fast\nbf16: true\nfp16: true");
    assert_ended(
        &lab.train(&[]),
        10,
        &["lora_rnk", "lora_rank", "learning_rate", "fast"],
    );
    assert!(!lab.run_dir().root().exists());
    let missing = lab.command().args(["train", "none.yaml"]).output().unwrap();
    assert_ended(&missing, 10, &["none.yaml", "hint"]);
}

#[test]
fn refusal_under_the_board_is_written_into_its_folder() {
    let lab = Lab::new();
    lab.config("finetuning_type: lora\nlora_rnk: 4");
    fs::create_dir_all(lab.path().join("run/logs")).unwrap();
    assert_ended(&lab.train(&["--run-dir", "run"]), 10, &["lora_rnk"]);
    let record = exit(&run_protocol::RunDir::new(lab.path().join("run")));
    assert_eq!(record.class, "bad_config");
    assert!(record.message.unwrap().contains("lora_rank"));
}

#[test]
fn bad_data_is_named_with_its_place() {
    let cases = [
        (
            "[{\"instruction\": \"a\", \"output\": \"b\"},]",
            vec!["rows.json:1:"],
        ),
        ("[{\"instruction\": \"a\"}]", vec!["output"]),
        ("", vec!["rows.json"]),
        ("[]", vec!["rows"]),
    ];
    for (text, words) in cases {
        let lab = Lab::new();
        lab.config("finetuning_type: lora");
        lab.write("data/rows.json", text);
        assert_ended(&lab.train(&[]), 11, &words);
        let record = exit(&lab.run_dir());
        assert_eq!(record.class, "bad_data", "{text}");
        assert!(record.message.is_some());
    }
}

#[test]
fn data_whose_labels_are_all_cut_away_is_refused() {
    let lab = Lab::new();
    lab.config("finetuning_type: lora");
    let rows = serde_json::json!([{"instruction": "word ".repeat(600), "output": ""}]);
    lab.write("data/rows.json", &rows.to_string());
    let output = lab.train(&["cutoff_len=4"]);
    assert_eq!(
        output.status.code(),
        Some(11),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn bad_models_are_refused_with_what_to_do() {
    type Damage = fn(&std::path::Path);
    let cases: [(Damage, &[&str]); 7] = [
        (
            |folder| fs::remove_file(folder.join("config.json")).unwrap(),
            &["config.json", "hint"],
        ),
        (
            |folder| fs::remove_file(folder.join("model.safetensors")).unwrap(),
            &["safetensors", "hint"],
        ),
        (
            |folder| {
                fs::remove_file(folder.join("model.safetensors")).unwrap();
                fs::write(folder.join("pytorch_model.bin"), b"PK").unwrap();
            },
            &["pickle", "safe_serialization"],
        ),
        (
            |folder| {
                let path = folder.join("model.safetensors");
                let bytes = fs::read(&path).unwrap();
                fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
            },
            &["model.safetensors", "hint"],
        ),
        (
            |folder| fs::write(folder.join("model.safetensors"), u64::MAX.to_le_bytes()).unwrap(),
            &["header"],
        ),
        (
            |folder| {
                edit_config(
                    folder,
                    "\"model_type\"",
                    "\"model_type\": \"gpt9\", \"was\"",
                );
            },
            &["gpt9", "supported are"],
        ),
        (
            |folder| {
                edit_config(
                    folder,
                    "\"hidden_size\"",
                    "\"auto_map\": {}, \"hidden_size\"",
                );
            },
            &["code of its own"],
        ),
    ];
    for (damage, words) in cases {
        let lab = Lab::new();
        lab.config("finetuning_type: lora");
        let folder = lab.path().join("model");
        copy_model("tiny-qwen2", &folder);
        damage(&folder);
        assert_ended(&lab.train(&["model_name_or_path=model"]), 12, words);
        assert_eq!(exit(&lab.run_dir()).class, "bad_model");
    }
}

#[test]
fn wrong_shapes_are_named() {
    let lab = Lab::new();
    lab.config("finetuning_type: lora");
    let folder = lab.path().join("model");
    copy_model("tiny-qwen2", &folder);
    let other = fs::read(model("tiny-llama3").join("model.safetensors")).unwrap();
    fs::write(folder.join("model.safetensors"), other).unwrap();
    let output = lab.train(&["model_name_or_path=model"]);
    assert_ended(&output, 12, &["model."]);
}

#[test]
fn tokenizer_files_that_do_not_fit_make_the_model_unusable() {
    let cases: [(&str, &str, &[&str]); 3] = [
        ("tokenizer.json", "{", &["tokenizer.json", "fetch or copy"]),
        (
            "tokenizer_config.json",
            "{",
            &["tokenizer_config.json", "line 1", "fetch or copy"],
        ),
        ("config.json", "{", &["config.json", "put the file right"]),
    ];
    for (name, text, words) in cases {
        let lab = Lab::new();
        lab.config("finetuning_type: lora");
        let folder = lab.path().join("model");
        copy_model("tiny-qwen2", &folder);
        fs::write(folder.join(name), text).unwrap();
        assert_ended(&lab.train(&["model_name_or_path=model"]), 12, words);
    }
}

#[test]
fn output_folder_that_cannot_be_made_is_a_wrong_setting() {
    let lab = Lab::new();
    lab.config("finetuning_type: lora");
    lab.write("taken", "a file");
    for folder in ["taken", "taken/below", "/proc/none"] {
        let output = lab.train(&[&format!("output_dir={folder}")]);
        assert_ended(
            &output,
            10,
            &[folder, "cannot make the folder", "hint: choose"],
        );
    }
}

#[test]
fn model_is_not_overwritten_by_its_results() {
    let lab = Lab::new();
    lab.config("finetuning_type: full\nmodel_name_or_path: model\noutput_dir: ./data/../model");
    let folder = lab.path().join("model");
    copy_model("tiny-qwen2", &folder);
    let before = fs::read(folder.join("model.safetensors")).unwrap();
    let output = lab.train(&["overwrite_output_dir=true"]);
    assert_ended(
        &output,
        10,
        &["the model's own folder", "another `output_dir`"],
    );
    assert_eq!(fs::read(folder.join("model.safetensors")).unwrap(), before);
}

#[test]
fn inputs_below_the_output_folder_are_kept() {
    let lab = Lab::new();
    for (name, key, whose) in [
        (
            "out/checkpoint-4",
            "model_name_or_path",
            "holds the model `checkpoint-4`",
        ),
        ("out", "adapter_name_or_path", "is the adapter's own folder"),
        (
            "out/checkpoint-4",
            "adapter_name_or_path",
            "holds the adapter `checkpoint-4`",
        ),
    ] {
        lab.config(&format!("finetuning_type: lora\n{key}: {name}"));
        let file = lab.write(&format!("{name}/CHECKPOINT_COMPLETE"), "");
        let output = lab.train(&["overwrite_output_dir=true"]);
        assert_ended(&output, 10, &[whose, "another `output_dir`"]);
        assert!(file.exists());
    }
}

#[test]
fn command_of_another_stage_is_refused_in_every_spelling() {
    let lab = Lab::new();
    for text in [
        "stage: sft\n",
        "{\"model_name_or_path\": \"m\", \"stage\": \"sft\"}",
        "{model_name_or_path: m, stage: sft}",
    ] {
        lab.write("run.yaml", text);
        let output = lab.command().args(["pt", "run.yaml"]).output().unwrap();
        assert_ended(&output, 10, &["the command is `pt`", "`stage: sft`"]);
    }
}

fn edit_config(folder: &std::path::Path, from: &str, to: &str) {
    let path = folder.join("config.json");
    let text = fs::read_to_string(&path).expect("the configuration is read");
    assert!(text.contains(from));
    fs::write(path, text.replacen(from, to, 1)).expect("the configuration is written");
}
