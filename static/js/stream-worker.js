// One stream of events for all tabs of the browser. Each tab says hello by a port and gets every event as a message.
import { listen } from "./source.js";

const ports = new Set();
let status = "connecting";
let lastId = null;

function tell(message) {
  if (message.status) status = message.status;
  for (const port of ports) port.postMessage(message);
}

onconnect = (hello) => {
  const port = hello.ports[0];
  ports.add(port);
  port.onmessage = ({ data }) => {
    if (data.bye) ports.delete(port);
    if (!data.url) return;
    lastId ??= listen(data.url, data.since, tell);
    port.postMessage({ status, isBehind: Number(lastId() || 0) > Number(data.since || 0) });
  };
};
