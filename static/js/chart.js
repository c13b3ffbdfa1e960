// The curves of a run: one panel a metric, one x range and one crosshair for all, at most five pictures a second.
import { RunSeries } from "./series.js";
import { drawJoins, drawLevel, drawNaN, drawPoint } from "./marks.js";
import { figure, lfWeight, smooth, tick } from "./smooth.js";

const DRAW_EVERY_MS = 200;
const PANELS_A_FRAME = 2;
const LF = 100;

const view = { smooth: LF, isLog: false, range: null };
let run;
let panels = [];
const dirty = new Set();
let isDue = false;

function colour(name) {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

function faint(value) {
  return value.replace(/^rgb\(([^)]*)\)$/, "rgba($1, 0.3)");
}

class Panel {
  constructor(root) {
    this.root = root;
    this.box = root.querySelector(".plot");
    this.names = root.dataset.names.split(",");
    this.isSmoothed = root.dataset.smooth === "true";
    this.level = root.dataset.line ? Number(root.dataset.line) : null;
    this.isVisible = true;
    if (this.names[0] === "loss") this.names = ["loss", "eval_loss"];
    new IntersectionObserver(([entry]) => {
      this.isVisible = entry.isIntersecting;
      if (this.isVisible) schedule(this);
    }).observe(root);
    new ResizeObserver(() => this.plot?.setSize(this.size())).observe(this.box);
  }

  size() {
    return { width: this.box.clientWidth, height: this.box.clientHeight };
  }

  /** Returns uPlot's columns: steps, then raw, smoothed and further series. `undefined` is no point, `null` a break. */
  columns() {
    const series = this.names.map((name) => run.byName.get(name)).map((found) => found ?? { steps: [], values: [] });
    const steps = [...new Set(series.flatMap((one) => one.steps))].sort((a, b) => a - b);
    const drawable = (value) => (value === undefined ? undefined : Number.isFinite(value) && !(view.isLog && value <= 0) ? value : null);
    const column = (one, values) => {
      const at = new Map(one.steps.map((step, index) => [step, values[index]]));
      return steps.map((step) => drawable(at.get(step)));
    };
    const first = series[0];
    const weight = view.smooth === LF ? lfWeight(first.values.length) : view.smooth / 100;
    const smoothed = this.isSmoothed && weight > 0 ? column(first, smooth(first.values, weight)) : steps.map(() => undefined);
    this.nan = first.steps.filter((_, index) => !Number.isFinite(first.values[index]));
    this.first = first;
    this.other = series[1];
    return [steps, column(first, first.values), smoothed, ...series.slice(1).map((one) => column(one, one.values))];
  }

  draw() {
    const data = this.columns();
    this.box.dataset.points = this.first.steps.length;
    if (data[0].length === 0) return;
    if (!this.plot) this.build(data);
    else this.plot.setData(data);
    this.dock(null);
  }

  build(data) {
    const colours = this.names.map((_, index) => colour(`--c${index + 1}`));
    this.palette = { text: colour("--text-3"), grid: colour("--border"), bad: colour("--bad"), lines: colours };
    const isRawAlone = !this.isSmoothed || view.smooth === 0;
    const axis = { stroke: this.palette.text, grid: { stroke: this.palette.grid, width: 1 }, ticks: { show: false }, font: '12px "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif' };
    this.box.replaceChildren();
    this.plot = new uPlot(
      {
        ...this.size(),
        legend: { show: false },
        cursor: { sync: { key: "run", scales: ["x", null], setSeries: false }, drag: { x: true, y: false, setScale: false }, y: false, points: { size: 6 } },
        scales: { x: { time: false, range: () => view.range ?? [0, run.lastStep()] }, y: { distr: view.isLog ? 3 : 1 } },
        axes: [
          { ...axis, size: 24, gap: 2, space: 60, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6] },
          { ...axis, size: 52, gap: 4, values: (_, ticks) => ticks.map((value) => (value === null ? "" : tick(value))) },
        ],
        series: [
          {},
          { stroke: isRawAlone ? colours[0] : faint(colours[0]), width: isRawAlone ? 1.75 : 1.25, points: { show: this.first.steps.length < 2, size: 5 } },
          { stroke: colours[0], width: 2, points: { show: false } },
          ...colours.slice(1).map((stroke) => ({ stroke, width: 1.75, spanGaps: true, points: { show: true, size: 5, fill: stroke } })),
        ],
        hooks: { draw: [() => this.mark()], setCursor: [(plot) => this.dock(plot.cursor.idx)], setSelect: [(plot) => zoom(plot)] },
      },
      data,
      this.box,
    );
    this.plot.over.addEventListener("dblclick", resetZoom);
  }

  mark() {
    const { plot, palette } = this;
    if (!plot) return;
    drawJoins(plot, run.joins, palette.text);
    if (this.level) drawLevel(plot, this.level, palette.text);
    drawNaN(plot, this.nan, palette.bad);
    const best = this.other?.values.reduce((best, value, index) => (value < (this.other.values[best] ?? Infinity) ? index : best), -1);
    if (best >= 0) drawPoint(plot, this.other.steps[best], this.other.values[best], palette.lines[1], false);
    const last = plot.data[0].length - 1;
    drawPoint(plot, plot.data[0][last], plot.data[2][last] ?? plot.data[1][last], palette.lines[0], true);
  }

  /** Writes the values at the crosshair, or the last ones, into the head. */
  dock(index) {
    for (const label of this.root.querySelectorAll(".series")) {
      const place = this.names.indexOf(label.dataset.name);
      const series = run.byName.get(label.dataset.name);
      if (place < 0 || !series) continue;
      const step = index == null ? null : this.plot?.data[0][index];
      const at = step == null ? series.values.length - 1 : series.steps.indexOf(step);
      label.querySelector("b").textContent = at < 0 ? "–" : figure(series.values[at]);
      label.title = step == null ? "" : `${document.getElementById("panels").dataset.step} ${step}`;
    }
  }

  rebuild() {
    this.plot?.destroy();
    this.plot = null;
    schedule(this);
  }
}

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
  const weight = view.smooth === LF ? lfWeight(count) : view.smooth / 100;
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
  panels = [...root.querySelectorAll(".panel")].map((panel) => new Panel(panel));
  const moved = (names) => {
    sayState();
    for (const panel of panels) if (panel.names.some((name) => names.includes(name))) schedule(panel);
  };
  run = new RunSeries(root.dataset.run, moved);
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
  await run.load(view.range);
}
