// The curves of a run: one panel a metric, one x range and one crosshair for all, at most five pictures a second.
import { Panel } from "./panel.js";
import { RunSeries } from "./series.js";
import { LF, weightOf } from "./smooth.js";

const DRAW_EVERY_MS = 200;
const PANELS_A_FRAME = 2;

const view = { smooth: LF, isLog: false, range: null };
const page = { view, schedule, zoom, resetZoom, run: null };
let run;
let panels = [];
const dirty = new Set();
let isDue = false;

function schedule(panel) {
  dirty.add(panel);
  if (isDue) return;
  isDue = true;
  setTimeout(() => requestAnimationFrame(flush), DRAW_EVERY_MS);
}

function flush() {
  isDue = false;
  if (document.hidden) return;
  const ready = [...dirty].filter((panel) => panel.isVisible).slice(0, PANELS_A_FRAME);
  for (const panel of ready) {
    dirty.delete(panel);
    panel.draw();
  }
  if ([...dirty].some((panel) => panel.isVisible)) {
    isDue = true;
    requestAnimationFrame(flush);
  }
}

function zoom(plot) {
  if (plot.select.width < 4) return;
  view.range = [plot.posToVal(plot.select.left, "x"), plot.posToVal(plot.select.left + plot.select.width, "x")];
  plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  applyZoom();
}

function resetZoom() {
  if (!view.range) return;
  view.range = null;
  applyZoom();
}

function applyZoom() {
  document.getElementById("reset-zoom").disabled = !view.range;
  keep();
  run.load(view.range);
}

function keep() {
  const url = new URL(location.href);
  const set = (name, value) => (value === null ? url.searchParams.delete(name) : url.searchParams.set(name, value));
  set("smooth", view.smooth === LF ? null : view.smooth / 100);
  set("log", view.isLog ? 1 : null);
  set("steps", view.range ? view.range.map(Math.round).join("-") : null);
  history.replaceState(null, "", url);
}

function restore() {
  const query = new URL(location.href).searchParams;
  if (query.has("smooth")) view.smooth = Math.min(99, Math.max(0, Math.round(Number(query.get("smooth")) * 100))) || 0;
  view.isLog = query.has("log");
  const steps = query.get("steps")?.split("-").map(Number);
  if (steps?.length === 2 && steps[0] < steps[1]) view.range = steps;
}

function sayState() {
  const loss = run.byName.get("loss");
  const count = loss?.values.length ?? 0;
  const weight = weightOf(view.smooth, count);
  const output = document.getElementById("smooth-value");
  output.textContent = view.smooth === LF ? `LF ${weight.toFixed(2)}` : weight.toFixed(2);
  document.getElementById("smooth").setAttribute("aria-valuetext", output.textContent);
  const note = document.getElementById("chart-points");
  if (loss) note.textContent = loss.total > count ? note.dataset.some.replace("{0}", count).replace("{1}", loss.total) : note.dataset.all;
}

/** Replaces the pictures that came with the page by live curves of the same box. */
export async function start() {
  const root = document.getElementById("panels");
  restore();
  panels = [...root.querySelectorAll(".panel")].map((panel) => new Panel(panel, page));
  const moved = (names) => {
    sayState();
    for (const panel of panels) if (panel.names.some((name) => names.includes(name))) schedule(panel);
  };
  run = new RunSeries(root.dataset.run, moved);
  page.run = run;
  const slider = document.getElementById("smooth");
  slider.value = view.smooth;
  slider.addEventListener("input", () => {
    view.smooth = Number(slider.value);
    keep();
    sayState();
    for (const panel of panels) if (panel.isSmoothed) panel.rebuild();
  });
  const log = document.getElementById("log-y");
  log.checked = view.isLog;
  log.addEventListener("change", () => {
    view.isLog = log.checked;
    keep();
    for (const panel of panels) panel.rebuild();
  });
  const reset = document.getElementById("reset-zoom");
  reset.disabled = !view.range;
  reset.addEventListener("click", resetZoom);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => panels.forEach((panel) => panel.rebuild()));
  document.addEventListener("visibilitychange", () => !document.hidden && panels.forEach(schedule));
  document.body.addEventListener("htmx:afterSettle", (event) => event.target.id === "memory-points" && takeMemory());
  await run.load(view.range);
  takeMemory();
}

function takeMemory() {
  const points = document.getElementById("memory-points")?.value;
  if (points) run.put(JSON.parse(points));
}
