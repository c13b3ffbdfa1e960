//! Sentences that come from elsewhere in English, found again by their pattern in the catalogue.
//!
//! A refusal of the parser or of the data says its sentence in English, with values inside. The English catalogue holds
//! these sentences under `said.`, a placeholder for each value; where one fits, its counterpart takes the values over.

use std::sync::LazyLock;

use super::{EN, Plural, Tr, fill};

/// What the keys of such sentences begin with.
const PREFIX: &str = "said.";

/// A sentence with its fixed parts; values stand between them.
struct Pattern {
    key: &'static str,
    parts: Vec<&'static str>,
}

/// The longest fixed text first, so that a pattern of few words never takes what a fuller one says.
static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    let mut patterns: Vec<Pattern> = EN
        .iter()
        .filter(|(key, _)| key.starts_with(PREFIX))
        .map(|(key, text)| Pattern {
            key,
            parts: parts(text.form(Plural::Other)),
        })
        .collect();
    patterns.sort_by_key(|pattern| {
        let fixed: usize = pattern.parts.iter().map(|part| part.len()).sum();
        (std::cmp::Reverse(fixed), pattern.key)
    });
    patterns
});

/// Cuts a text at `{0}`, `{1}` …, which come in this order in the English one.
fn parts(text: &'static str) -> Vec<&'static str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(&format!("{{{}}}", parts.len())) {
        parts.push(&rest[..at]);
        rest = &rest[at + 3..];
    }
    parts.push(rest);
    parts
}

impl Pattern {
    /// Returns the values of a text that is this sentence.
    fn values<'a>(&self, text: &'a str) -> Option<Vec<&'a str>> {
        let (first, others) = self.parts.split_first()?;
        let mut rest = text.strip_prefix(first)?;
        let Some((last, between)) = others.split_last() else {
            return rest.is_empty().then(Vec::new);
        };
        let mut values = Vec::new();
        for part in between {
            let (value, after) = rest.split_once(part)?;
            values.push(value);
            rest = after;
        }
        values.push(rest.strip_suffix(last)?);
        Some(values)
    }
}

impl Tr {
    /// Returns an English sentence of the trainer's crates in this language, if the catalogue has it.
    pub fn find_said(self, english: &str) -> Option<String> {
        if self.lang == super::Lang::En {
            return Some(english.to_owned());
        }
        PATTERNS.iter().find_map(|pattern| {
            let values = pattern.values(english)?;
            let values: Vec<&dyn std::fmt::Display> = values
                .iter()
                .map(|value| value as &dyn std::fmt::Display)
                .collect();
            Some(fill(self.find(pattern.key)?, &values))
        })
    }

    /// Returns an English sentence in this language; one that the catalogue does not have stays as it is.
    pub fn said(self, english: impl AsRef<str>) -> String {
        let english = english.as_ref();
        self.find_said(english)
            .unwrap_or_else(|| english.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Lang;
    use super::*;

    #[test]
    fn values_move_into_the_other_language() {
        let said = Tr::new(Lang::Zh).said("the warm-up takes 60 steps and the run has 51");
        assert_eq!(said, "预热需要 60 步，而整个训练只有 51 步");
        let said = Tr::new(Lang::Ru).said("did you mean `cosine`? choose `linear`, `cosine`");
        assert_eq!(said, "может быть, `cosine`? Выберите: `linear`, `cosine`");
        let unknown = "something else {0}";
        assert_eq!(Tr::new(Lang::Zh).said(unknown), unknown);
        assert!(Tr::new(Lang::Zh).find_said(unknown).is_none());
    }

    #[test]
    fn what_ended_a_run_is_said_in_every_language() {
        let sentences = [
            "stopped before it began",
            "it was killed as asked",
            "it did not stop within 30 s and was killed",
            "it ended while it was stopping, before it was done",
            "the launcher was killed by SIGKILL",
            "the trainer ended with code 127: libtorch.so: cannot open",
            "the trainer ended with code 1 without a word",
            "killed by SIGKILL or the machine restarted",
            "rank 1 failed: rank lost, ended by SIGSEGV",
            "there is no trainer at `/opt/trainer`",
            "the trainer `/opt/trainer` is not an executable file",
            "the trainer `/opt/trainer` did not start: no such file",
            "cannot write `/data/config.yaml`: permission denied",
            "the disk is full: `/data/config.yaml` was not written",
            "logs/launcher.log in the run directory has more",
            "takes 1 to 200 characters, got 201",
        ];
        for lang in [Lang::Zh, Lang::Ru] {
            for sentence in sentences {
                let said = Tr::new(lang).find_said(sentence);
                assert!(said.is_some_and(|said| said != sentence), "{sentence}");
            }
        }
        let said = Tr::new(Lang::Zh).said(sentences[2]);
        assert_eq!(said, "30 秒内没有停止，已被强制终止");
    }

    #[test]
    fn values_are_never_taken_for_placeholders() {
        let said = Tr::new(Lang::Zh).said("File {1}{0} not found.");
        assert_eq!(said, "找不到文件 {1}{0}。");
    }

    #[test]
    fn every_pattern_has_its_values_in_order_and_fixed_words() {
        for Pattern { key, parts } in PATTERNS.iter() {
            assert!(parts.iter().all(|part| !part.contains('{')), "{key}");
            let fixed: usize = parts.iter().map(|part| part.trim().len()).sum();
            assert!(fixed >= 4, "{key}");
        }
    }
}
