use board_store::{RunSeries, Series, SeriesQuery, Store};
use run_protocol::RunId;
use sqlx::SqlitePool;

use crate::support::{Dice, create, export_all, ingest, metric, metric_of};

async fn query(store: &Store, run: RunId, max_points: usize) -> RunSeries {
    store
        .series(
            run,
            &SeriesQuery {
                max_points,
                ..SeriesQuery::default()
            },
        )
        .await
        .unwrap()
}

fn find<'a>(series: &'a RunSeries, name: &str) -> &'a Series {
    series
        .series
        .iter()
        .find(|series| series.name == name)
        .unwrap()
}

/// Batches of every size, resent in part, with values of every kind: what comes out is what went in.
#[sqlx::test(migrator = "board_store::MIGRATOR")]
async fn points_come_out_as_they_went_in_at_every_size(pool: SqlitePool) {
    let store = Store::from_pool(pool).await.unwrap();
    for seed in 1..=4_u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let run = create(&store, "a").await.id;
        let num_steps = 1 + dice.below(9000);
        let value = |dice: &mut Dice| match dice.below(50) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => f64::NEG_INFINITY,
            other => other as f64 * 1e-3 + dice.below(1000) as f64,
        };
        let mut sent = Vec::new();
        for step in 1..=num_steps {
            let mut values = vec![("loss", value(&mut dice))];
            if step % 500 == 0 {
                values.push(("eval_loss", value(&mut dice)));
            }
            sent.push(metric(step, &values));
        }
        let mut start = 0;
        while start < sent.len() {
            let end = (start + 1 + usize::try_from(dice.below(4000)).unwrap()).min(sent.len());
            let from = start.saturating_sub(usize::try_from(dice.below(50)).unwrap());
            ingest(&store, run, sent[from..end].to_vec()).await.unwrap();
            start = end;
        }
        let expected = |name: &str| {
            sent.iter()
                .filter_map(|event| match &event.kind {
                    run_protocol::EventKind::Metric(metric) => metric
                        .values
                        .get(name)
                        .map(|value| (i64::try_from(metric.step).unwrap(), value.get().to_bits())),
                    _ => None,
                })
                .collect::<Vec<_>>()
        };
        let rows = export_all(&store, run).await;
        for name in ["loss", "eval_loss"] {
            let got: Vec<_> = rows
                .iter()
                .filter(|row| &*row.name == name)
                .map(|row| (row.point.step, row.point.value.to_bits()))
                .collect();
            assert_eq!(
                got,
                expected(name),
                "{name} of {num_steps} steps, seed {seed}"
            );
        }
        for max_points in [16, 100, 1000, 20_000] {
            check_thinned(
                &query(&store, run, max_points).await,
                &expected("loss"),
                max_points,
            );
        }
    }
}

fn check_thinned(series: &RunSeries, expected: &[(i64, u64)], max_points: usize) {
    let loss = find(series, "loss");
    let values: Vec<f64> = expected
        .iter()
        .map(|(_, bits)| f64::from_bits(*bits))
        .collect();
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    assert!(loss.points.len() <= max_points);
    assert_eq!(loss.num_points, expected.len() as u64);
    assert_eq!(loss.is_thinned, loss.points.len() < expected.len());
    assert_eq!(
        loss.num_nan,
        values.iter().filter(|value| value.is_nan()).count() as u64
    );
    assert_eq!(loss.min, finite().reduce(f64::min));
    assert_eq!(loss.max, finite().reduce(f64::max));
    assert_eq!(
        loss.points.first().map(|point| point.step),
        Some(expected[0].0)
    );
    assert_eq!(
        loss.points.last().map(|point| point.step),
        expected.last().map(|(step, _)| *step)
    );
    assert!(loss.points.is_sorted_by_key(|point| point.step));
    for mark in [
        f64::is_nan as fn(f64) -> bool,
        |v| v == f64::INFINITY,
        |v| v == f64::NEG_INFINITY,
    ] {
        assert_eq!(
            loss.points.iter().any(|point| mark(point.value)),
            values.iter().any(|value| mark(*value))
        );
    }
}

#[sqlx::test(migrator = "board_store::MIGRATOR")]
async fn window_is_shown_point_by_point(pool: SqlitePool) {
    let store = Store::from_pool(pool).await.unwrap();
    let run = create(&store, "a").await.id;
    for range in [1..=6000_u64, 6001..=12_000] {
        let events = range.map(|step| metric(step, &[("loss", step as f64), ("x", 0.0)]));
        ingest(&store, run, events.collect()).await.unwrap();
    }
    let window = SeriesQuery {
        names: Some(vec!["loss".to_owned(), "absent".to_owned()]),
        max_points: 1000,
        from_step: Some(5900),
        to_step: Some(6100),
    };
    let series = store.series(run, &window).await.unwrap();
    assert_eq!(series.series.len(), 1);
    let loss = find(&series, "loss");
    assert!(loss.points.iter().map(|point| point.step).eq(5900..=6100));
    assert_eq!((loss.num_points, loss.is_thinned), (201, false));
    // Wider than what is asked for: thinned, with exact ends and extremes.
    let wide = SeriesQuery {
        from_step: Some(100),
        to_step: Some(11_900),
        ..window
    };
    let series = store
        .series(
            run,
            &SeriesQuery {
                max_points: 100,
                ..wide
            },
        )
        .await
        .unwrap();
    let loss = find(&series, "loss");
    assert_eq!((loss.min, loss.max), (Some(100.0), Some(11_900.0)));
    assert_eq!(loss.num_points, 11_801);
}

#[sqlx::test(migrator = "board_store::MIGRATOR")]
async fn resumed_attempt_supersedes_the_steps_it_repeats(pool: SqlitePool) {
    let store = Store::from_pool(pool).await.unwrap();
    for (first, second) in [(150_u64, 100_u64), (5000, 3000)] {
        let run = create(&store, "a").await.id;
        let mut events: Vec<_> = (1..=first)
            .map(|step| metric_of(1, step, step, &[("loss", 1.0)]))
            .collect();
        events.push(metric_of(1, first + 1, first, &[("eval_loss", 1.0)]));
        let resumed = (second + 1..=first + 50)
            .zip(first + 2..)
            .map(|(step, seq)| metric_of(2, seq, step, &[("loss", 2.0)]));
        events.extend(resumed);
        ingest(&store, run, events).await.unwrap();
        let series = query(&store, run, 10_000).await;
        let (second, last) = (
            i64::try_from(second).unwrap(),
            i64::try_from(first + 50).unwrap(),
        );
        assert_eq!(series.joins, [second + 1]);
        let loss = find(&series, "loss");
        assert!(loss.points.iter().map(|point| point.step).eq(1..=last));
        let expected = |step| if step <= second { 1.0 } else { 2.0 };
        assert!(
            loss.points
                .iter()
                .all(|point| point.value == expected(point.step))
        );
        assert!(find(&series, "eval_loss").points.is_empty());
        let rows = export_all(&store, run).await;
        assert!(rows.iter().map(|row| row.point.step).eq(1..=last));
    }
}
