//! What the process uses of the machine, read from `/proc`.
//!
//! Linux only; elsewhere every reading is `None` and the run goes on without.

use std::fs;
use std::time::Instant;

/// One reading of this process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Memory in RAM now, in bytes.
    pub rss_bytes: u64,
    /// Highest memory in RAM so far, in bytes.
    pub peak_rss_bytes: u64,
    /// Cores kept busy since the last reading; 2.0 is two whole cores.
    pub cpu_cores: f64,
    /// CPU seconds used so far, user and system.
    pub cpu_seconds: f64,
}

/// Reads the usage again and again, and remembers the last reading for rates.
#[derive(Debug)]
pub struct UsageMeter {
    last: Option<(Instant, f64)>,
}

impl UsageMeter {
    /// Makes a meter whose first rate covers the time since this call.
    pub fn new() -> Self {
        Self {
            last: cpu_seconds().map(|cpu| (Instant::now(), cpu)),
        }
    }

    /// Reads the usage, or `None` where the system does not tell it.
    pub fn read(&mut self) -> Option<Usage> {
        let (rss_bytes, peak_rss_bytes) = memory()?;
        let cpu_seconds = cpu_seconds()?;
        let now = Instant::now();
        let cpu_cores = self.last.map_or(0.0, |(then, cpu)| {
            let elapsed = now.duration_since(then).as_secs_f64();
            if elapsed > 0.0 {
                (cpu_seconds - cpu) / elapsed
            } else {
                0.0
            }
        });
        self.last = Some((now, cpu_seconds));
        Some(Usage {
            rss_bytes,
            peak_rss_bytes,
            cpu_cores,
            cpu_seconds,
        })
    }
}

impl Default for UsageMeter {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns current and peak resident memory in bytes.
fn memory() -> Option<(u64, u64)> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim()
            .strip_suffix("kB")?
            .trim()
            .parse::<u64>()
            .ok()
            .map(|kib| kib * 1024)
    };
    Some((field("VmRSS:")?, field("VmHWM:")?))
}

/// Returns the CPU seconds of all threads, user and system.
fn cpu_seconds() -> Option<f64> {
    // The kernel reports in ticks of 1/100 s on every Linux that Rust's std runs on.
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The command name in parentheses may hold spaces: fields are counted after it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_names_memory_and_time() {
        let mut meter = UsageMeter::new();
        let usage = meter.read().expect("Linux tells both");
        assert!(usage.rss_bytes > 1 << 20);
        assert!(usage.peak_rss_bytes >= usage.rss_bytes / 2);
        assert!(usage.cpu_seconds >= 0.0);
    }
}
