//! The nearest legal key to a mistyped one.

use super::{Effect, KEYS};

/// Least likeness, from 0 to 1, at which a name is worth proposing.
const LEAST_LIKENESS: f64 = 0.72;

/// Returns the legal key that looks most like `name`, if any looks like it at all.
pub fn nearest(name: &str) -> Option<&'static str> {
    let name = name
        .trim()
        .trim_start_matches('-')
        .replace('-', "_")
        .to_lowercase();
    nearest_of(
        &name,
        KEYS.iter()
            .filter(|key| !matches!(key.effect, Effect::Refused(..)))
            .map(|key| key.name),
    )
}

/// Returns the candidate that looks most like `name`, if any looks like it at all.
pub(crate) fn nearest_of<'a>(
    name: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates
        .map(|candidate| (likeness(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= LEAST_LIKENESS)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, candidate)| candidate)
}

/// Returns how alike two names are: by edits, or by sharing a long part (`batch_size`).
fn likeness(name: &str, candidate: &str) -> f64 {
    let edits = strsim::normalized_damerau_levenshtein(name, candidate);
    let is_part = name.len() >= 5 && (candidate.contains(name) || name.contains(candidate));
    if is_part { edits.max(0.75) } else { edits }
}
