//! What a person reads when a file is wrong.

use run_protocol::{Code, RunConfig, limits::MAX_CONFIG_BYTES};

use crate::support::{read, reasons};

#[test]
fn all_faults_of_a_file_are_reported_at_once() {
    let text = "\
model_name_or_path: /models/tiny
dataset: demo
stage: rlhf
template: quen3
finetuning_tipe: lora
learning_rate: fast
lora_rank: -8
lora_dropout: 1.5
bf16: true
fp16: true
bf16: false
cutoff_len: [1, 2]
quantization_bit: 4
packing: true
val_size: 0.1
eval_dataset: demo
mask_history: true
train_on_prompt: true
dist_config: {name: fsdp2, shard: true}
hf_hub_token: hf_secret
warmup_steps: 0.1
learning-rate: 1
";
    insta::assert_snapshot!(read(text).expect_err("it is full of faults"));
}

#[test]
fn a_mistyped_key_names_the_nearest_legal_one() {
    for (typed, near) in [
        ("learning_rte", "learning_rate"),
        ("lora-rank", "lora_rank"),
        ("batch_size", "per_device_train_batch_size"),
        ("packin", "packing"),
        ("num_epochs", "num_train_epochs"),
        ("Template", "template"),
        ("max_step", "max_steps"),
    ] {
        assert_eq!(run_protocol::keys::nearest(typed), Some(near), "{typed}");
    }
    assert_eq!(run_protocol::keys::nearest("zzz"), None);
}

#[test]
fn a_mistyped_required_key_is_reported_once() {
    let reasons = reasons("model_name_or_pth: /m\ndataset: demo\ntemplate: qwen3\n");
    assert_eq!(reasons, ["there is no such key"]);
}

#[test]
fn mixing_both_spellings_names_both() {
    let errors = read("model_name_or_path: /a\nmodel: /b\ndataset: d\n")
        .expect_err("two spellings")
        .0;
    assert_eq!(
        errors[0].reason,
        "`model_name_or_path` and `model` are two spellings of one thing"
    );
    assert_eq!((errors[0].line, errors[0].code), (Some(2), Code::Conflict));
    let text = "model: /m\ntrain_dataset: d\ntemplate: qwen\nlora_rank: 4\npeft_config: {name: lora, r: 8}\n";
    assert_eq!(
        reasons(text),
        ["`lora_rank` and `peft_config.r` are two spellings of one thing"]
    );
    let text = "model: /m\ntrain_dataset: d\ntemplate: qwen\nglobal_batch_size: 4\ngradient_accumulation_steps: 2\n";
    assert_eq!(
        reasons(text),
        ["`global_batch_size` and `gradient_accumulation_steps` decide the same thing"]
    );
}

#[test]
fn broken_yaml_has_a_place() {
    let errors = read("stage: sft\nmodel_name_or_path: [a\ndataset: demo\n")
        .expect_err("the list does not end")
        .0;
    assert_eq!(errors[0].code, Code::Syntax);
    assert!(errors[0].line.is_some() && errors[0].column.is_some());
    assert!(read("- a\n- b\n").is_err());
    assert!(read("just words").is_err());
    assert!(read("a: 1\n---\nb: 2\n").is_err());
}

#[test]
fn aliases_anchors_and_tags_are_refused() {
    let bomb = "a: &a [x, x]\nb: &b [*a, *a]\nmodel_name_or_path: !!python/object:os.system /m\n";
    let reasons = reasons(bomb);
    for part in ["anchors", "aliases", "tags"] {
        assert!(
            reasons.iter().any(|reason| reason.starts_with(part)),
            "{part}: {reasons:?}"
        );
    }
}

#[test]
fn a_huge_or_deep_file_is_refused() {
    let huge = format!("run_name: {}\n", "x".repeat(MAX_CONFIG_BYTES));
    assert_eq!(
        read(&huge).expect_err("too large").0[0].code,
        Code::TooLarge
    );
    let deep = format!("lora_target: {}{}\n", "[".repeat(200), "]".repeat(200));
    assert!(read(&deep).is_err());
    let long = format!("lora_target: [{}]\n", "a,".repeat(100_000));
    assert!(read(&long).is_err());
}

#[test]
fn hostile_files_are_refused_quickly() {
    assert!(read(&"[".repeat(500_000)).is_err());
    assert!(read(&"{a: ".repeat(200_000)).is_err());
    assert!(read(&format!("{}: 1\n", "k".repeat(900_000))).is_err());
    let many: Vec<String> = (0..1_900)
        .map(|index| format!("unknown_{index}: 1"))
        .collect();
    let many = many.join(
        "
",
    );
    assert!(
        read(&many).expect_err("all are unknown").len()
            <= run_protocol::limits::MAX_CONFIG_ERRORS + 5
    );
    let dots = ("a.".repeat(100_000), serde_json::json!(1));
    assert!(RunConfig::from_pairs(&[dots].into()).is_err());
    let numbers: std::collections::BTreeMap<_, _> = (0..50_000)
        .map(|index| (format!("k{index}"), serde_json::json!(1)))
        .collect();
    assert_eq!(
        RunConfig::from_pairs(&numbers).expect_err("too many").0[0].code,
        Code::TooLarge
    );
}

#[test]
fn windows_line_ends_and_a_byte_order_mark_are_read() {
    let text = "\u{feff}model_name_or_path: /m\r\ndataset: d\r\ntemplate: qwen\r\n";
    assert!(read(text).expect("it is YAML").check().is_ok());
}

#[test]
fn an_empty_file_says_what_is_missing() {
    for text in ["", "\n", "# nothing\n", "null\n", "{}"] {
        let parsed = read(text).expect("an empty file has no faults of its own");
        let fields: Vec<String> = parsed
            .check()
            .errors
            .into_iter()
            .map(|error| error.field)
            .collect();
        assert_eq!(
            fields,
            ["model_name_or_path", "dataset", "template"],
            "{text:?}"
        );
    }
}

#[test]
fn a_secret_is_not_repeated() {
    let errors = read("hf_hub_token: hf_abc\nswanlab_api_key: sk_abc\nmy_password: abc\n")
        .expect_err("secrets are refused");
    assert!(!errors.to_string().contains("abc"), "{errors}");
}

#[test]
fn checks_of_a_read_file_have_places() {
    let parsed = read("model_name_or_path: /m\ndataset: d\nstage: dpo\ntemplate: qwen\n")
        .expect("every key is legal");
    let errors = parsed.check().errors;
    assert_eq!(
        (errors[0].field.as_str(), errors[0].line),
        ("stage", Some(3))
    );
}

#[test]
fn pairs_that_nest_too_deep_are_refused() {
    let mut value = serde_json::json!("x");
    for _ in 0..40 {
        value = serde_json::json!([value]);
    }
    let pairs = [("lora_target".to_owned(), value)].into();
    assert_eq!(
        RunConfig::from_pairs(&pairs).expect_err("too deep").0[0].code,
        Code::TooLarge
    );
}
