// The live events of the board, one stream a browser: a SharedWorker holds it, else the tab that has the lock, else each tab.
// htmx's stream extension gets its source from here too, and `board:tick` asks live blocks for a fresh picture.
import { listen } from "./source.js";

/** A stream that is away this long is shown so; an open one that is silent this long is no better. */
const STALE_MS = { lost: 4000, open: 20_000 };

const listeners = new Map();
let status = "connecting";
let lastSeen = Date.now();
let lastId = "";
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
  if (id) lastId = id.replace(/-end$/, "");
  if (kind === "ping") return showChip();
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
  lastId = since;
  if (window.SharedWorker && worker) {
    const shared = new SharedWorker(worker, { name: "board-stream", type: "module" });
    shared.port.onmessage = (message) => receive(message.data);
    shared.port.start();
    shared.port.postMessage({ url: stream, since });
    addEventListener("pagehide", () => shared.port.postMessage({ bye: true }));
    addEventListener("pageshow", (event) => event.persisted && location.reload());
  } else if (navigator.locks && window.BroadcastChannel) {
    lead(stream);
  } else {
    listen(stream, since, receive);
  }
  setInterval(showChip, 1000);
  setInterval(() => !document.hidden && status === "open" && document.body.dispatchEvent(new CustomEvent("board:beat")), 5000);
  document.addEventListener("visibilitychange", () => !document.hidden && refresh());
  document.querySelector("#stream-chip button")?.addEventListener("click", () => location.reload());
}

// The tab that has the lock holds the stream and passes every event on; when it closes, the next one takes over.
function lead(stream) {
  const channel = new BroadcastChannel("board-stream");
  let isLeading = false;
  const isBehind = (id) => Number(id || 0) > Number(lastId || 0);
  channel.onmessage = ({ data }) => {
    if (data.hello) {
      if (isLeading) channel.postMessage({ status, at: lastId });
    } else if (!isLeading) {
      receive(data.at === undefined ? data : { status: data.status, isBehind: isBehind(data.at) });
    }
  };
  channel.postMessage({ hello: true });
  navigator.locks.request("board-stream", () => {
    isLeading = true;
    listen(stream, lastId, (message) => {
      receive(message);
      channel.postMessage(message);
    });
    return new Promise(() => {});
  });
}

function span(ms) {
  const seconds = Math.floor(ms / 1000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

// Silent while the stream is well; amber after a while without it, red when the board is gone.
function showChip() {
  const chip = document.getElementById("stream-chip");
  if (!chip) return;
  const away = Date.now() - lastSeen;
  const isStale = away > (STALE_MS[status] ?? STALE_MS.open);
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
