// The live events of the board, one stream a browser: a SharedWorker holds it, else this tab does.
// htmx's stream extension gets its source from here too, and `board:tick` asks live blocks for a fresh picture.

const listeners = new Map();
let status = "connecting";
let lastSeen = Date.now();
let tick = 0;
let pending = false;

/** Calls `handler` with the data of every event of a kind. */
export function on(kind, handler) {
  if (!listeners.has(kind)) listeners.set(kind, new Set());
  listeners.get(kind).add(handler);
}

/** Calls `handler` when the stream is back after it was lost. */
export function onReturn(handler) {
  on("return", handler);
}

function emit(kind, event) {
  for (const handler of listeners.get(kind) ?? []) handler(event);
}

function receive({ kind, data, id, status: news, isBehind }) {
  if (news) {
    if (isBehind) {
      emit("state", new MessageEvent("state", { data: "{}" }));
      refresh();
    }
    const wasLost = status === "lost";
    status = news;
    if (news === "open") {
      lastSeen = Date.now();
      if (wasLost) {
        emit("return", null);
        refresh();
      }
    }
    showChip();
    return;
  }
  lastSeen = Date.now();
  emit(kind, new MessageEvent(kind, { data, lastEventId: id ?? "" }));
  if (kind === "log") return;
  const only = document.querySelector("[data-only-run]")?.dataset.onlyRun;
  if (!only || kind === "state" || data.includes(only)) refresh();
}

// Live blocks are asked for at most once a second, and once more after the last event.
function refresh() {
  if (pending || document.hidden) return;
  pending = true;
  const wait = Math.max(0, tick + 1000 - Date.now());
  setTimeout(() => {
    pending = false;
    tick = Date.now();
    document.body.dispatchEvent(new CustomEvent("board:tick"));
  }, wait);
}

/** What htmx's extension takes for an EventSource. */
class SharedSource extends EventTarget {
  constructor() {
    super();
    this.readyState = 1;
    this.handlers = [];
    queueMicrotask(() => this.onopen?.(new Event("open")));
  }

  addEventListener(kind, handler) {
    on(kind, handler);
    this.handlers.push([kind, handler]);
  }

  removeEventListener(kind, handler) {
    listeners.get(kind)?.delete(handler);
  }

  close() {
    for (const [kind, handler] of this.handlers) listeners.get(kind)?.delete(handler);
  }
}

/** Opens the stream. */
export function connect() {
  if (window.htmx) window.htmx.createEventSource = () => new SharedSource();
  const stream = document.body.getAttribute("sse-connect");
  const { worker, eventId: since } = document.body.dataset;
  if (window.SharedWorker && worker) {
    const shared = new SharedWorker(worker, { name: "board-stream" });
    shared.port.onmessage = (message) => receive(message.data);
    shared.port.start();
    shared.port.postMessage({ url: stream, since });
    addEventListener("pagehide", () => shared.port.postMessage({ bye: true }));
    addEventListener("pageshow", (event) => event.persisted && location.reload());
  } else {
    openHere(`${stream}?last_event_id=${since}`);
  }
  setInterval(showChip, 1000);
  setInterval(() => !document.hidden && status === "open" && document.body.dispatchEvent(new CustomEvent("board:beat")), 5000);
  document.addEventListener("visibilitychange", () => !document.hidden && refresh());
  document.querySelector("#stream-chip button")?.addEventListener("click", () => location.reload());
}

function openHere(url) {
  const source = new EventSource(url);
  source.onopen = () => receive({ status: "open" });
  source.onerror = () => receive({ status: "lost" });
  for (const kind of ["metric", "log", "state", "stage", "checkpoint", "alert", "sample", "end"]) {
    source.addEventListener(kind, (event) => receive({ kind, data: event.data, id: event.lastEventId }));
  }
}

function span(ms) {
  const seconds = Math.floor(ms / 1000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

// Silent while the stream is well; amber after a while without it, red when the board is gone.
function showChip() {
  const chip = document.getElementById("stream-chip");
  if (!chip) return;
  const away = status === "lost" ? Date.now() - lastSeen : 0;
  const isStale = away > 4000;
  const isLost = away > 60_000;
  chip.hidden = !isStale;
  chip.classList.toggle("lost", isLost);
  document.body.classList.toggle("stale", isStale);
  chip.querySelector("button").hidden = !isLost;
  if (isStale) {
    const text = isLost ? chip.dataset.lost : chip.dataset.waiting;
    chip.querySelector("span").textContent = text.replace("{0}", span(away));
  }
  for (const control of document.querySelectorAll("[data-online]")) {
    control.toggleAttribute("inert", isStale);
  }
}
