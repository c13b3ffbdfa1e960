//! The header of a safetensors file, checked against the file's length before anything of its size is allocated.

use std::{collections::BTreeMap, fs::File, io::Read, path::Path};

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor},
};
use tch::Kind;

use crate::ModelError;

/// Longer headers are not read: the largest models need less than 1 MB a file.
const MAX_HEADER_BYTES: u64 = 8 << 20;

/// Where a tensor lies in its file.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<i64>,
    /// Offset of its first byte in the file.
    pub(crate) begin: u64,
    pub(crate) bytes: u64,
}

/// The type of a tensor as the file names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dtype(pub(crate) String);

impl Dtype {
    /// Returns the type's size in bits, for the types of the format.
    fn bits(&self) -> Option<u64> {
        Some(match self.0.as_str() {
            "F4" => 4,
            "BOOL" | "U8" | "I8" | "F8_E5M2" | "F8_E4M3" | "F8_E8M0" => 8,
            "F16" | "BF16" | "I16" | "U16" => 16,
            "F32" | "I32" | "U32" => 32,
            "F64" | "I64" | "U64" | "C64" => 64,
            _ => return None,
        })
    }

    /// Returns libtorch's type, where we read it.
    pub(crate) fn kind(&self) -> Option<Kind> {
        Some(match self.0.as_str() {
            "BOOL" => Kind::Bool,
            "U8" => Kind::Uint8,
            "I8" => Kind::Int8,
            "I16" => Kind::Int16,
            "I32" => Kind::Int,
            "I64" => Kind::Int64,
            "F16" => Kind::Half,
            "BF16" => Kind::BFloat16,
            "F32" => Kind::Float,
            "F64" => Kind::Double,
            _ => return None,
        })
    }
}

/// A parsed header.
#[derive(Debug, Default)]
pub(crate) struct Header {
    pub(crate) entries: BTreeMap<String, Entry>,
    pub(crate) metadata: BTreeMap<String, String>,
}

/// Reads the header of an open file.
pub(crate) fn read_header(file: &mut File, path: &Path) -> Result<Header, ModelError> {
    let length = file.metadata().map_err(ModelError::io("read", path))?.len();
    let mut start = Vec::with_capacity(16);
    (&mut *file)
        .take(16)
        .read_to_end(&mut start)
        .map_err(ModelError::io("read", path))?;
    let wrong = |message: String| ModelError::Header {
        path: path.to_owned(),
        message,
    };
    let size = match start.get(..8).and_then(|bytes| bytes.try_into().ok()) {
        Some(bytes) => u64::from_le_bytes(bytes),
        None => {
            return Err(foreign(&start, path)
                .unwrap_or_else(|| wrong(format!("the file has only {length} bytes"))));
        }
    };
    // A pickle's first bytes can pass for a length, but then no JSON follows.
    if start.get(8) != Some(&b'{')
        && let Some(error) = foreign(&start, path)
    {
        return Err(error);
    }
    if size > length - 8 {
        return Err(wrong(format!(
            "it says that it is {size} bytes long, but the file has only {length}"
        )));
    }
    if size > MAX_HEADER_BYTES {
        return Err(wrong(format!(
            "it is {size} bytes long; at most {MAX_HEADER_BYTES} are read"
        )));
    }
    let mut text = start.split_off(8);
    let size_here = usize::try_from(size).unwrap_or(0);
    let rest = size_here.saturating_sub(text.len()) as u64;
    (&mut *file)
        .take(rest)
        .read_to_end(&mut text)
        .map_err(ModelError::io("read", path))?;
    text.truncate(size_here);
    let raw: RawHeader = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    locate(raw, 8 + size, length, path)
}

/// Recognizes other kinds of files by their first bytes.
fn foreign(start: &[u8], path: &Path) -> Option<ModelError> {
    let message = match start {
        [b'P', b'K', 3 | 5, ..] => "it is a zip archive, as PyTorch's pickle files are",
        [0x80, 2..=5, ..] => "it is a pickle file",
        [b'v', b'e', b'r', b's', b'i', b'o', b'n', ..] => {
            "it is a Git LFS pointer; the weights themselves were not downloaded"
        }
        [b'<', ..] => "it is a web page",
        _ => return None,
    };
    Some(ModelError::NotSafetensors {
        path: path.to_owned(),
        message: message.to_owned(),
    })
}

/// Checks every entry: known type, as many bytes as its shape needs, all within the file, side by side.
fn locate(raw: RawHeader, data_start: u64, length: u64, path: &Path) -> Result<Header, ModelError> {
    let mut header = Header {
        entries: BTreeMap::new(),
        metadata: raw.metadata,
    };
    let mut spans = Vec::with_capacity(raw.entries.len());
    for (name, entry) in raw.entries {
        let wrong = |message: String| ModelError::Tensor {
            path: path.to_owned(),
            name: name.clone(),
            message,
        };
        let dtype = Dtype(entry.dtype);
        let bits = dtype
            .bits()
            .ok_or_else(|| wrong(format!("has the unknown type `{}`", dtype.0)))?;
        let [begin, end] = entry.data_offsets;
        if begin > end || end > length - data_start {
            let held = length - data_start;
            return Err(wrong(format!(
                "lies at bytes {begin} to {end}, but the file holds {held} bytes of data"
            )));
        }
        let needed = entry
            .shape
            .iter()
            .try_fold(bits, |product, &dim| product.checked_mul(dim));
        if needed.is_none_or(|needed| needed % 8 != 0 || needed / 8 != end - begin) {
            let (shape, dtype) = (&entry.shape, &dtype.0);
            return Err(wrong(format!(
                "of type {dtype} and shape {shape:?} cannot have {} bytes",
                end - begin
            )));
        }
        let shape = entry
            .shape
            .iter()
            .map(|&dim| i64::try_from(dim))
            .collect::<Result<Vec<_>, _>>();
        let shape = shape.map_err(|_| wrong("has a dimension beyond 2^63".to_owned()))?;
        spans.push((begin, end, name.clone()));
        let located = Entry {
            dtype,
            shape,
            begin: data_start + begin,
            bytes: end - begin,
        };
        if header.entries.insert(name.clone(), located).is_some() {
            return Err(wrong("is listed twice".to_owned()));
        }
    }
    spans.sort();
    for pair in spans.windows(2) {
        if pair[1].0 < pair[0].1 {
            let message = format!("overlaps `{}`", pair[0].2);
            return Err(ModelError::Tensor {
                path: path.to_owned(),
                name: pair[1].2.clone(),
                message,
            });
        }
    }
    Ok(header)
}

/// The header as JSON has it, with doubled names kept.
struct RawHeader {
    metadata: BTreeMap<String, String>,
    entries: Vec<(String, RawEntry)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

impl<'de> Deserialize<'de> for RawHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = RawHeader;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object of tensors")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<RawHeader, M::Error> {
                let mut header = RawHeader {
                    metadata: BTreeMap::new(),
                    entries: Vec::new(),
                };
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        header.metadata = map.next_value()?;
                    } else {
                        let entry = map
                            .next_value()
                            .map_err(|error| de::Error::custom(format!("`{name}`: {error}")))?;
                        header.entries.push((name, entry));
                    }
                }
                Ok(header)
            }
        }
        deserializer.deserialize_map(Fields)
    }
}
