//! Language and theme, kept in cookies.

use axum::Form;
use axum::response::Redirect;
use axum_extra::extract::cookie::{Cookie, CookieJar, SameSite};
use serde::Deserialize;

use crate::i18n::Lang;
use crate::view::Theme;

/// A switch that was pressed.
#[derive(Debug, Deserialize)]
pub struct Preferences {
    lang: Option<String>,
    theme: Option<String>,
    #[serde(default)]
    back: String,
}

/// Keeps a choice and leads back to where it was made.
pub async fn set_preferences(
    jar: CookieJar,
    Form(chosen): Form<Preferences>,
) -> (CookieJar, Redirect) {
    let mut jar = jar;
    if let Some(lang) = chosen.lang.as_deref().and_then(Lang::from_tag) {
        jar = jar.add(cookie("lang", lang.tag()));
    }
    if let Some(theme) = chosen.theme.as_deref().and_then(Theme::from_word) {
        jar = jar.add(cookie("theme", theme.as_str()));
    }
    (jar, Redirect::to(own_address(&chosen.back)))
}

fn cookie(name: &'static str, value: &'static str) -> Cookie<'static> {
    let mut cookie = Cookie::new(name, value);
    cookie.set_path("/");
    cookie.set_same_site(SameSite::Lax);
    cookie.set_http_only(true);
    cookie.make_permanent();
    cookie
}

/// Lets through an address of this board alone; anything else leads to the list.
fn own_address(address: &str) -> &str {
    let is_own = address.starts_with('/')
        && !address.starts_with("//")
        && address.chars().all(|c| c.is_ascii_graphic() && c != '\\');
    if is_own { address } else { "/runs" }
}

#[cfg(test)]
mod tests {
    use super::own_address;

    #[test]
    fn only_own_addresses_are_gone_back_to() {
        assert_eq!(own_address("/runs?state=failed"), "/runs?state=failed");
        for foreign in [
            "//evil.example",
            "https://evil.example",
            "",
            "/\\evil.example",
            "/a\r\nb",
        ] {
            assert_eq!(own_address(foreign), "/runs", "{foreign}");
        }
    }
}
