//! An event on its way into the database: with its board-wide id and the numbers as SQL has them.

use run_protocol::{Event, EventKind, RunId};

use crate::convert::sql_count;
use crate::events::StoredEvent;

/// An event with its id.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// Board-wide id.
    pub(crate) id: i64,
    /// The trainer's number.
    pub(crate) seq: i64,
    /// The attempt.
    pub(crate) attempt: u32,
    /// When it happened.
    pub(crate) time_ms: i64,
    /// What it says.
    pub(crate) content: Content,
}

/// What an event says.
#[derive(Debug)]
pub(crate) enum Content {
    /// Numbers of a step.
    Metric {
        /// The step.
        step: i64,
        /// The epoch.
        epoch: Option<f64>,
        /// The values by name.
        values: Vec<(String, f64)>,
        /// The same as JSON.
        values_json: String,
    },
    /// Anything else.
    Other {
        /// Its kind.
        kind: String,
        /// Its fields as JSON.
        body: String,
    },
}

impl Incoming {
    pub(crate) fn new(id: i64, event: &Event) -> Self {
        let content = match &event.kind {
            EventKind::Metric(metric) => Content::Metric {
                step: sql_count(metric.step),
                epoch: metric.epoch.filter(|epoch| epoch.is_finite()),
                values: metric
                    .values
                    .iter()
                    .map(|(name, value)| (name.clone(), value.get()))
                    .collect(),
                values_json: serde_json::to_string(&metric.values)
                    .unwrap_or_else(|_| "{}".to_owned()),
            },
            kind => Content::Other {
                kind: kind.name().to_owned(),
                body: kind
                    .fields()
                    .and_then(|fields| serde_json::to_string(&fields))
                    .unwrap_or_else(|_| "{}".to_owned()),
            },
        };
        Self {
            id,
            seq: sql_count(event.seq),
            attempt: event.attempt,
            time_ms: event.time,
            content,
        }
    }

    pub(crate) fn is_metric(&self) -> bool {
        matches!(self.content, Content::Metric { .. })
    }

    pub(crate) fn kind(&self) -> &str {
        match &self.content {
            Content::Metric { .. } => "metric",
            Content::Other { kind, .. } => kind,
        }
    }

    /// Returns the event's own fields as JSON.
    pub(crate) fn body(&self) -> String {
        match &self.content {
            Content::Metric {
                step,
                epoch,
                values_json,
                ..
            } => metric_body(*step, *epoch, values_json),
            Content::Other { body, .. } => body.clone(),
        }
    }

    pub(crate) fn to_stored(&self, run: RunId) -> StoredEvent {
        StoredEvent {
            id: self.id,
            run,
            seq: Some(self.seq),
            attempt: self.attempt,
            time_ms: self.time_ms,
            kind: self.kind().to_owned(),
            body: self.body(),
        }
    }
}

/// Returns the fields of a metric event as JSON.
pub(crate) fn metric_body(step: i64, epoch: Option<f64>, values_json: &str) -> String {
    let epoch = epoch.map_or_else(
        || "null".to_owned(),
        |epoch| serde_json::Value::from(epoch).to_string(),
    );
    format!(r#"{{"step":{step},"epoch":{epoch},"values":{values_json}}}"#)
}
