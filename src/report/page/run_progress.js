// Plot of the run's objective over generations or candidates: every accepted candidate, and the best so far.
const drawing = {over: "generation", log: true};

function progressPlot(width) {
  const height = Math.min(360, Math.max(250, width * 0.5)), bottom = height - 38;
  const points = data.candidates.filter(candidate => valueOf(candidate) > 0).map(candidate => ({candidate, value: valueOf(candidate)}));
  if (points.length === 0) return el("p", {}, "No candidate has been accepted.");
  const generations = Math.max(1, ...data.generations.map(row => row.generation));
  const inGeneration = new Map();
  for (const point of points) {
    const number = point.candidate.generation;
    inGeneration.set(number, (inGeneration.get(number) || 0) + 1);
    point.place = inGeneration.get(number);
  }
  for (const point of points) {
    const {generation, candidate} = point.candidate;
    // Candidates of a generation are drawn next to each other.
    point.x = drawing.over === "candidate" ? candidate
      : generation + 0.7 * (point.place / (inGeneration.get(generation) + 1) - 0.5);
  }
  // PyTorch's times, and the time to move the data once, if the objective is a time.
  const lines = data.unit.trim() !== "us" ? [] : [["eager_us", "PyTorch eager"], ["compile_us", "torch.compile"], ["floor_us", "floor: the data moved once"]]
    .filter(([key]) => data.references && data.references[key] > 0).map(([key, name]) => ({name, value: data.references[key]}));
  const values = [...points, ...lines].map(point => point.value);
  const y = drawing.log ? logScale(values, bottom, 8) : linearScale(0, 1.05 * Math.max(...values), bottom, 8);
  const x = drawing.over === "candidate" ? linearScale(0, Math.max(...points.map(point => point.x)) + 1, axis, width - 8)
    : linearScale(-0.5, generations + 0.5, axis, width - 8);
  x.ticks = wholeOnly(x.ticks);
  const parts = frame(width, height, x, y, drawing.over, estimates ? "estimate" : data.of_one_call.split(",")[0],
                      value => valueText(value).replace(/\.0+ /, " "), String);
  const steps = drawing.over === "candidate" ? points.map(point => [point.x, point.value])
    : data.generations.filter(row => row.best > 0).map(row => [row.generation, row.best]);
  let path = "", low = Infinity;
  for (const [at, value] of steps) {
    low = Math.min(low, value);
    path += path === "" ? `M${x(at)} ${y(low)}` : `H${x(at)}V${y(low)}`;
  }
  parts.push(titled(svg("path", {class: "line", d: path}), "best so far"));
  for (const line of lines) {
    const cy = y(line.value);
    parts.push(titled(svg("path", {class: "reference", d: `M${axis} ${cy}H${width - 8}`}), `${line.name}: ${valueText(line.value)}`),
               svg("text", {class: "reference", x: width - 10, y: cy - 4, "text-anchor": "end"}, line.name));
  }
  for (const point of points) {
    const text = `candidate ${point.candidate.candidate}: ${valueText(point.value)}${estimates ? " (estimate)" : ""}\n${nameOf(point.candidate)}`;
    const cx = x(point.x), cy = y(point.value);
    const mark = point.candidate === best
      ? svg("path", {class: "mean dot", d: `M${cx - 7} ${cy}L${cx} ${cy - 7}L${cx + 7} ${cy}L${cx} ${cy + 7}Z`})
      : svg("circle", {class: "dot", cx, cy, r: 4.5});
    mark.addEventListener("click", () => choose(point.candidate.candidate, true));
    parts.push(titled(mark, text));
  }
  return svg("svg", {height, viewBox: `0 0 ${width} ${height}`, role: "img",
                     "aria-label": "The best so far and every accepted candidate"}, ...parts);
}

function progress() {
  part("progress", ".caption").append(`${data.of_one_call}: dots are accepted candidates, the diamond is the best, the line the best so far.${data.references ? " Dashed: what the times are compared with." : ""}`);
  const redraw = () => redrawn("progress", progressPlot);
  const box = part("progress", ".choices");
  chooseOne(box, [["generation", "by generation"], ["candidate", "by candidate"]], drawing.over, over => { drawing.over = over; redraw(); });
  chooseOne(box, [[true, "log"], [false, "linear"]], drawing.log, log => { drawing.log = log; redraw(); });
  redraw();
}
