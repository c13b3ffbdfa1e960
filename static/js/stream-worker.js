// One stream of events for all tabs of the browser. Each tab says hello by a port and gets every event as a message.
const KINDS = ["metric", "log", "state", "stage", "checkpoint", "alert", "sample", "end"];
const ports = new Set();
let source = null;
let lastId = "";
let status = "connecting";

function tell(message) {
  for (const port of ports) port.postMessage(message);
}

function open(url, since) {
  if (source && source.readyState !== EventSource.CLOSED) return;
  lastId ||= since;
  const at = lastId ? `${url}?last_event_id=${encodeURIComponent(lastId)}` : url;
  source = new EventSource(at);
  source.onopen = () => {
    status = "open";
    tell({ status });
  };
  source.onerror = () => {
    status = "lost";
    tell({ status });
    if (source.readyState === EventSource.CLOSED) setTimeout(() => open(url, ""), 2000);
  };
  for (const kind of KINDS) {
    source.addEventListener(kind, (event) => {
      if (event.lastEventId) lastId = event.lastEventId.replace(/-end$/, "");
      tell({ kind, data: event.data, id: event.lastEventId });
    });
  }
}

onconnect = (hello) => {
  const port = hello.ports[0];
  ports.add(port);
  port.onmessage = (message) => {
    if (message.data.bye) ports.delete(port);
    if (message.data.url) {
      port.postMessage({ status, isBehind: Number(lastId || 0) > Number(message.data.since || 0) });
      open(message.data.url, message.data.since);
    }
  };
};
