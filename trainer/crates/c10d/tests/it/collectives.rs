//! Values of every collective, exactly.

use tch::{Device, Kind, Tensor};
use trainer_c10d::{GlooOptions, ReduceOp, Work};

use crate::ranks::{options, with_group};

const KINDS: [Kind; 4] = [Kind::Float, Kind::BFloat16, Kind::Int64, Kind::Double];

/// Whole numbers that even bf16 holds exactly, sums included: `base`, `base + 1`, …
fn numbers(base: usize, count: usize, kind: Kind) -> Tensor {
    let values: Vec<i64> = (base..base + count).map(|value| value as i64).collect();
    Tensor::from_slice(&values).to_kind(kind)
}

fn values(tensor: &Tensor) -> Vec<f64> {
    Vec::<f64>::try_from(tensor.to_kind(Kind::Double).view([-1])).unwrap()
}

fn zeros(count: usize, kind: Kind) -> Tensor {
    Tensor::zeros([count as i64], (kind, Device::Cpu))
}

/// Every number of ranks in every mode.
fn cases() -> Vec<(usize, GlooOptions)> {
    let native = GlooOptions {
        native: true,
        ..options()
    };
    let checked = GlooOptions {
        checked: true,
        ..options()
    };
    [options(), native, checked]
        .into_iter()
        .flat_map(|options| [1, 2, 4].map(|size| (size, options.clone())))
        .collect()
}

#[test]
fn reductions() {
    for (size, options) in cases() {
        with_group(size, &options, |group| {
            let rank = group.rank();
            for kind in KINDS {
                let sum = |index: usize| (0..size).map(|r| (r * 2 + index) as f64).sum::<f64>();
                let largest = |index: usize| ((size - 1) * 2 + index) as f64;
                let mut ops = vec![ReduceOp::Sum, ReduceOp::Max];
                if kind != Kind::Int64 {
                    ops.push(ReduceOp::Avg);
                }
                for op in ops {
                    let want: Vec<f64> = (0..3 * size)
                        .map(|index| match op {
                            ReduceOp::Sum => sum(index),
                            ReduceOp::Avg => sum(index) / size as f64,
                            ReduceOp::Max => largest(index),
                        })
                        .collect();
                    let tensor = numbers(rank * 2, 3 * size, kind);
                    let part = zeros(3, kind);
                    let mut scatter = group.reduce_scatter(&part, &tensor, op).unwrap();
                    scatter.wait().unwrap();
                    assert_eq!(values(&part), want[rank * 3..][..3], "{kind:?} {op:?}");
                    group.all_reduce(&tensor, op).unwrap().wait().unwrap();
                    assert_eq!(values(&tensor), want, "{kind:?} {op:?}");
                }
            }
            let whole = zeros(size, Kind::Int64);
            assert!(group.all_reduce(&whole, ReduceOp::Avg).is_err());
        });
    }
}

#[test]
fn gathers_and_exchanges() {
    for (size, options) in cases() {
        with_group(size, &options, |group| {
            let rank = group.rank();
            for kind in KINDS {
                let own = numbers(rank * 10, 3, kind);
                let all = zeros(3 * size, kind);
                group.all_gather_into(&all, &own).unwrap().wait().unwrap();
                let want: Vec<f64> = (0..size)
                    .flat_map(|r| (r * 10..r * 10 + 3).map(|value| value as f64))
                    .collect();
                assert_eq!(values(&all), want, "{kind:?}");

                // The input may be this rank's part of the output.
                let all = zeros(3 * size, kind);
                let part = all.narrow(0, rank as i64 * 3, 3);
                part.shallow_clone().copy_(&own);
                group.all_gather_into(&all, &part).unwrap().wait().unwrap();
                assert_eq!(values(&all), want, "{kind:?}");

                let got = zeros(2 * size, kind);
                let sent = numbers(rank * 20, 2 * size, kind);
                let mut work = group.all_to_all_single(&got, &sent, &[], &[]).unwrap();
                work.wait().unwrap();
                let want: Vec<f64> = (0..size)
                    .flat_map(|r| (0..2).map(move |index| (r * 20 + rank * 2 + index) as f64))
                    .collect();
                assert_eq!(values(&got), want, "{kind:?}");

                let tensor = numbers(rank, 5, kind);
                let root = size - 1;
                group.broadcast(&tensor, root).unwrap().wait().unwrap();
                assert_eq!(values(&tensor), values(&numbers(root, 5, kind)));
            }
            group.barrier().unwrap();
            group.monitored_barrier().unwrap();
        });
    }
}

#[test]
fn uneven_exchange() {
    for (size, options) in cases() {
        with_group(size, &options, |group| {
            let rank = group.rank();
            // Rank r sends p rows of two numbers to rank p, so rank 0 gets nothing.
            let to: Vec<i64> = (0..size as i64).collect();
            let from = vec![rank as i64; size];
            let rows: i64 = to.iter().sum();
            let input = Tensor::full([rows, 2], rank as i64, (Kind::Int64, Device::Cpu));
            let output = Tensor::zeros([(rank * size) as i64, 2], (Kind::Int64, Device::Cpu));
            let mut work = group
                .all_to_all_single(&output, &input, &from, &to)
                .unwrap();
            work.wait().unwrap();
            let want: Vec<f64> = (0..size).flat_map(|r| vec![r as f64; rank * 2]).collect();
            assert_eq!(values(&output), want);
        });
    }
}

#[test]
fn many_are_under_way_at_once() {
    for size in [2, 4] {
        with_group(size, &options(), |group| {
            let rank = group.rank();
            let tensors: Vec<Tensor> = (0..8)
                .map(|i| numbers(rank + i, 1000, Kind::Double))
                .collect();
            let parts: Vec<Tensor> = (0..8).map(|_| zeros(1000 / size, Kind::Double)).collect();
            let all = zeros(1000 * size, Kind::Double);
            let mut works: Vec<Work> = Vec::new();
            for (tensor, part) in tensors.iter().zip(&parts) {
                works.push(group.reduce_scatter(part, tensor, ReduceOp::Sum).unwrap());
            }
            works.push(
                group
                    .all_gather_into(&all, &numbers(rank, 1000, Kind::Double))
                    .unwrap(),
            );
            // In the reverse order, the first after polling.
            while !works.last().unwrap().is_done().unwrap() {
                std::thread::yield_now();
            }
            for work in works.iter_mut().rev() {
                work.wait().unwrap();
            }
            let offsets = (size * (size - 1) / 2) as f64;
            for (i, part) in parts.iter().enumerate() {
                let first = (i + rank * (1000 / size)) * size;
                assert_eq!(values(part)[0], first as f64 + offsets);
            }
            assert_eq!(values(&all)[1000 * (size - 1)], (size - 1) as f64);
        });
    }
}

#[test]
fn messages_between_two_ranks() {
    with_group(2, &options(), |group| {
        let peer = 1 - group.rank();
        let own = numbers(group.rank() * 7, 4, Kind::BFloat16);
        let other = zeros(4, Kind::BFloat16);
        let mut receive = group.receive(&other, peer, 3).unwrap();
        group.send(&own, peer, 3).unwrap().wait().unwrap();
        receive.wait().unwrap();
        assert_eq!(
            values(&other),
            values(&numbers(peer * 7, 4, Kind::BFloat16))
        );
    });
}

#[test]
fn collectives_stay_out_of_autograd() {
    with_group(2, &options(), |group| {
        let weight = numbers(1, 4, Kind::Float).set_requires_grad(true);
        let all = zeros(8, Kind::Float);
        group
            .all_gather_into(&all, &weight)
            .unwrap()
            .wait()
            .unwrap();
        let part = zeros(2, Kind::Float);
        let mut work = group.reduce_scatter(&part, &weight, ReduceOp::Avg).unwrap();
        work.wait().unwrap();
        assert!(!all.requires_grad() && !part.requires_grad());
        assert_eq!(
            values(&part),
            [
                1.0 + 2.0 * group.rank() as f64,
                2.0 + 2.0 * group.rank() as f64
            ]
        );
    });
}
