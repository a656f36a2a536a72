// The plots of a suite. All axes of times and ratios are logarithmic.
// One row for each kernel: its settings as dots with intervals, their geometric mean as a diamond.
function rowsPlot(rows, width, options) {
  const wide = width >= 640, left = wide ? Math.min(280, width * 0.3) : 4, right = width - 12;
  const rowHeight = wide ? 24 : 40, top = 24;
  const values = rows.flatMap(row => row.points.flatMap(point => [point.low, point.high]));
  if (options.one) values.push(1);
  const x = logScale(values, left + 8, right - 8);
  const height = top + rows.length * rowHeight + 8;
  const parts = x.ticks.map(tick => [
    svg("line", {class: "grid", x1: x(tick), x2: x(tick), y1: top - 6, y2: height}),
    svg("text", {class: "dim", x: x(tick), y: top - 10, "text-anchor": "middle"}, options.tick(tick))]);
  if (options.one) parts.push(svg("line", {class: "one", x1: x(1), x2: x(1), y1: top - 6, y2: height}));
  rows.forEach((row, index) => {
    const base = top + index * rowHeight, y = base + (wide ? 12 : 28);
    const label = svg("text", {x: wide ? left - 4 : left, y: wide ? y + 4 : base + 14,
                               "text-anchor": wide ? "end" : "start"},
                      cut(row.name, wide ? left - 8 : width - 12));
    parts.push(titled(label, row.name));
    for (const point of row.points) {
      if (point.high > point.low) {
        parts.push(svg("line", {class: "whisker", x1: x(point.low), x2: x(point.high), y1: y, y2: y}));
      }
      parts.push(titled(svg("circle", {class: "dot", cx: x(point.value), cy: y, r: 4}), point.text));
    }
    if (row.points.length > 1) {
      const m = x(row.mean);
      parts.push(titled(svg("path", {class: "mean", d: `M${m - 6} ${y}L${m} ${y - 6}L${m + 6} ${y}L${m} ${y + 6}Z`}),
                        `${row.name}: ${options.tick(row.mean)} (geometric mean)`));
    }
  });
  return svg("svg", {height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": options.label}, ...parts);
}

// One cell per setting: correct, wrong or not judged.
function cellsPlot(items, width) {
  const wide = width >= 640, left = wide ? Math.min(280, width * 0.3) : 4, cell = 16, gap = 3;
  const perLine = Math.max(1, Math.floor((width - left - 8) / (cell + gap)));
  let y = 4;
  const parts = [];
  for (const item of items) {
    const name = nameOf(item), settings = item.settings || [];
    const label = svg("text", {x: wide ? left - 4 : left, y: y + 12, "text-anchor": wide ? "end" : "start"},
                      cut(name, wide ? left - 8 : width - 12));
    parts.push(titled(label, name));
    if (!wide) y += 18;
    settings.forEach((setting, index) => {
      const kind = passed(setting) ? "passed" : ["failed", "not_run"].includes(setting.status) ? "failed" : "other";
      const cx = left + 4 + (index % perLine) * (cell + gap), cy = y + Math.floor(index / perLine) * (cell + gap);
      parts.push(titled(svg("rect", {class: kind, x: cx, y: cy, width: cell, height: cell, rx: 3}),
                        `${name}, ${setting.id}: ${setting.status}${setting.derived ? ` (derived: ${setting.derived})` : ""}\n${setting.description}`));
      parts.push(svg("text", {class: "mark", x: cx + cell / 2, y: cy + 12, "pointer-events": "none"},
                     kind === "passed" ? "✓" : kind === "failed" ? "✕" : "–"));
    });
    if (settings.length === 0) {
      parts.push(svg("text", {class: "dim", x: left + 4, y: y + 12}, cut(`${item.decision}${item.reasons && item.reasons[0] ? `: ${item.reasons[0].code}` : ""}`, width - left - 8)));
    }
    y += Math.max(1, Math.ceil(settings.length / perLine)) * (cell + gap) + (wide ? 5 : 8);
  }
  return svg("svg", {height: y, viewBox: `0 0 ${width} ${y}`, role: "img",
                     "aria-label": "For every kernel, a cell for each setting: correct, wrong, or not judged"}, ...parts);
}

// fast_p over p: the share of all problems that are solved by more than p times the baseline's speed.
function fastPlot(width) {
  const height = Math.min(340, Math.max(240, width * 0.5)), bottom = height - 38;
  const solved = data.scores.by_problem, all = solved.length;
  const reached = name => solved.filter(problem => problem.best && problem.best[name])
    .map(problem => problem.best[name].speedup).sort((a, b) => a - b);
  const x = logScale([0.5, 2, ...against.flatMap(reached)], axis, width - 8), y = linearScale(0, 1, bottom, 8);
  const parts = frame(width, height, x, y, "p: speed-up over PyTorch", "share of problems", percent, tick => `${+tick.toPrecision(3)}`);
  parts.push(svg("line", {class: "one", x1: x(1), x2: x(1), y1: 8, y2: bottom}));
  against.forEach((name, index) => {
    const values = reached(name);
    let path = `M${axis} ${y(values.length / all)}`;
    values.forEach((value, i) => {
      path += `H${x(value)}V${y((values.length - i - 1) / all)}`;
    });
    parts.push(titled(svg("path", {class: ["curve", "curve second", "curve third"][Math.min(index, 2)], d: `${path}H${width - 8}`}), `against ${name}`));
  });
  return svg("svg", {height, viewBox: `0 0 ${width} ${height}`, role: "img",
                     "aria-label": "fast_p: share of problems solved by more than p times the speed of PyTorch"}, ...parts);
}

function rooflinePoints() {
  const points = [];
  for (const item of data.items) {
    for (const setting of listed(item)) {
      const us = timeOf(setting);
      if (!passed(setting) || !us) continue;
      const work = setting.work || {};
      points.push({us, share: setting.roofline || 0, flops: work.floating_point_operations || 0, bytes: work.bytes || 0,
                   text: `${nameOf(item)}, ${setting.id}: ${time(us)}${estimates ? " (estimate)" : ""}`
                     + (setting.roofline ? `, ${percent(setting.roofline)} of the roofline` : "")});
    }
  }
  return points;
}

// Operations per second over operations per byte, with the roof of this GPU.
function intensityPlot(points, width) {
  const height = Math.min(400, Math.max(260, width * 0.55)), bottom = height - 38;
  for (const point of points) {
    point.x = point.flops / point.bytes;
    point.y = point.flops / (point.us * 1e-6);
  }
  const bandwidth = data.ceilings && data.ceilings.read_bytes, peak = data.ceilings && data.ceilings.fp32_flops;
  const xs = points.map(point => point.x), ys = points.map(point => point.y);
  if (bandwidth && peak) {
    xs.push(peak / bandwidth);
    ys.push(peak);
  }
  const x = logScale(xs, axis, width - 8), y = logScale(ys, bottom, 8);
  const parts = frame(width, height, x, y, "operations per byte", "operations per second", short, short);
  if (bandwidth && peak) {
    const from = Math.exp(Math.log(Math.min(...xs)) - 0.1), to = Math.exp(Math.log(Math.max(...xs)) + 0.1);
    const ridge = peak / bandwidth;
    const start = Math.max(from, Math.min(...ys) / bandwidth);
    parts.push(titled(svg("path", {class: "roof", d: `M${x(start)} ${y(start * bandwidth)}L${x(ridge)} ${y(peak)}L${x(Math.max(to, ridge))} ${y(peak)}`}),
                      `${short(bandwidth)}B/s and ${short(peak)}FLOP/s`));
  }
  for (const point of points) parts.push(titled(svg("circle", {class: "dot", cx: x(point.x), cy: y(point.y), r: 4.5}), point.text));
  return svg("svg", {height, viewBox: `0 0 ${width} ${height}`, role: "img",
                     "aria-label": "Roofline: operations per second over operations per byte"}, ...parts);
}

// For tasks with an unknown number of operations: the share of the roofline that each time reaches.
function sharePlot(points, width) {
  const height = Math.min(340, Math.max(240, width * 0.5)), bottom = height - 38;
  const x = logScale(points.map(point => point.us), axis, width - 8), y = linearScale(0, 1, bottom, 8);
  const parts = frame(width, height, x, y, "time of a call, µs", "share of the roofline", percent, short);
  for (const point of points) parts.push(titled(svg("circle", {class: "dot", cx: x(point.us), cy: y(Math.min(1, point.share)), r: 4.5}), point.text));
  return svg("svg", {height, viewBox: `0 0 ${width} ${height}`, role: "img",
                     "aria-label": "Share of the roofline over the time of a call"}, ...parts);
}
