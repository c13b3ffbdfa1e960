// One connection to the board's events that mends itself: it is opened again by the last id after a break and after silence.
const KINDS = ["metric", "log", "state", "stage", "checkpoint", "alert", "sample", "end", "ping"];

/** The board says something at least every ten seconds; after this long a connection that seems open is not. */
const SILENCE_MS = 25_000;

/** Opens the stream behind the id `since`, and tells of its status and of every event. Returns a way to ask for the last id. */
export function listen(url, since, tell) {
  let lastId = since ?? "";
  let heard = Date.now();
  let source = null;

  function open() {
    heard = Date.now();
    source = new EventSource(lastId ? `${url}?last_event_id=${encodeURIComponent(lastId)}` : url);
    source.onopen = () => {
      heard = Date.now();
      tell({ status: "open" });
    };
    source.onerror = () => {
      tell({ status: "lost" });
      if (source.readyState === EventSource.CLOSED) setTimeout(open, 2000);
    };
    for (const kind of KINDS) {
      source.addEventListener(kind, (event) => {
        heard = Date.now();
        if (event.lastEventId) lastId = event.lastEventId.replace(/-end$/, "");
        tell({ kind, data: event.data, id: event.lastEventId });
      });
    }
  }

  setInterval(() => {
    if (source.readyState !== EventSource.OPEN || Date.now() - heard < SILENCE_MS) return;
    source.close();
    tell({ status: "lost" });
    open();
  }, 5000);
  open();
  return () => lastId;
}
