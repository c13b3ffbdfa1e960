//! The demo model and dataset, built into the program and unpacked into the data folder.
//!
//! The model folder is replaced when a newer board brings another one; of the user's
//! `dataset_info.json` only missing entries are added.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use rust_embed::RustEmbed;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::config::ServerConfig;

/// Name of the demo's model folder below the models, and of its dataset.
pub const DEMO_NAME: &str = "demo";

const VERSION_FILE: &str = ".demo-version";
const DATASET_INFO: &str = "dataset_info.json";

#[derive(RustEmbed)]
#[folder = "$CARGO_MANIFEST_DIR/assets/demo/model"]
#[allow_missing = true]
struct DemoModel;

#[derive(RustEmbed)]
#[folder = "$CARGO_MANIFEST_DIR/assets/demo/data"]
#[allow_missing = true]
struct DemoData;

/// Unpacks what is missing or older. Reads and writes files: call it where blocking is allowed.
pub fn unpack(config: &ServerConfig) -> io::Result<()> {
    unpack_model(&config.models_dir())?;
    unpack_data(&config.datasets_dir())
}

fn unpack_model(models: &Path) -> io::Result<()> {
    let version = version_of::<DemoModel>();
    let target = models.join(DEMO_NAME);
    if is_version(&target, &version) || DemoModel::iter().next().is_none() {
        return Ok(());
    }
    if target.exists() && !target.join(VERSION_FILE).exists() {
        tracing::warn!(folder = %target.display(), "a folder of the user's stands where the demo model goes; it is left alone");
        return Ok(());
    }
    let fresh = models.join(format!(".{DEMO_NAME}-new"));
    remove_folder(&fresh)?;
    fs::create_dir_all(&fresh)?;
    write_files::<DemoModel>(&fresh)?;
    fs::write(fresh.join(VERSION_FILE), version)?;
    remove_folder(&target)?; // a run that reads the old files keeps them: they stay open
    fs::rename(fresh, target)
}

fn unpack_data(datasets: &Path) -> io::Result<()> {
    let version = version_of::<DemoData>();
    fs::create_dir_all(datasets)?;
    if is_version(datasets, &version) {
        return Ok(());
    }
    for name in DemoData::iter().filter(|name| name != DATASET_INFO) {
        let is_users = datasets.join(&*name).exists() && !datasets.join(VERSION_FILE).exists();
        if let (false, Some(file)) = (is_users, DemoData::get(&name)) {
            write_whole(&datasets.join(&*name), &file.data)?;
        }
    }
    add_entries(&datasets.join(DATASET_INFO))?;
    write_whole(&datasets.join(VERSION_FILE), version.as_bytes())
}

/// Adds the demo's entries to a `dataset_info.json` that lacks them.
fn add_entries(path: &Path) -> io::Result<()> {
    let Some(ours) = DemoData::get(DATASET_INFO).and_then(|file| parse_entries(&file.data)) else {
        return Ok(());
    };
    let given = match fs::read(path) {
        Ok(text) => parse_entries(&text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(Map::new()),
        Err(error) => return Err(error),
    };
    let Some(mut entries) = given else {
        tracing::warn!(file = %path.display(), "the file is no JSON object; the demo dataset is not added to it");
        return Ok(());
    };
    for (name, entry) in ours {
        entries.entry(name).or_insert(entry);
    }
    write_whole(path, format!("{:#}\n", Value::Object(entries)).as_bytes())
}

fn parse_entries(text: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice(text).ok()
}

fn write_files<Files: RustEmbed>(folder: &Path) -> io::Result<()> {
    for name in Files::iter() {
        let Some(file) = Files::get(&name) else {
            continue;
        };
        let path = folder.join(&*name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, file.data)?;
    }
    Ok(())
}

fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    fs::write(&beside, content)?;
    fs::rename(beside, path)
}

fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn is_version(folder: &Path, version: &str) -> bool {
    fs::read_to_string(folder.join(VERSION_FILE)).is_ok_and(|found| found == version)
}

/// Returns a hash over all names and contents.
fn version_of<Files: RustEmbed>() -> String {
    let mut names: Vec<_> = Files::iter().collect();
    names.sort();
    let mut hash = Sha256::new();
    for name in names {
        if let Some(file) = Files::get(&name) {
            hash.update(name.as_bytes());
            hash.update(file.metadata.sha256_hash());
        }
    }
    hash.finalize()
        .iter()
        .fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacking_twice_changes_nothing_and_keeps_the_users_datasets() {
        let dir = tempfile::tempdir().unwrap();
        let config = ServerConfig::new(dir.path());
        fs::create_dir_all(config.models_dir()).unwrap();
        fs::create_dir_all(config.datasets_dir()).unwrap();
        let info = config.datasets_dir().join(DATASET_INFO);
        fs::write(&info, r#"{"mine": {"file_name": "mine.json"}}"#).unwrap();
        unpack(&config).unwrap();
        let once = fs::read_to_string(&info).unwrap();
        assert!(
            once.contains("mine.json") && once.contains("demo"),
            "{once}"
        );
        assert!(config.models_dir().join("demo/config.json").exists());
        unpack(&config).unwrap();
        assert_eq!(once, fs::read_to_string(&info).unwrap());
    }

    #[test]
    fn older_demo_model_is_replaced_but_never_a_folder_of_the_users() {
        let dir = tempfile::tempdir().unwrap();
        let config = ServerConfig::new(dir.path());
        let target = config.models_dir().join(DEMO_NAME);
        fs::create_dir_all(&target).unwrap();
        fs::write(target.join("mine"), "x").unwrap();
        unpack(&config).unwrap();
        assert!(!target.join("config.json").exists());
        fs::write(target.join(VERSION_FILE), "older").unwrap();
        unpack(&config).unwrap();
        assert!(target.join("config.json").exists() && !target.join("mine").exists());
    }
}
