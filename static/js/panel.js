// One panel of curves, drawn by uPlot: raw line behind the smoothed one, marks, values docked in the head.
import { drawJoins, drawLevel, drawNaN, drawPoint } from "./marks.js";
import { figure, smooth, ticks, weightOf } from "./smooth.js";

function colour(name) {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

// The width that the labels of an axis take.
function widest(plot, labels) {
  const context = plot.ctx;
  context.save();
  context.font = `${12 * devicePixelRatio}px "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif`;
  const width = Math.max(20, ...(labels ?? []).map((label) => context.measureText(label).width / devicePixelRatio));
  context.restore();
  return Math.ceil(width) + 10;
}

function faint(value) {
  return value.replace(/^rgb\(([^)]*)\)$/, "rgba($1, 0.3)");
}

/** One panel of curves. `page` holds the run, the view that all panels share, and what a panel asks of the others. */
export class Panel {
  constructor(root, page) {
    this.root = root;
    this.page = page;
    this.box = root.querySelector(".plot");
    this.names = root.dataset.names.split(",");
    this.isSmoothed = root.dataset.smooth === "true";
    this.level = root.dataset.line ? Number(root.dataset.line) : null;
    this.isVisible = true;
    if (this.names[0] === "loss") this.names = ["loss", "eval_loss"];
    new IntersectionObserver(([entry]) => {
      this.isVisible = entry.isIntersecting;
      if (this.isVisible) page.schedule(this);
    }).observe(root);
    new ResizeObserver(() => this.plot?.setSize(this.size())).observe(this.box);
  }

  size() {
    return { width: this.box.clientWidth, height: this.box.clientHeight };
  }

  /** Returns uPlot's columns: steps, then raw, smoothed and further series. `undefined` is no point, `null` a break. */
  columns() {
    const { run, view } = this.page;
    const series = this.names.map((name) => run.byName.get(name)).map((found) => found ?? { steps: [], values: [] });
    const steps = [...new Set(series.flatMap((one) => one.steps))].sort((a, b) => a - b);
    const drawable = (value) => (value === undefined ? undefined : Number.isFinite(value) && !(view.isLog && value <= 0) ? value : null);
    const column = (one, values) => {
      const at = new Map(one.steps.map((step, index) => [step, values[index]]));
      return steps.map((step) => drawable(at.get(step)));
    };
    const first = series[0];
    const weight = weightOf(view.smooth, first.values.length);
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
    this.sayBest();
  }

  /** Writes the best evaluation below its curve. */
  sayBest() {
    const best = this.best();
    const words = document.getElementById("panels").dataset.best;
    const foot = this.root.querySelector(".panel-foot span");
    if (best >= 0) foot.textContent = words.replace("{0}", figure(this.other.values[best])).replace("{1}", this.other.steps[best]);
  }

  best() {
    if (!this.other || !this.names[1].startsWith("eval_")) return -1;
    const { values } = this.other;
    return values.reduce((best, value, index) => (Number.isFinite(value) && !(value >= values[best]) ? index : best), -1);
  }

  build(data) {
    const { run, view } = this.page;
    const colours = this.names.map((_, index) => colour(`--c${index + 1}`));
    this.palette = { text: colour("--text-3"), grid: colour("--border"), bad: colour("--bad"), lines: colours };
    const dash = matchMedia("(forced-colors: active)").matches ? [6, 3] : undefined;
    const isRawAlone = !this.isSmoothed || view.smooth === 0;
    const axis = { stroke: this.palette.text, grid: { stroke: this.palette.grid, width: 1 }, ticks: { show: false }, font: '12px "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif' };
    this.box.replaceChildren();
    this.plot = new uPlot(
      {
        ...this.size(),
        legend: { show: false },
        padding: [8, 12, 0, 0],
        cursor: { sync: { key: "run", scales: ["x", null], setSeries: false }, drag: { x: true, y: false, setScale: false }, y: false, points: { size: 6 } },
        scales: { x: { time: false, range: () => view.range ?? [0, run.lastStep()] }, y: { distr: view.isLog ? 3 : 1 } },
        axes: [
          { ...axis, size: 24, gap: 2, space: 60, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6] },
          { ...axis, size: (plot, labels) => widest(plot, labels), gap: 4, values: (_, values) => ticks(values) },
        ],
        series: [
          {},
          { stroke: isRawAlone ? colours[0] : faint(colours[0]), width: isRawAlone ? 1.75 : 1.25, points: { show: this.first.steps.length < 2, size: 5 } },
          { stroke: colours[0], width: 2, points: { show: false } },
          ...colours.slice(1).map((stroke, index) => ({ stroke, dash, width: 1.75, spanGaps: true, points: { show: this.names[index + 1].startsWith("eval_"), size: 5, fill: stroke } })),
        ],
        hooks: { draw: [() => this.mark()], setCursor: [(plot) => this.dock(plot.cursor.idx)], setSelect: [(plot) => this.page.zoom(plot)] },
      },
      data,
      this.box,
    );
    this.plot.over.addEventListener("dblclick", this.page.resetZoom);
  }

  mark() {
    const { plot, palette } = this;
    if (!plot) return;
    drawJoins(plot, this.page.run.joins, palette.text);
    if (this.level) drawLevel(plot, this.level, palette.text);
    drawNaN(plot, this.nan, palette.bad);
    const best = this.best();
    if (best >= 0) drawPoint(plot, this.other.steps[best], this.other.values[best], palette.lines[1], false);
    const last = plot.data[0].length - 1;
    drawPoint(plot, plot.data[0][last], plot.data[2][last] ?? plot.data[1][last], palette.lines[0], true);
  }

  /** Writes the values at the crosshair, or the last ones, into the head. */
  dock(index) {
    for (const label of this.root.querySelectorAll(".series")) {
      const place = this.names.indexOf(label.dataset.name);
      const series = this.page.run.byName.get(label.dataset.name);
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
    this.page.schedule(this);
  }
}
