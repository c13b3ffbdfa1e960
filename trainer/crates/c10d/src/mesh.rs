//! Device meshes: the ranks of a run as a grid with named axes, and the groups along each axis. Pure arithmetic; the
//! groups themselves are made in [`groups`].

pub mod groups;
pub mod meshes;

pub use groups::MeshGroups;
pub use meshes::Meshes;

/// Why sizes do not make a mesh.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeshError {
    /// An axis without ranks.
    #[error("axis `{axis}` has no ranks")]
    Empty {
        /// The axis.
        axis: String,
    },
    /// Two axes of one name.
    #[error("axis `{axis}` is there twice")]
    Twice {
        /// The axis.
        axis: String,
    },
    /// More ranks than can be counted.
    #[error("the sizes multiply to more ranks than there can be")]
    TooLarge,
    /// The sizes of a configuration do not fit the ranks; the text is LLaMA-Factory's.
    #[error("{reason}")]
    Sizes {
        /// The text.
        reason: String,
        /// What the user can do.
        hint: Option<String>,
    },
}

impl MeshError {
    /// Returns what the user can do.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Empty { .. } => Some("give every axis at least one rank"),
            Self::Sizes { hint, .. } => hint.as_deref(),
            Self::Twice { .. } | Self::TooLarge => None,
        }
    }
}

/// Ranks as a named grid, row-major: the last axis varies fastest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceMesh {
    name: String,
    axes: Vec<Axis>,
}

/// One axis of a mesh.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Axis {
    name: String,
    size: usize,
    /// How far apart in rank number neighbours on this axis are.
    stride: usize,
}

impl DeviceMesh {
    /// Makes a mesh of axes with their sizes, slowest first.
    pub fn new(name: &str, axes: &[(&str, usize)]) -> Result<Self, MeshError> {
        let mut stride = 1_usize;
        let mut made: Vec<Axis> = Vec::with_capacity(axes.len());
        for &(axis, size) in axes.iter().rev() {
            if size == 0 {
                return Err(MeshError::Empty { axis: axis.into() });
            }
            if made.iter().any(|other| other.name == axis) {
                return Err(MeshError::Twice { axis: axis.into() });
            }
            made.push(Axis {
                name: axis.into(),
                size,
                stride,
            });
            stride = stride.checked_mul(size).ok_or(MeshError::TooLarge)?;
        }
        made.reverse();
        Ok(Self {
            name: name.into(),
            axes: made,
        })
    }

    /// Returns the mesh's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the names and sizes of the axes, slowest first.
    pub fn axes(&self) -> impl Iterator<Item = (&str, usize)> {
        self.axes.iter().map(|axis| (axis.name.as_str(), axis.size))
    }

    /// Returns the number of ranks.
    pub fn world_size(&self) -> usize {
        self.axes.iter().map(|axis| axis.size).product()
    }

    /// Returns the size of an axis; `None` where there is no such axis.
    pub fn size(&self, axis: &str) -> Option<usize> {
        self.axis(axis).map(|axis| axis.size)
    }

    /// Returns where a rank is on an axis: its number in its group.
    pub fn coordinate(&self, axis: &str, rank: usize) -> Option<usize> {
        self.known(rank)?;
        self.axis(axis).map(|axis| rank / axis.stride % axis.size)
    }

    /// Returns the ranks that differ from `rank` on this axis alone, with it, in the order of their coordinates.
    pub fn group_of(&self, axis: &str, rank: usize) -> Option<Vec<usize>> {
        let place = self.coordinate(axis, rank)?;
        let axis = self.axis(axis)?;
        let first = rank - place * axis.stride;
        Some(
            (0..axis.size)
                .map(|index| first + index * axis.stride)
                .collect(),
        )
    }

    /// Returns the groups of an axis, in the order of their first ranks. Each rank is in one of them.
    pub fn groups(&self, axis: &str) -> Option<Vec<Vec<usize>>> {
        (0..self.world_size())
            .filter(|rank| self.coordinate(axis, *rank) == Some(0))
            .map(|first| self.group_of(axis, first))
            .collect::<Option<Vec<_>>>()
            .filter(|groups| !groups.is_empty())
    }

    fn axis(&self, name: &str) -> Option<&Axis> {
        self.axes.iter().find(|axis| axis.name == name)
    }

    fn known(&self, rank: usize) -> Option<usize> {
        (rank < self.world_size()).then_some(rank)
    }
}
