// The log: new lines are appended while the reader is at the end; scrolling up pauses, and says how many wait.
import { on, onReturn } from "./stream.js";

const MOST_ROWS = 2000;
const LOOK_EVERY_MS = 1000;

function level(line) {
  if (/ERROR|panicked/.test(line)) return "e";
  return line.includes("WARN") ? "w" : "";
}

function plain(line) {
  return line.replace(/\u001b\[[0-9;]*[A-Za-z]/g, "");
}

/** Follows the log of the page. */
export function start() {
  const log = document.getElementById("log");
  const follow = document.getElementById("log-follow");
  let offset = Number(log.dataset.offset);
  let isOver = "over" in log.dataset;
  let isLooking = false;
  let waiting = 0;
  const isAtEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 24;
  const toEnd = () => {
    log.scrollTop = log.scrollHeight;
    waiting = 0;
    follow.hidden = true;
  };
  toEnd();
  follow.addEventListener("click", toEnd);
  log.addEventListener("scroll", () => isAtEnd() && toEnd());

  async function look() {
    if (isLooking || document.hidden) return;
    isLooking = true;
    try {
      const answer = await fetch(`${log.dataset.from}&offset=${offset}`);
      if (!answer.ok) return;
      const part = (await answer.json()).log;
      offset = part.next_offset;
      const lines = part.text.split("\n");
      if (lines.at(-1) === "") lines.pop();
      if (!lines.length) return;
      document.getElementById("log-empty")?.remove();
      const wasAtEnd = isAtEnd();
      for (const line of lines) {
        const row = document.createElement("div");
        row.textContent = plain(line);
        row.className = level(line);
        log.append(row);
      }
      while (log.childElementCount > MOST_ROWS && wasAtEnd) log.firstElementChild.remove();
      if (wasAtEnd) toEnd();
      else {
        waiting += lines.length;
        follow.hidden = false;
        follow.textContent = follow.dataset.new.replace("{0}", waiting);
      }
    } catch {
      // The stream says when the board is back.
    } finally {
      isLooking = false;
    }
  }
  if (!isOver) setInterval(() => isOver || look(), LOOK_EVERY_MS);
  onReturn(look);
  on("end", (event) => {
    if (!log.dataset.from.includes(JSON.parse(event.data).run)) return;
    isOver = true;
    look();
  });
}
