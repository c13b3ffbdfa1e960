//! The frame around every page: language, theme, navigation, gauges.

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum_extra::extract::cookie::CookieJar;

use crate::i18n::{Lang, Tr};
use crate::state::AppState;

/// Which colours a page has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// As the browser prefers.
    Auto,
    /// Light.
    Light,
    /// Dark.
    Dark,
}

impl Theme {
    /// Every theme, in the order of the switch.
    pub const ALL: &'static [Self] = &[Self::Light, Self::Dark, Self::Auto];

    /// Returns the word in the cookie.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// Returns the theme of a word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|theme| theme.as_str() == word)
    }

    /// Returns the value of `data-theme`, which `Auto` leaves out.
    pub const fn attribute(self) -> Option<&'static str> {
        match self {
            Self::Auto => None,
            Self::Light => Some("light"),
            Self::Dark => Some("dark"),
        }
    }

    /// Returns the key of its name.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Auto => "theme.auto",
            Self::Light => "theme.light",
            Self::Dark => "theme.dark",
        }
    }

    /// Returns its icon.
    pub const fn icon(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Light => "sun",
            Self::Dark => "moon",
        }
    }
}

/// A page of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// The list of runs and each run.
    Runs,
    /// The form.
    New,
    /// The datasets found.
    Datasets,
    /// The models found.
    Models,
    /// Something outside the navigation.
    None,
}

/// One link of the navigation.
#[derive(Debug, Clone, Copy)]
pub struct NavItem {
    /// Which page.
    pub section: Section,
    /// Its address.
    pub href: &'static str,
    /// Its icon.
    pub icon: &'static str,
    /// Key of its label.
    pub label: &'static str,
    /// Number shown beside it; 0 shows none.
    pub count: usize,
    /// Whether that number is about trouble.
    pub is_bad: bool,
}

/// Icon and label of the pages that a later version brings.
pub const LATER_PAGES: [(&str, &str); 5] = [
    ("compare", "nav.compare"),
    ("chat", "nav.chat"),
    ("evaluate", "nav.evaluate"),
    ("export", "nav.export"),
    ("settings", "nav.settings"),
];

/// A run named in the top bar.
#[derive(Debug, Clone)]
pub struct RunLink {
    /// Address of its page.
    pub href: String,
    /// Its name.
    pub name: String,
}

/// How busy the machine is.
#[derive(Debug, Clone)]
pub struct DeviceGauge {
    /// Processor load over all cores.
    pub cpu_percent: u32,
    /// Memory in use, in GiB with one digit.
    pub memory_used: String,
    /// Memory in all, in GiB.
    pub memory_total: String,
    /// Memory in use over memory in all.
    pub memory_percent: u32,
    /// What is running.
    pub run: Option<RunLink>,
}

impl DeviceGauge {
    /// Draws the processor's bar.
    pub fn cpu_meter(&self) -> Meter {
        Meter {
            percent: self.cpu_percent.min(100),
            high: 101,
        }
    }

    /// Draws the memory's bar.
    pub fn memory_meter(&self) -> Meter {
        Meter {
            percent: self.memory_percent.min(100),
            high: 90,
        }
    }
}

/// A small bar whose width is an attribute, since styles in place are forbidden.
#[derive(Debug, askama::Template)]
#[template(
    ext = "html",
    source = r#"<svg class="meter{% if percent >= high %} high{% endif %}" viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true"><rect width="100" height="12"/><rect width="{{ percent }}" height="12"/></svg>"#
)]
pub struct Meter {
    percent: u32,
    high: u32,
}

impl askama::filters::HtmlSafe for Meter {}

/// The frame of one page.
#[derive(Debug, Clone)]
pub struct Chrome {
    /// The texts of its language.
    pub t: Tr,
    /// Its colours.
    pub theme: Theme,
    /// Its place in the navigation.
    pub section: Section,
    /// Its own address, to come back to after a switch.
    pub here: String,
    /// The machine's gauges; `None` until they are read.
    pub device: Option<DeviceGauge>,
    /// The newest event that the page may know: its stream goes on behind it.
    pub event_id: i64,
    /// Runs that failed and runs at work, for the navigation.
    pub failed: usize,
    /// Runs at work or waiting.
    pub active: usize,
}

impl Chrome {
    /// Reads language and theme from the request's headers.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let jar = CookieJar::from_headers(headers);
        let lang = jar
            .get("lang")
            .and_then(|cookie| Lang::from_tag(cookie.value()))
            .or_else(|| {
                headers
                    .get("accept-language")
                    .and_then(|value| value.to_str().ok())
                    .and_then(Lang::from_accept)
            });
        let theme = jar
            .get("theme")
            .and_then(|cookie| Theme::from_word(cookie.value()));
        Self {
            t: Tr::new(lang.unwrap_or(Lang::En)),
            theme: theme.unwrap_or(Theme::Auto),
            section: Section::None,
            here: "/runs".into(),
            device: None,
            event_id: 0,
            failed: 0,
            active: 0,
        }
    }

    /// Returns the frame for a place in the navigation.
    #[must_use]
    pub fn at(mut self, section: Section) -> Self {
        self.section = section;
        self
    }

    /// Returns the address of a static file.
    pub fn asset(&self, path: &str) -> String {
        crate::assets::url(path)
    }

    /// Returns the links of the navigation.
    pub fn nav(&self) -> [NavItem; 4] {
        let item = |section, href, icon, label| NavItem {
            section,
            href,
            icon,
            label,
            count: 0,
            is_bad: false,
        };
        [
            NavItem {
                count: self.active,
                ..item(Section::Runs, "/runs", "runs", "nav.runs")
            },
            item(Section::New, "/runs/new", "new", "nav.new"),
            item(Section::Datasets, "/datasets", "datasets", "nav.datasets"),
            item(Section::Models, "/models", "models", "nav.models"),
        ]
    }
}

impl FromRequestParts<AppState> for Chrome {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &AppState,
    ) -> Result<Self, Self::Rejection> {
        let mut chrome = Self::from_headers(&parts.headers);
        chrome.here = parts
            .uri
            .path_and_query()
            .map_or_else(|| "/runs".into(), ToString::to_string);
        // Read before anything that the page shows, so that nothing falls between the two.
        chrome.event_id = state.store.last_event_id().await.unwrap_or(0);
        crate::pages::device::fill(&mut chrome, state).await;
        Ok(chrome)
    }
}
