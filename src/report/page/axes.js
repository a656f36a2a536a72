// Axes of plots, as SVG.
const axis = 62;  // x position of a plot's y axis
function logScale(values, from, to) {
  let low = Math.log(Math.min(...values)), high = Math.log(Math.max(...values));
  const room = Math.max(0.06 * (high - low), 0.12);
  low -= room;
  high += room;
  const scale = value => from + (Math.log(value) - low) / (high - low) * (to - from);
  const decades = (high - low) / Math.LN10;
  const steps = decades > 5 ? [1] : decades > 1.6 ? [1, 3] : decades > 0.7 ? [1, 2, 5] : [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8];
  scale.ticks = [];
  for (let k = Math.floor(low / Math.LN10) - 1; k <= high / Math.LN10; ++k) {
    for (const step of steps) {
      const tick = step * 10 ** k;
      if (Math.log(tick) >= low && Math.log(tick) <= high) scale.ticks.push(tick);
    }
  }
  // Labels must not overlap.
  let last = -Infinity;
  scale.ticks = scale.ticks.filter(tick => {
    if (Math.abs(scale(tick) - last) < 44) return false;
    last = scale(tick);
    return true;
  });
  return scale;
}

const short = value => value >= 1e12 ? `${+(value / 1e12).toPrecision(3)}T` : value >= 1e9
  ? `${+(value / 1e9).toPrecision(3)}G` : value >= 1e6 ? `${+(value / 1e6).toPrecision(3)}M`
  : value >= 1e4 ? `${+(value / 1e3).toPrecision(3)}k` : `${+value.toPrecision(3)}`;
const titled = (shape, text) => { shape.append(svg("title", {}, text)); return shape; };
const cut = (text, width) => text.length * 6.6 <= width ? text : `${text.slice(0, Math.max(1, Math.floor(width / 6.6) - 1))}…`;

function frame(width, height, x, y, xText, yText, yTick, xTick) {
  const left = axis, bottom = height - 38, parts = [];
  for (const tick of y.ticks) {
    parts.push(svg("line", {class: "grid", x1: left, x2: width - 8, y1: y(tick), y2: y(tick)}),
               svg("text", {class: "dim", x: left - 6, y: y(tick) + 4, "text-anchor": "end"}, yTick(tick)));
  }
  for (const tick of x.ticks) {
    parts.push(svg("line", {class: "grid", x1: x(tick), x2: x(tick), y1: 8, y2: bottom}),
               svg("text", {class: "dim", x: x(tick), y: bottom + 15, "text-anchor": "middle"}, xTick(tick)));
  }
  parts.push(svg("text", {class: "dim", x: (left + width) / 2, y: height - 5, "text-anchor": "middle"}, xText),
             svg("text", {class: "dim", x: 13, y: bottom / 2, "text-anchor": "middle",
                          transform: `rotate(-90 13 ${bottom / 2})`}, yText));
  return parts;
}

const wholeOnly = ticks => ticks.filter(tick => Math.abs(tick - Math.round(tick)) < 1e-6).map(Math.round);

// A linear scale from `low` to `high`, with round ticks.
function linearScale(low, high, from, to) {
  const span = high > low ? high - low : 1;
  const scale = value => from + (value - low) / span * (to - from);
  const power = 10 ** Math.floor(Math.log10(span / 4)), step = [1, 2, 5, 10].find(n => span / (n * power) <= 6) * power;
  scale.ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * span; ++k) scale.ticks.push(k * step);
  return scale;
}
