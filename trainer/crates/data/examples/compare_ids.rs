//! Compares token ids and labels with reference values, case by case:
//!
//! ```text
//! cargo run --release -p trainer-data --example compare_ids -- DIR [MODELS]
//! ```
//!
//! `DIR/template/{sft,toolcall}_*.json` hold the cases, `DIR/template` and `DIR/data` their datasets, `DIR/<tokenizer>`
//! the tokenizers; those that are not there are looked for in `MODELS`. Cases of templates that do not exist here, and of
//! packing, are left out.
//!
//! The reference values of SmolLM2 were made with transformers 5.5, which drops the `Digits` pre-tokenizer of that model's
//! `tokenizer.json`. This crate does what the file says, as the model was trained; so texts with digits behind blank lines
//! differ. They are equal with a copy of the model in `MODELS` whose `tokenizer.json` lacks that entry.
#![expect(clippy::print_stdout, reason = "a program for a person")]

use std::path::{Path, PathBuf};

use jiff::civil::Date;
use serde_json::Value;
use trainer_data::template::NAMES;
use trainer_data::{ExampleOptions, PrepareOptions, TemplateOptions, Tokenizer, prepare_sft};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(PathBuf::from);
    let dir = arguments.next().ok_or("usage: compare_ids DIR [MODELS]")?;
    let models = arguments.next();
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir.join("template"))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.sort();
    let (mut passed, mut failed) = (0, 0);
    for file in files {
        let name = file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if !name.starts_with("sft_") && !name.starts_with("toolcall_") {
            continue;
        }
        let reference: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
        if !NAMES.contains(&reference["template"].as_str().unwrap_or_default()) {
            println!("{name}: left out, no such template");
            continue;
        }
        let tokenizer = find(
            &dir,
            reference["tokenizer"].as_str().unwrap_or_default(),
            models.as_deref(),
        );
        let whole = [(String::from("all"), reference.clone())];
        let cases: Vec<(String, Value)> = match reference["cases"].as_object() {
            Some(cases) => cases
                .iter()
                .map(|(name, case)| (name.clone(), case.clone()))
                .collect(),
            None => whole.into(),
        };
        for (case_name, case) in cases {
            if case["options"]["packing"] == true {
                continue;
            }
            match compare(&dir, &tokenizer, &reference, &case) {
                Ok(rows) => {
                    passed += 1;
                    println!("{name} {case_name}: {rows} rows equal");
                }
                Err(error) => {
                    failed += 1;
                    println!("{name} {case_name}: DIFFERS: {error}");
                }
            }
        }
    }
    let encodings: Value =
        serde_json::from_slice(&std::fs::read(dir.join("template/encode.json"))?)?;
    for (name, reference) in encodings["tokenizers"].as_object().into_iter().flatten() {
        let differences = compare_encodings(
            &find(&dir, name, models.as_deref()),
            &encodings["strings"],
            reference,
        )?;
        println!(
            "{name}: {differences} of {} strings differ",
            encodings["strings"].as_array().map_or(0, Vec::len)
        );
        failed += usize::from(differences > 0);
    }
    println!("{passed} cases equal, {failed} differ");
    if failed > 0 {
        Err("there are differences".into())
    } else {
        Ok(())
    }
}

/// Returns the folder of a tokenizer.
fn find(dir: &Path, name: &str, models: Option<&Path>) -> PathBuf {
    let folder = dir.join(name);
    match models {
        Some(models) if !folder.exists() => models.join(folder.file_name().unwrap_or_default()),
        _ => folder,
    }
}

/// Counts the strings that are encoded or decoded in another way.
fn compare_encodings(
    model: &Path,
    strings: &Value,
    reference: &Value,
) -> Result<usize, Box<dyn std::error::Error>> {
    let tokenizer = Tokenizer::load(model)?;
    let mut differences = 0;
    for (index, string) in strings.as_array().into_iter().flatten().enumerate() {
        let string = string.as_str().unwrap_or_default();
        let ids: Vec<u32> = serde_json::from_value(reference["ids"][index].clone())?;
        let is_equal = tokenizer.encode(string)? == ids
            && reference["decoded"][index] == tokenizer.decode(&ids, false)?
            && reference["decoded_skip_special"][index] == tokenizer.decode(&ids, true)?;
        if !is_equal {
            differences += 1;
            println!(
                "  {string:?}: {:?} {:?}",
                tokenizer.encode(string)?,
                tokenizer.decode(&ids, false)?
            );
        }
    }
    Ok(differences)
}

fn compare(
    dir: &Path,
    model: &Path,
    reference: &Value,
    case: &Value,
) -> Result<usize, Box<dyn std::error::Error>> {
    let dataset = case["dataset"].as_str().unwrap_or_default().to_owned();
    let flag = |key: &str| case["options"][key].as_bool().unwrap_or(false);
    let count = |key: &str| {
        case["options"][key]
            .as_u64()
            .and_then(|count| usize::try_from(count).ok())
    };
    let folder = if dataset.starts_with("conversations") {
        "template"
    } else {
        "data"
    };
    let options = PrepareOptions {
        dataset_dir: dir.join(folder),
        dataset: vec![dataset],
        eval_dataset: Vec::new(),
        val_size: 0.0,
        max_samples: count("max_samples"),
        seed: 42,
        template: reference["template"].as_str().map(Into::into),
        template_options: TemplateOptions {
            default_system: case["options"]["default_system"].as_str().map(Into::into),
            enable_thinking: Some(case["options"]["enable_thinking"].as_bool().unwrap_or(true)),
            preserve_thinking: flag("preserve_thinking"),
            today: Date::strptime(
                "%d %b %Y",
                reference["made_on"].as_str().unwrap_or_default(),
            )?,
        },
        example: ExampleOptions {
            cutoff_len: count("cutoff_len").unwrap_or(2048),
            mask_history: flag("mask_history"),
            train_on_prompt: flag("train_on_prompt"),
        },
    };
    let mut tokenizer = Tokenizer::load(model)?;
    let prepared = prepare_sft(&options, &mut tokenizer, &|_| {})?;
    for (key, id) in [
        ("eos_token_id", tokenizer.eos_token_id()),
        ("pad_token_id", tokenizer.pad_token_id()),
    ] {
        if case[key].as_u64() != id.map(u64::from) {
            return Err(format!("{key} is {id:?}, not {}", case[key]).into());
        }
    }
    let rows = case["rows"].as_array().ok_or("no rows")?;
    if rows.len() != prepared.train.len() {
        return Err(format!(
            "{} rows, not {}: {:?}",
            prepared.train.len(),
            rows.len(),
            prepared.report
        )
        .into());
    }
    for (number, (row, example)) in rows.iter().zip(&prepared.train).enumerate() {
        for (key, ours) in [
            ("input_ids", &example.input_ids),
            ("labels", &example.labels),
        ] {
            let theirs: Vec<i32> = serde_json::from_value(row[key].clone())?;
            if &theirs != ours {
                let at = theirs.iter().zip(ours).take_while(|(a, b)| a == b).count();
                return Err(format!(
                    "row {number}: {key} differ from {at} on ({} and {} long)",
                    ours.len(),
                    theirs.len()
                )
                .into());
            }
        }
    }
    Ok(rows.len())
}
