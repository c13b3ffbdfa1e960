//! The rotary embedding's fields: `rope_theta` and `rope_scaling` (4.x) or `rope_parameters` (5.x).

use super::{RawConfig, RopeScaling};
use crate::ModelError;

/// Returns base and scaling.
pub(crate) fn read_rope(config: &RawConfig) -> Result<(f64, RopeScaling), ModelError> {
    let parameters = config.object("rope_parameters")?;
    let scaling = parameters
        .clone()
        .map_or_else(|| config.object("rope_scaling"), |found| Ok(Some(found)))?;
    let theta = match &parameters {
        Some(parameters) => parameters.number("rope_theta")?,
        None => None,
    };
    let theta = theta
        .map_or_else(|| config.number("rope_theta"), |found| Ok(Some(found)))?
        .unwrap_or(10_000.0);
    if theta <= 1.0 {
        return Err(config.wrong("rope_theta", format!("is {theta}, expected more than 1")));
    }
    for place in [Some(config), scaling.as_ref()].into_iter().flatten() {
        if let Some(part) = place
            .number("partial_rotary_factor")?
            .filter(|part| (part - 1.0).abs() > 1e-9)
        {
            return Err(ModelError::Unsupported {
                feature: format!("partial_rotary_factor {part}"),
            });
        }
    }
    let scaling = match scaling {
        Some(scaling) => read_scaling(config, &scaling)?,
        None => RopeScaling::None,
    };
    Ok((theta, scaling))
}

fn read_scaling(config: &RawConfig, scaling: &RawConfig) -> Result<RopeScaling, ModelError> {
    let name = scaling
        .text("rope_type")?
        .map_or_else(|| scaling.text("type"), |name| Ok(Some(name)))?;
    let needed = |field: &str| -> Result<f64, ModelError> {
        let found = scaling
            .number(field)?
            .ok_or_else(|| scaling.wrong(field, "is missing from the rope scaling"))?;
        if found > 0.0 {
            Ok(found)
        } else {
            Err(scaling.wrong(field, format!("is {found}, expected more than 0")))
        }
    };
    match name.as_deref() {
        None | Some("default") => Ok(RopeScaling::None),
        Some("linear") => Ok(RopeScaling::Linear {
            factor: needed("factor")?,
        }),
        Some("llama3") => Ok(RopeScaling::Llama3 {
            factor: needed("factor")?,
            low_freq_factor: needed("low_freq_factor")?,
            high_freq_factor: needed("high_freq_factor")?,
            original_length: needed("original_max_position_embeddings")?,
        }),
        Some("yarn") => read_yarn(config, scaling, needed("factor")?),
        Some(other) => Err(ModelError::Unsupported {
            feature: format!("the rope scaling `{other}`"),
        }),
    }
}

fn read_yarn(
    config: &RawConfig,
    scaling: &RawConfig,
    factor: f64,
) -> Result<RopeScaling, ModelError> {
    let amplitude = |scale: f64, by: f64| {
        if scale <= 1.0 {
            1.0
        } else {
            0.1 * by * scale.ln() + 1.0
        }
    };
    let attention_factor = match scaling.number("attention_factor")? {
        Some(factor) => factor,
        None => match (scaling.number("mscale")?, scaling.number("mscale_all_dim")?) {
            (Some(some), Some(all)) if some != 0.0 && all != 0.0 => {
                amplitude(factor, some) / amplitude(factor, all)
            }
            _ => amplitude(factor, 1.0),
        },
    };
    let original_length = match scaling.number("original_max_position_embeddings")? {
        Some(length) => length,
        None => config.size("max_position_embeddings")? as f64,
    };
    Ok(RopeScaling::Yarn {
        factor,
        attention_factor,
        beta_fast: scaling.number("beta_fast")?.unwrap_or(32.0),
        beta_slow: scaling.number("beta_slow")?.unwrap_or(1.0),
        original_length,
        is_truncated: scaling.flag("truncate", true)?,
    })
}
