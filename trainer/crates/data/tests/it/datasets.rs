//! Reading datasets: the schema of `dataset_info.json`, broken rows and broken files.

use rstest::rstest;
use trainer_data::DataError;

use crate::support::{Folder, options, prepare, text};

const ALPACA: &str = r#"{"demo": {"file_name": "demo.json"}}"#;

fn rows(count: usize) -> String {
    let rows: Vec<String> = (0..count)
        .map(|row| format!(r#"{{"instruction": "q{row}", "input": "", "output": "a{row}"}}"#))
        .collect();
    format!("[{}]", rows.join(",\n"))
}

#[test]
fn instruction_and_input_are_joined_by_a_newline() {
    let folder = Folder::new(ALPACA).write(
        "demo.json",
        r#"[{"instruction": "Say", "input": "hi", "output": "hi"}]"#,
    );
    let prepared = prepare(&options(folder.path(), "demo")).expect("fine");
    assert_eq!(
        text(&prepared, 0),
        "<|im_start|>user\nSay\nhi<|im_end|>\n<|im_start|>assistant\nhi<|im_end|>\n"
    );
}

#[test]
fn a_file_may_have_one_row_a_line() {
    let lines = "\u{feff}\n{\"instruction\": \"q\", \"output\": \"a\"}\n\n{\"instruction\": \"q\", \"output\": \"b\"}\r\n";
    for name in ["demo.jsonl", "demo.json"] {
        let folder =
            Folder::new(&format!(r#"{{"demo": {{"file_name": "{name}"}}}}"#)).write(name, lines);
        let prepared = prepare(&options(folder.path(), "demo")).expect("fine");
        assert_eq!(prepared.train.len(), 2);
    }
}

#[test]
fn a_folder_is_read_in_the_order_of_its_names() {
    let folder = Folder::new(r#"{"demo": {"file_name": "parts"}}"#)
        .write(
            "parts/b.json",
            r#"[{"instruction": "second", "output": "a"}]"#,
        )
        .write(
            "parts/a.json",
            r#"[{"instruction": "first", "output": "a"}]"#,
        )
        .write("parts/.hidden.txt", "");
    let prepared = prepare(&options(folder.path(), "demo")).expect("fine");
    assert!(text(&prepared, 0).contains("first"));
    assert!(text(&prepared, 1).contains("second"));
    let folder = folder.write("parts/c.jsonl", "");
    let error = prepare(&options(folder.path(), "demo")).expect_err("two types");
    assert_eq!(error.to_string(), "File types should be identical.");
}

#[test]
fn columns_and_tags_can_have_other_names() {
    let info = r#"{"demo": {"file_name": "demo.json", "formatting": "sharegpt", "columns": {"messages": "messages"},
        "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant", "system_tag": "system"}}}"#;
    let row = r#"[{"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]}]"#;
    let folder = Folder::new(info).write("demo.json", row);
    let prepared = prepare(&options(folder.path(), "demo")).expect("fine");
    assert!(text(&prepared, 0).starts_with("<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nQ"));
}

#[test]
fn an_unlisted_column_does_not_exist() {
    let info = r#"{"demo": {"file_name": "demo.json", "columns": {"prompt": "instruction", "response": "output"}}}"#;
    let folder = Folder::new(info).write(
        "demo.json",
        r#"[{"instruction": "Say", "input": "hi", "output": "A"}]"#,
    );
    let prepared = prepare(&options(folder.path(), "demo")).expect("fine");
    assert!(!text(&prepared, 0).contains("hi"));
    // Without `response` among the columns no row has an answer.
    let info = r#"{"demo": {"file_name": "demo.json", "columns": {"prompt": "instruction"}}}"#;
    let folder = folder.write("dataset_info.json", info);
    let error = prepare(&options(folder.path(), "demo")).expect_err("no answers");
    assert_eq!(
        error.to_string(),
        "Cannot find valid samples, check `data/README.md` for the data format."
    );
    assert_eq!(
        error.hint().as_deref(),
        Some("all rows were dropped: the row has no answer (1)")
    );
}

#[test]
fn broken_rows_are_counted_and_the_rest_is_used() {
    let info = r#"{"demo": {"file_name": "demo.json", "formatting": "sharegpt"}}"#;
    let message = |speaker: &str| format!(r#"{{"from": "{speaker}", "value": "x"}}"#);
    let row = |speakers: &[&str]| {
        let messages: Vec<String> = speakers.iter().map(|speaker| message(speaker)).collect();
        format!(r#"{{"conversations": [{}]}}"#, messages.join(", "))
    };
    let rows = [
        row(&["human", "gpt"]),
        row(&["human", "human"]),
        row(&["gpt", "human"]),
        row(&["human", "gpt", "human"]),
        row(&["human", "robot"]),
        row(&[]),
        r#"{"conversations": null}"#.into(),
        r#"{"conversations": [{"from": "human"}]}"#.into(),
        "7".into(),
        row(&["human", "function_call"]),
    ];
    let folder = Folder::new(info).write("demo.json", &format!("[{}]", rows.join(",")));
    let prepared = prepare(&options(folder.path(), "demo")).expect("one row is fine");
    assert_eq!((prepared.train.len(), prepared.report.num_read), (1, 10));
    let dropped = &prepared.report.dropped;
    assert_eq!(
        dropped.iter().map(|dropped| dropped.count).sum::<usize>(),
        9
    );
    assert_eq!(
        (dropped[0].reason.as_str(), dropped[0].count),
        ("Invalid role tag", 3)
    );
    assert_eq!(dropped[0].first, ("demo".into(), 1));
    let reasons: Vec<&str> = dropped[1..]
        .iter()
        .map(|dropped| dropped.reason.as_str())
        .collect();
    assert_eq!(
        reasons,
        [
            "Invalid JSON format in function message: it is not JSON",
            "Invalid message count",
            "a message has no text under `value`",
            "the row has no list of messages",
            "the row has no messages",
            "the row is not an object with columns",
        ]
    );
}

#[rstest]
#[case(
    "demo.json",
    "[{\"instruction\": \"q\",\n  \"output\": \"a\"},\n]",
    3,
    1,
    "trailing comma"
)]
#[case(
    "demo.json",
    "\n\n  [{\"instruction\": \"q\",}]",
    3,
    24,
    "trailing comma"
)]
#[case(
    "demo.jsonl",
    "{\"instruction\": \"q\"}\n\n{\"instruction\": }\n",
    3,
    17,
    "expected value"
)]
#[case(
    "demo.json",
    "[{\"instruction\": \"q\"}",
    1,
    21,
    "EOF while parsing a list"
)]
#[case(
    "demo.json",
    "[{\"instruction\": \"q\"}] x",
    1,
    24,
    "trailing characters"
)]
fn a_broken_file_is_told_with_line_and_column(
    #[case] name: &str,
    #[case] content: &str,
    #[case] line: usize,
    #[case] column: usize,
    #[case] reason: &str,
) {
    let folder =
        Folder::new(&format!(r#"{{"demo": {{"file_name": "{name}"}}}}"#)).write(name, content);
    let error = prepare(&options(folder.path(), "demo")).expect_err("it is broken");
    let path = folder.path().join(name);
    assert_eq!(
        error.to_string(),
        format!("{}:{line}:{column}: {reason}", path.display())
    );
}

#[test]
fn a_broken_dataset_info_is_told_with_line_and_column() {
    let folder = Folder::new("{\n  \"demo\": {\"file_name\": \"demo.json\",}\n}");
    let error = prepare(&options(folder.path(), "demo")).expect_err("it is broken");
    assert!(
        error
            .to_string()
            .ends_with("dataset_info.json:2:37: trailing comma"),
        "{error}"
    );
    assert_eq!(
        error.hint().as_deref(),
        Some("remove the comma before the closing bracket")
    );
}

#[test]
fn a_missing_column_is_told_with_those_there_are() {
    let folder = Folder::new(ALPACA).write(
        "demo.json",
        r#"[{"question": "q", "input": "", "output": "a"}]"#,
    );
    let error = prepare(&options(folder.path(), "demo")).expect_err("no instruction");
    assert!(
        error.to_string().ends_with("has the column `instruction`"),
        "{error}"
    );
    assert!(
        error
            .hint()
            .expect("a hint")
            .contains("input, output, question")
    );
}

#[test]
fn an_optional_column_may_stand_in_a_row_that_is_not_read() {
    let info = r#"{"demo": {"file_name": "demo.json", "columns":
        {"prompt": "instruction", "response": "output", "system": "system", "history": "history", "tools": "tools"}}}"#;
    let folder = Folder::new(info).write(
        "demo.json",
        r#"[{"instruction": "q", "output": "a"}, {"instruction": "q", "output": "a"}]"#,
    );
    let mut options = options(folder.path(), "demo");
    let error = prepare(&options).expect_err("no row has them");
    assert!(error.to_string().contains("has the column"), "{error}");
    options.max_samples = Some(1);
    assert_eq!(prepare(&options).expect("fine").train.len(), 1);
    // The ones that every row needs are missed all the same.
    let _folder = folder.write("demo.json", r#"[{"question": "q"}, {"question": "q"}]"#);
    assert!(prepare(&options).is_err());
}

#[rstest]
#[case("")]
#[case(" \n")]
#[case("[]")]
fn a_file_without_rows_is_refused(#[case] content: &str) {
    let folder = Folder::new(ALPACA).write("demo.json", content);
    let error = prepare(&options(folder.path(), "demo")).expect_err("no rows");
    assert!(matches!(error, DataError::EmptyFile { .. }), "{error}");
    assert!(error.to_string().ends_with("demo.json` has no rows"));
}

#[test]
fn all_labels_cut_away_is_refused() {
    let long = "word ".repeat(100);
    let folder = Folder::new(ALPACA).write(
        "demo.json",
        &format!(r#"[{{"instruction": "{long}", "input": "", "output": ""}}]"#),
    );
    let mut options = options(folder.path(), "demo");
    options.template = Some("empty".into());
    options.example.cutoff_len = 8;
    let error = prepare(&options).expect_err("nothing is left to learn");
    assert_eq!(
        error.hint().as_deref(),
        Some("all rows were dropped: no label is left after truncation to `cutoff_len` (1)")
    );
}

#[rstest]
#[case(
    r#"{"other": {"file_name": "x.json"}}"#,
    "Undefined dataset demo in dataset_info.json."
)]
#[case(r#"{"demo": {"file_name": "x.json"}}"#, "File {dir}/x.json not found.")]
#[case(
    r#"{"demo": {"file_name": "dataset_info.md"}}"#,
    "File {dir}/dataset_info.md not found."
)]
#[case(
    r#"{"demo": {"file_name": "demo.json", "ranking": true}}"#,
    "The dataset is not applicable in the current training stage."
)]
#[case(
    r#"{"demo": {"hf_hub_url": "a/b"}}"#,
    "dataset `demo`: it lies at `a/b` (`hf_hub_url`), and nothing is fetched from the network"
)]
#[case(
    r#"{"demo": {"formatting": "csv"}}"#,
    "dataset `demo`: `formatting` is `\"csv\"`, but must be `alpaca`, `sharegpt` or `openai`"
)]
#[case(
    r#"{"demo": {"file_name": "demo.json", "formatting": "openai"}}"#,
    "dataset `demo`: `formatting: openai` comes later"
)]
#[case(r#"{"demo": {}}"#, "dataset `demo`: `file_name` is missing")]
#[case(
    r#"{"demo": {"file_name": "demo.md"}}"#,
    "Allowed file types: arrow,csv,json,jsonl,parquet,txt."
)]
#[case(
    r#"{"demo": {"file_name": "demo.csv"}}"#,
    "`{dir}/demo.csv` cannot be read: csv files come later"
)]
#[case(
    r#"{"demo": {"file_name": "demo.json", "num_samples": 0}}"#,
    "dataset `demo`: `num_samples` is `0`, but must be a whole number from 1"
)]
fn a_dataset_that_cannot_be_used_says_why(#[case] info: &str, #[case] expected: &str) {
    let folder = Folder::new(info)
        .write("demo.json", &rows(1))
        .write("demo.md", "")
        .write("demo.csv", "");
    let error = prepare(&options(folder.path(), "demo")).expect_err("it cannot be used");
    assert_eq!(
        error.to_string(),
        expected.replace("{dir}", &folder.path().display().to_string())
    );
}

#[test]
fn a_folder_without_dataset_info_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let error = prepare(&options(folder.path(), "demo")).expect_err("nothing is there");
    assert!(error.to_string().starts_with("Cannot open "), "{error}");
    assert!(error.hint().expect("a hint").contains("dataset_dir"));
}

#[test]
fn numbers_of_rows_are_exact() {
    let folder = Folder::new(
        r#"{"demo": {"file_name": "demo.json"}, "few": {"file_name": "demo.json", "num_samples": 7},
            "many": {"file_name": "demo.json", "num_samples": 45}}"#,
    )
    .write("demo.json", &rows(20));
    let count = |names: &[&str], max_samples: Option<usize>, val_size: f64| {
        let mut options = options(folder.path(), "demo");
        options.dataset = names.iter().map(|name| (*name).into()).collect();
        (options.max_samples, options.val_size) = (max_samples, val_size);
        let prepared = prepare(&options).expect("fine");
        (prepared.train.len(), prepared.eval.len())
    };
    assert_eq!(count(&["demo"], None, 0.0), (20, 0));
    assert_eq!(count(&["demo", "few"], None, 0.0), (27, 0));
    assert_eq!(count(&["many"], None, 0.0), (45, 0));
    assert_eq!(count(&["demo", "many"], Some(5), 0.0), (10, 0));
    assert_eq!(count(&["demo"], None, 0.1), (18, 2));
    assert_eq!(count(&["demo"], None, 3.0), (17, 3));
}

#[test]
fn the_first_rows_are_taken_and_the_rest_is_not_read() {
    let folder = Folder::new(ALPACA).write(
        "demo.json",
        &(rows(9).trim_end_matches(']').to_owned() + ", broken"),
    );
    let mut options = options(folder.path(), "demo");
    options.max_samples = Some(3);
    let prepared = prepare(&options).expect("the broken end is not reached");
    assert_eq!(prepared.train.len(), 3);
    assert!(text(&prepared, 2).contains("q2"));
}

#[test]
fn progress_reaches_the_number_of_rows() {
    let folder = Folder::new(ALPACA).write("demo.json", &rows(200));
    let seen = std::sync::Mutex::new(Vec::new());
    let mut tokenizer = crate::support::tokenizer("qwen");
    let options = options(folder.path(), "demo");
    let prepared = trainer_data::prepare_sft(&options, &mut tokenizer, &|progress| {
        seen.lock()
            .expect("no panic")
            .push((progress.done, progress.total));
    })
    .expect("fine");
    let seen = seen.into_inner().expect("no panic");
    assert!(seen.is_sorted());
    assert_eq!(seen.last(), Some(&(200, 200)));
    assert!(
        (0..200).all(|row| text(&prepared, row).contains(&format!("q{row}<"))),
        "the order is that of the file"
    );
}
