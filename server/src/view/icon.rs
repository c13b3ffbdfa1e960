//! The icons, drawn in place so that they take the colour of their text.

use askama::Template;
use askama::filters::HtmlSafe;

/// One icon of `macros/icon.html`.
#[derive(Debug, Clone, Copy, Template)]
#[template(path = "macros/icon.html")]
pub struct Icon<'a> {
    name: &'a str,
}

impl HtmlSafe for Icon<'_> {}

/// Returns the icon of that name.
pub const fn icon(name: &str) -> Icon<'_> {
    Icon { name }
}
