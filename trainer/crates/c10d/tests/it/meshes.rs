//! Mesh arithmetic, LLaMA-Factory's rules and texts, and groups along the axes.

use std::collections::BTreeSet;

use proptest::prelude::*;
use run_protocol::{DistributedSection, RunConfig};
use tch::{Device, Kind, Tensor};
use trainer_c10d::{DeviceMesh, MeshError, MeshGroups, Meshes, ReduceOp};

use crate::ranks::{options, with_store};

fn section(
    (dp, cp): (Option<usize>, usize),
    (replicate, shard): (usize, Option<usize>),
) -> DistributedSection {
    DistributedSection {
        dp_size: dp,
        cp_size: cp,
        mp_replicate_size: replicate,
        mp_shard_size: shard,
        ..RunConfig::default().distributed
    }
}

/// dp 4, cp 2, replicate 2, shard 4.
fn eight() -> Meshes {
    Meshes::new(&section((Some(4), 2), (2, Some(4))), 8).unwrap()
}

#[test]
fn eight_ranks() {
    let meshes = eight();
    let groups = |mesh: &DeviceMesh, axis: &str| mesh.groups(axis).unwrap();
    assert_eq!(groups(&meshes.data, "cp"), [[0, 1], [2, 3], [4, 5], [6, 7]]);
    assert_eq!(groups(&meshes.data, "dp"), [[0, 2, 4, 6], [1, 3, 5, 7]]);
    assert_eq!(
        groups(&meshes.model, "mp_shard"),
        [[0, 1, 2, 3], [4, 5, 6, 7]]
    );
    assert_eq!(
        groups(&meshes.model, "mp_replicate"),
        [[0, 4], [1, 5], [2, 6], [3, 7]]
    );
    // Partners in context see the same rows.
    let rows: Vec<_> = (0..8)
        .map(|rank| meshes.data.coordinate("dp", rank).unwrap())
        .collect();
    assert_eq!(rows, [0, 0, 1, 1, 2, 2, 3, 3]);
    assert_eq!(meshes.data.size("dp"), Some(4));
    assert_eq!(meshes.data.size("mp_shard"), None);
    assert_eq!(meshes.data.coordinate("dp", 8), None);
    assert_eq!(meshes.world_size(), 8);
}

#[test]
fn sizes_left_out_take_the_ranks_left_over() {
    let meshes = Meshes::new(&section((None, 2), (4, None)), 8).unwrap();
    assert_eq!(
        meshes.data.axes().collect::<Vec<_>>(),
        [("dp", 4), ("cp", 2)]
    );
    assert_eq!(
        meshes.model.axes().collect::<Vec<_>>(),
        [("mp_replicate", 4), ("mp_shard", 2)]
    );
    let single = Meshes::single();
    assert_eq!((single.world_size(), single.data.size("cp")), (1, Some(1)));
}

#[test]
fn refusals_have_llama_factorys_texts() {
    for (data, model, text) in [
        (
            (None, 1),
            (3, None),
            "world_size (8) must be divisible by mp_replicate_size (3).",
        ),
        (
            (None, 1),
            (2, Some(2)),
            "mp_replicate_size * mp_shard_size must equal to world_size, got 2 * 2 != 8.",
        ),
        (
            (None, 3),
            (1, None),
            "world_size (8) must be divisible by cp_size (3).",
        ),
        (
            (Some(3), 2),
            (1, None),
            "dp_size * cp_size must equal to world_size, got 3 * 2 != 8.",
        ),
        ((None, 0), (1, None), "axis `cp` has no ranks"),
        ((None, 1), (0, None), "axis `mp_replicate` has no ranks"),
    ] {
        let error = Meshes::new(&section(data, model), 8).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
    let twice = DeviceMesh::new("model", &[("a", 2), ("a", 2)]);
    assert!(matches!(twice, Err(MeshError::Twice { .. })));
    let large = DeviceMesh::new("model", &[("a", usize::MAX), ("b", 2)]);
    assert_eq!(large, Err(MeshError::TooLarge));
}

#[test]
fn groups_along_the_axes_communicate() {
    let meshes = Meshes::new(&section((Some(2), 2), (2, Some(2))), 4).unwrap();
    with_store(4, |rank, store| {
        let data = MeshGroups::gloo(&meshes.data, &store, rank, &options()).unwrap();
        let model = MeshGroups::gloo(&meshes.model, &store, rank, &options()).unwrap();
        for (mesh, groups) in [(&meshes.data, &data), (&meshes.model, &model)] {
            for (axis, size) in mesh.axes() {
                let group = groups.get(axis).unwrap();
                assert_eq!(group.size(), size);
                assert_eq!(Some(group.rank()), mesh.coordinate(axis, rank));
                let own = Tensor::from(rank as i64).view([1]);
                let all = Tensor::zeros([size as i64], (Kind::Int64, Device::Cpu));
                group.all_gather_into(&all, &own).unwrap().wait().unwrap();
                let members: Vec<i64> = Vec::try_from(&all).unwrap();
                let want = mesh.group_of(axis, rank).unwrap();
                assert!(members.iter().map(|rank| *rank as usize).eq(want));
            }
        }
        assert!(data.get("mp_shard").is_none());
        // What FSDP2 with copies does with a gradient: reduce-scatter in the row, all-reduce over the copies.
        let gradient = Tensor::full([4], rank as i64, (Kind::Float, Device::Cpu));
        let shard = Tensor::zeros([2], (Kind::Float, Device::Cpu));
        let (row, copies) = (
            model.get("mp_shard").unwrap(),
            model.get("mp_replicate").unwrap(),
        );
        row.reduce_scatter(&shard, &gradient, ReduceOp::Avg)
            .unwrap()
            .wait()
            .unwrap();
        copies
            .all_reduce(&shard, ReduceOp::Avg)
            .unwrap()
            .wait()
            .unwrap();
        assert_eq!(Vec::<f32>::try_from(&shard).unwrap(), [1.5, 1.5]);
    });
}

#[test]
fn a_rank_outside_the_mesh_is_refused() {
    let meshes = eight();
    let found = with_store(1, |_, store| {
        MeshGroups::gloo(&meshes.data, &store, 8, &options()).map(drop)
    });
    assert!(found[0].is_err());
}

proptest! {
    #[test]
    fn groups_of_an_axis_part_the_ranks(sizes in prop::collection::vec(1_usize..5, 1..4)) {
        let names = ["a", "b", "c"];
        let axes: Vec<_> = names.iter().copied().zip(sizes).collect();
        let mesh = DeviceMesh::new("any", &axes).unwrap();
        let world = mesh.world_size();
        for (axis, size) in &axes {
            let groups = mesh.groups(axis).unwrap();
            prop_assert_eq!(groups.len() * size, world);
            let seen: BTreeSet<usize> = groups.iter().flatten().copied().collect();
            prop_assert_eq!(seen.len(), world);
            for group in &groups {
                for (place, rank) in group.iter().enumerate() {
                    prop_assert_eq!(mesh.coordinate(axis, *rank), Some(place));
                    prop_assert_eq!(mesh.group_of(axis, *rank), Some(group.clone()));
                    // Every other coordinate is the group's.
                    for (other, _) in axes.iter().filter(|(other, _)| other != axis) {
                        prop_assert_eq!(mesh.coordinate(other, *rank), mesh.coordinate(other, group[0]));
                    }
                }
            }
        }
        // Row-major: a rank's number follows from its coordinates.
        for rank in 0..world {
            let number = axes.iter().fold(0, |number, (axis, size)| {
                number * size + mesh.coordinate(axis, rank).unwrap()
            });
            prop_assert_eq!(number, rank);
        }
    }

    #[test]
    fn sizes_either_fit_or_are_refused(
        world in 1_usize..17,
        cp in 1_usize..5,
        dp in prop::option::of(1_usize..9),
        replicate in 1_usize..5,
        shard in prop::option::of(1_usize..9),
    ) {
        let fits = |other: usize, size: Option<usize>| match size {
            Some(size) => size * other == world,
            None => world.is_multiple_of(other),
        };
        let made = Meshes::new(&section((dp, cp), (replicate, shard)), world);
        prop_assert_eq!(made.is_ok(), fits(cp, dp) && fits(replicate, shard));
        if let Ok(meshes) = made {
            prop_assert_eq!(meshes.data.world_size(), world);
            prop_assert_eq!(meshes.model.world_size(), world);
        }
    }
}
