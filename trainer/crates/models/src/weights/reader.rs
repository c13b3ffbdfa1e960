//! Reads tensors straight into their own memory: one copy, no map that a changing file could tear away.

use std::{
    collections::BTreeMap,
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use tch::{Device, Kind, Tensor};
use trainer_torch_ext::write_bytes;

use super::header::{Entry, Header, read_header};
use crate::ModelError;

/// An open safetensors file whose header was checked.
#[derive(Debug)]
pub struct Safetensors {
    path: PathBuf,
    file: File,
    header: Header,
}

impl Safetensors {
    /// Opens a file and checks its header.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let mut file = File::open(path).map_err(ModelError::io("open", path))?;
        let header = read_header(&mut file, path)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            header,
        })
    }

    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the tensors' names in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.header.entries.keys().map(String::as_str)
    }

    /// Returns the texts that the file carries beside its tensors.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.header.metadata
    }

    /// Returns a tensor's shape, if the file has it.
    pub fn shape(&self, name: &str) -> Option<&[i64]> {
        self.header
            .entries
            .get(name)
            .map(|entry| entry.shape.as_slice())
    }

    /// Reads a tensor in the file's own type, onto the CPU.
    pub fn read(&self, name: &str) -> Result<Tensor, ModelError> {
        let entry = self.entry(name)?;
        let kind = entry.dtype.kind().ok_or_else(|| {
            self.wrong(
                name,
                format!("has the type {}, which is not supported", entry.dtype.0),
            )
        })?;
        let mut tensor = Tensor::f_empty(&entry.shape, (kind, Device::Cpu))?;
        let read = write_bytes(&mut tensor, |bytes| {
            // The header check made both lengths equal.
            debug_assert_eq!(bytes.len() as u64, entry.bytes);
            self.file.read_exact_at(bytes, entry.begin)
        })?;
        read.map_err(ModelError::io("read", &self.path))?;
        Ok(tensor)
    }

    /// Reads a weight: checks its shape, and turns float16, bfloat16, float32 or float64 into `kind`.
    pub fn read_weight(&self, name: &str, shape: &[i64], kind: Kind) -> Result<Tensor, ModelError> {
        let entry = self.entry(name)?;
        self.check_weight(name, shape)?;
        if entry.dtype.kind() == Some(kind) {
            return self.read(name);
        }
        Ok(self.read(name)?.f_to_kind(kind)?)
    }

    /// Checks a weight's shape and type without reading it.
    pub(crate) fn check_weight(&self, name: &str, shape: &[i64]) -> Result<(), ModelError> {
        let entry = self.entry(name)?;
        if entry.shape != shape {
            return Err(ModelError::Shape {
                path: self.path.clone(),
                name: name.to_owned(),
                found: entry.shape.clone(),
                expected: shape.to_vec(),
            });
        }
        if !matches!(entry.dtype.0.as_str(), "F16" | "BF16" | "F32" | "F64") {
            return Err(self.wrong(
                name,
                format!("has the type {}, expected F32, F16 or BF16", entry.dtype.0),
            ));
        }
        Ok(())
    }

    fn entry(&self, name: &str) -> Result<&Entry, ModelError> {
        self.header
            .entries
            .get(name)
            .ok_or_else(|| self.wrong(name, "is missing".to_owned()))
    }

    fn wrong(&self, name: &str, message: String) -> ModelError {
        ModelError::Tensor {
            path: self.path.clone(),
            name: name.to_owned(),
            message,
        }
    }
}

/// Reads all tensors of a file by name.
pub fn read_all(path: &Path) -> Result<BTreeMap<String, Tensor>, ModelError> {
    let file = Safetensors::open(path)?;
    file.names()
        .map(|name| Ok((name.to_owned(), file.read(name)?)))
        .collect()
}
