//! The lists of models and datasets in the form.

use askama::Template;
use askama::filters::HtmlSafe;

use super::faults::{Fault, Faults};
use super::field::Aria;
use super::values::FormValues;
use crate::catalog::{Dataset, ModelFolder};
use crate::i18n::Tr;
use crate::view::figure::bytes;

/// The list of models.
#[derive(Debug, Template)]
#[template(path = "macros/models.html")]
pub struct ModelPicker {
    t: Tr,
    models: Vec<ModelChoice>,
    chosen: String,
    is_elsewhere: bool,
    current: Option<ModelChoice>,
    errors: Vec<Fault>,
    aria: Aria,
}

impl HtmlSafe for ModelPicker {}

/// A model to choose.
#[derive(Debug, Clone)]
pub struct ModelChoice {
    name: String,
    path: String,
    about: String,
    template: &'static str,
    refusal: Option<String>,
}

impl ModelChoice {
    fn new(t: Tr, model: &ModelFolder) -> Self {
        let parts = [
            model.model_type.clone(),
            model.dtype.clone(),
            Some(bytes(model.size_bytes)),
        ];
        Self {
            name: if model.is_demo {
                t.f1("form.demo_model", &model.name)
            } else {
                model.name.clone()
            },
            path: model.path.clone(),
            about: parts.into_iter().flatten().collect::<Vec<_>>().join(" · "),
            template: suggest_template(model),
            refusal: model
                .refusal
                .as_ref()
                .map(|refusal| t.said(&refusal.reason)),
        }
    }
}

/// Returns the prompt format that a model was most likely tuned with; empty where that is unknown.
pub fn suggest_template(model: &ModelFolder) -> &'static str {
    let name = model.name.to_lowercase();
    match model.model_type.as_deref() {
        _ if model.is_demo => "chatml",
        _ if name.contains("smollm2") => "smollm2",
        Some("qwen2") => "qwen",
        Some("qwen3") => "qwen3",
        Some("llama") if name.contains("llama-3") || name.contains("llama3") => "llama3",
        _ => "",
    }
}

impl ModelPicker {
    /// Shows the models with the chosen one.
    pub fn new(t: Tr, models: &[ModelFolder], values: &FormValues, faults: &Faults) -> Self {
        let chosen = values.get("model_name_or_path").to_owned();
        let models: Vec<_> = models
            .iter()
            .map(|model| ModelChoice::new(t, model))
            .collect();
        let current = models.iter().find(|model| model.path == chosen).cloned();
        let errors = faults.of("model_name_or_path");
        Self {
            t,
            is_elsewhere: !chosen.is_empty() && current.is_none(),
            aria: Aria::new("f-model_name_or_path", !errors.is_empty()),
            chosen,
            current,
            models,
            errors,
        }
    }
}

/// The list of datasets.
#[derive(Debug, Template)]
#[template(path = "macros/datasets.html")]
pub struct DatasetPicker {
    t: Tr,
    datasets: Vec<DatasetChoice>,
    chosen: Vec<String>,
    unknown: Vec<String>,
    errors: Vec<Fault>,
    aria: Aria,
}

impl HtmlSafe for DatasetPicker {}

/// A dataset to choose.
#[derive(Debug)]
pub struct DatasetChoice {
    name: String,
    about: String,
    problem: Option<String>,
}

impl DatasetPicker {
    /// Whether the list needs a line of its own.
    fn is_wide(&self) -> bool {
        let has_problem = self
            .datasets
            .iter()
            .any(|dataset| dataset.problem.is_some());
        let letters: usize = self
            .datasets
            .iter()
            .map(|dataset| dataset.name.len() + 8)
            .sum();
        has_problem || letters > 24 || self.errors.len() > 1
    }

    /// Shows the datasets with the chosen ones.
    pub fn new(t: Tr, datasets: &[Dataset], values: &FormValues, faults: &Faults) -> Self {
        let chosen = values.list("dataset");
        let is_known = |name: &String| datasets.iter().any(|dataset| dataset.name == *name);
        let errors = faults.of("dataset");
        Self {
            t,
            unknown: chosen
                .iter()
                .filter(|name| !is_known(name))
                .cloned()
                .collect(),
            datasets: datasets
                .iter()
                .map(|dataset| DatasetChoice {
                    name: dataset.name.clone(),
                    about: if dataset.size_bytes > 0 {
                        bytes(dataset.size_bytes)
                    } else {
                        String::new()
                    },
                    problem: dataset
                        .problem
                        .as_ref()
                        .map(|problem| t.said(problem))
                        .or_else(|| dataset.ranking.then(|| t.s("form.ranking_dataset"))),
                })
                .collect(),
            aria: Aria::new("f-dataset", !errors.is_empty()),
            chosen,
            errors,
        }
    }
}
