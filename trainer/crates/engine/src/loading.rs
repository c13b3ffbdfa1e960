//! Which folder a run's model is read from, and how.

use std::path::{Path, PathBuf};

use run_protocol::{FinetuningType, RunConfig};
use tch::Device;
use trainer_models::{LoadOptions, Lora, Precision, Tuning};

use crate::error::EngineError;

/// Returns the model folder and the way to load it; a resumed run takes weights or adapter from its checkpoint.
pub(crate) fn load_options(
    config: &RunConfig,
    resume: Option<&Path>,
) -> Result<(PathBuf, LoadOptions), EngineError> {
    let precision = precision(config)?;
    let base = config.model.model_name_or_path.clone();
    let (folder, tuning) = match config.method.finetuning_type {
        FinetuningType::Full => (resume.map_or(base, Path::to_owned), Tuning::Full),
        FinetuningType::Lora => (base, Tuning::Lora(lora(config, resume))),
        other => {
            return Err(EngineError::Config {
                field: "finetuning_type",
                reason: format!("`{other}` cannot be trained yet"),
                hint: Some("use `lora` or `full`".into()),
            });
        }
    };
    Ok((
        folder,
        LoadOptions {
            precision,
            tuning,
            device: Device::Cpu,
        },
    ))
}

fn lora(config: &RunConfig, resume: Option<&Path>) -> Lora {
    let method = &config.method;
    let mut adapters = config.model.adapter_name_or_path.clone();
    let mut create_new_adapter = method.create_new_adapter;
    if let Some(checkpoint) = resume {
        // What was merged before is merged again; what was continued is continued from the checkpoint.
        if !create_new_adapter {
            adapters.pop();
        }
        adapters.push(checkpoint.to_owned());
        create_new_adapter = false;
    }
    Lora {
        rank: i64::try_from(method.lora_rank).unwrap_or(i64::MAX),
        alpha: method.alpha(),
        dropout: method.lora_dropout,
        targets: method.lora_target.clone(),
        use_rslora: method.use_rslora,
        seed: config.training.seed,
        adapters,
        create_new_adapter,
    }
}

fn precision(config: &RunConfig) -> Result<Precision, EngineError> {
    match config.training.precision() {
        run_protocol::Precision::Fp32 => Ok(Precision::F32),
        run_protocol::Precision::Bf16 => Ok(Precision::Bf16),
        run_protocol::Precision::PureBf16 => Ok(Precision::PureBf16),
        run_protocol::Precision::Fp16 => Err(EngineError::Config {
            field: "fp16",
            reason: "float16 is not trained on a CPU".into(),
            hint: Some("use `bf16: true`".into()),
        }),
    }
}
