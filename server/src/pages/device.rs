//! The gauges of the machine in the top bar, and the counts of the navigation.

use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use board_store::RunFilter;
use run_protocol::RunState;
use sysinfo::System;

use crate::error::Error;
use crate::state::AppState;
use crate::view::figure::middle_cut;
use crate::view::{Chrome, DeviceGauge, RunLink};

const GIB: f64 = (1_u64 << 30) as f64;

/// A processor's load is a difference, so it needs some time between two looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(400);

struct Gauge {
    system: System,
    looked: Option<Instant>,
}

/// `None` where the system does not tell.
static GAUGE: LazyLock<Mutex<Option<Gauge>>> = LazyLock::new(|| {
    Mutex::new(System::new().ok().map(|system| Gauge {
        system,
        looked: None,
    }))
});

#[derive(Template)]
#[template(path = "_shared/device.html")]
struct DeviceBlock {
    chrome: Chrome,
}

/// Answers with the gauges alone.
pub async fn show_device(chrome: Chrome, State(_): State<AppState>) -> Result<Response, Error> {
    super::answer(&DeviceBlock { chrome })
}

/// Reads gauges and counts. What cannot be read is left out: a page never fails for its frame.
pub async fn fill(chrome: &mut Chrome, state: &AppState) {
    let mut device = read_gauge();
    if let Ok(counts) = state.store.count_runs().await {
        let active = [
            RunState::Queued,
            RunState::Starting,
            RunState::Running,
            RunState::Stopping,
        ];
        chrome.active = active
            .iter()
            .map(|state| usize::try_from(counts.of(*state)).unwrap_or(usize::MAX))
            .sum();
        chrome.failed = usize::try_from(counts.failed).unwrap_or(usize::MAX);
        if counts.running > 0 {
            let filter = RunFilter {
                states: vec![RunState::Running],
                text: None,
            };
            let page = state.store.list_runs(&filter, None, 1).await.ok();
            let link = page
                .and_then(|page| page.runs.into_iter().next())
                .map(|run| RunLink {
                    href: format!("/runs/{}", run.id),
                    name: middle_cut(&run.name, 24),
                });
            if let Some(device) = &mut device {
                device.run = link;
            }
        }
    }
    chrome.device = device;
}

fn read_gauge() -> Option<DeviceGauge> {
    let mut gauge = GAUGE.lock().unwrap_or_else(PoisonError::into_inner);
    let gauge = gauge.as_mut()?;
    let is_due = gauge
        .looked
        .is_none_or(|looked| looked.elapsed() > BETWEEN_LOOKS);
    if is_due {
        gauge.system.refresh_cpu_usage();
        gauge.system.refresh_memory();
        gauge.looked = Some(Instant::now());
    }
    let (used, total) = (
        gauge.system.used_memory() as f64,
        gauge.system.total_memory() as f64,
    );
    Some(DeviceGauge {
        cpu_percent: percent(f64::from(gauge.system.global_cpu_usage())),
        memory_used: format!("{:.1}", used / GIB),
        memory_total: format!("{:.0}", total / GIB),
        memory_percent: percent(if total > 0.0 {
            used / total * 100.0
        } else {
            0.0
        }),
        run: None,
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 0..=100"
)]
fn percent(value: f64) -> u32 {
    value.clamp(0.0, 100.0).round() as u32
}
