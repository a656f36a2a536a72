// The tree of lineage. Rows are generations. A candidate with a parent in its own generation is placed one row lower.
const nodeGap = 34, rowGap = 46;
let chosen = null;

// Rows of candidates: [{generation, first (of its generation), candidates}].
function treeRows(perLine) {
  const layerOf = new Map();
  const rows = new Map();
  for (const candidate of data.candidates) {  // parents come before their children
    const own = candidate.parents.map(id => byId.get(id)).filter(parent => parent && parent.generation === candidate.generation);
    const layer = own.length === 0 ? 0 : 1 + Math.max(...own.map(parent => layerOf.get(parent.candidate) || 0));
    layerOf.set(candidate.candidate, layer);
    const key = `${candidate.generation} ${layer}`;
    if (!rows.has(key)) rows.set(key, {generation: candidate.generation, layer, candidates: []});
    rows.get(key).candidates.push(candidate);
  }
  const ordered = [...rows.values()].sort((a, b) => a.generation - b.generation || a.layer - b.layer);
  const place = new Map(), lines = [];
  for (const row of ordered) {
    // Place candidates below their parents if possible, so that few lines cross.
    const wanted = candidate => place.has(candidate.parents[0]) ? place.get(candidate.parents[0]) : 0.5;
    row.candidates.sort((a, b) => wanted(a) - wanted(b) || a.candidate - b.candidate);
    row.candidates.forEach((candidate, index) => place.set(candidate.candidate, (index + 0.5) / row.candidates.length));
    for (let from = 0; from < row.candidates.length; from += perLine) {
      lines.push({generation: row.generation, first: row.layer === 0 && from === 0, candidates: row.candidates.slice(from, from + perLine)});
    }
  }
  return lines;
}

function nodeElement(candidate, x, y) {
  const value = valueOf(candidate);
  const title = `candidate ${candidate.candidate}, ${outcomeLabel(candidate.outcome)}${value ? `, ${valueText(value)}` : ""}`
    + `${candidate.fell_at ? `, failed at ${candidate.fell_at}` : ""}: ${nameOf(candidate)}`;
  const node = svg("g", {class: `node ${knownOutcome(candidate.outcome)}`, tabindex: 0, role: "button", "data-id": candidate.candidate,
                         "aria-pressed": String(chosen === candidate.candidate), "aria-label": title, transform: `translate(${x} ${y})`},
                   svg("circle", {r: 13}), svg("text", {y: 3.5}, candidate.candidate));
  titled(node, title);
  node.addEventListener("click", () => choose(candidate.candidate, false));
  node.addEventListener("keydown", event => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose(candidate.candidate, true);
  });
  return node;
}

function treePlot(width) {
  const left = width >= 640 ? 110 : 34, perLine = Math.max(1, Math.floor((width - left - 8) / nodeGap));
  const lines = treeRows(perLine), at = new Map(), labels = [], nodes = [], edges = [];
  lines.forEach((line, index) => {
    const y = 24 + index * rowGap, room = width - left - 8;
    if (line.first) labels.push(svg("text", {class: "dim", x: 0, y: y + 4}, width >= 640 ? `generation ${line.generation}` : String(line.generation)));
    line.candidates.forEach((candidate, place) => {
      const x = left + room * (place + 0.5) / line.candidates.length;
      at.set(candidate.candidate, [x, y]);
      nodes.push(nodeElement(candidate, x, y));
    });
  });
  const winning = new Set(lineage.slice(1).map((step, index) => `${step.candidate} ${lineage[index].candidate}`));
  for (const candidate of data.candidates) {
    candidate.parents.forEach((parent, position) => {
      if (!at.has(parent)) return;
      const [x1, y1] = at.get(parent), [x2, y2] = at.get(candidate.candidate);
      const kind = position > 0 ? "edge idea" : winning.has(`${candidate.candidate} ${parent}`) ? "edge winning" : "edge";
      edges.push(svg("path", {class: kind, "data-of": candidate.candidate, "data-to": parent,
                              d: `M${x1} ${y1}C${x1} ${(y1 + y2) / 2} ${x2} ${(y1 + y2) / 2} ${x2} ${y2}`}));
    });
  }
  const height = 24 + lines.length * rowGap;
  return svg("svg", {height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Candidates and their parents"},
             ...labels, ...edges, ...nodes);
}

function markChosen() {
  for (const node of document.querySelectorAll("#tree .plot .node")) {
    node.setAttribute("aria-pressed", String(node.dataset.id === String(chosen)));
  }
  for (const edge of document.querySelectorAll("#tree .edge")) {
    edge.classList.toggle("chosen", edge.dataset.of === String(chosen) || edge.dataset.to === String(chosen));
  }
}

function tree() {
  const seen = new Set(data.candidates.map(candidate => knownOutcome(candidate.outcome)));
  part("tree", ".legend").append(...outcomes.filter(outcome => seen.has(outcome)).map(outcome =>
    el("li", {class: `node ${outcome}`}, svg("svg", {viewBox: "0 0 20 20"}, svg("circle", {cx: 10, cy: 10, r: 8})), outcomeLabel(outcome))));
  drawn(part("tree", ".plot"), width => [treePlot(width)]);
}
