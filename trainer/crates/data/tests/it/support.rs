//! What several tests need.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use jiff::civil::Date;
use tempfile::TempDir;
use trainer_data::{
    DataError, ExampleOptions, PrepareOptions, Prepared, TemplateOptions, Tokenizer, prepare_sft,
};

/// Returns a path below `tests/fixtures`.
pub(crate) fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(path)
}

/// Returns one of the small tokenizers.
pub(crate) fn tokenizer(name: &str) -> Tokenizer {
    static LOADED: Mutex<BTreeMap<String, Tokenizer>> = Mutex::new(BTreeMap::new());
    let mut loaded = LOADED
        .lock()
        .expect("no test panics while it holds the lock");
    let load = || Tokenizer::load(&fixture("tokenizers").join(name)).expect("the fixture loads");
    loaded.entry(name.into()).or_insert_with(load).clone()
}

/// Returns options to train on `dataset` of `dir` with the template `qwen3_nothink`.
pub(crate) fn options(dir: &Path, dataset: &str) -> PrepareOptions {
    PrepareOptions {
        dataset_dir: dir.into(),
        dataset: vec![dataset.into()],
        eval_dataset: Vec::new(),
        val_size: 0.0,
        max_samples: None,
        seed: 42,
        template: Some("qwen3_nothink".into()),
        template_options: template_options(),
        example: ExampleOptions {
            cutoff_len: 2048,
            mask_history: false,
            train_on_prompt: false,
        },
    }
}

/// Returns the usual template options on a fixed day.
pub(crate) fn template_options() -> TemplateOptions {
    TemplateOptions {
        default_system: None,
        enable_thinking: Some(true),
        preserve_thinking: false,
        today: Date::constant(2026, 11, 30),
    }
}

/// Prepares with the small tokenizer in Qwen's manner.
pub(crate) fn prepare(options: &PrepareOptions) -> Result<Prepared, DataError> {
    prepare_sft(options, &mut tokenizer("qwen"), &|_| {})
}

/// Returns the text of a prepared row.
pub(crate) fn text(prepared: &Prepared, row: usize) -> String {
    let ids: Vec<u32> = prepared.train[row]
        .input_ids
        .iter()
        .map(|&id| u32::try_from(id).expect("an id"))
        .collect();
    tokenizer("qwen")
        .decode(&ids, false)
        .expect("the ids are known")
}

/// A folder of datasets for one test.
pub(crate) struct Folder {
    dir: TempDir,
}

impl Folder {
    /// Makes a folder with this `dataset_info.json`.
    pub(crate) fn new(info: &str) -> Self {
        let folder = Self {
            dir: tempfile::tempdir().expect("a temporary folder"),
        };
        folder.write("dataset_info.json", info)
    }

    /// Adds a file.
    pub(crate) fn write(self, name: &str, content: &str) -> Self {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().expect("it is in the folder"))
            .expect("the folder can be made");
        std::fs::write(path, content).expect("the file can be written");
        self
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}
