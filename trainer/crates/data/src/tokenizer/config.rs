//! `tokenizer_config.json`, `special_tokens_map.json` and `chat_template.jinja`.

use std::path::Path;

use serde_json::{Map, Value, json};
use tokenizers::AddedToken;

use crate::error::DataError;

/// The tokens with a meaning of their own.
#[derive(Debug, Clone, Default)]
pub(super) struct SpecialTokens {
    pub(super) bos: Option<String>,
    pub(super) eos: Option<String>,
    pub(super) pad: Option<String>,
}

/// What stands beside `tokenizer.json`.
#[derive(Debug, Default)]
pub(super) struct TokenizerConfig {
    pub(super) special: SpecialTokens,
    /// Tokens that must be there, by id.
    pub(super) added_tokens: Vec<(u32, AddedToken)>,
    pub(super) chat_template: Option<String>,
}

impl TokenizerConfig {
    pub(super) fn load(dir: &Path) -> Result<Self, DataError> {
        let config = read_object(&dir.join("tokenizer_config.json"))?.unwrap_or_default();
        let map = read_object(&dir.join("special_tokens_map.json"))?.unwrap_or_default();
        let token = |key: &str| {
            config
                .get(key)
                .and_then(content)
                .or_else(|| map.get(key).and_then(content))
        };
        let special = SpecialTokens {
            bos: token("bos_token"),
            eos: token("eos_token"),
            pad: token("pad_token"),
        };
        let chat_template = std::fs::read_to_string(dir.join("chat_template.jinja"))
            .ok()
            .or_else(|| config.get("chat_template").and_then(default_template));
        Ok(Self {
            special,
            added_tokens: added_tokens(&config),
            chat_template,
        })
    }
}

/// Returns the error for a folder without `tokenizer.json`.
pub(super) fn missing(dir: &Path) -> DataError {
    let has_other = ["tokenizer.model", "vocab.json", "vocab.txt"]
        .into_iter()
        .find(|name| dir.join(name).exists());
    let hint = match has_other {
        Some(name) => format!(
            "it has `{name}` alone; write a `tokenizer.json` once with Python: \
             AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
        ),
        None if dir.is_dir() => {
            "copy `tokenizer.json` and `tokenizer_config.json` from the model's page".into()
        }
        None => "`model_name_or_path` must be a folder with a model".into(),
    };
    DataError::Tokenizer {
        path: dir.into(),
        reason: "`tokenizer.json` is missing".into(),
        hint: Some(hint),
    }
}

/// Reads a JSON object; `None` where there is no such file.
pub(super) fn read_object(path: &Path) -> Result<Option<Map<String, Value>>, DataError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            return Err(DataError::Open {
                path: path.into(),
                source,
            });
        }
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| DataError::Tokenizer {
            path: path.parent().unwrap_or(path).into(),
            reason: format!(
                "`{}` cannot be read: {error}",
                path.file_name().unwrap_or_default().display()
            ),
            hint: Some("fetch or copy the file again".into()),
        })
}

/// Sets values of a JSON object in a file; where there is no such file, it is made if `makes_file`.
pub(super) fn change(
    path: &Path,
    changes: &[(&str, &Option<String>)],
    makes_file: bool,
) -> Result<(), DataError> {
    let mut object = match read_object(path)? {
        Some(object) => object,
        None if makes_file => Map::new(),
        None => return Ok(()),
    };
    for (key, value) in changes {
        object.insert((*key).into(), json!(value));
    }
    let text =
        serde_json::to_vec_pretty(&Value::Object(object)).map_err(|source| DataError::Write {
            path: path.into(),
            source: source.into(),
        })?;
    super::write(path, &text)
}

/// A token is a string, or an object with its `content`.
fn content(token: &Value) -> Option<String> {
    token
        .as_str()
        .or_else(|| token.get("content")?.as_str())
        .map(Into::into)
}

/// A chat template is a string, or a list with names; then the one called `default`.
fn default_template(template: &Value) -> Option<String> {
    let named = |list: &Vec<Value>| {
        list.iter()
            .find(|entry| entry["name"] == "default")
            .and_then(|entry| entry["template"].as_str().map(Into::into))
    };
    template
        .as_str()
        .map(Into::into)
        .or_else(|| template.as_array().and_then(named))
}

fn added_tokens(config: &Map<String, Value>) -> Vec<(u32, AddedToken)> {
    let listed = config
        .get("added_tokens_decoder")
        .and_then(Value::as_object);
    let mut tokens: Vec<(u32, AddedToken)> = listed
        .into_iter()
        .flatten()
        .filter_map(|(id, token)| {
            let flag = |key: &str| token[key].as_bool().unwrap_or(false);
            let added = AddedToken::from(token["content"].as_str()?, flag("special"))
                .lstrip(flag("lstrip"))
                .rstrip(flag("rstrip"))
                .single_word(flag("single_word"))
                .normalized(flag("normalized"));
            Some((id.parse().ok()?, added))
        })
        .collect();
    tokens.sort_by_key(|(id, _)| *id);
    tokens
}
