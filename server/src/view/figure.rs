//! How numbers, sizes and times are written.

use crate::i18n::Tr;

/// Writes a measured value with sensible digits: `1.204`, `0.0831`, `4.1e-5`, `NaN`.
///
/// The dot and the missing grouping are on purpose: such a number may go back into a config.
pub fn figure(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 {
            "∞".into()
        } else {
            "−∞".into()
        };
    }
    let size = value.abs();
    if size == 0.0 {
        "0".into()
    } else if !(1e-2..1e6).contains(&size) {
        let text = format!("{value:.2e}");
        match text.split_once('e') {
            Some((digits, power)) => format!("{}e{power}", trim_zeros(digits)),
            None => text,
        }
    } else if size >= 1000.0 {
        format!("{value:.0}")
    } else {
        let decimals = if size < 0.1 {
            4
        } else if size < 10.0 {
            3
        } else if size < 100.0 {
            2
        } else {
            1
        };
        format!("{value:.decimals$}")
    }
}

/// Writes a setting as a person would type it: `5e-5`, `0.1`, `3`.
pub fn setting(value: f64) -> String {
    if value == 0.0 || (1e-3..1e6).contains(&value.abs()) {
        return format!("{value}");
    }
    format!("{value:e}")
}

fn trim_zeros(digits: &str) -> &str {
    if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    }
}

/// Writes a duration: `0:08`, `12:40`, `1:02:33`.
pub fn duration(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

/// Writes a size in the largest unit that leaves a whole part.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut size = count as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.*} {}", usize::from(size < 10.0), UNITS[unit])
}

/// Writes a number of parameters: `135 M`, `7.6 B`.
pub fn parameters(count: u64) -> String {
    let count = count as f64;
    let (size, unit) = if count >= 1e9 {
        (count / 1e9, "B")
    } else if count >= 1e6 {
        (count / 1e6, "M")
    } else {
        (count / 1e3, "K")
    };
    format!("{size:.*} {unit}", usize::from(size < 10.0))
}

/// A moment as the page writes it: relative up to a day, then the date.
#[derive(Debug, Clone)]
pub struct Moment {
    /// Milliseconds since 1970.
    pub ms: i64,
    /// For `datetime`.
    pub iso: String,
    /// What the page says at first; a script keeps it fresh.
    pub text: String,
}

impl Moment {
    /// Writes `ms` as seen at `now`.
    pub fn new(t: Tr, ms: i64, now: i64) -> Self {
        let stamp = jiff::Timestamp::from_millisecond(ms).unwrap_or_default();
        let seconds = (now - ms).max(0) / 1000;
        let text = match seconds {
            0..5 => t.s("time.now"),
            5..60 => t.n("time.seconds_ago", seconds),
            60..3600 => t.n("time.minutes_ago", seconds / 60),
            3600..86_400 => t.n("time.hours_ago", seconds / 3600),
            _ => stamp.strftime("%Y-%m-%d %H:%M").to_string(),
        };
        Self {
            ms,
            iso: stamp.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            text,
        }
    }
}

/// Returns the present in milliseconds since 1970.
pub fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// Cuts a long name in the middle, so that its end stays readable.
pub fn middle_cut(name: &str, limit: usize) -> String {
    let length = name.chars().count();
    if length <= limit {
        return name.to_owned();
    }
    let tail = limit / 2;
    let head = limit - tail - 1;
    let start: String = name.chars().take(head).collect();
    let end: String = name.chars().skip(length - tail).collect();
    format!("{start}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_four_digits_at_most() {
        let written = [
            1.203_999_9,
            0.083_12,
            4.1e-5,
            5e-5,
            18_204.4,
            0.0,
            12.5,
            f64::NAN,
        ]
        .map(figure);
        assert_eq!(
            written,
            [
                "1.204", "0.0831", "4.1e-5", "5e-5", "18204", "0", "12.50", "NaN"
            ]
        );
    }

    #[test]
    fn settings_are_written_as_typed() {
        assert_eq!(
            [5e-5, 0.1, 3.0, 0.0, 1e-8].map(setting),
            ["5e-5", "0.1", "3", "0", "1e-8"]
        );
    }

    #[test]
    fn durations_and_sizes_are_short() {
        assert_eq!(
            [8_000, 760_000, 3_753_000].map(duration),
            ["0:08", "12:40", "1:02:33"]
        );
        assert_eq!(
            [12, 2048, 270_000_000].map(bytes),
            ["12 B", "2.0 KiB", "257 MiB"]
        );
    }

    #[test]
    fn a_long_name_keeps_its_end() {
        assert_eq!(
            middle_cut("qwen-sft-a-very-long-name-lr1e4", 15),
            "qwen-sf…ame-lr1e4".chars().take(7).collect::<String>() + "…e-lr1e4"
        );
    }
}
