//! One line of `trainer_log.jsonl`, in LLaMA-Factory's form.

use serde::{Deserialize, Serialize};

use crate::events::MetricValue;

/// One line of `trainer_log.jsonl`. Absent values are left out; numbers are not rounded, except the percentage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainerLogLine {
    /// Steps done.
    pub current_steps: u64,
    /// Steps of the whole run.
    pub total_steps: u64,
    /// Training loss since the last line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<MetricValue>,
    /// Evaluation loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_loss: Option<MetricValue>,
    /// Learning rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lr: Option<f64>,
    /// Passes over the data done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<f64>,
    /// Share of the steps done, 0 to 100, two decimals.
    pub percentage: f64,
    /// Time since the start, as `H:MM:SS`.
    pub elapsed_time: String,
    /// Estimated time to the end, as `H:MM:SS`.
    pub remaining_time: String,
    /// Tokens in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<f64>,
    /// Tokens seen since the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
}

impl TrainerLogLine {
    /// Makes a line with progress and times filled in. `elapsed_seconds` counts the steps of this attempt,
    /// of which `steps_here` were done, so that a resumed run estimates from its own pace.
    pub fn at(current_steps: u64, total_steps: u64, elapsed_seconds: f64, steps_here: u64) -> Self {
        let share = if total_steps > 0 {
            current_steps as f64 / total_steps as f64
        } else {
            0.0
        };
        let left = total_steps.saturating_sub(current_steps) as f64;
        let remaining = if steps_here > 0 {
            elapsed_seconds / steps_here as f64 * left
        } else {
            0.0
        };
        Self {
            current_steps,
            total_steps,
            percentage: (share * 10_000.0).round() / 100.0,
            elapsed_time: clock(elapsed_seconds),
            remaining_time: clock(remaining),
            ..Self::default()
        }
    }
}

/// Returns seconds as `H:MM:SS`, with `N days, ` before it where needed.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "negative and huge times are clamped first"
)]
pub fn clock(seconds: f64) -> String {
    let whole = if seconds.is_finite() {
        seconds.clamp(0.0, 1e12) as u64
    } else {
        0
    };
    let (days, rest) = (whole / 86_400, whole % 86_400);
    let time = format!("{}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    match days {
        0 => time,
        1 => format!("1 day, {time}"),
        _ => format!("{days} days, {time}"),
    }
}
