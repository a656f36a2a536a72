// The page of a run.
function about() {
  const created = data.created_ms > 0 ? new Date(data.created_ms).toISOString().slice(0, 10) : "";
  const device = data.evidence && data.evidence.device;
  put("title", `${data.task} ${data.direction}`);
  document.title = `Run report: ${data.task} ${data.direction}`;
  put("about", [data.status, device, created, `seed ${data.seed}`, data.times_are].filter(Boolean).join(" · "));
  put("made", `cupel ${data.cupel}`);
  if (estimates) {
    remark("Times on this page are the emulator's estimates from counted work. They rank variants of a kernel and are not measurements.");
  }
  if (data.counts.waiting > 0) remark(`${data.counts.waiting} of ${data.counts.candidates} candidates are not judged yet: the run is ${data.status}.`);
  if (!best) remark("No candidate has been accepted.");
  const left = data.left_out;
  const said = [[left.candidates, "candidates"], [left.exchanges, "questions to models"], [left.texts, "long texts"]]
    .filter(([n]) => n > 0).map(([n, what]) => `${n} ${what}`).join(", ");
  if (said) remark(`Left out to limit the size of this page: ${said}. All are in the archive.`);
}

function tiles() {
  if (best) {
    const start = valueOf(lineage.find(step => valueOf(step) > 0) || {});
    tile("Gain", times(data.gain) || "–", estimates ? "by the emulator's estimate" : "measured");
    tile("Best", valueText(valueOf(best)), start > 0 ? `start ${valueText(start)}` : "");
  }
  const judged = data.generations.reduce((sum, row) => sum + row.judged, 0);
  tile("Accepted", judged > 0 ? percent(data.counts.accepted / judged) : "–", `${data.counts.accepted} of ${judged} judged`);
  tile("Candidates", count(data.counts.candidates), `${data.counts.dropped} dropped before the judge`);
  if (data.spent.questions > 0) {
    tile("Cost", dollars(data.spent.usd), data.to_best ? `${dollars(data.to_best.usd)} until the best` : "");
    tile("Tokens in", (data.spent.tokens_are_estimates ? "~" : "") + short(data.spent.input_tokens), `${data.spent.questions} questions`);
  }
  tile("Time", duration(data.spent.seconds) || "–", data.to_best ? `${duration(data.to_best.seconds) || "0 s"} until the best` : "");
}

about();
tiles();
progress();
tree();
winner();
candidateTable();
cascade();
generations();
if (data.models.length > 0) {
  part("models", ".caption").append("Results of each model's proposals. Asked, rewarded and expected are the ensemble's last values.");
  contributors("models", data.models, "Model", "asked", "rewarded");
}
if (data.hints.length > 0) {
  part("hints", ".caption").append("Results of the candidates whose prompt had the hint. Tried and earned are the run's last values.");
  contributors("hints", data.hints, "Hint", "tried", "earned");
}
costs();
unusable();
if (Object.keys(data.config).length > 0) {
  fill("configuration", folded("All settings of the run", () => el("pre", {class: "prose", tabindex: 0}, JSON.stringify(data.config, null, 2))));
}
