// What every page does: live blocks, ages, tab title and icon, menus, dialogs; charts and log where the page has them.
import { connect } from "./stream.js";
import { bindKeys } from "./keys.js";
import { bindForm } from "./form.js";
import { bindDraft } from "./draft.js";
import { bindFailures } from "./failure.js";
import { bindFind } from "./find.js";
import { bindAges } from "./ages.js";

document.documentElement.classList.add("has-script");
connect();
bindKeys();
bindForm();
bindFailures();
bindFind();
bindAges();

if (document.getElementById("panels")) import("./chart.js").then((chart) => chart.start());
if (document.getElementById("log")) import("./log.js").then((log) => log.start());

// After htmx is ready, which is when the page is.
addEventListener("DOMContentLoaded", bindDraft);

// The title and the icon of the tab follow the block that htmx has just put in.
let said = document.getElementById("run-live")?.dataset.state;
document.body.addEventListener("htmx:afterSwap", () => {
  const live = document.getElementById("run-live");
  if (!live) return;
  document.title = live.dataset.title;
  const icon = document.getElementById("tab-icon");
  if (icon.getAttribute("href") !== live.dataset.icon) icon.setAttribute("href", live.dataset.icon);
  if (live.dataset.state !== said) {
    said = live.dataset.state;
    document.getElementById("say").textContent = live.dataset.say;
  }
});

// What a reader unfolded stays unfolded in the block that comes in its place.
const unfolded = new Set();
document.body.addEventListener("htmx:beforeSwap", ({ detail }) => {
  unfolded.clear();
  for (const part of detail.target?.querySelectorAll("details[id][open]") ?? []) unfolded.add(part.id);
});
document.body.addEventListener("htmx:afterSwap", () => {
  for (const id of unfolded) document.getElementById(id)?.setAttribute("open", "");
});

// Dialogs open over the page; without script the same button leads to a page that asks.
document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-dialog]");
  const dialog = opener && document.getElementById(opener.dataset.dialog);
  if (dialog) {
    event.preventDefault();
    opener.closest("details")?.removeAttribute("open");
    const words = dialog.querySelector("[data-from]");
    if (words) words.textContent = document.getElementById("run-live").dataset[words.dataset.from];
    dialog.showModal();
    dialog.addEventListener("close", () => opener.isConnected && opener.focus(), { once: true });
    return;
  }
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
  const row = event.target.closest("tr[data-href]");
  if (row && !event.target.closest("a,button,input") && !String(getSelection())) location.href = row.dataset.href;
});

document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && event.target.closest?.("details.menu[open]");
  if (menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

// Copying a command.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
  const before = button.lastChild.textContent;
  button.lastChild.textContent = button.dataset.done;
  setTimeout(() => (button.lastChild.textContent = before), 2000);
});
