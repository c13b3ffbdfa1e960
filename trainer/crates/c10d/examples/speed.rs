//! Times the collectives over gloo between ranks that are threads, gloo's own beside the ones that this crate chooses.
//!
//! usage: cargo run --release -p trainer-c10d --example speed [ranks]

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use std::{
    thread,
    time::{Duration, Instant},
};

use tch::{Device, Kind, Tensor};
use trainer_c10d::{C10dError, GlooOptions, ProcessGroup, ReduceOp, Store, Work, quiet_logs};

const LIMIT: Duration = Duration::from_mins(2);
type Launch = fn(&ProcessGroup, &Tensor, &Tensor) -> Result<Work, C10dError>;

fn main() -> Result<(), C10dError> {
    quiet_logs();
    let ranks = std::env::args()
        .nth(1)
        .and_then(|ranks| ranks.parse().ok())
        .unwrap_or(2);
    let cases: [(&str, Launch); 4] = [
        ("all_reduce", |group, whole, _| {
            group.all_reduce(whole, ReduceOp::Sum)
        }),
        ("all_gather_into", |group, whole, part| {
            group.all_gather_into(whole, part)
        }),
        ("reduce_scatter", |group, whole, part| {
            group.reduce_scatter(part, whole, ReduceOp::Avg)
        }),
        ("all_to_all_single", |group, whole, _| {
            group.all_to_all_single(&whole.empty_like(), whole, &[], &[])
        }),
    ];
    println!("{ranks} ranks; milliseconds a call, best of 3 rounds, and the whole buffer's bytes");
    for (kind, count) in [
        (Kind::Float, 1 << 10),
        (Kind::Float, 1 << 18),
        (Kind::Float, 1 << 24),
        (Kind::BFloat16, 1 << 24),
    ] {
        for (name, launch) in cases {
            let chosen = measure(ranks, false, kind, count, launch)?;
            let native = measure(ranks, true, kind, count, launch)?;
            println!(
                "{name:18} {kind:?} {count:9} elements: {chosen:9.3}, gloo's own {native:9.3}"
            );
        }
    }
    Ok(())
}

fn measure(
    ranks: usize,
    native: bool,
    kind: Kind,
    count: i64,
    launch: Launch,
) -> Result<f64, C10dError> {
    let store = Store::in_process(LIMIT)?;
    let options = GlooOptions {
        timeout: LIMIT,
        native,
        ..GlooOptions::default()
    };
    let calls: u32 = if count > 1 << 20 { 2 } else { 50 };
    let rank = |number: usize, store: &Store| -> Result<f64, C10dError> {
        let group = ProcessGroup::gloo(store, number, ranks, &options)?;
        let whole = Tensor::ones([count], (kind, Device::Cpu));
        let part = whole
            .narrow(0, 0, count / i64::try_from(ranks).unwrap_or(1))
            .copy();
        launch(&group, &whole, &part)?.wait()?;
        let mut best = f64::INFINITY;
        for _ in 0..3 {
            group.barrier()?;
            let begin = Instant::now();
            for _ in 0..calls {
                launch(&group, &whole, &part)?.wait()?;
            }
            best = best.min(begin.elapsed().as_secs_f64() * 1e3 / f64::from(calls));
        }
        group.barrier()?;
        Ok(best)
    };
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for number in 0..ranks {
            let (store, rank) = (store.try_clone()?, &rank);
            threads.push(scope.spawn(move || rank(number, &store)));
        }
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a rank returns its errors"))
            .try_fold(0.0_f64, |worst, time| Ok(worst.max(time?)))
    })
}
