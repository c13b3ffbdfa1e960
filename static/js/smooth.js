// Smoothing and the way numbers are written.

/** Returns the weight of LLaMA-Factory's average, which grows with the number of points. */
export function lfWeight(count) {
  return 1.8 * (1 / (1 + Math.exp(-0.05 * count)) - 0.5);
}

/** The slider's end, where the weight is LLaMA-Factory's. */
export const LF = 100;

/** Returns the weight that a place of the slider stands for. */
export function weightOf(place, count) {
  return place === LF ? lfWeight(count) : place / 100;
}

/** Returns the exponential average of values, seeded with the first. What is no finite number stays and leaves it alone. */
export function smooth(values, weight) {
  let last = null;
  return values.map((value) => {
    if (!Number.isFinite(value)) return value;
    last = last === null ? value : last * weight + (1 - weight) * value;
    return last;
  });
}

/** Writes a measured value with sensible digits, as the server does. */
export function figure(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 1e-2 || size >= 1e6) return value.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
  if (size >= 1000) return value.toFixed(0);
  return value.toFixed(size < 0.1 ? 4 : size < 10 ? 3 : size < 100 ? 2 : 1);
}

function tick(value, digits) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-2 || size >= 1e6) return value.toExponential(digits).replace(/\.?0+e/, "e").replace("e+", "e");
  return String(Number(value.toPrecision(digits + 3)));
}

/** Writes the ticks of an axis, with as many digits as tell them apart. */
export function ticks(values) {
  const shown = values.filter((value) => value !== null);
  let digits = 1;
  while (digits < 5 && new Set(shown.map((value) => tick(value, digits))).size < shown.length) digits += 1;
  return values.map((value) => (value === null ? "" : tick(value, digits)));
}
