// The points of one run: fetched once, continued by live events, fetched again after a gap. Knows nothing of drawing.
import { on, onReturn } from "./stream.js";

/** Most points of a series in memory; more are fetched thinned. */
const MOST_POINTS = 1500;

const NUMBERS = { NaN: NaN, Infinity: Infinity, "-Infinity": -Infinity };

function number(value) {
  return typeof value === "string" ? NUMBERS[value] : value;
}

/** Keeps the series of a run up to date and calls `changed` with the names that moved. */
export class RunSeries {
  constructor(run, changed) {
    this.run = run;
    this.changed = changed;
    this.byName = new Map();
    this.joins = [];
    this.beside = new Map();
    this.range = null;
    this.waiting = [];
    this.isLoading = false;
    on("metric", (event) => this.take(JSON.parse(event.data)));
    onReturn(() => this.load());
  }

  /** Fetches the points, of a range of steps if one is given. */
  async load(range = this.range) {
    this.range = range;
    this.isLoading = true;
    const query = new URLSearchParams({ format: "json", max_points: MOST_POINTS });
    if (range) {
      query.set("from_step", Math.floor(range[0]));
      query.set("to_step", Math.ceil(range[1]));
    }
    try {
      const answer = await fetch(`/api/v1/runs/${this.run}/metrics?${query}`);
      if (!answer.ok) return;
      const { metrics } = await answer.json();
      this.joins = metrics.joins;
      this.byName.clear();
      for (const series of metrics.series) {
        this.byName.set(series.name, {
          steps: series.points.map((point) => point.step),
          values: series.points.map((point) => number(point.value)),
          total: series.num_points,
        });
      }
      for (const [name, series] of this.beside) this.byName.set(name, series);
      this.changed([...this.byName.keys()]);
    } catch {
      // The stream says when the board is back; the points are fetched again then.
    } finally {
      this.isLoading = false;
      const waiting = this.waiting.splice(0);
      for (const metric of waiting) this.take(metric);
    }
  }

  /** Takes whole series that are no metrics, such as the memory of each rank: names, steps, values. */
  put(entries) {
    for (const [name, steps, values] of entries) {
      const series = { steps, values, total: steps.length };
      this.beside.set(name, series);
      this.byName.set(name, series);
    }
    this.changed(entries.map(([name]) => name));
  }

  /** Adds the numbers of one step. A step that is there already is left as it is; an older one means a resumed run. */
  take(metric) {
    if (metric.run !== this.run || this.range) return;
    if (this.isLoading) {
      this.waiting.push(metric);
      return;
    }
    // The first attempt has no join: attempt n + 1 makes the n-th.
    if (metric.attempt > this.joins.length + 1) this.joins.push(metric.step);
    const moved = [];
    for (const [name, value] of Object.entries(metric.values)) {
      const series = this.byName.get(name) ?? { steps: [], values: [], total: 0 };
      this.byName.set(name, series);
      const last = series.steps.at(-1) ?? -1;
      if (metric.step === last) continue;
      if (metric.step < last) {
        this.load();
        return;
      }
      series.steps.push(metric.step);
      series.values.push(number(value));
      series.total += 1;
      moved.push(name);
      if (series.steps.length > 2 * MOST_POINTS) {
        this.load();
        return;
      }
    }
    if (moved.length) this.changed(moved);
  }

  /** Returns the last step of all series. */
  lastStep() {
    return Math.max(1, ...[...this.byName.values()].map((series) => series.steps.at(-1) ?? 0));
  }
}
