//! One client's place in the events.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::Event;
use board_store::{Store, StoreError, StoredEvent};
use futures_util::stream::{Stream, unfold};
use run_protocol::{RunId, RunState};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, broadcast};
use tokio_util::sync::CancellationToken;

use super::{ENDED, LiveKind, Scope};

/// What a browser waits before it comes back.
const RETRY: Duration = Duration::from_secs(3);

/// Events read from the store at once.
const PAGE: usize = 500;

/// One client's place in the events.
pub(super) struct Cursor {
    scope: Scope,
    store: Store,
    events: broadcast::Receiver<Arc<StoredEvent>>,
    shutdown: CancellationToken,
    /// The last id that was looked at.
    after: i64,
    /// Whether the store holds events that are not sent: at the start, and after a lag.
    is_behind: bool,
    ready: VecDeque<Event>,
    is_over: bool,
    _permit: OwnedSemaphorePermit,
}

impl Cursor {
    /// Makes a cursor behind the id `after`; `events` was subscribed before that id was chosen.
    pub(super) fn new(
        scope: Scope,
        store: Store,
        events: broadcast::Receiver<Arc<StoredEvent>>,
        shutdown: CancellationToken,
        after: i64,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        Self {
            scope,
            store,
            events,
            shutdown,
            after,
            is_behind: true,
            ready: VecDeque::from([Event::default().retry(RETRY)]),
            is_over: false,
            _permit: permit,
        }
    }

    /// Returns the events as a connection pulls them.
    pub(super) fn into_stream(self) -> impl Stream<Item = Result<Event, Infallible>> {
        unfold(self, |mut cursor| async move {
            cursor.next().await.map(|event| (Ok(event), cursor))
        })
    }

    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            if !self.is_behind {
                self.wait().await;
            } else if let Err(error) = self.read_page().await {
                tracing::error!(%error, "a stream of events broke"); // the client comes back by its last id
                return None;
            }
        }
    }

    /// Reads on from the store until there is nothing more.
    async fn read_page(&mut self) -> Result<(), StoreError> {
        let page = self
            .store
            .events_after(self.after, self.scope.only_run(), PAGE)
            .await?;
        self.is_behind = !page.is_empty();
        for event in &page {
            self.take(event);
        }
        if !self.is_behind
            && let Some(run) = self.scope.only_run()
        {
            self.end_if_over(run).await?;
        }
        Ok(())
    }

    /// Waits for the next event of the board.
    async fn wait(&mut self) {
        let received = tokio::select! {
            received = self.events.recv() => received,
            () = self.shutdown.cancelled() => Err(RecvError::Closed),
        };
        match received {
            Ok(event) => self.take(&event),
            Err(RecvError::Lagged(_)) => self.is_behind = true,
            Err(RecvError::Closed) => {
                let data = json!({"reason": "board_stopped", "run": null, "state": null});
                self.finish(Event::default(), &data);
                self.is_over = true;
            }
        }
    }

    fn take(&mut self, event: &StoredEvent) {
        if event.id <= self.after {
            return;
        }
        self.after = event.id;
        if !self.scope.has(event.run) {
            return;
        }
        let Some(kind) = LiveKind::of_stored(&event.kind) else {
            return;
        };
        self.ready.push_back(to_sse(kind, event));
        if kind == LiveKind::State && final_state(&event.body).is_some() {
            match self.scope {
                // A run that was resumed since goes on: only the store knows.
                Scope::Run(_) => self.is_behind = true,
                Scope::Runs(_) | Scope::Board => {
                    self.end_of(event.run, final_state(&event.body), event.id);
                }
            }
        }
    }

    /// Ends the stream of one run if the run has ended and all its events are sent.
    async fn end_if_over(&mut self, run: RunId) -> Result<(), StoreError> {
        let state = self.store.find_run(run).await?.map(|run| run.state);
        let is_over = state.is_none_or(RunState::is_final);
        if !is_over {
            return Ok(());
        }
        if !self
            .store
            .events_after(self.after, Some(run), 1)
            .await?
            .is_empty()
        {
            self.is_behind = true; // came between the page and the state
            return Ok(());
        }
        self.end_of(run, state, self.after);
        self.is_over = true;
        Ok(())
    }

    fn end_of(&mut self, run: RunId, state: Option<RunState>, id: i64) {
        let reason = if state.is_some() {
            "run_ended"
        } else {
            "run_deleted"
        };
        let event = Event::default().id(format!("{id}{ENDED}"));
        self.finish(
            event,
            &json!({"reason": reason, "run": run, "state": state}),
        );
    }

    fn finish(&mut self, event: Event, data: &Value) {
        self.ready
            .push_back(event.event(LiveKind::End.as_str()).data(data.to_string()));
    }

    /// Whether the run has ended and the client has all of it.
    pub(super) async fn has_nothing_to_come(&mut self) -> Result<bool, StoreError> {
        let Some(run) = self.scope.only_run() else {
            return Ok(false);
        };
        let is_over = self
            .store
            .find_run(run)
            .await?
            .is_none_or(|run| run.state.is_final());
        Ok(is_over
            && self
                .store
                .events_after(self.after, Some(run), 1)
                .await?
                .is_empty())
    }
}

/// Returns the state of a `state` event, if no event follows it.
fn final_state(body: &str) -> Option<RunState> {
    let body: Value = serde_json::from_str(body).ok()?;
    body["state"]
        .as_str()?
        .parse()
        .ok()
        .filter(|state: &RunState| state.is_final())
}

/// Writes the common fields before the event's own: `body` is an object in one line.
fn to_sse(kind: LiveKind, event: &StoredEvent) -> Event {
    let own = event.body.trim_start().strip_prefix('{').unwrap_or("}");
    let comma = if own.trim_start().starts_with('}') {
        ""
    } else {
        ","
    };
    let StoredEvent {
        id,
        run,
        attempt,
        time_ms,
        ..
    } = event;
    let data = format!(r#"{{"run":"{run}","attempt":{attempt},"time":{time_ms}{comma}{own}"#);
    Event::default()
        .event(kind.as_str())
        .id(id.to_string())
        .data(data)
}
