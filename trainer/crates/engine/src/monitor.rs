//! A thread that writes what the process uses into the event file, every few seconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use run_protocol::events::{EventKind, MetricValue, System};

use crate::recorder::EventSink;
use crate::system::UsageMeter;

/// Runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Monitor {
    step: Arc<AtomicU64>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Monitor {
    /// Starts the thread; `every` is the time between two readings.
    pub(crate) fn start(events: EventSink, rank: u32, every: Duration) -> Self {
        let step = Arc::new(AtomicU64::new(0));
        let (stop, stopped) = channel();
        let shared = Arc::clone(&step);
        let thread = std::thread::spawn(move || {
            let mut meter = UsageMeter::new();
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let Some(usage) = meter.read() else { return };
                let values = [
                    ("rss_bytes", usage.rss_bytes as f64),
                    ("peak_rss_bytes", usage.peak_rss_bytes as f64),
                    ("cpu_cores", usage.cpu_cores),
                    ("cpu_seconds", usage.cpu_seconds),
                ];
                let values = values
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), MetricValue(value)))
                    .collect();
                let step = Some(shared.load(Ordering::Relaxed)).filter(|step| *step > 0);
                // The loop meets the same failure at its next event and ends the run for it.
                if events
                    .emit(EventKind::System(System { rank, step, values }))
                    .is_err()
                {
                    return;
                }
            }
        });
        Self {
            step,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Tells which step the next readings belong to.
    pub(crate) fn set_step(&self, step: u64) {
        self.step.store(step, Ordering::Relaxed);
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!("the thread that reads the system's use broke");
        }
    }
}
