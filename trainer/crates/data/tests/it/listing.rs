//! Listing, counting and previewing datasets, as the board does.

use serde_json::json;
use trainer_data::{Formatting, count_rows, list_datasets, preview_rows};

use crate::support::Folder;

fn folder() -> Folder {
    Folder::new(
        r#"{"alpaca": {"file_name": "alpaca.json"},
            "chats": {"file_name": "chats", "formatting": "sharegpt"},
            "pairs": {"file_name": "alpaca.json", "ranking": true},
            "hub": {"hf_hub_url": "owner/name"},
            "gone": {"file_name": "gone.json"}}"#,
    )
    .write(
        "alpaca.json",
        r#"[{"instruction": "a"}, {"instruction": "b"}, {"instruction": "c"}]"#,
    )
    .write("chats/1.jsonl", "{\"n\": 1}\n{\"n\": 2}\n")
    .write("chats/2.jsonl", "{\"n\": 3}")
}

#[test]
fn datasets_are_listed_in_order_with_their_problems() {
    let folder = folder();
    let entries = list_datasets(folder.path()).expect("it is there");
    let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["alpaca", "chats", "pairs", "hub", "gone"]);
    assert_eq!(
        (entries[0].formatting, entries[0].problem.as_ref()),
        (Formatting::Alpaca, None)
    );
    assert_eq!(
        (entries[1].formatting, entries[1].size_bytes),
        (Formatting::Sharegpt, 26)
    );
    assert!(entries[2].ranking);
    let problem = |entry: usize| entries[entry].problem.as_deref().expect("it has one");
    assert!(problem(3).contains("nothing is fetched from the network: download it"));
    assert!(problem(4).contains("gone.json not found"));
    assert_eq!(entries[3].path, None);
}

#[test]
fn rows_are_counted_and_previewed() {
    let folder = folder();
    assert_eq!(count_rows(folder.path(), "alpaca").expect("fine"), 3);
    assert_eq!(count_rows(folder.path(), "chats").expect("fine"), 3);
    assert!(count_rows(folder.path(), "hub").is_err());
    let preview =
        |offset, limit| preview_rows(folder.path(), "chats", offset, limit).expect("fine");
    assert_eq!(preview(0, 2), [json!({"n": 1}), json!({"n": 2})]);
    assert_eq!(preview(1, 9), [json!({"n": 2}), json!({"n": 3})]);
    assert_eq!(preview(3, 1), [] as [serde_json::Value; 0]);
}
