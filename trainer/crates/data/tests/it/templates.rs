//! Token ids and labels against the reference's.

use jiff::civil::Date;
use rstest::rstest;
use serde::Deserialize;
use trainer_data::{Example, PrepareOptions, TemplateOptions, Tokenizer, prepare_sft};

use crate::support::{Folder, fixture, options, prepare, text, tokenizer};

#[derive(Deserialize)]
struct Reference {
    template: String,
    tokenizer: String,
    made_on: String,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    dataset: String,
    options: CaseOptions,
    eos: u32,
    pad: u32,
    rows: Vec<Row>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct CaseOptions {
    cutoff_len: Option<usize>,
    mask_history: bool,
    train_on_prompt: bool,
    default_system: Option<String>,
    enable_thinking: Option<bool>,
    preserve_thinking: bool,
}

#[derive(Deserialize)]
struct Row {
    runs: Vec<usize>,
    ids: Option<Vec<i32>>,
    sum: Option<String>,
}

#[rstest]
#[case("qwen")]
#[case("qwen3")]
#[case("qwen3_nothink")]
#[case("llama3")]
#[case("chatml")]
#[case("alpaca")]
#[case("default")]
fn ids_and_labels_are_those_of_the_reference(#[case] template: &str) {
    let file = std::fs::read(fixture("expected").join(format!("{template}.json")))
        .expect("the fixture is there");
    let reference: Reference = serde_json::from_slice(&file).expect("the fixture is valid");
    assert!(reference.cases.len() >= 12);
    for case in &reference.cases {
        let mut tokenizer = tokenizer(&reference.tokenizer);
        let prepared = prepare_sft(&case.prepare_options(&reference), &mut tokenizer, &|_| {})
            .expect("the rows are fine");
        assert_eq!(tokenizer.eos_token_id(), Some(case.eos), "{}", case.name);
        assert_eq!(tokenizer.pad_token_id(), Some(case.pad), "{}", case.name);
        assert_eq!(prepared.train.len(), case.rows.len(), "{}", case.name);
        for (number, (row, example)) in case.rows.iter().zip(&prepared.train).enumerate() {
            row.check(example, &format!("{template} {} row {number}", case.name));
        }
    }
}

impl Case {
    fn prepare_options(&self, reference: &Reference) -> PrepareOptions {
        let mut options = options(&fixture(""), &self.dataset);
        options.template = Some(reference.template.clone());
        options.template_options = TemplateOptions {
            default_system: self.options.default_system.clone(),
            enable_thinking: Some(self.options.enable_thinking.unwrap_or(true)),
            preserve_thinking: self.options.preserve_thinking,
            today: Date::strptime("%d %b %Y", &reference.made_on).expect("a date"),
        };
        options.example.cutoff_len = self.options.cutoff_len.unwrap_or(2048);
        options.example.mask_history = self.options.mask_history;
        options.example.train_on_prompt = self.options.train_on_prompt;
        options
    }
}

impl Row {
    fn check(&self, example: &Example, name: &str) {
        let mut labels = Vec::new();
        for (index, &length) in self.runs.iter().enumerate() {
            let run = &example.input_ids[labels.len().min(example.len())..];
            labels.extend(
                run.iter()
                    .take(length)
                    .map(|&id| if index % 2 == 0 { -100 } else { id }),
            );
        }
        assert_eq!(
            self.runs.iter().sum::<usize>(),
            example.len(),
            "{name}: number of tokens"
        );
        assert_eq!(labels, example.labels, "{name}: labels");
        if let Some(ids) = &self.ids {
            assert_eq!(ids, &example.input_ids, "{name}: ids");
        }
        if let Some(sum) = &self.sum {
            assert_eq!(
                sum,
                &checksum(&example.input_ids),
                "{name}: checksum of the ids"
            );
        }
    }
}

/// FNV-1a, 64 bits, over the ids as four bytes each.
fn checksum(ids: &[i32]) -> String {
    let hash = ids
        .iter()
        .flat_map(|id| id.to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    format!("{hash:016x}")
}

const TURNS: &str = r#"{"turns": {"file_name": "turns.json", "formatting": "sharegpt",
    "columns": {"messages": "conversations", "tools": "tools"}}}"#;

fn one_row(conversation: &str) -> Folder {
    Folder::new(TURNS).write("turns.json", &format!("[{conversation}]"))
}

#[test]
fn smollm2_has_its_own_system_prompt_and_plain_tools() {
    let folder = one_row(
        r#"{"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello."},
            {"from": "human", "value": "Add"}, {"from": "function_call", "value": "{\"name\": \"add\", \"arguments\": {\"a\": 1}}"},
            {"from": "observation", "value": "1"}, {"from": "gpt", "value": "One."}], "tools": "[]"}"#,
    );
    let mut options = options(folder.path(), "turns");
    options.template = Some("smollm2".into());
    let prepared = prepare(&options).expect("the row is fine");
    assert_eq!(
        text(&prepared, 0),
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face.<|im_end|>\n\
         <|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n\
         <|im_start|>user\nAdd<|im_end|>\n<|im_start|>assistant\nAction: add\nAction Input: {\"a\": 1}<|im_end|>\n\
         <|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\nOne.<|im_end|>\n"
    );
}

#[test]
fn the_empty_template_adds_nothing() {
    let folder = one_row(
        r#"{"conversations": [{"from": "human", "value": "a b"}, {"from": "gpt", "value": " c"}], "tools": null}"#,
    );
    let mut options = options(folder.path(), "turns");
    options.template = Some("empty".into());
    let prepared = prepare(&options).expect("the row is fine");
    assert_eq!(text(&prepared, 0), "a b c");
}

#[rstest]
#[case(
    Some(true),
    "<|im_start|>assistant\n",
    "<think>\n\n</think>\n\nYes.<|im_end|>\n"
)]
#[case(
    Some(false),
    "<|im_start|>assistant\n<think>\n\n</think>\n\n",
    "Yes.<|im_end|>\n"
)]
#[case(
    None,
    "<|im_start|>assistant\n<think>\n\n</think>\n\n",
    "Yes.<|im_end|>\n"
)]
fn an_answer_without_a_thought_gets_an_empty_one(
    #[case] enable_thinking: Option<bool>,
    #[case] prompt_end: &str,
    #[case] learned: &str,
) {
    let folder = one_row(
        r#"{"conversations": [{"from": "human", "value": "Q"}, {"from": "gpt", "value": "Yes."}], "tools": ""}"#,
    );
    let mut options = options(folder.path(), "turns");
    options.template = Some("qwen3".into());
    options.template_options.enable_thinking = enable_thinking;
    let prepared = prepare(&options).expect("the row is fine");
    let row = &prepared.train[0];
    let is_learned = |learned: bool| {
        let ids = row
            .input_ids
            .iter()
            .zip(&row.labels)
            .filter(|(_, label)| (**label >= 0) == learned);
        let ids: Vec<u32> = ids
            .map(|(&id, _)| u32::try_from(id).expect("an id"))
            .collect();
        tokenizer("qwen").decode(&ids, false).expect("known ids")
    };
    assert!(is_learned(false).ends_with(prompt_end));
    assert_eq!(is_learned(true), learned);
}

#[test]
fn an_unknown_template_is_refused_with_the_known_ones() {
    let mut options = options(&fixture(""), "conversations_alpaca");
    options.template = Some("qwen9".into());
    let error = prepare(&options).expect_err("there is no such template");
    assert_eq!(error.to_string(), "Template qwen9 does not exist.");
    assert!(error.hint().expect("a hint").contains("qwen3"));
}

#[test]
fn without_a_template_the_models_own_is_understood() {
    // The Jinja text of this tokenizer is ChatML without a default system prompt, as the template `qwen3_nothink`.
    let with_name = options(&fixture(""), "conversations_alpaca");
    let mut without_name = with_name.clone();
    without_name.template = None;
    let (named, own) = (
        prepare(&with_name).expect("fine"),
        prepare(&without_name).expect("fine"),
    );
    assert_eq!(own.template, "the model's own");
    assert_eq!(own.train, named.train);
    assert_eq!(own.report.warnings.len(), 1);
}

#[test]
fn a_new_end_token_is_added_and_reported() {
    let mut options = options(&fixture(""), "conversations_alpaca");
    options.template = Some("llama3".into());
    let mut tokenizer = tokenizer("qwen");
    let before = tokenizer.num_tokens();
    let prepared = prepare_sft(&options, &mut tokenizer, &|_| {}).expect("fine");
    assert_eq!(prepared.report.added_tokens, ["<|eot_id|>", "<|eom_id|>"]);
    assert_eq!(tokenizer.num_tokens(), before + 2);
    assert_eq!(tokenizer.eos_token(), Some("<|eot_id|>"));
}

#[rstest]
#[case("qwen", "qwen")]
#[case("qwen3_nothink", "qwen")]
#[case("chatml", "qwen")]
#[case("default", "qwen")]
#[case("llama3", "llama3")]
#[case("alpaca", "mistral")]
fn a_template_written_as_jinja_says_the_same(#[case] name: &str, #[case] model: &str) {
    let folder = Folder::new("{}");
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        let text = std::fs::read_to_string(fixture("tokenizers").join(model).join(file))
            .expect("the fixture is there");
        std::fs::write(
            folder.path().join(file),
            text.replace("\"chat_template\"", "\"left_out\""),
        )
        .expect("it can be written");
    }
    let mut named = Tokenizer::load(folder.path()).expect("it loads");
    let mut options = options(&fixture(""), "conversations_alpaca");
    options.template = Some(name.into());
    let expected = prepare_sft(&options, &mut named, &|_| {}).expect("fine");
    named.save(folder.path()).expect("it can be written");

    let mut own = Tokenizer::load(folder.path()).expect("it loads");
    options.template = None;
    let rows = prepare_sft(&options, &mut own, &|_| {}).expect("the Jinja text is understood");
    let texts = |tokenizer: &Tokenizer, rows: &[Example]| -> Vec<String> {
        let text = |row: &Example| {
            let ids: Vec<u32> = row
                .input_ids
                .iter()
                .map(|&id| u32::try_from(id).expect("an id"))
                .collect();
            tokenizer.decode(&ids, false).expect("known ids")
        };
        rows.iter().map(text).collect()
    };
    assert_eq!(texts(&own, &rows.train), texts(&named, &expected.train));
}
