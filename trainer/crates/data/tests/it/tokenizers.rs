//! Loading, encoding and saving tokenizers.

use crate::support::{Folder, fixture, tokenizer};
use trainer_data::Tokenizer;

#[test]
fn special_tokens_in_a_text_become_their_ids() {
    let tokenizer = tokenizer("qwen");
    let ids = tokenizer.encode("<|im_start|>user").expect("it is text");
    assert_eq!(
        ids[0],
        tokenizer.token_to_id("<|im_start|>").expect("it exists")
    );
    assert_eq!(
        tokenizer.decode(&ids, false).expect("known ids"),
        "<|im_start|>user"
    );
    assert!(tokenizer.encode("").expect("nothing").is_empty());
}

#[test]
fn nothing_is_added_around_a_text() {
    let tokenizer = tokenizer("llama3");
    assert_eq!(tokenizer.bos_token(), Some("<|begin_of_text|>"));
    let ids = tokenizer.encode("Hello").expect("it is text");
    assert!(!ids.contains(&tokenizer.bos_token_id().expect("it exists")));
    assert_eq!(
        tokenizer.start_of_text().expect("it has one"),
        "<|begin_of_text|>"
    );
}

#[test]
fn a_missing_file_says_what_to_do() {
    let folder = Folder::new("{}").write("tokenizer.model", "");
    let error = Tokenizer::load(folder.path()).expect_err("no tokenizer.json");
    assert!(error.to_string().ends_with("`tokenizer.json` is missing"));
    assert!(error.hint().expect("a hint").contains("save_pretrained"));
    let error = Tokenizer::load(&folder.path().join("nowhere")).expect_err("no folder");
    assert!(error.hint().expect("a hint").contains("model_name_or_path"));
}

#[test]
fn a_truncated_file_is_refused() {
    let whole = std::fs::read_to_string(fixture("tokenizers/qwen/tokenizer.json"))
        .expect("the fixture is there");
    let part: String = whole.chars().take(20_000).collect();
    let folder = Folder::new("{}").write("tokenizer.json", &part);
    let error = Tokenizer::load(folder.path()).expect_err("it is cut off");
    assert!(
        error
            .to_string()
            .contains("`tokenizer.json` cannot be read: EOF"),
        "{error}"
    );
}

#[test]
fn a_saved_tokenizer_keeps_what_the_template_changed() {
    let mut changed = tokenizer("mistral");
    changed.set_eos("<|new|>");
    changed.pad_with_eos_where_none();
    let folder = Folder::new("{}");
    changed.save(folder.path()).expect("it can be written");
    let saved = Tokenizer::load(folder.path()).expect("it can be read again");
    assert_eq!(saved.eos_token(), Some("<|new|>"));
    assert_eq!(saved.eos_token_id(), changed.eos_token_id());
    assert_eq!(saved.pad_token_id(), changed.pad_token_id());
    assert_eq!(saved.num_tokens(), changed.num_tokens());
    assert_eq!(saved.chat_template(), changed.chat_template());
    let text = "one <|new|> two";
    assert_eq!(
        saved.encode(text).expect("text"),
        changed.encode(text).expect("text")
    );
}
