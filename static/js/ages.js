// Keeps relative times fresh and gives each its full stamp in the reader's zone.
const RELATIVE_UNTIL = 86_400;

function write(time, format, stamp) {
  const ms = Number(time.dataset.ms);
  const seconds = Math.max(0, Math.floor((Date.now() - ms) / 1000));
  const date = new Date(ms);
  time.title ||= stamp.format(date);
  if (seconds < 5) return;
  let text;
  if (seconds < 60) text = format.format(-seconds, "second");
  else if (seconds < 3600) text = format.format(-Math.floor(seconds / 60), "minute");
  else if (seconds < RELATIVE_UNTIL) text = format.format(-Math.floor(seconds / 3600), "hour");
  else {
    const two = (number) => String(number).padStart(2, "0");
    text = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}`;
  }
  if (time.textContent !== text) time.textContent = text;
}

/** Starts the clock of the page. */
export function bindAges() {
  const lang = document.body.dataset.lang;
  const format = new Intl.RelativeTimeFormat(lang, { style: "short" });
  const stamp = new Intl.DateTimeFormat(lang, { dateStyle: "medium", timeStyle: "medium" });
  const all = () => document.querySelectorAll("time[data-ms]").forEach((time) => write(time, format, stamp));
  all();
  setInterval(all, 5000);
  document.body.addEventListener("htmx:afterSwap", all);
}
