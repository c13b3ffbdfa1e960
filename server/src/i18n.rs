//! The texts that a person reads, in three languages.
//!
//! `locales/<language>.json` holds one flat map each; a text with a count is a map of its plural
//! forms. A test compares the keys, another looks for keys that a template asks for in vain.

mod said;

use std::collections::HashMap;
use std::fmt::{Display, Write};
use std::sync::LazyLock;

use serde::Deserialize;

/// A language of the board.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lang {
    /// English.
    En,
    /// Chinese in simplified characters.
    Zh,
    /// Russian.
    Ru,
}

impl Lang {
    /// Every language, in the order of the switch.
    pub const ALL: &'static [Self] = &[Self::En, Self::Zh, Self::Ru];

    /// Returns the tag for `lang`.
    pub const fn tag(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::Zh => "zh-Hans",
            Self::Ru => "ru",
        }
    }

    /// Returns the word on the switch.
    pub const fn short(self) -> &'static str {
        match self {
            Self::En => "EN",
            Self::Zh => "中",
            Self::Ru => "RU",
        }
    }

    /// Returns the language's own name.
    pub const fn own_name(self) -> &'static str {
        match self {
            Self::En => "English",
            Self::Zh => "简体中文",
            Self::Ru => "Русский",
        }
    }

    /// Returns the language that a tag such as `zh-CN` or `ru` names.
    pub fn from_tag(tag: &str) -> Option<Self> {
        let primary = tag.trim().split(['-', '_']).next()?;
        [("en", Self::En), ("zh", Self::Zh), ("ru", Self::Ru)]
            .into_iter()
            .find(|(name, _)| primary.eq_ignore_ascii_case(name))
            .map(|(_, lang)| lang)
    }

    /// Returns the first known language of an `Accept-Language` header.
    pub fn from_accept(header: &str) -> Option<Self> {
        let mut wanted: Vec<(f32, &str)> = header
            .split(',')
            .filter_map(|part| {
                let (tag, weight) = part.split_once(";q=").unwrap_or((part, "1"));
                Some((weight.trim().parse::<f32>().ok()?, tag))
            })
            .collect();
        wanted.sort_by(|a, b| b.0.total_cmp(&a.0));
        wanted.into_iter().find_map(|(_, tag)| Self::from_tag(tag))
    }

    /// Returns the plural form that `count` takes.
    const fn plural(self, count: u64) -> Plural {
        match self {
            Self::En if count == 1 => Plural::One,
            Self::En | Self::Zh => Plural::Other,
            Self::Ru => match (count % 10, count % 100) {
                (_, 11..=14) => Plural::Many,
                (1, _) => Plural::One,
                (2..=4, _) => Plural::Few,
                _ => Plural::Many,
            },
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Plural {
    One,
    Few,
    Many,
    Other,
}

/// A text of the catalogue.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Text {
    /// The same for every count.
    Plain(String),
    /// One form a plural category.
    Counted {
        /// 1, 21, 31 …
        one: Option<String>,
        /// 2, 3, 4 … (Russian)
        few: Option<String>,
        /// 5, 6 … (Russian)
        many: Option<String>,
        /// Whatever has no form of its own.
        other: String,
    },
}

impl Text {
    fn form(&self, plural: Plural) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Counted {
                one,
                few,
                many,
                other,
            } => match plural {
                Plural::One => one.as_deref(),
                Plural::Few => few.as_deref(),
                Plural::Many => many.as_deref(),
                Plural::Other => None,
            }
            .unwrap_or(other),
        }
    }
}

type Catalogue = HashMap<String, Text>;

static EN: LazyLock<Catalogue> = LazyLock::new(|| parse(include_str!("../locales/en.json")));
static ZH: LazyLock<Catalogue> = LazyLock::new(|| parse(include_str!("../locales/zh.json")));
static RU: LazyLock<Catalogue> = LazyLock::new(|| parse(include_str!("../locales/ru.json")));

fn parse(text: &str) -> Catalogue {
    serde_json::from_str(text)
        .expect("the catalogues are part of the program and a test parses them")
}

/// Looks texts up in one language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tr {
    /// The language.
    pub lang: Lang,
}

impl Tr {
    /// Returns the texts of a language.
    pub const fn new(lang: Lang) -> Self {
        Self { lang }
    }

    /// Returns every text of the language.
    pub fn catalogue(self) -> &'static HashMap<String, Text> {
        match self.lang {
            Lang::En => &EN,
            Lang::Zh => &ZH,
            Lang::Ru => &RU,
        }
    }

    /// Returns the text of a key, if the catalogue has it.
    pub fn find(self, key: impl AsRef<str>) -> Option<&'static str> {
        self.catalogue()
            .get(key.as_ref())
            .map(|text| text.form(Plural::Other))
    }

    /// Returns the text of a key. A key without a text shows itself; a test keeps that from happening.
    pub fn s(self, key: impl AsRef<str>) -> String {
        self.find(key.as_ref())
            .map_or_else(|| key.as_ref().to_owned(), str::to_owned)
    }

    /// Returns a text with one value in place of `{0}`.
    pub fn f1(self, key: impl AsRef<str>, a: impl Display) -> String {
        fill(&self.s(key), &[&a])
    }

    /// Returns a text with two values in place of `{0}` and `{1}`.
    pub fn f2(self, key: impl AsRef<str>, a: impl Display, b: impl Display) -> String {
        fill(&self.s(key), &[&a, &b])
    }

    /// Returns a text with three values in place of `{0}`, `{1}` and `{2}`.
    pub fn f3(
        self,
        key: impl AsRef<str>,
        a: impl Display,
        b: impl Display,
        c: impl Display,
    ) -> String {
        fill(&self.s(key), &[&a, &b, &c])
    }

    /// Returns a counted text, the count in place of `{0}`.
    pub fn n(self, key: impl AsRef<str>, count: impl Count) -> String {
        let count = count.to_count();
        let form = self
            .catalogue()
            .get(key.as_ref())
            .map_or(key.as_ref(), |text| text.form(self.lang.plural(count)));
        fill(form, &[&self.count(count)])
    }

    /// Returns a count with its digits grouped as the language does.
    pub fn count(self, count: impl Count) -> String {
        let digits = count.to_count().to_string();
        let gap = if self.lang == Lang::Ru { '\u{a0}' } else { ',' };
        let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                grouped.push(gap);
            }
            grouped.push(digit);
        }
        grouped
    }
}

/// A number of things; templates give it by reference.
pub trait Count {
    /// Returns the number; a negative one is none.
    fn to_count(&self) -> u64;
}

impl<T: Count> Count for &T {
    fn to_count(&self) -> u64 {
        (*self).to_count()
    }
}

macro_rules! counts {
    ($($kind:ty),*) => {$(
        impl Count for $kind {
            fn to_count(&self) -> u64 {
                u64::try_from(*self).unwrap_or(0)
            }
        }
    )*};
}

counts!(u32, u64, usize, i32, i64);

/// Puts values in place of `{0}`, `{1}` …; a value is never searched for placeholders again.
fn fill(text: &str, values: &[&dyn Display]) -> String {
    let mut filled = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let (before, after) = rest.split_at(open);
        filled.push_str(before);
        let place = after
            .get(1..2)
            .and_then(|digit| digit.parse::<usize>().ok());
        match place.and_then(|index| values.get(index)) {
            Some(value) if after[2..].starts_with('}') => {
                let _ = write!(filled, "{value}");
                rest = &after[3..];
            }
            _ => {
                filled.push('{');
                rest = &after[1..];
            }
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_has_the_same_keys() {
        let keys = |lang| {
            let mut keys: Vec<&String> = Tr::new(lang).catalogue().keys().collect();
            keys.sort();
            keys
        };
        assert_eq!(keys(Lang::En), keys(Lang::Zh));
        assert_eq!(keys(Lang::En), keys(Lang::Ru));
    }

    #[test]
    fn every_language_has_the_same_placeholders() {
        let places = |text: &Text| {
            (0..4)
                .map(|i| text.form(Plural::Other).contains(&format!("{{{i}}}")))
                .collect::<Vec<_>>()
        };
        for (key, text) in Tr::new(Lang::En).catalogue() {
            for lang in [Lang::Zh, Lang::Ru] {
                assert_eq!(
                    places(text),
                    places(&Tr::new(lang).catalogue()[key]),
                    "{key} in {}",
                    lang.tag()
                );
            }
        }
    }

    #[test]
    fn russian_counts_take_their_form() {
        let form = |n| Lang::Ru.plural(n);
        assert!(matches!(form(1), Plural::One));
        assert!(matches!(form(22), Plural::Few));
        assert!(matches!(form(12), Plural::Many));
        assert!(matches!(form(25), Plural::Many));
    }

    #[test]
    fn values_are_not_searched_for_placeholders() {
        assert_eq!(fill("{0} and {1}, {x}", &[&"{1}", &"b"]), "{1} and b, {x}");
    }

    #[test]
    fn counts_are_grouped_by_language() {
        assert_eq!(Tr::new(Lang::En).count(1_234_567_u64), "1,234,567");
        assert_eq!(Tr::new(Lang::Ru).count(1_234_u64), "1\u{a0}234");
        assert_eq!(Tr::new(Lang::En).count(12_u64), "12");
    }

    #[test]
    fn the_heaviest_known_language_wins() {
        assert_eq!(
            Lang::from_accept("fr-FR, ru;q=0.8, zh-CN;q=0.9"),
            Some(Lang::Zh)
        );
        assert_eq!(Lang::from_accept("de"), None);
    }
}
