//! What this version can do: every choice says for itself whether it is there yet.

/// Whether a choice can be taken in this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability {
    /// It works.
    Available,
    /// It is known and will come; the text is the reason that a person reads.
    Later(&'static str),
}

impl Availability {
    /// Whether the choice can be taken now.
    pub const fn is_available(self) -> bool {
        matches!(self, Self::Available)
    }

    /// Returns the reason why the choice cannot be taken yet.
    pub const fn reason(self) -> Option<&'static str> {
        match self {
            Self::Available => None,
            Self::Later(reason) => Some(reason),
        }
    }
}

/// One value of a key that takes a word out of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The word in the YAML.
    pub value: &'static str,
    /// Other spellings of the same word.
    pub aliases: &'static [&'static str],
    /// Whether it can be taken now.
    pub availability: Availability,
    /// What it does, in one line.
    pub help: &'static str,
}

impl Choice {
    /// Whether `word` is this choice or one of its other spellings.
    pub fn is_named(&self, word: &str) -> bool {
        self.value == word || self.aliases.contains(&word)
    }
}
