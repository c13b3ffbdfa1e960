//! Thoughts in an answer.

const START: &str = "<think>\n";
const END: &str = "\n</think>\n\n";

/// An empty thought.
pub(super) const EMPTY: &str = "<think>\n\n</think>\n\n";

/// Says whether `answer` holds a thought, be it half of one.
pub(super) fn is_in(answer: &str) -> bool {
    answer.contains(START.trim()) || answer.contains(END.trim())
}

/// Returns the first thought of `text`, its marks included.
pub(super) fn find(text: &str) -> Option<&str> {
    let start = text.find(START)?;
    let length = text[start + START.len()..].find(END)?;
    Some(&text[start..start + START.len() + length + END.len()])
}

/// Removes all thoughts, and newlines at the start of what is left.
pub(super) fn remove(answer: &str) -> String {
    let mut kept = String::with_capacity(answer.len());
    let mut rest = answer;
    while let Some(thought) = find(rest) {
        let start = rest.find(START).unwrap_or(0);
        kept.push_str(&rest[..start]);
        rest = &rest[start + thought.len()..];
    }
    kept.push_str(rest);
    kept.trim_start_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thoughts_are_removed_with_the_newlines_before_the_answer() {
        assert_eq!(remove("<think>\na\n</think>\n\nYes."), "Yes.");
        assert_eq!(
            remove("\n\n<think>\na\nb\n</think>\n\n\nYes.<think>\nc\n</think>\n\n!"),
            "Yes.!"
        );
        assert_eq!(remove("<think>\nnever closed"), "<think>\nnever closed");
        assert_eq!(remove("plain"), "plain");
    }

    #[test]
    fn half_a_thought_counts_as_one() {
        assert!(is_in("</think> ok"));
        assert!(!is_in("think"));
        assert_eq!(EMPTY, format!("{START}{END}"));
    }
}
