//! Live events as server-sent events: of one run, or of the whole board.
//!
//! A stream subscribes first, then replays from the store what came after the id that its client
//! has, then goes on with what the store broadcasts; ids that were sent already are dropped. A
//! client that reads slowly falls behind the broadcast and is served from the store again: nothing
//! is lost, nobody waits for it. Streams are pulled by their connection, so one that nobody reads
//! holds one page of events at most.

mod cursor;

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use board_store::Store;
use futures_util::stream::Stream;
use run_protocol::RunId;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use cursor::Cursor;

use crate::error::Error;

/// Streams that may be open at once, over all clients.
const MAX_STREAMS: usize = 2_000;

/// Silence after which a comment keeps the connection alive; a `ping` comes with it, since browsers tell pages of events
/// alone.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// What an id ends with once its run's `end` was sent.
const ENDED: &str = "-end";

/// The names of the events that a browser gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveKind {
    /// Numbers of a step.
    Metric,
    /// A line for the log.
    Log,
    /// A change of state.
    State,
    /// A phase of the run, and how far it is.
    Stage,
    /// A checkpoint is complete.
    Checkpoint,
    /// Something a person should see.
    Alert,
    /// A text that the model wrote.
    Sample,
    /// Nothing more will come: of this run, or of this board.
    End,
}

impl LiveKind {
    /// Returns the name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Metric => "metric",
            Self::Log => "log",
            Self::State => "state",
            Self::Stage => "stage",
            Self::Checkpoint => "checkpoint",
            Self::Alert => "alert",
            Self::Sample => "sample",
            Self::End => "end",
        }
    }

    /// Returns the name for a stored kind; `None` for what browsers do not get.
    fn of_stored(kind: &str) -> Option<Self> {
        const STORED: [LiveKind; 7] = [
            LiveKind::Metric,
            LiveKind::Log,
            LiveKind::State,
            LiveKind::Stage,
            LiveKind::Checkpoint,
            LiveKind::Alert,
            LiveKind::Sample,
        ];
        STORED.into_iter().find(|known| known.as_str() == kind)
    }
}

/// Where a client stands: the last id it got, and whether it got the run's `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastEventId {
    id: i64,
    has_end: bool,
}

impl LastEventId {
    /// Reads the header, or on a first load the parameter; the header is the newer.
    pub fn from_request(
        headers: &HeaderMap,
        parameter: Option<&str>,
    ) -> Result<Option<Self>, Error> {
        let header = headers
            .get("last-event-id")
            .map(|value| value.to_str().unwrap_or("?"));
        header
            .filter(|text| !text.is_empty())
            .or(parameter)
            .map(Self::parse)
            .transpose()
    }

    fn parse(text: &str) -> Result<Self, Error> {
        let (digits, has_end) = match text.strip_suffix(ENDED) {
            Some(digits) => (digits, true),
            None => (text, false),
        };
        let id = digits
            .parse()
            .ok()
            .filter(|id| *id >= 0)
            .ok_or_else(|| Error::BadRequest {
                code: "bad_event_id",
                message: "the last event id is none of this board's".into(),
                hint: Some("send an id as the stream gave it, or 0 to replay everything".into()),
            })?;
        Ok(Self { id, has_end })
    }
}

/// Which runs a stream is about.
#[derive(Debug, Clone)]
pub enum Scope {
    /// One run; the stream ends with it.
    Run(RunId),
    /// These runs.
    Runs(HashSet<RunId>),
    /// Every run.
    Board,
}

impl Scope {
    fn has(&self, run: RunId) -> bool {
        match self {
            Self::Run(id) => *id == run,
            Self::Runs(ids) => ids.contains(&run),
            Self::Board => true,
        }
    }

    fn only_run(&self) -> Option<RunId> {
        match self {
            Self::Run(id) => Some(*id),
            Self::Runs(_) | Self::Board => None,
        }
    }
}

/// The streams of a board.
#[derive(Debug, Clone)]
pub struct Live {
    store: Store,
    permits: Arc<Semaphore>,
    shutdown: CancellationToken,
}

impl Live {
    /// Makes the hub; `shutdown` ends all streams.
    pub fn new(store: Store, shutdown: CancellationToken) -> Self {
        Self {
            store,
            permits: Arc::new(Semaphore::new(MAX_STREAMS)),
            shutdown,
        }
    }

    /// Returns how many streams are open.
    pub fn num_streams(&self) -> usize {
        MAX_STREAMS - self.permits.available_permits()
    }

    /// Answers with a stream, or with 204 where a client that came back has all there will be.
    ///
    /// Without an id, or with one that this board has not given out, the stream of one run begins at its first event, any
    /// other with the next event.
    pub async fn stream(&self, scope: Scope, last: Option<LastEventId>) -> Result<Response, Error> {
        let permit = Arc::clone(&self.permits)
            .try_acquire_owned()
            .map_err(|_| Error::TooManyStreams)?;
        let events = self.store.subscribe();
        let newest = self.store.last_event_id().await?;
        // An id that is not out yet is of a database that was moved away: such a client has nothing of this one.
        let last = last.filter(|last| last.id <= newest);
        let after = match (last, &scope) {
            (Some(last), _) => last.id,
            (None, Scope::Run(_)) => 0,
            (None, Scope::Runs(_) | Scope::Board) => newest,
        };
        let mut cursor = Cursor::new(
            scope,
            self.store.clone(),
            events,
            self.shutdown.clone(),
            after,
            permit,
        );
        if last.is_some_and(|last| last.has_end) && cursor.has_nothing_to_come().await? {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
        Ok(answer(cursor.into_stream()))
    }
}

fn answer(stream: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Response {
    let mut response = Sse::new(stream)
        .keep_alive(
            KeepAlive::new()
                .interval(HEARTBEAT)
                .event(Event::default().comment("").event("ping").data("{}")),
        )
        .into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream; charset=utf-8"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_event_ids_are_read_and_strange_ones_refused() {
        assert_eq!(
            LastEventId::parse("12").unwrap(),
            LastEventId {
                id: 12,
                has_end: false
            }
        );
        assert_eq!(
            LastEventId::parse("12-end").unwrap(),
            LastEventId {
                id: 12,
                has_end: true
            }
        );
        for strange in ["", "-1", "x", "1-ended", "99999999999999999999"] {
            assert!(LastEventId::parse(strange).is_err(), "{strange}");
        }
    }

    #[test]
    fn header_wins_over_the_parameter_of_the_first_load() {
        let mut headers = HeaderMap::new();
        assert_eq!(LastEventId::from_request(&headers, None).unwrap(), None);
        assert_eq!(
            LastEventId::from_request(&headers, Some("3"))
                .unwrap()
                .unwrap()
                .id,
            3
        );
        headers.insert("last-event-id", HeaderValue::from_static("7"));
        assert_eq!(
            LastEventId::from_request(&headers, Some("3"))
                .unwrap()
                .unwrap()
                .id,
            7
        );
    }
}
