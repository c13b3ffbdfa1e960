//! Writes a safetensors file beside its place and renames it there, one tensor at a time.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

use serde_json::{Map, Value, json};
use tch::{Device, Kind, Tensor};
use trainer_torch_ext::read_bytes;

use crate::ModelError;

/// Writes tensors and texts as one file; `kind` converts all of them, `None` keeps each as it is.
///
/// A reader sees the old file or the whole new one. On an error the old one stays and nothing is left beside it.
pub fn write(
    path: &Path,
    tensors: &[(String, Tensor)],
    metadata: &BTreeMap<String, String>,
    kind: Option<Kind>,
) -> Result<(), ModelError> {
    replace_file(path, |file| write_to(file, path, tensors, metadata, kind))
}

/// Fills a file beside `path`, makes it durable and renames it to `path`.
pub(crate) fn replace_file(
    path: &Path,
    fill: impl FnOnce(&mut File) -> Result<(), ModelError>,
) -> Result<(), ModelError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    let beside = path.with_file_name(name);
    let attempt = || {
        let mut file = File::create(&beside).map_err(ModelError::io("create", &beside))?;
        fill(&mut file)?;
        file.sync_all().map_err(ModelError::io("write", path))?;
        fs::rename(&beside, path).map_err(ModelError::io("write", path))
    };
    attempt().inspect_err(|_| drop(fs::remove_file(&beside)))
}

fn write_to(
    file: &mut File,
    path: &Path,
    tensors: &[(String, Tensor)],
    metadata: &BTreeMap<String, String>,
    kind: Option<Kind>,
) -> Result<(), ModelError> {
    let kind_of = |tensor: &Tensor| kind.unwrap_or_else(|| tensor.kind());
    // The widest types first, so that every tensor is aligned to its own type.
    let mut sorted: Vec<_> = tensors.iter().collect();
    sorted.sort_by(|(a, x), (b, y)| {
        kind_of(y)
            .elt_size_in_bytes()
            .cmp(&kind_of(x).elt_size_in_bytes())
            .then_with(|| a.cmp(b))
    });
    let mut header = Map::new();
    if !metadata.is_empty() {
        header.insert("__metadata__".to_owned(), json!(metadata));
    }
    let mut offset = 0;
    for (name, tensor) in &sorted {
        let dtype = dtype_name(kind_of(tensor)).ok_or_else(|| ModelError::Tensor {
            path: path.to_owned(),
            name: name.clone(),
            message: format!(
                "has the type {:?}, which cannot be written",
                kind_of(tensor)
            ),
        })?;
        let end = offset + tensor.numel() * kind_of(tensor).elt_size_in_bytes();
        header.insert(
            name.clone(),
            json!({"dtype": dtype, "shape": tensor.size(), "data_offsets": [offset, end]}),
        );
        offset = end;
    }
    let mut text = Value::Object(header).to_string().into_bytes();
    text.resize(text.len().next_multiple_of(8), b' ');
    let write = |file: &mut File, bytes: &[u8]| {
        file.write_all(bytes).map_err(ModelError::io("write", path))
    };
    write(file, &(text.len() as u64).to_le_bytes())?;
    write(file, &text)?;
    for (_, tensor) in sorted {
        let _guard = tch::no_grad_guard();
        let plain = tensor
            .f_to_device(Device::Cpu)?
            .f_to_kind(kind_of(tensor))?
            .f_contiguous()?;
        read_bytes(&plain, |bytes| write(file, bytes))??;
    }
    Ok(())
}

/// Writes a text file in the same way.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), ModelError> {
    replace_file(path, |file| {
        file.write_all(text.as_bytes())
            .map_err(ModelError::io("write", path))
    })
}

/// Copies a file in the same way.
pub(crate) fn copy_file(from: &Path, to: &Path) -> Result<(), ModelError> {
    replace_file(to, |file| {
        let mut source = File::open(from).map_err(ModelError::io("open", from))?;
        io::copy(&mut source, file).map_err(ModelError::io("write", to))?;
        Ok(())
    })
}

fn dtype_name(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::Bool => "BOOL",
        Kind::Uint8 => "U8",
        Kind::Int8 => "I8",
        Kind::Int16 => "I16",
        Kind::Int => "I32",
        Kind::Int64 => "I64",
        Kind::Half => "F16",
        Kind::BFloat16 => "BF16",
        Kind::Float => "F32",
        Kind::Double => "F64",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disk_is_named() {
        let path = Path::new("/dev/full");
        let mut file = File::options().write(true).open(path).unwrap();
        let tensors = [(
            "a".to_owned(),
            Tensor::ones([2], (Kind::Float, Device::Cpu)),
        )];
        let error = write_to(&mut file, path, &tensors, &BTreeMap::new(), None).unwrap_err();
        assert!(error.is_storage_full() && error.hint().is_some(), "{error}");
    }
}
