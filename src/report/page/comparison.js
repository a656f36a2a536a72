// The page of a comparison of runs.
const seriesOf = index => `series${index % 6}`;
const configurationOf = run => data.configurations.findIndex(configuration => configuration.runs.includes(run));
let over = "gain_by_generation";

function gainPlot(width) {
  const height = Math.min(380, Math.max(250, width * 0.5)), bottom = height - 38;
  const lines = data.runs.map((run, index) => ({run, index, points: run[over]})).filter(line => line.points.length > 0);
  if (lines.length === 0) return el("p", {}, "No run has accepted a candidate.");
  const all = lines.flatMap(line => line.points);
  const end = Math.max(1, ...all.map(([at]) => at));
  const x = linearScale(0, end, axis, width - 8), y = logScale([1, ...all.map(([, gain]) => gain)], bottom, 8);
  x.ticks = wholeOnly(x.ticks);
  const parts = frame(width, height, x, y, over === "gain_by_generation" ? "generation" : "judged candidates", "gain",
                      tick => `${+tick.toPrecision(3)}×`, String);
  parts.push(svg("line", {class: "one", x1: axis, x2: width - 8, y1: y(1), y2: y(1)}));
  for (const {run, index, points} of lines) {
    const configuration = configurationOf(index);
    const path = points.map(([at, gain], place) => place === 0 ? `M${x(at)} ${y(gain)}` : `H${x(at)}V${y(gain)}`).join("");
    parts.push(titled(svg("path", {class: `series ${seriesOf(configuration)}`, d: path}),
                      `${data.configurations[configuration].label}: ${run.run}, seed ${run.seed}: ${times(run.gain)}`));
  }
  return svg("svg", {height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Gain of each run"}, ...parts);
}

function gains() {
  part("gains", ".legend").append(...data.configurations.map((configuration, index) =>
    el("li", {class: seriesOf(index)}, el("span", {class: "swatch"}), configuration.label)));
  const redraw = () => redrawn("gains", gainPlot);
  chooseOne(part("gains", ".choices"), [["gain_by_generation", "over generations"], ["gain_by_judged", "over judged candidates"]], over,
            value => { over = value; redraw(); });
  redraw();
}

put("about", data.subject);
for (const note of data.notes) remark(note);
part("differences", ".body").append(data.differences.length === 0 ? el("p", {}, "All runs have the same configuration.")
  : plainTable([{title: "Configuration", of: row => row.label},
                ...data.differences.map((path, index) => ({title: path, of: row => row.values[index] || "–"}))], data.configurations));
if (data.configurations.some(configuration => configuration.runs.length > 1)) {
  part("results", ".caption").append("For several runs: the median [smallest, largest].");
}
part("results", ".body").append(plainTable([
  {title: "", of: row => row.title},
  ...data.configurations.map(configuration => ({title: `${configuration.label} (${configuration.runs.length === 1 ? "one run" : `${configuration.runs.length} runs`})`, number: true,
                                                of: row => configuration.shown[row.key]}))], data.columns));
gains();
part("runs", ".body").append(plainTable([
  {title: "Configuration", of: row => data.configurations[configurationOf(row.index)].label},
  {title: "Run", of: row => row.run}, {title: "Seed", of: row => row.seed}, {title: "Status", of: row => row.status},
  {title: "Best", number: true, of: row => row.best > 0 ? `${digits(row.best)}${row.unit}` : ""},
  {title: "Gain", number: true, of: row => times(row.gain)},
  {title: "of generation", number: true, of: row => row.best_generation},
  {title: "Accepted", number: true, of: row => `${row.accepted} of ${row.judged}`},
], data.runs.map((run, index) => ({...run, index}))));
