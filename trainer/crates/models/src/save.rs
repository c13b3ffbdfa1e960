//! Writes models and adapters as Hugging Face and PEFT read them.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Map, Value, json};
use tch::{Kind, Tensor};

use crate::{Model, ModelError, adapter, folder, weights};

/// A weight file is cut above this size, as Hugging Face's are.
const SHARD_BYTES: usize = 5_000_000_000;

/// What a model folder holds beside weights and `config.json`.
const COMPANIONS: &[&str] = &[
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
    "chat_template.json",
];

impl Model {
    /// Writes weights, configuration and tokenizer files into `folder`, each file beside its place and then renamed.
    ///
    /// `kind` converts the weights; `None` keeps trained ones as they are kept in memory. An attached adapter is not
    /// part of the model: merge it first, or write it by [`Model::save_adapter`].
    pub fn save(&self, folder: &Path, kind: Option<Kind>) -> Result<(), ModelError> {
        self.save_sharded(folder, kind, SHARD_BYTES)
    }

    /// Writes the model in files of at most `shard_bytes` of weights.
    pub fn save_sharded(
        &self,
        folder: &Path,
        kind: Option<Kind>,
        shard_bytes: usize,
    ) -> Result<(), ModelError> {
        fs::create_dir_all(folder).map_err(ModelError::io("create", folder))?;
        let tensors = self.base_tensors();
        let kept = kind.unwrap_or_else(|| {
            tensors
                .first()
                .map_or(Kind::Float, |(_, tensor)| tensor.kind())
        });
        self.write_config(folder, kept)?;
        copy_companions(&self.folder, folder)?;
        write_shards(folder, tensors, kind, shard_bytes)
    }

    /// Writes the attached adapter as PEFT does; `base` is the path that the file names as the base model.
    pub fn save_adapter(&self, folder: &Path, base: &Path) -> Result<(), ModelError> {
        let Some(attached) = &self.attached else {
            return Err(ModelError::Unsupported {
                feature: "saving an adapter where none is attached".to_owned(),
            });
        };
        fs::create_dir_all(folder).map_err(ModelError::io("create", folder))?;
        let tensors: Vec<_> = self
            .linears()
            .filter_map(|linear| linear.adapter.as_ref().map(|adapter| (linear, adapter)))
            .flat_map(|(linear, adapter)| {
                let name = |matrix| adapter::file_name(&linear.path, matrix);
                [
                    (name("lora_A"), adapter.a.tensor.detach()),
                    (name("lora_B"), adapter.b.tensor.detach()),
                ]
            })
            .collect();
        weights::write(
            &folder.join(adapter::WEIGHTS),
            &tensors,
            &format_metadata(),
            None,
        )?;
        adapter::write_config(folder, base, attached)
    }

    /// Fills the trainable parameters from what [`Model::save`] or [`Model::save_adapter`] wrote.
    pub fn restore(&mut self, folder: &Path) -> Result<(), ModelError> {
        let _guard = tch::no_grad_guard();
        let files = match &self.attached {
            Some(_) => vec![adapter::open_weights(folder)?],
            None => folder::open_files(folder)?,
        };
        for parameter in self
            .all_parameters()
            .into_iter()
            .filter(|parameter| parameter.is_trainable)
        {
            let name = match &self.attached {
                Some(_) => format!("base_model.model.{}", parameter.name),
                None => parameter.name,
            };
            let file = files.iter().find(|file| file.shape(&name).is_some());
            let file = file.ok_or_else(|| ModelError::MissingTensors {
                folder: folder.to_owned(),
                count: 1,
                names: format!("`{name}`"),
            })?;
            let mut tensor = parameter.tensor;
            tensor.f_copy_(&file.read_weight(&name, &tensor.size(), tensor.kind())?)?;
        }
        Ok(())
    }

    /// Returns the model's own tensors without adapters; a tied weight once.
    fn base_tensors(&self) -> Vec<(String, Tensor)> {
        let is_base =
            |name: &str| !name.ends_with(".lora_A.weight") && !name.ends_with(".lora_B.weight");
        let all = self
            .all_parameters()
            .into_iter()
            .filter(|parameter| is_base(&parameter.name));
        all.map(|parameter| (parameter.name, parameter.tensor.detach()))
            .collect()
    }

    /// Writes the source's `config.json` with the weights' type, in the key that the source uses.
    fn write_config(&self, folder: &Path, kind: Kind) -> Result<(), ModelError> {
        let mut fields = self.raw.fields.clone();
        let key = if fields.contains_key("torch_dtype") {
            "torch_dtype"
        } else {
            "dtype"
        };
        let name = match kind {
            Kind::BFloat16 => "bfloat16",
            Kind::Half => "float16",
            Kind::Double => "float64",
            _ => "float32",
        };
        fields.insert(key.to_owned(), Value::String(name.to_owned()));
        weights::write_text(
            &folder.join("config.json"),
            &format!("{:#}\n", Value::Object(fields)),
        )
    }
}

/// Copies what a model folder holds beside weights and `config.json`, as far as it is there: the tokenizer's files and
/// how to generate. They stand beside a model and beside an adapter.
pub fn copy_companions(from: &Path, to: &Path) -> Result<(), ModelError> {
    for name in COMPANIONS {
        let (from, to) = (from.join(name), to.join(name));
        if from.is_file() && fs::canonicalize(&from).ok() != fs::canonicalize(&to).ok() {
            weights::copy_file(&from, &to)?;
        }
    }
    Ok(())
}

fn format_metadata() -> BTreeMap<String, String> {
    BTreeMap::from([("format".to_owned(), "pt".to_owned())])
}

/// Writes one file, or several with an index, and removes what an earlier save of another form left.
fn write_shards(
    folder: &Path,
    mut tensors: Vec<(String, Tensor)>,
    kind: Option<Kind>,
    shard_bytes: usize,
) -> Result<(), ModelError> {
    tensors.sort_by(|(a, _), (b, _)| a.cmp(b));
    let bytes_of = |tensor: &Tensor| {
        tensor.numel() * kind.unwrap_or_else(|| tensor.kind()).elt_size_in_bytes()
    };
    let total: usize = tensors.iter().map(|(_, tensor)| bytes_of(tensor)).sum();
    let (single, index) = (
        folder.join("model.safetensors"),
        folder.join("model.safetensors.index.json"),
    );
    if total <= shard_bytes {
        weights::write(&single, &tensors, &format_metadata(), kind)?;
        drop(fs::remove_file(index));
        return Ok(());
    }
    let mut shards: Vec<Vec<(String, Tensor)>> = vec![Vec::new()];
    let mut filled = 0;
    for (name, tensor) in tensors {
        let bytes = bytes_of(&tensor);
        if filled > 0 && filled + bytes > shard_bytes {
            shards.push(Vec::new());
            filled = 0;
        }
        filled += bytes;
        if let Some(shard) = shards.last_mut() {
            shard.push((name, tensor));
        }
    }
    let mut map = Map::new();
    for (number, shard) in (1..).zip(&shards) {
        let file = format!("model-{number:05}-of-{:05}.safetensors", shards.len());
        weights::write(&folder.join(&file), shard, &format_metadata(), kind)?;
        map.extend(
            shard
                .iter()
                .map(|(name, _)| (name.clone(), Value::String(file.clone()))),
        );
    }
    let text = json!({"metadata": {"total_size": total}, "weight_map": map});
    weights::write_text(&index, &format!("{text:#}\n"))?;
    drop(fs::remove_file(single));
    Ok(())
}
