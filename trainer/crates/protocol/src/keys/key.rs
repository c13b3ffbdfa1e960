//! One row of the key table.

use crate::availability::Choice;

/// Part of the configuration that a key belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Section {
    /// What is trained: the stage.
    Task,
    /// The model it starts from.
    Model,
    /// The data.
    Data,
    /// Which parameters change.
    Method,
    /// Optimization.
    Training,
    /// Losses of preference stages.
    Preference,
    /// Evaluation.
    Evaluation,
    /// Checkpoints.
    Checkpoint,
    /// Logs.
    Logging,
    /// Ranks.
    Distributed,
}

impl Section {
    /// Every section, in the order of the form.
    pub const ALL: &'static [Self] = &[
        Self::Task,
        Self::Model,
        Self::Data,
        Self::Method,
        Self::Training,
        Self::Preference,
        Self::Evaluation,
        Self::Checkpoint,
        Self::Logging,
        Self::Distributed,
    ];

    /// Returns the section's name, which is the field of `RunConfig` (`Task` stands for `stage` itself).
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Model => "model",
            Self::Data => "data",
            Self::Method => "method",
            Self::Training => "training",
            Self::Preference => "preference",
            Self::Evaluation => "evaluation",
            Self::Checkpoint => "checkpoint",
            Self::Logging => "logging",
            Self::Distributed => "distributed",
        }
    }
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// A text.
    Text,
    /// A path.
    Path,
    /// Names, as a list or with commas between.
    Names,
    /// Paths, as a list or with commas between.
    Paths,
    /// A word out of a list.
    Choice(&'static [Choice]),
    /// A map with these keys, dotted on the command line.
    Map(&'static [Key]),
    /// Anything; the value is not looked at.
    Any,
}

impl Kind {
    /// Returns what a value of this type looks like, for messages.
    pub const fn expected(self) -> &'static str {
        match self {
            Self::Bool => "`true` or `false`",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Text => "a text",
            Self::Path => "a path",
            Self::Names => "a list of names, or names with commas between",
            Self::Paths => "a list of paths, or paths with commas between",
            Self::Choice(_) => "one of its choices",
            Self::Map(_) => "a map of keys",
            Self::Any => "any value",
        }
    }
}

/// The values that a number may have, both ends included unless said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// Smallest value.
    pub min: f64,
    /// Whether the smallest value itself is excluded.
    pub is_min_excluded: bool,
    /// Largest value.
    pub max: f64,
    /// Whether the largest value itself is excluded.
    pub is_max_excluded: bool,
}

impl Range {
    /// Whether a number is inside.
    pub fn contains(&self, value: f64) -> bool {
        let above = if self.is_min_excluded {
            value > self.min
        } else {
            value >= self.min
        };
        let below = if self.is_max_excluded {
            value < self.max
        } else {
            value <= self.max
        };
        above && below
    }

    /// Returns the range in words, e.g. `at least 1` or `from 0 to below 1`.
    pub fn describe(&self) -> String {
        let min = if self.is_min_excluded {
            format!("above {}", self.min)
        } else {
            self.min.to_string()
        };
        if self.max.is_infinite() {
            return if self.is_min_excluded {
                min
            } else {
                format!("at least {min}")
            };
        }
        let max = if self.is_max_excluded {
            format!("below {}", self.max)
        } else {
            self.max.to_string()
        };
        if self.is_min_excluded {
            format!("{min} and up to {max}")
        } else {
            format!("from {min} to {max}")
        }
    }
}

/// Which of LLaMA-Factory's trainers spells the key so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Both, or only we: says nothing about the dialect of a file.
    Shared,
    /// The classic flat trainer.
    Classic,
    /// The newer trainer (v1); such a key selects its defaults.
    V1,
}

/// What happens with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The trainer acts on it.
    ActedOn,
    /// It is accepted and changes nothing here, for this reason.
    NoEffect(&'static str),
    /// It comes later, for this reason; until then only its "off" values are accepted.
    Later(&'static str),
    /// It is refused, for this reason, with this hint; only its "off" values are accepted.
    Refused(&'static str, &'static str),
}

/// Another key that must have one of some values for this key to have an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dependency {
    /// The other key.
    pub key: &'static str,
    /// Its values, as the YAML writes them.
    pub values: &'static [&'static str],
}

/// One row of the key table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Key {
    /// Name in the YAML.
    pub name: &'static str,
    /// Other spellings of the same key.
    pub aliases: &'static [&'static str],
    /// Section, which is also its group on the form.
    pub section: Section,
    /// Type of its value.
    pub kind: Kind,
    /// Whether `null` is a value of its own, and what the help of the key says about it.
    pub is_optional: bool,
    /// Unit of its number.
    pub unit: Option<&'static str>,
    /// Values its number may have.
    pub range: Option<Range>,
    /// Default in YAML's spelling. `None`: not set.
    pub default: Option<&'static str>,
    /// Default where the file is in the v1 dialect, if another.
    pub v1_default: Option<&'static str>,
    /// What it does, in one line of English.
    pub help: &'static str,
    /// Who spells it so.
    pub dialect: Dialect,
    /// What happens with it.
    pub effect: Effect,
    /// What it needs to have an effect.
    pub needs: Option<Dependency>,
    /// Values beside null, false, none, 0 and nothing that mean "off" for a refused or later key.
    pub off: &'static [&'static str],
    /// The classic key that a v1 spelling stands for.
    pub stands_for: Option<&'static str>,
    /// Whether the configuration stores its value.
    pub is_stored: bool,
}

impl Key {
    /// Begins a row for a key that is acted on.
    pub(crate) const fn new(
        section: Section,
        name: &'static str,
        kind: Kind,
        help: &'static str,
    ) -> Self {
        Self {
            name,
            aliases: &[],
            section,
            kind,
            is_optional: false,
            unit: None,
            range: None,
            default: None,
            v1_default: None,
            help,
            dialect: Dialect::Shared,
            effect: Effect::ActedOn,
            needs: None,
            off: &[],
            stands_for: None,
            is_stored: true,
        }
    }

    /// Returns the choices of a key that takes a word.
    pub const fn choices(&self) -> &'static [Choice] {
        match self.kind {
            Kind::Choice(choices) => choices,
            _ => &[],
        }
    }

    pub(crate) const fn aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    pub(crate) const fn default(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    pub(crate) const fn v1_default(mut self, default: &'static str) -> Self {
        self.v1_default = Some(default);
        self
    }

    pub(crate) const fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }

    pub(crate) const fn unit(mut self, unit: &'static str) -> Self {
        self.unit = Some(unit);
        self
    }

    pub(crate) const fn range(mut self, min: f64, max: f64) -> Self {
        self.range = Some(Range {
            min,
            is_min_excluded: false,
            max,
            is_max_excluded: false,
        });
        self
    }

    pub(crate) const fn at_least(self, min: f64) -> Self {
        self.range(min, f64::INFINITY)
    }

    pub(crate) const fn above(mut self, min: f64) -> Self {
        self.range = Some(Range {
            min,
            is_min_excluded: true,
            max: f64::INFINITY,
            is_max_excluded: false,
        });
        self
    }

    pub(crate) const fn below(mut self, max: f64) -> Self {
        self.range = Some(Range {
            min: 0.0,
            is_min_excluded: false,
            max,
            is_max_excluded: true,
        });
        self
    }

    pub(crate) const fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    pub(crate) const fn needs(
        mut self,
        key: &'static str,
        values: &'static [&'static str],
    ) -> Self {
        self.needs = Some(Dependency { key, values });
        self
    }

    pub(crate) const fn off(mut self, values: &'static [&'static str]) -> Self {
        self.off = values;
        self
    }

    pub(crate) const fn stands_for(mut self, key: &'static str) -> Self {
        self.stands_for = Some(key);
        self.dialect = Dialect::V1;
        self.is_stored = false;
        self
    }

    /// The value is not stored.
    pub(crate) const fn not_stored(mut self) -> Self {
        self.is_stored = false;
        self
    }

    pub(crate) const fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }
}
