//! Attaches adapters to a model: new ones, and those of PEFT's folders.

mod peft;

use std::path::Path;

use tch::{Device, Kind, Tensor};
use trainer_torch_ext::fill_uniform;

pub(crate) use peft::{AdapterConfig, WEIGHTS, file_name, write_config};

use crate::{
    Lora, Model, ModelError, Parameter, folder,
    lora::{mix, scaling},
    nn::{Adapter, Linear},
    weights::Safetensors,
};

/// What the attached adapter's configuration file will say.
#[derive(Debug, Clone)]
pub(crate) struct Attached {
    pub(crate) rank: i64,
    pub(crate) alpha: f64,
    pub(crate) dropout: f64,
    pub(crate) use_rslora: bool,
    pub(crate) targets: Vec<String>,
}

/// Loads, merges and continues adapters as asked, or starts a new one.
pub(crate) fn attach(model: &mut Model, lora: &Lora) -> Result<(), ModelError> {
    let (merged, continued) = match lora.adapters.split_last() {
        Some((last, rest)) if !lora.create_new_adapter => (rest, Some(last)),
        _ => (lora.adapters.as_slice(), None),
    };
    for folder in merged {
        load(model, folder)?;
        model.merge_adapter()?;
    }
    match continued {
        Some(folder) => load(model, folder),
        None => create(model, lora),
    }
}

/// Attaches a new adapter: A uniform in ±1/sqrt(i) (Kaiming with a = sqrt 5), B zero.
fn create(model: &mut Model, lora: &Lora) -> Result<(), ModelError> {
    let is_all = lora.targets.iter().any(|target| target == "all");
    let matches = |linear: &Linear, target: &str| {
        linear.path == target
            || linear
                .path
                .strip_suffix(target)
                .is_some_and(|rest| rest.ends_with('.'))
    };
    if !is_all
        && let Some(target) = lora
            .targets
            .iter()
            .find(|target| !model.linears().any(|l| matches(l, target)))
    {
        return Err(ModelError::LoraTarget {
            target: target.clone(),
            known: last_names(model.linears()).join(", "),
        });
    }
    let targets = if is_all {
        last_names(model.linears())
    } else {
        lora.targets.clone()
    };
    let (kind, device) = (model.trainable_kind(), model.device());
    let (rank, factor) = (lora.rank, scaling(lora.rank, lora.alpha, lora.use_rslora));
    for (salt, linear) in (0_u64..).zip(model.linears_mut()) {
        if !targets.iter().any(|target| matches(linear, target)) {
            continue;
        }
        let size = linear.weight.tensor.size();
        let mut a = Tensor::f_zeros([rank, size[1]], (Kind::Float, Device::Cpu))?;
        let bound = 1.0 / (size[1] as f64).sqrt();
        fill_uniform(&mut a, -bound, bound, mix(lora.seed, salt))?;
        let b = Tensor::f_zeros([size[0], rank], (kind, device))?;
        let a = a.f_to_kind(kind)?.f_to_device(device)?;
        put(linear, (&a, &b), factor, lora.dropout, salt);
    }
    model.attached = Some(Attached {
        rank,
        alpha: lora.alpha,
        dropout: lora.dropout,
        use_rslora: lora.use_rslora,
        targets,
    });
    Ok(())
}

/// Attaches the adapter of a PEFT folder with its own rank, alpha and dropout.
fn load(model: &mut Model, folder: &Path) -> Result<(), ModelError> {
    let config = AdapterConfig::read(folder)?;
    let file = open_weights(folder)?;
    let (kind, device) = (model.trainable_kind(), model.device());
    let factor = scaling(config.rank, config.alpha, config.use_rslora);
    let mut num_read = 0;
    for (salt, linear) in (0_u64..).zip(model.linears_mut()) {
        let (name_a, name_b) = (
            file_name(&linear.path, "lora_A"),
            file_name(&linear.path, "lora_B"),
        );
        if file.shape(&name_a).is_none() && file.shape(&name_b).is_none() {
            continue;
        }
        let size = linear.weight.tensor.size();
        let a = file
            .read_weight(&name_a, &[config.rank, size[1]], kind)?
            .f_to_device(device)?;
        let b = file
            .read_weight(&name_b, &[size[0], config.rank], kind)?
            .f_to_device(device)?;
        put(linear, (&a, &b), factor, config.dropout, salt);
        num_read += 2;
    }
    let wrong = |message: String| ModelError::Adapter {
        folder: folder.to_owned(),
        message,
    };
    if num_read == 0 {
        return Err(wrong(
            "has no weights for any linear layer of the model".to_owned(),
        ));
    }
    if num_read != file.names().count() {
        let is_known = |name: &str| {
            model.linears().any(|l| {
                name == file_name(&l.path, "lora_A") || name == file_name(&l.path, "lora_B")
            })
        };
        let unknown = file
            .names()
            .find(|name| !is_known(name))
            .unwrap_or_default();
        return Err(wrong(format!(
            "has the tensor `{unknown}`, which fits no linear layer of the model"
        )));
    }
    model.attached = Some(Attached {
        rank: config.rank,
        alpha: config.alpha,
        dropout: config.dropout,
        use_rslora: config.use_rslora,
        targets: config
            .targets
            .unwrap_or_else(|| last_names(model.linears().filter(|l| l.adapter.is_some()))),
    });
    Ok(())
}

/// Opens an adapter's weights, refusing pickle files.
pub(crate) fn open_weights(folder: &Path) -> Result<Safetensors, ModelError> {
    let path = folder.join(WEIGHTS);
    if !path.is_file() {
        folder::refuse_pickle(folder)?;
        return Err(ModelError::MissingFile {
            folder: folder.to_owned(),
            file: WEIGHTS.to_owned(),
        });
    }
    Safetensors::open(&path)
}

fn put(linear: &mut Linear, (a, b): (&Tensor, &Tensor), scaling: f64, dropout: f64, salt: u64) {
    let parameter =
        |tensor, end| Parameter::new(format!("{}.{end}.weight", linear.path), tensor, true);
    linear.adapter = Some(Adapter {
        a: parameter(a, "lora_A"),
        b: parameter(b, "lora_B"),
        scaling,
        dropout,
        salt,
    });
}

/// Returns the last parts of the layers' paths, each once, in alphabetical order.
fn last_names<'a>(linears: impl Iterator<Item = &'a Linear>) -> Vec<String> {
    let mut names: Vec<String> = linears
        .filter_map(|linear| linear.path.rsplit('.').next())
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}
