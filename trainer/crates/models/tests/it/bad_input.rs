//! Folders and files that are damaged, foreign or hostile: each is refused with its reason and what to do.

use std::{fs, path::Path};

use serde_json::{Value, json};
use trainer_models::{
    Lora, Model, ModelError, Precision, Tuning, known_architectures, read_config,
    weights::Safetensors,
};

use crate::support::{folder, numeric, options};

fn copy(model: &str) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(folder(model)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

fn edit_config(folder: &Path, edit: impl FnOnce(&mut serde_json::Map<String, Value>)) {
    let path = folder.join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    edit(config.as_object_mut().unwrap());
    fs::write(path, config.to_string()).unwrap();
}

fn load(folder: &Path) -> ModelError {
    Model::load(folder, &options(Precision::F32, Tuning::Frozen)).unwrap_err()
}

/// The error must hold all the words, and a hint where one is due.
fn expect(error: &ModelError, words: &[&str]) {
    let text = format!("{error} / {}", error.hint().unwrap_or_default());
    for word in words {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
}

#[test]
fn missing_folder_and_files_are_named() {
    expect(
        &load(Path::new("/nowhere/model")),
        &["/nowhere/model", "not downloaded"],
    );
    let copy = copy("tiny-qwen2");
    fs::remove_file(copy.path().join("model.safetensors")).unwrap();
    expect(
        &load(copy.path()),
        &["model.safetensors", "fetch the model again"],
    );
    fs::remove_file(copy.path().join("config.json")).unwrap();
    expect(&load(copy.path()), &["config.json"]);
}

#[test]
fn pickle_files_are_refused_by_name_and_by_content() {
    let copy = copy("tiny-qwen2");
    let weights = copy.path().join("model.safetensors");
    fs::remove_file(&weights).unwrap();
    fs::write(copy.path().join("pytorch_model.bin"), b"PK\x03\x04").unwrap();
    expect(
        &load(copy.path()),
        &["pytorch_model.bin", "pickle", "safe_serialization"],
    );
    fs::write(&weights, b"PK\x03\x04 and so on and on").unwrap();
    expect(
        &load(copy.path()),
        &["zip archive", "not a safetensors file"],
    );
    fs::write(&weights, b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.").unwrap();
    expect(&load(copy.path()), &["pickle"]);
    fs::write(&weights, b"version https://git-lfs.github.com/spec/v1\n").unwrap();
    expect(&load(copy.path()), &["Git LFS"]);
}

#[test]
fn custom_code_is_refused() {
    let copy = copy("tiny-qwen2");
    edit_config(copy.path(), |config| {
        drop(config.insert("auto_map".into(), json!({"AutoModel": "x.Y"})))
    });
    expect(
        &load(copy.path()),
        &["auto_map", "custom code isn't supported"],
    );
}

#[test]
fn unknown_architecture_lists_the_known_ones() {
    let copy = copy("tiny-qwen2");
    edit_config(copy.path(), |config| {
        drop(config.insert("model_type".into(), json!("mamba")))
    });
    expect(&load(copy.path()), &["mamba", "llama", "qwen2", "qwen3"]);
    assert_eq!(known_architectures(), ["llama", "qwen2", "qwen3"]);
}

#[test]
fn unsupported_features_are_named() {
    let cases: [(&str, Value, &str); 9] = [
        ("hidden_act", json!("gelu"), "gelu"),
        ("quantization_config", json!({"bits": 4}), "quantized"),
        ("attention_dropout", json!(0.1), "attention_dropout"),
        ("partial_rotary_factor", json!(0.5), "partial_rotary_factor"),
        ("rope_scaling", json!({"rope_type": "longrope"}), "longrope"),
        ("num_key_value_heads", json!(3), "num_key_value_heads"),
        ("hidden_size", json!("64"), "hidden_size"),
        ("num_hidden_layers", json!(1_000_000), "num_hidden_layers"),
        ("vocab_size", Value::Null, "vocab_size"),
    ];
    for (field, value, word) in cases {
        let copy = copy("tiny-qwen2");
        edit_config(copy.path(), |config| {
            drop(config.insert(field.into(), value))
        });
        expect(&load(copy.path()), &[word]);
    }
}

#[test]
fn sliding_window_is_refused_only_where_it_is_used() {
    let copy = copy("tiny-qwen2");
    let set = |used: bool, first: i64| {
        edit_config(copy.path(), |config| {
            config.insert("sliding_window".into(), json!(8));
            config.insert("use_sliding_window".into(), json!(used));
            config.insert("max_window_layers".into(), json!(first));
            config.remove("layer_types");
        });
        read_config(copy.path())
    };
    assert!(set(false, 1).is_ok() && set(true, 2).is_ok());
    expect(&set(true, 1).unwrap_err(), &["sliding window of 8"]);
}

#[test]
fn wrong_shapes_name_the_tensor_and_both_shapes() {
    let copy = copy("tiny-qwen2");
    edit_config(copy.path(), |config| {
        drop(config.insert("intermediate_size".into(), json!(96)))
    });
    expect(
        &load(copy.path()),
        &["mlp.", "128", "96", "not of one model"],
    );
    edit_config(copy.path(), |config| {
        drop(config.insert("num_hidden_layers".into(), json!(4)))
    });
    expect(
        &load(copy.path()),
        &["lacks 24 tensors", "model.layers.2.", "and 16 more"],
    );
}

fn open(bytes: &[u8]) -> ModelError {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    Safetensors::open(file.path()).map(|_| ()).unwrap_err()
}

fn with_header(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

#[test]
fn truncated_files_are_refused() {
    expect(&open(b""), &["only 0 bytes"]);
    expect(&open(&[8, 0, 0]), &["only 3 bytes"]);
    let whole = fs::read(folder("tiny-qwen2").join("model.safetensors")).unwrap();
    expect(&open(&whole[..100]), &["has only 100", "fetch it again"]);
    expect(
        &open(&whole[..whole.len() - 4]),
        &["lies at bytes", "fetch it again"],
    );
}

#[test]
fn lying_headers_are_refused_in_bounded_memory() {
    let mut huge = (1_u64 << 63).to_le_bytes().to_vec();
    huge.extend([b'{'; 100]);
    expect(&open(&huge), &["9223372036854775808"]);
    let sparse = tempfile::NamedTempFile::new().unwrap();
    fs::write(sparse.path(), with_header("{", 0)).unwrap();
    let file = fs::OpenOptions::new()
        .write(true)
        .open(sparse.path())
        .unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &(1_u64 << 30).to_le_bytes(), 0).unwrap();
    file.set_len(2 << 30).unwrap();
    expect(
        &Safetensors::open(sparse.path()).map(|_| ()).unwrap_err(),
        &["1073741824 bytes long; at most"],
    );

    let cases: [(&str, usize, &[&str]); 12] = [
        (
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,16]}}"#,
            8,
            &["`a`", "holds 8 bytes"],
        ),
        (
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#,
            8,
            &["`a`", "bytes 8 to 0"],
        ),
        (
            r#"{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}"#,
            8,
            &["`a`", "[3]", "8 bytes"],
        ),
        (
            r#"{"a":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}}"#,
            8,
            &["`a`", "F99"],
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[4294967296,4294967296,16],"data_offsets":[0,0]}}"#,
            8,
            &["`a`", "cannot"],
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[0,18446744073709551615],"data_offsets":[0,0]}}"#,
            0,
            &["`a`", "2^63"],
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}"#,
            8,
            &["`a`", "-1"],
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}}"#,
            8,
            &["`a`", "x"],
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}}"#,
            8,
            &["`b`", "overlaps `a`"],
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}"#,
            8,
            &["`a`", "twice"],
        ),
        ("{\"a\":", 8, &["EOF"]),
        ("[1]", 8, &["object"]),
    ];
    for (header, data, words) in cases {
        expect(&open(&with_header(header, data)), words);
    }
    let mut not_text = with_header("{\"a\"}", 0);
    not_text[10] = 0xff;
    open(&not_text);
}

#[test]
fn integer_weights_are_refused() {
    let copy = copy("tiny-qwen2");
    let path = copy.path().join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes
        .windows(3)
        .position(|window| window == b"F32")
        .unwrap();
    bytes[at..at + 3].copy_from_slice(b"I32");
    fs::write(path, bytes).unwrap();
    expect(&load(copy.path()), &["I32", "expected F32"]);
}

#[test]
fn index_may_not_leave_its_folder() {
    let copy = copy("tiny-qwen2");
    fs::remove_file(copy.path().join("model.safetensors")).unwrap();
    let index = json!({"weight_map": {"model.norm.weight": "../other/model.safetensors"}});
    fs::write(
        copy.path().join("model.safetensors.index.json"),
        index.to_string(),
    )
    .unwrap();
    expect(
        &load(copy.path()),
        &["../other/model.safetensors", "same folder"],
    );
}

#[test]
fn adapters_that_do_not_fit_are_refused() {
    let attach = |base: &str, adapter: &Path| {
        let lora = Lora {
            adapters: vec![adapter.to_owned()],
            ..Lora::new(8, 0)
        };
        Model::load(&folder(base), &options(Precision::F32, Tuning::Lora(lora)))
            .map(|_| ())
            .unwrap_err()
    };
    expect(&attach("tiny-qwen2", Path::new("/nowhere")), &["/nowhere"]);
    expect(
        &attach("tiny-llama3", &numeric("tiny-qwen2", "lora_init")),
        &["lora_A", "[8, 64]", "[8, 96]"],
    );
    let changed = tempfile::tempdir().unwrap();
    for file in ["adapter_config.json", "adapter_model.safetensors"] {
        fs::copy(
            numeric("tiny-qwen2", "lora_init").join(file),
            changed.path().join(file),
        )
        .unwrap();
    }
    let path = changed.path().join("adapter_config.json");
    let original: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for (field, value) in [
        ("use_dora", json!(true)),
        ("peft_type", json!("IA3")),
        ("modules_to_save", json!(["x"])),
    ] {
        let mut config = original.clone();
        config[field] = value;
        fs::write(&path, config.to_string()).unwrap();
        expect(&attach("tiny-qwen2", changed.path()), &[field]);
    }
    fs::write(&path, original.to_string()).unwrap();
    fs::rename(
        changed.path().join("adapter_model.safetensors"),
        changed.path().join("adapter_model.bin"),
    )
    .unwrap();
    expect(
        &attach("tiny-qwen2", changed.path()),
        &["adapter_model.bin", "pickle"],
    );
}
