//! The optimizer's tensors in a file, checked by name and shape when they come back.

use std::collections::BTreeMap;
use std::path::Path;

use tch::Tensor;
use trainer_models::ModelError;
use trainer_models::weights::{self, Safetensors};

use crate::error::ParallelError;

/// Writes named tensors as they are.
pub(crate) fn write(path: &Path, tensors: &[(String, Tensor)]) -> Result<(), ParallelError> {
    weights::write(path, tensors, &BTreeMap::new(), None)?;
    Ok(())
}

/// Fills the targets from the file; a missing name, a surplus one or another shape is an error that names it.
pub(crate) fn read(path: &Path, targets: Vec<(String, Tensor)>) -> Result<(), ParallelError> {
    let file = Safetensors::open(path)?;
    let num_found = file.names().count();
    if num_found != targets.len() {
        let message = format!("has {num_found} tensors, expected {}", targets.len());
        return Err(ParallelError::OptimizerState { message });
    }
    for (name, mut target) in targets {
        let refuse = |message: String| ParallelError::OptimizerState { message };
        let shape = file
            .shape(&name)
            .ok_or_else(|| refuse(format!("lacks `{name}`")))?;
        if shape != target.size() {
            return Err(refuse(format!(
                "has `{name}` with the shape {shape:?}, expected {:?}",
                target.size()
            )));
        }
        target
            .f_copy_(&file.read(&name)?)
            .map_err(ModelError::from)?;
    }
    Ok(())
}
