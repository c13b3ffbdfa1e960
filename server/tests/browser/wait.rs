//! Waiting for a fact, with a limit.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

/// How often a fact is looked at.
const TICK: Duration = Duration::from_millis(100);

/// Asks `fact` until it answers, and returns the answer; panics with `what` after `limit`.
pub(crate) async fn until<T>(
    what: &str,
    limit: Duration,
    mut fact: impl AsyncFnMut() -> Option<T>,
) -> T {
    let end = Instant::now() + limit;
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Some(answer) = fact().await {
            return answer;
        }
        assert!(Instant::now() < end, "{what}: not within {limit:?}");
    }
}
