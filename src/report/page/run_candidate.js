// One candidate, below the tree: facts, reasons, thought, source, differences, stages, questions.
function choose(id, moveThere) {
  const candidate = byId.get(id);
  if (!candidate) return;
  chosen = id;
  markChosen();
  const section = document.getElementById("candidate");
  section.hidden = false;
  document.getElementById("candidate-title").textContent = `Candidate ${id}: ${nameOf(candidate)}`;
  part("candidate", ".body").replaceChildren(...candidateParts(candidate));
  if (!moveThere) return;
  document.getElementById("candidate-title").focus({preventScroll: true});
  section.scrollIntoView({block: "start"});
}

// Buttons that select other candidates.
function links(ids) {
  return ids.flatMap((id, index) => {
    if (!byId.has(id)) return [`${index > 0 ? " " : ""}${id}`];
    const button = el("button", {type: "button", class: "more"}, id);
    button.addEventListener("click", () => choose(id, true));
    return [index > 0 ? " " : "", button];
  });
}

function hintText(id) {
  const hint = data.hints.find(entry => entry.hint === id);
  return hint && hint.text ? `${id}: ${hint.text}` : id;
}

const reasonElement = reason => el("p", {}, el("strong", {}, reason.code), ` ${reason.message}`,
                                   ...(reason.where ? [el("span", {class: "kernel"}, ` at ${reason.where}`)] : []));

function stageTable(stages) {
  return plainTable([
    {title: "Stage", of: stage => stage.stage},
    {title: "", of: stage => el("span", {class: stage.passed ? "accepted" : "rejected"}, stage.passed ? "✓ passed" : "✕ failed")},
    {title: "Time", number: true, of: stage => duration(stage.seconds)},
    {title: "What it found", of: stage => [stage.note, stage.why].filter(Boolean).join(": ")},
  ], stages);
}

function voteTable(votes) {
  return plainTable([
    {title: "Reviewer", of: vote => vote.aspect},
    {title: "Model", of: vote => vote.model},
    {title: "Opinion", of: vote => vote.fine === undefined ? "no vote" : vote.fine ? "fine" : "wrong"},
    {title: "Confidence", number: true, of: vote => vote.confidence === undefined ? "" : vote.confidence.toFixed(2)},
    {title: "Line", of: vote => vote.line},
    {title: "Reason", of: vote => vote.reason},
  ], votes);
}

function exchangeElement(exchange) {
  const costs = [exchange.answer === undefined && !exchange.error ? "no answer" : null, exchange.error ? "failed" : null,
                 exchange.input_tokens ? `${count(exchange.input_tokens)} tokens in, ${count(exchange.output_tokens)} out` : null,
                 exchange.usd ? dollars(exchange.usd) : null, duration(exchange.seconds) || null].filter(Boolean).join(", ");
  return folded(`${exchange.role}, ${exchange.model}${exchange.attempt > 1 ? `, attempt ${exchange.attempt}` : ""}${costs ? ` (${costs})` : ""}`, () => [
    ...(exchange.error ? [el("p", {class: "rejected"}, exchange.error)] : []),
    ...exchange.asked.map((message, index) => folded(`Prompt: ${message.who}`, () => prose(message.text), index === exchange.asked.length - 1)),
    ...(exchange.reasoning !== undefined ? [folded("Reasoning", () => prose(exchange.reasoning))] : []),
    ...(exchange.answer !== undefined ? [folded("Answer", () => prose(exchange.answer), true)] : []),
  ]);
}

function candidateParts(candidate) {
  const value = valueOf(candidate), start = valueOf(lineage[0] || {});
  const votes = candidate.stages.flatMap(stage => stage.votes || []);
  const exchanges = data.exchanges.filter(exchange => exchange.candidate === candidate.candidate);
  const children = childrenOf.get(candidate.candidate) || [];
  return [
    facts([
      ["Outcome", el("span", {class: `decision ${knownOutcome(candidate.outcome)}`}, outcomeLabel(candidate.outcome))],
      ["Failed at", candidate.fell_at],
      [estimates ? "Estimate" : "Value", value ? `${valueText(value)}${start > 0 ? ` (${times(start / value)} the start)` : ""}` : ""],
      ["Generation", `${candidate.generation}${candidate.island !== undefined ? `, island ${candidate.island}` : ""}`],
      ["Operator", operatorOf(candidate)], ["Model", candidate.model], ["Change", candidate.change],
      ["Parents", candidate.parents.length > 0 ? links(candidate.parents) : ""],
      ["Children", children.length > 0 ? links(children) : ""],
      ["Hints", (candidate.hints || []).map(hintText).join("; ")],
      ["Source", `sha256 ${candidate.source_hash}`],
    ]),
    ...candidate.reasons.map(reasonElement),
    ...(candidate.thought !== undefined ? [folded("Thought", () => prose(candidate.thought), true)] : []),
    ...candidate.parents.filter(id => byId.has(id)).map((id, index) =>
      folded(`Difference to ${index === 0 ? "parent" : "source of ideas"} ${id}`,
             () => diffElement(textOf(byId.get(id).source), textOf(candidate.source)))),
    folded("Source", () => textOf(candidate.source) === null ? el("p", {class: "kernel"}, notHere) : el("pre", {tabindex: 0}, textOf(candidate.source))),
    ...(candidate.stages.length > 0 ? [folded("Stages", () => [stageTable(candidate.stages), votes.length > 0 ? voteTable(votes) : null])] : []),
    ...(candidate.feedback !== undefined ? [folded("Feedback for later proposals", () => prose(candidate.feedback))] : []),
    ...(exchanges.length > 0 ? [folded(`Questions to models (${exchanges.length})`, () => exchanges.map(exchangeElement))] : []),
  ];
}
