// What stands on a curve beside its lines: NaN, evaluations, the best one, resume joins, a reference line, the live edge.

function withContext(plot, draw) {
  const { ctx } = plot;
  ctx.save();
  ctx.lineWidth = devicePixelRatio * 1.5;
  draw(ctx, plot.bbox, devicePixelRatio);
  ctx.restore();
}

function inside(box, x) {
  return x >= box.left && x <= box.left + box.width;
}

/** Draws a cross at the upper edge for every step whose value is no number. */
export function drawNaN(plot, steps, colour) {
  withContext(plot, (ctx, box, ratio) => {
    ctx.strokeStyle = colour;
    const arm = 4 * ratio;
    for (const step of steps) {
      const x = plot.valToPos(step, "x", true);
      if (!inside(box, x)) continue;
      const y = box.top + arm + ratio;
      ctx.beginPath();
      ctx.moveTo(x - arm, y - arm);
      ctx.lineTo(x + arm, y + arm);
      ctx.moveTo(x + arm, y - arm);
      ctx.lineTo(x - arm, y + arm);
      ctx.stroke();
    }
  });
}

/** Draws two upright lines where a resumed attempt begins. */
export function drawJoins(plot, steps, colour) {
  withContext(plot, (ctx, box, ratio) => {
    ctx.strokeStyle = colour;
    ctx.lineWidth = ratio;
    for (const step of steps) {
      const x = plot.valToPos(step, "x", true);
      if (!inside(box, x)) continue;
      for (const offset of [-1.5 * ratio, 1.5 * ratio]) {
        ctx.beginPath();
        ctx.moveTo(x + offset, box.top);
        ctx.lineTo(x + offset, box.top + box.height);
        ctx.stroke();
      }
    }
  });
}

/** Draws a dashed level line. */
export function drawLevel(plot, value, colour) {
  const { min, max } = plot.scales.y;
  if (!(value > min && value < max)) return;
  withContext(plot, (ctx, box, ratio) => {
    const y = plot.valToPos(value, "y", true);
    ctx.strokeStyle = colour;
    ctx.lineWidth = ratio;
    ctx.setLineDash([5 * ratio, 4 * ratio]);
    ctx.beginPath();
    ctx.moveTo(box.left, y);
    ctx.lineTo(box.left + box.width, y);
    ctx.stroke();
  });
}

/** Draws a ring around one point, filled for the live edge. */
export function drawPoint(plot, step, value, colour, isFilled) {
  if (!Number.isFinite(value)) return;
  withContext(plot, (ctx, box, ratio) => {
    const x = plot.valToPos(step, "x", true);
    const y = plot.valToPos(value, "y", true);
    if (!inside(box, x)) return;
    ctx.strokeStyle = colour;
    ctx.fillStyle = colour;
    ctx.beginPath();
    ctx.arc(x, y, (isFilled ? 3 : 5.5) * ratio, 0, 2 * Math.PI);
    if (isFilled) ctx.fill();
    else ctx.stroke();
  });
}
