// The keyboard: a letter goes somewhere, `/` to the filter, Ctrl+Enter starts. None fires while somebody types.
const PLACES = { r: "/runs", d: "/datasets", m: "/models" };

function letter(event) {
  if (/^[a-z/]$/.test(event.key)) return event.key;
  const match = /^Key([A-Z])$/.exec(event.code);
  if (match) return match[1].toLowerCase();
  return event.code === "Slash" ? "/" : "";
}

function isTyping(event) {
  const { target } = event;
  return event.isComposing || target.isContentEditable || /^(input|textarea|select)$/i.test(target.tagName);
}

function move(step) {
  const rows = [...document.querySelectorAll("tr[data-href] th a")];
  const now = rows.indexOf(document.activeElement);
  rows[Math.min(rows.length - 1, Math.max(0, now + step))]?.focus();
}

/** Listens for keys. */
export function bindKeys() {
  let isGoing = false;
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      document.querySelector("[data-key-start]")?.click();
      return;
    }
    if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
    const key = letter(event);
    if (isGoing && PLACES[key]) location.href = PLACES[key];
    isGoing = key === "g";
    if (isGoing) return;
    if (key === "j" || event.key === "ArrowDown") move(1);
    else if (key === "k" || event.key === "ArrowUp") move(-1);
    else if (/^[1-4]$/.test(event.key)) document.querySelectorAll(".tabs a")[Number(event.key) - 1]?.click();
    else {
      const target = document.querySelector(`[data-key="${CSS.escape(key)}"]`);
      if (!key || !target) return;
      event.preventDefault();
      if (target.matches("input")) target.focus();
      else target.click();
    }
  });
}
