//! The part of a run's page that its tab chooses.

use board_store::RunTexts;
use run_protocol::{RunConfig, RunDir};

use super::Tab;
use super::panels::{Panel, panels};
use super::view::RunView;
use crate::error::Error;
use crate::form::field::label;
use crate::i18n::Tr;
use crate::pages::files::{FileList, LogView};
use crate::view::curve::Series;

/// What stands below the tabs.
pub(super) enum Body {
    /// The curves.
    Charts(Vec<Panel>),
    /// The log.
    Log(LogView),
    /// The configuration.
    Config(ConfigView),
    /// The files.
    Files(FileList),
    /// Nothing: another block was asked for.
    Nothing,
}

impl Body {
    pub(super) async fn load(
        t: Tr,
        run: &RunView,
        tab: Tab,
        dir: RunDir,
        file: Option<&str>,
        texts: Option<RunTexts>,
        memory: Vec<Series>,
    ) -> Result<Self, Error> {
        let file = file.map(str::to_owned);
        let blocking = |work: Box<dyn FnOnce() -> Self + Send>| async {
            tokio::task::spawn_blocking(work)
                .await
                .map_err(|error| Error::Internal(error.into()))
        };
        match tab {
            Tab::Charts => Ok(Self::Charts(panels(t, run, memory))),
            Tab::Config => Ok(Self::Config(ConfigView::new(t, texts))),
            Tab::Log => {
                blocking(Box::new(move || {
                    Self::Log(LogView::read(t, &dir, file.as_deref()))
                }))
                .await
            }
            Tab::Files => blocking(Box::new(move || Self::Files(FileList::read(t, &dir)))).await,
        }
    }
}

/// What a run was started with.
#[derive(Default)]
pub(super) struct ConfigView {
    pub hash: String,
    pub changed: Vec<ConfigRow>,
    pub without_effect: Vec<(String, String)>,
    pub given: String,
}

/// A key that differs from its default.
pub(super) struct ConfigRow {
    pub key: &'static str,
    pub label: String,
    pub value: String,
    pub default: String,
}

impl ConfigView {
    fn new(t: Tr, texts: Option<RunTexts>) -> Self {
        let Some(texts) = texts else {
            return Self::default();
        };
        let given = RunConfig::from_yaml(&texts.input_yaml, &[]).ok();
        let acted = RunConfig::from_yaml(&texts.config_yaml, &[]).ok();
        let changed = acted
            .map(|parsed| parsed.config.changed_keys())
            .unwrap_or_default();
        Self {
            hash: texts.config_hash.chars().take(12).collect(),
            changed: changed
                .into_iter()
                .map(|changed| ConfigRow {
                    key: changed.key,
                    label: label(t, changed.key),
                    value: plain(&changed.value),
                    default: plain(&changed.default),
                })
                .collect(),
            without_effect: given
                .map(|parsed| {
                    parsed
                        .accepted_without_effect
                        .into_iter()
                        .map(|key| (key.key, t.said(key.reason)))
                        .collect()
                })
                .unwrap_or_default(),
            given: texts.input_yaml,
        }
    }
}

fn plain(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => "–".into(),
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Number(number) if number.is_f64() => {
            crate::view::figure::setting(number.as_f64().unwrap_or_default())
        }
        serde_json::Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}
