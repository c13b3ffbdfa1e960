//! A rank's process groups along the axes of a mesh.

use super::DeviceMesh;
use crate::{C10dError, GlooOptions, ProcessGroup, Store};

/// A rank's groups, one for each axis of a mesh.
#[derive(Debug)]
pub struct MeshGroups {
    groups: Vec<(String, ProcessGroup)>,
}

impl MeshGroups {
    /// Joins a gloo group along each axis. All ranks of the mesh call it, each with its own handle to one store; the
    /// groups meet under keys of their own (`model/mp_shard/1/…`). Axes are taken in the order of the mesh, so that no two
    /// groups wait for each other.
    pub fn gloo(
        mesh: &DeviceMesh,
        store: &Store,
        rank: usize,
        options: &GlooOptions,
    ) -> Result<Self, C10dError> {
        Self::with(mesh, store, rank, |store, rank, size| {
            ProcessGroup::gloo(store, rank, size, options)
        })
    }

    /// Joins a group along each axis, made by `join` from a store, the rank's number in the group and the group's size.
    pub fn with(
        mesh: &DeviceMesh,
        store: &Store,
        rank: usize,
        join: impl Fn(&Store, usize, usize) -> Result<ProcessGroup, C10dError>,
    ) -> Result<Self, C10dError> {
        let mut groups = Vec::new();
        for (axis, size) in mesh.axes() {
            let (Some(place), Some(members)) =
                (mesh.coordinate(axis, rank), mesh.group_of(axis, rank))
            else {
                let message = format!("rank `{rank}` is not in mesh `{}`", mesh.name());
                return Err(C10dError::mismatch("mesh_groups", message));
            };
            // Groups of an axis are told apart by their first rank.
            let first = members.first().copied().unwrap_or(rank);
            let own = store.prefixed(&format!("{}/{axis}/{first}", mesh.name()))?;
            groups.push((axis.to_owned(), join(&own, place, size)?));
        }
        Ok(Self { groups })
    }

    /// Returns the group along an axis.
    pub fn get(&self, axis: &str) -> Option<&ProcessGroup> {
        self.groups
            .iter()
            .find(|(name, _)| name == axis)
            .map(|(_, group)| group)
    }
}
