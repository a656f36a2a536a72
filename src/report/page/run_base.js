// Access to a run's data, and candidates, values and costs as texts.
const estimates = data.objective === "estimated_us";
const byId = new Map(data.candidates.map(candidate => [candidate.candidate, candidate]));
const best = data.best ? byId.get(data.best.candidate) : null;
const lineage = (data.lineage || []).map(step => byId.get(step.candidate)).filter(Boolean);
const valueOf = candidate => candidate[data.objective];
const valueText = value => !(value > 0) ? "" : data.unit === " us" ? time(value) : `${digits(value)}${data.unit}`;
const nameOf = candidate => candidate.name || candidate.change || candidate.proposer;
const operatorOf = candidate => candidate.operator || candidate.proposer;
// The data contain each text once. Null: the text was left out for lack of space.
const textOf = number => number === null || number === undefined ? null : data.texts[number];
const notHere = "This text is too large for the page. See the archive.";
const dollars = usd => !(usd > 0) ? "not counted" : usd < 0.1 ? `$${+usd.toPrecision(2)}` : `$${usd.toFixed(2)}`;
const count = n => n === null || n === undefined ? "" : n >= 1e4 ? short(n) : String(n);
const duration = s => !(s > 0) ? "" : s < 10 ? `${s.toFixed(s < 1 ? 2 : 1)} s` : s < 60 ? `${s.toFixed(0)} s`
  : s < 3600 ? `${Math.floor(s / 60)} min ${Math.round(s % 60)} s` : `${Math.floor(s / 3600)} h ${Math.round(s % 3600 / 60)} min`;
const outcomes = ["best", "accepted", "rejected", "unsupported", "error", "dropped", "waiting"];
const outcomeTexts = new Map([["dropped", "dropped before the judge"], ["waiting", "not judged yet"], ["best", "the best"]]);
const outcomeLabel = outcome => outcomeTexts.get(outcome) || outcome;
const knownOutcome = outcome => outcomes.includes(outcome) ? outcome : "waiting";

const childrenOf = new Map();
for (const candidate of data.candidates) {
  for (const parent of candidate.parents) {
    if (!childrenOf.has(parent)) childrenOf.set(parent, []);
    childrenOf.get(parent).push(candidate.candidate);
  }
}

// Shows a section with content.
function fill(id, ...children) {
  document.getElementById(id).hidden = false;
  part(id, ".body").append(...children.flat().filter(Boolean));
}
const facts = pairs => el("dl", {class: "facts"}, ...pairs.filter(([, text]) => text !== null && text !== undefined && text !== "")
  .map(([title, text]) => [el("dt", {}, title), el("dd", {}, ...[text].flat())]));

// The content is made when the box is opened, since pages contain many long texts.
function folded(title, make, open = false) {
  const box = el("details", {}, el("summary", {}, title));
  const fillOnce = () => {
    if (!box.open || box.dataset.filled) return;
    box.dataset.filled = "yes";
    box.append(...[make()].flat().filter(Boolean));
  };
  box.addEventListener("toggle", fillOnce);
  if (open) {
    box.open = true;
    fillOnce();
  }
  return box;
}
const prose = number => textOf(number) === null ? el("p", {class: "kernel"}, notHere) : el("pre", {class: "prose", tabindex: 0}, textOf(number));
