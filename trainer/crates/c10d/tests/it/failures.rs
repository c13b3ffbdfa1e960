//! What goes wrong is an error of the right kind, on every rank and in time.

use std::{
    sync::Barrier,
    time::{Duration, Instant},
};

use tch::{Device, Kind, Tensor};
use trainer_c10d::{C10dError, ErrorKind, GlooOptions, ProcessGroup, ReduceOp};

use crate::ranks::{options, with_group, with_store};

const SHORT: Duration = Duration::from_millis(500);
/// A good deal longer than [`SHORT`], for a busy machine, and shorter than a test's own limit.
const SOON: Duration = Duration::from_secs(20);

type Case = fn(&ProcessGroup) -> Result<(), C10dError>;

fn ones(count: i64) -> Tensor {
    Tensor::ones([count], (Kind::Float, Device::Cpu))
}

fn sum(group: &ProcessGroup, count: i64) -> Result<(), C10dError> {
    group.all_reduce(&ones(count), ReduceOp::Sum)?.wait()
}

#[test]
fn a_rank_that_never_joins_is_a_timeout() {
    let begin = Instant::now();
    let options = GlooOptions {
        timeout: SHORT,
        ..options()
    };
    let errors = with_store(1, |_, store| {
        ProcessGroup::gloo(&store, 0, 2, &options).unwrap_err()
    });
    assert_eq!(errors[0].kind, ErrorKind::Timeout, "{}", errors[0]);
    assert!(errors[0].hint().unwrap().contains("`dist_timeout`"));
    assert!(begin.elapsed() < SOON);
}

#[test]
fn a_rank_that_stays_away_is_a_timeout_that_names_it() {
    let over = Barrier::new(3);
    let found = with_group(3, &options(), |group| {
        group.barrier().unwrap();
        group.set_timeout(SHORT);
        let error = (group.rank() != 2).then(|| group.monitored_barrier().unwrap_err());
        over.wait();
        error
    });
    let first = found[0].as_ref().unwrap();
    assert_eq!(first.kind, ErrorKind::Timeout, "{first}");
    assert_eq!(first.missing_ranks(), [2], "{first}");

    let over = Barrier::new(2);
    let found = with_group(2, &options(), |group| {
        group.barrier().unwrap();
        group.set_timeout(SHORT);
        let result = (group.rank() == 0).then(|| sum(&group, 1000));
        over.wait();
        result
    });
    let error = found[0].as_ref().unwrap().as_ref().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout, "{error}");
}

#[test]
fn a_late_rank_does_not_spoil_a_wait_with_a_limit() {
    let waited = Barrier::new(2);
    with_group(2, &options(), |group| {
        let tensor = ones(4);
        if group.rank() == 1 {
            waited.wait();
        }
        let mut work = group.all_reduce(&tensor, ReduceOp::Sum).unwrap();
        if group.rank() == 0 {
            assert!(!work.is_done().unwrap());
            let error = work.wait_for(Duration::from_millis(50)).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Timeout, "{error}");
            waited.wait();
        }
        work.wait().unwrap();
        assert_eq!(tensor.double_value(&[3]), 2.0);
    });
}

#[test]
fn a_dead_rank_is_a_network_error_at_once() {
    let begin = Instant::now();
    let found = with_group(4, &options(), |group| {
        group.barrier().unwrap();
        if group.rank() == 3 {
            drop(group);
            return Ok(());
        }
        sum(&group, 1 << 16)
    });
    for error in found
        .iter()
        .take(3)
        .map(|result| result.as_ref().unwrap_err())
    {
        assert_eq!(error.kind, ErrorKind::Network, "{error}");
    }
    assert!(begin.elapsed() < SOON);
}

#[test]
fn an_aborted_group_ends_for_every_rank() {
    let begin = Instant::now();
    let over = Barrier::new(2);
    let found = with_group(2, &options(), |group| {
        group.barrier().unwrap();
        if group.rank() == 1 {
            group.abort().unwrap();
        }
        let result = sum(&group, 1000);
        over.wait();
        result
    });
    for error in found.iter().map(|result| result.as_ref().unwrap_err()) {
        assert_eq!(error.kind, ErrorKind::Network, "{error}");
    }
    assert!(begin.elapsed() < SOON);
}

#[test]
fn checked_mode_turns_mismatches_into_errors_on_every_rank() {
    let options = GlooOptions {
        checked: true,
        timeout: Duration::from_secs(5),
        ..options()
    };
    let cases: [(&str, Case); 6] = [
        ("sizes", |group| sum(group, 4 + group.rank() as i64)),
        ("types", |group| {
            let kind = [Kind::Float, Kind::Double][group.rank()];
            let tensor = Tensor::ones([4], (kind, Device::Cpu));
            group.all_reduce(&tensor, ReduceOp::Sum)?.wait()
        }),
        ("order", |group| match group.rank() {
            0 => sum(group, 4),
            _ => group.broadcast(&ones(4), 0)?.wait(),
        }),
        ("scattered sizes", |group| {
            let part = 4 + group.rank() as i64;
            group
                .reduce_scatter(&ones(part), &ones(2 * part), ReduceOp::Sum)?
                .wait()
        }),
        ("reductions", |group| {
            let op = [ReduceOp::Sum, ReduceOp::Max][group.rank()];
            group.reduce_scatter(&ones(2), &ones(4), op)?.wait()
        }),
        ("splits", |group| {
            let from = [[1, 3], [2, 2]][group.rank()];
            group
                .all_to_all_single(&ones(4), &ones(4), &from, &[2, 2])?
                .wait()
        }),
    ];
    for (name, case) in cases {
        for (rank, result) in with_group(2, &options, |group| case(&group))
            .iter()
            .enumerate()
        {
            let error = result.as_ref().unwrap_err();
            assert_eq!(
                error.kind,
                ErrorKind::Mismatch,
                "{name}, rank {rank}: {error}"
            );
            assert!(error.hint().is_some());
        }
    }
}

#[test]
fn tensors_that_do_not_fit_are_refused_before_anything_is_sent() {
    with_group(2, &options(), |group| {
        let square = Tensor::ones([2, 2], (Kind::Float, Device::Cpu));
        let found = [
            group
                .all_reduce(&square.tr().narrow(0, 0, 1), ReduceOp::Sum)
                .map(drop),
            group.all_gather_into(&ones(5), &ones(2)).map(drop),
            group
                .reduce_scatter(&ones(2), &ones(5), ReduceOp::Sum)
                .map(drop),
            group
                .all_gather_into(&ones(4), &ones(2).to_kind(Kind::Double))
                .map(drop),
            group
                .all_to_all_single(&ones(3), &ones(4), &[], &[])
                .map(drop),
            group
                .all_to_all_single(&ones(4), &ones(4), &[1, 2], &[2, 2])
                .map(drop),
            group.broadcast(&ones(4), 2).map(drop),
            group.send(&ones(4), 2, 0).map(drop),
        ];
        for (index, result) in found.into_iter().enumerate() {
            let error = result.expect_err("it does not fit");
            assert_eq!(error.kind, ErrorKind::Mismatch, "{index}: {error}");
        }
        // The group is as good as before.
        sum(&group, 4).unwrap();
    });
    let error = with_store(1, |_, store| {
        ProcessGroup::gloo(&store, 2, 2, &options()).unwrap_err()
    });
    assert_eq!(error[0].kind, ErrorKind::Mismatch);
}
