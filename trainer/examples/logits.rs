//! Writes the logits of a model folder for given token ids, for comparison with other programs (`scripts/check-in-python`).
//!
//! `logits MODEL_DIR ADAPTER_DIR|- OUT.safetensors 1,2,3 [4,5,6 …]`

use std::{env, error::Error, path::PathBuf};

use tch::{Device, Tensor};
use trainer_models::{LoadOptions, Lora, Model, Precision, Tuning};

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "logits MODEL_DIR ADAPTER_DIR|- OUT.safetensors 1,2,3 [4,5,6 …]";
    let mut arguments = env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or(usage)?);
    let adapter = arguments.next().ok_or(usage)?;
    let out = PathBuf::from(arguments.next().ok_or(usage)?);
    let tuning = match adapter.as_str() {
        "-" => Tuning::Frozen,
        path => Tuning::Lora(Lora {
            adapters: vec![path.into()],
            ..Lora::new(1, 0)
        }),
    };
    let model = Model::load(
        &folder,
        &LoadOptions {
            precision: Precision::F32,
            tuning,
            device: Device::Cpu,
        },
    )?;
    let _no_grad = tch::no_grad_guard();
    let mut named = Vec::new();
    for (row, text) in arguments.enumerate() {
        let ids = text
            .split(',')
            .map(str::parse)
            .collect::<Result<Vec<i64>, _>>()?;
        let length = i64::try_from(ids.len())?;
        let positions = Tensor::arange(length, (tch::Kind::Int64, Device::Cpu));
        let pass = model.pass(&positions, &[length])?;
        named.push((
            format!("logits.{row}"),
            model.forward(&Tensor::from_slice(&ids), &pass)?,
        ));
    }
    Tensor::write_safetensors(&named, out)?;
    Ok(())
}
