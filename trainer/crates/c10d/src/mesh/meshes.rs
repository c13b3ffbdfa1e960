//! The two meshes of a run, from its configuration.

use run_protocol::{Code, DistributedSection, Facts, RunConfig};

use super::{DeviceMesh, MeshError};

/// The two meshes over the same ranks.
///
/// | mesh | axes | along the axis |
/// |---|---|---|
/// | `data` | `dp` | ranks with different rows; the loss is summed |
/// | | `cp` | ranks that share one sequence; all-to-all around attention |
/// | `model` | `mp_replicate` | ranks with the same shard; gradients are all-reduced |
/// | | `mp_shard` | ranks that share one copy; parameters are gathered, gradients reduce-scattered |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meshes {
    /// `dp` x `cp`.
    pub data: DeviceMesh,
    /// `mp_replicate` x `mp_shard`.
    pub model: DeviceMesh,
}

/// The keys that say how large the axes are.
const SIZES: [&str; 4] = ["dp_size", "cp_size", "mp_replicate_size", "mp_shard_size"];

impl Meshes {
    /// Makes the meshes of a run: `mp_shard_size` and `dp_size` left out take the ranks left over. The rules and their
    /// texts are those of [`RunConfig::check_with`].
    pub fn new(sizes: &DistributedSection, world_size: usize) -> Result<Self, MeshError> {
        for (axis, size) in [
            ("cp", Some(sizes.cp_size)),
            ("dp", sizes.dp_size),
            ("mp_replicate", Some(sizes.mp_replicate_size)),
            ("mp_shard", sizes.mp_shard_size),
        ] {
            if size == Some(0) {
                return Err(MeshError::Empty { axis: axis.into() });
            }
        }
        let config = RunConfig {
            distributed: sizes.clone(),
            ..RunConfig::default()
        };
        let facts = Facts {
            world_size: Some(world_size),
            ..Facts::default()
        };
        let errors = config.check_with(&facts).errors;
        let about_sizes = |key: &String| SIZES.contains(&key.as_str());
        if let Some(error) = errors.into_iter().find(|error| {
            error.code == Code::Conflict
                && about_sizes(&error.field)
                && error.related.iter().all(about_sizes)
        }) {
            return Err(MeshError::Sizes {
                reason: error.reason,
                hint: error.hint,
            });
        }
        let (context, replicate) = (sizes.cp_size, sizes.mp_replicate_size);
        Self::with_sizes(
            [sizes.dp_size.unwrap_or(world_size / context), context],
            [
                replicate,
                sizes.mp_shard_size.unwrap_or(world_size / replicate),
            ],
        )
    }

    /// Makes the meshes of a run that is not distributed: every axis is 1, whatever its configuration says.
    pub fn single() -> Self {
        Self::with_sizes([1, 1], [1, 1]).expect("sizes of 1 always fit")
    }

    fn with_sizes(data: [usize; 2], model: [usize; 2]) -> Result<Self, MeshError> {
        Ok(Self {
            data: DeviceMesh::new("data", &[("dp", data[0]), ("cp", data[1])])?,
            model: DeviceMesh::new(
                "model",
                &[("mp_replicate", model[0]), ("mp_shard", model[1])],
            )?,
        })
    }

    /// Returns the number of ranks.
    pub fn world_size(&self) -> usize {
        self.data.world_size()
    }
}
