//! The series of a run: thinned for a curve, or every point.

use std::fmt::Write as _;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use board_store::{Export, MetricRow, Point, RunSeries, SeriesQuery, StoreError};
use futures_util::stream::try_unfold;
use run_protocol::{MetricValue, RunId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::api::extract::{ApiQuery, RunPath};
use crate::api::resource::Number;
use crate::error::{Error, Problem};
use crate::state::AppState;

/// Points of a series in JSON where nothing else is asked for.
const DEFAULT_POINTS: usize = 10_000;

/// Most points of a series in JSON; CSV and JSON lines have no limit.
const MAX_POINTS: usize = 100_000;

/// How the points are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MetricFormat {
    /// Series, thinned if they are longer than `max_points`.
    #[default]
    Json,
    /// A line a point, with the columns `step,epoch,time,name,value`.
    Csv,
    /// An object a line.
    Jsonl,
}

/// What to answer of a run's metrics.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct MetricsQuery {
    /// `json` (thinned), `csv` or `jsonl` (every point, unless `max_points` is given).
    #[serde(default)]
    #[param(inline)]
    format: MetricFormat,
    /// Only this metric; repeatable. All of them without it.
    #[serde(default)]
    name: Vec<String>,
    /// Most points of each series. Extremes, NaN and both ends are kept.
    #[param(minimum = 1, maximum = 100_000)]
    max_points: Option<usize>,
    /// The first step.
    from_step: Option<i64>,
    /// The last step.
    to_step: Option<i64>,
}

/// The series of a run.
#[derive(Debug, Serialize, ToSchema)]
pub struct MetricsAnswer {
    /// The series.
    pub metrics: MetricsResource,
}

/// The series of a run at one moment.
#[derive(Debug, Serialize, ToSchema)]
pub struct MetricsResource {
    /// The last event that the series hold: a stream that begins behind it continues them.
    pub last_event_id: i64,
    /// Steps at which a resumed attempt begins.
    pub joins: Vec<i64>,
    /// By name.
    pub series: Vec<SeriesResource>,
}

/// One metric over the steps. Where a resumed attempt repeats steps, only its own points are there.
#[derive(Debug, Serialize, ToSchema)]
pub struct SeriesResource {
    /// The metric.
    pub name: String,
    /// Points in the range of steps, before thinning.
    pub num_points: u64,
    /// How many of them are NaN.
    pub num_nan: u64,
    /// The smallest finite value.
    pub min: Option<f64>,
    /// The greatest finite value.
    pub max: Option<f64>,
    /// Whether points were left out.
    pub is_thinned: bool,
    /// The points, by step.
    pub points: Vec<PointResource>,
}

/// One point.
#[derive(Debug, Serialize, ToSchema)]
pub struct PointResource {
    /// Optimizer step.
    pub step: i64,
    /// Epoch at that step.
    pub epoch: Option<f64>,
    /// When it was logged, in milliseconds since 1970.
    pub time: i64,
    /// The value.
    #[schema(value_type = Number)]
    pub value: MetricValue,
}

/// Answers with the metrics of a run.
#[utoipa::path(get, path = "/api/v1/runs/{id}/metrics", tag = "runs",
    params(("id" = String, Path, description = "The run."), MetricsQuery),
    responses(
        (status = OK, description = "The metrics.", content(
            (MetricsAnswer = "application/json"),
            (String = "text/csv"),
            (String = "application/jsonl"),
        )),
        (status = BAD_REQUEST, description = "A parameter is refused.", content_type = "application/problem+json", body = Problem),
        (status = NOT_FOUND, description = "No such run.", content_type = "application/problem+json", body = Problem),
    ))]
pub async fn show_metrics(
    State(state): State<AppState>,
    RunPath(id): RunPath,
    ApiQuery(query): ApiQuery<MetricsQuery>,
) -> Result<Response, Error> {
    let names = (!query.name.is_empty()).then_some(query.name);
    let max_points = query.max_points.unwrap_or(DEFAULT_POINTS);
    if !(1..=MAX_POINTS).contains(&max_points) {
        let message = format!("`max_points` is {max_points}, expected 1 to {MAX_POINTS}");
        let hint = Some("`format=csv` and `format=jsonl` give every point".into());
        return Err(Error::BadRequest {
            code: "bad_query",
            message,
            hint,
        });
    }
    let range = (query.from_step, query.to_step);
    let format = query.format;
    if format == MetricFormat::Json || query.max_points.is_some() {
        let wanted = SeriesQuery {
            names,
            max_points,
            from_step: range.0,
            to_step: range.1,
        };
        let series = state.store.series(id, &wanted).await?;
        return Ok(match format {
            MetricFormat::Json => Json(MetricsAnswer {
                metrics: series.into(),
            })
            .into_response(),
            MetricFormat::Csv | MetricFormat::Jsonl => {
                answer_rows(id, format, Body::from(write_series(format, &series)))
            }
        });
    }
    let export = state.store.export(id).await?;
    let rows = Rows {
        export,
        names,
        range,
        format,
        is_begun: false,
    };
    Ok(answer_rows(
        id,
        format,
        Body::from_stream(try_unfold(rows, Rows::next)),
    ))
}

fn answer_rows(id: RunId, format: MetricFormat, body: Body) -> Response {
    let (kind, extension) = match format {
        MetricFormat::Csv => ("text/csv; charset=utf-8; header=present", "csv"),
        MetricFormat::Jsonl | MetricFormat::Json => ("application/jsonl", "jsonl"),
    };
    let disposition = format!("attachment; filename=\"metrics-{id}.{extension}\"");
    (
        [
            (header::CONTENT_TYPE, kind.to_owned()),
            (header::CONTENT_DISPOSITION, disposition),
        ],
        body,
    )
        .into_response()
}

/// Every point of a run, written as the store gives them.
struct Rows {
    export: Export,
    names: Option<Vec<String>>,
    range: (Option<i64>, Option<i64>),
    format: MetricFormat,
    is_begun: bool,
}

impl Rows {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, StoreError> {
        let mut text = String::new();
        if !self.is_begun {
            self.is_begun = true;
            text.push_str(head(self.format));
        }
        while let Some(rows) = self.export.next().await? {
            for MetricRow { name, point } in rows.iter().filter(|row| self.is_wanted(row)) {
                write_row(self.format, &mut text, name, point);
            }
            if !text.is_empty() {
                break;
            }
        }
        Ok(if text.is_empty() {
            None
        } else {
            Some((text.into(), self))
        })
    }

    fn is_wanted(&self, row: &MetricRow) -> bool {
        let (from, to) = self.range;
        self.names
            .as_ref()
            .is_none_or(|names| names.iter().any(|name| **name == *row.name))
            && from.is_none_or(|from| row.point.step >= from)
            && to.is_none_or(|to| row.point.step <= to)
    }
}

fn write_series(format: MetricFormat, series: &RunSeries) -> String {
    let mut text = head(format).to_owned();
    for one in &series.series {
        for point in &one.points {
            write_row(format, &mut text, &one.name, point);
        }
    }
    text
}

fn head(format: MetricFormat) -> &'static str {
    if format == MetricFormat::Csv {
        "step,epoch,time,name,value\r\n"
    } else {
        ""
    }
}

fn write_row(format: MetricFormat, text: &mut String, name: &str, point: &Point) {
    let epoch = point.epoch.map(MetricValue);
    let value = MetricValue(point.value);
    if format == MetricFormat::Csv {
        let epoch = epoch.map(to_digits).unwrap_or_default();
        let (step, time, name, value) =
            (point.step, point.time_ms, csv_cell(name), to_digits(value));
        let _ = write!(text, "{step},{epoch},{time},{name},{value}\r\n");
        return;
    }
    let row = serde_json::json!({"step": point.step, "epoch": epoch, "time": point.time_ms, "name": name, "value": value});
    let _ = writeln!(text, "{row}");
}

/// Writes a number with as few digits as read back to it.
fn to_digits(value: MetricValue) -> String {
    serde_json::Number::from_f64(value.get())
        .map_or_else(|| value.to_string(), |digits| digits.to_string())
}

/// Quotes a text where CSV needs it, and keeps a spreadsheet from taking it for a formula.
fn csv_cell(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let safe = if is_formula {
        format!("'{text}")
    } else {
        text.to_owned()
    };
    if safe.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", safe.replace('"', "\"\""))
    } else {
        safe
    }
}

impl From<RunSeries> for MetricsResource {
    fn from(all: RunSeries) -> Self {
        let series = all.series.into_iter().map(|series| SeriesResource {
            name: series.name,
            num_points: series.num_points,
            num_nan: series.num_nan,
            min: series.min,
            max: series.max,
            is_thinned: series.is_thinned,
            points: series.points.into_iter().map(PointResource::from).collect(),
        });
        Self {
            last_event_id: all.as_of,
            joins: all.joins,
            series: series.collect(),
        }
    }
}

impl From<Point> for PointResource {
    fn from(point: Point) -> Self {
        Self {
            step: point.step,
            epoch: point.epoch,
            time: point.time_ms,
            value: MetricValue(point.value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_metric_names_stay_one_harmless_cell() {
        assert_eq!(csv_cell("loss"), "loss");
        assert_eq!(csv_cell("rewards/chosen"), "rewards/chosen");
        assert_eq!(csv_cell("=1+1"), "'=1+1");
        assert_eq!(csv_cell("-x,\"y\"\n"), "\"'-x,\"\"y\"\"\n\"");
    }

    #[test]
    fn rows_keep_every_digit_and_the_words_for_what_is_no_number() {
        let mut text = String::new();
        let point = Point {
            step: 3,
            time_ms: 5,
            epoch: Some(0.1),
            value: 1e-7,
            ..Point::default()
        };
        write_row(MetricFormat::Csv, &mut text, "loss", &point);
        write_row(
            MetricFormat::Csv,
            &mut text,
            "loss",
            &Point {
                epoch: None,
                value: f64::NAN,
                ..point
            },
        );
        write_row(
            MetricFormat::Jsonl,
            &mut text,
            "loss",
            &Point {
                value: f64::NEG_INFINITY,
                ..point
            },
        );
        let expected = "3,0.1,5,loss,1e-7\r\n3,,5,loss,NaN\r\n\
                        {\"step\":3,\"epoch\":0.1,\"time\":5,\"name\":\"loss\",\"value\":\"-Infinity\"}\n";
        assert_eq!(text, expected);
    }
}
