//! The key table: every key that a configuration may name, with all that parser, form and documents need to know.

mod distributed;
mod inert;
mod key;
mod method;
mod model;
mod nearest;
mod refused;
mod training;
mod v1;

pub use key::{Dependency, Dialect, Effect, Key, Kind, Range, Section};
pub use nearest::nearest;
pub(crate) use nearest::nearest_of;
pub(crate) use v1::PEFT_CONFIG;

/// Every key, section by section in the order of the form; those without effect and the refused ones come last.
pub static KEYS: &[Key] = &join::<{ length(PARTS) }>(PARTS);

const PARTS: &[&[Key]] = &[
    model::KEYS,
    method::KEYS,
    training::KEYS,
    distributed::KEYS,
    v1::KEYS,
    inert::KEYS,
    refused::KEYS,
];

const fn length(parts: &[&[Key]]) -> usize {
    let (mut index, mut sum) = (0, 0);
    while index < parts.len() {
        sum += parts[index].len();
        index += 1;
    }
    sum
}

const fn join<const N: usize>(parts: &[&[Key]]) -> [Key; N] {
    let mut joined = [parts[0][0]; N];
    let (mut part, mut next) = (0, 0);
    while part < parts.len() {
        let mut index = 0;
        while index < parts[part].len() {
            joined[next] = parts[part][index];
            index += 1;
            next += 1;
        }
        part += 1;
    }
    joined
}

/// Returns the key of that name or of that other spelling.
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter()
        .find(|key| key.name == name || key.aliases.contains(&name))
}

/// Returns the keys of a section that a configuration stores, in the order of the form.
pub fn of_section(section: Section) -> impl Iterator<Item = &'static Key> {
    KEYS.iter()
        .filter(move |key| key.section == section && key.is_stored)
}
