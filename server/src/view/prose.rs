//! Sentences that name keys and values in backticks.

use std::fmt;

use askama::filters::{Escaper as _, Html, HtmlSafe};

/// A sentence whose backticked parts become `<code>`; everything is escaped.
#[derive(Debug, Clone)]
pub struct Prose(String);

/// Returns a sentence for a page.
pub fn prose(text: impl AsRef<str>) -> Prose {
    Prose(text.as_ref().to_owned())
}

impl fmt::Display for Prose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_paired = self.0.matches('`').count().is_multiple_of(2);
        for (index, part) in self.0.split('`').enumerate() {
            let is_code = index % 2 == 1;
            match (is_code, is_paired) {
                (true, true) => f.write_str("<code>")?,
                (_, false) if index > 0 => f.write_str("`")?,
                _ => {}
            }
            Html.write_escaped_str(&mut *f, part)?;
            if is_code && is_paired {
                f.write_str("</code>")?;
            }
        }
        Ok(())
    }
}

impl HtmlSafe for Prose {}

#[cfg(test)]
mod tests {
    use super::prose;

    #[test]
    fn backticks_become_code_and_everything_is_escaped() {
        assert_eq!(
            prose("`a<b` is not `c`").to_string(),
            "<code>a&#60;b</code> is not <code>c</code>"
        );
        assert_eq!(prose("it`s <b>").to_string(), "it`s &#60;b&#62;");
    }
}
