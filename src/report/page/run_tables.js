// The tables: candidates with filters, the winner's evidence and profile, stages, models, hints, costs.
function candidateTable() {
  const columns = [
    {key: "candidate", title: "Candidate", number: true, of: row => row.candidate},
    {key: "generation", title: "Generation", number: true, of: row => row.generation},
    {key: "operator", title: "Operator", of: row => row.operator},
    {key: "model", title: "Model", of: row => row.model},
    {key: "name", title: "Name", of: row => row.name},
    {key: "outcome", title: "Outcome", of: row => row.outcome},
    {key: "stage", title: "Failed at", of: row => row.stage},
    {key: "reason", title: "Reason", of: row => row.reason},
    {key: "value", title: estimates ? "Estimate" : "Value", number: true, of: row => row.value, show: row => valueText(row.value)},
  ].filter(column => column.key !== "model" || data.candidates.some(candidate => candidate.model));
  const rows = data.candidates.map(candidate => {
    const first = candidate.reasons[0];
    const row = {candidate: candidate.candidate, generation: candidate.generation, operator: operatorOf(candidate),
                 model: candidate.model || "", name: nameOf(candidate), outcome: outcomeLabel(candidate.outcome), stage: candidate.fell_at || "",
                 reason: first ? `${first.code}: ${first.message}` : "", value: valueOf(candidate)};
    row.text = [row.name, row.operator, row.model, row.outcome, candidate.change,
                ...candidate.reasons.flatMap(reason => [reason.code, reason.message, reason.where])].join("\n").toLowerCase();
    const button = el("button", {type: "button", class: "more", "aria-label": `Show candidate ${row.candidate}`}, "show");
    button.addEventListener("click", () => choose(candidate.candidate, true));
    row.elements = [el("tr", {}, ...columns.map(column => {
      const text = column.show ? column.show(row) : row[column.key];
      const kind = column.key === "outcome" ? `decision ${knownOutcome(candidate.outcome)}` : column.number ? "number" : "free";
      return el("td", {class: kind, "data-label": column.title}, ...(text === "" || text === null || text === undefined ? [] : [el("span", {}, text)]));
    }), el("td", {}, button))];
    return row;
  });
  listing("candidates", columns, rows, ["generation", "operator", "model", "outcome", "stage"]);
}

const list = items => el("ul", {}, ...items.map(item => el("li", {}, item)));
const capital = word => word[0].toUpperCase() + word.slice(1);
const both = (a, b) => a === undefined ? "" : b === undefined ? count(a) : `${count(a)} of ${count(b)}`;

function evidenceParts(evidence) {
  const versions = Object.entries(evidence.versions || {}).map(([name, version]) => `${name} ${version}`).join(", ");
  return [
    facts([
      ["Decision", `${evidence.decision}${evidence.fresh_cases ? ", also on fresh cases that selection did not use" : ""}`],
      ["Declared", evidence.declared], ["Device", evidence.device],
      ["Seed", evidence.seed && `${evidence.seed}${evidence.seed_origin ? ` (${evidence.seed_origin})` : ""}`],
      ["Trials", evidence.trials && `${evidence.trials} for each setting`], ["Versions", versions],
      ["Source", evidence.source_sha256 && `sha256 ${evidence.source_sha256}`], ["Digest", evidence.digest],
    ]),
    ...(evidence.not_checked.length > 0 ? [el("h3", {}, "Not checked"), list(evidence.not_checked)] : []),
    ...(evidence.limits.length > 0 ? [el("h3", {}, "Limits"), list(evidence.limits.map(limit => `${limit.kind}: ${limit.message}`))] : []),
    ...(evidence.notes.length > 0 ? [el("h3", {}, "Notes"), list(evidence.notes)] : []),
    ...(evidence.settings.length > 0 ? [el("h3", {}, "Settings"), plainTable([
      {title: "Setting", of: row => row.id},
      {title: "Sizes", of: row => [row.description, row.derived && `derived: ${row.derived}`, row.reduced && `reduced: ${row.reduced}`].filter(Boolean).join("; ")},
      {title: "Status", of: row => row.status},
      {title: "Trials correct", number: true, of: row => both(row.trials_ok, row.trials)},
      {title: "Error of limit", number: true, of: row => {
        const share = Math.max(+row.rms_over_limit || 0, +row.max_over_limit || 0);
        return share > 0 ? `${digits(100 * share)} %` : "";
      }},
      {title: "Exact arithmetic", number: true, of: row => count(row.shadow_inputs)},
      {title: "Small integers", number: true, of: row => count(row.exact_inputs)},
      {title: "Other inputs", of: row => (row.distributions || []).join(", ")},
    ], evidence.settings)] : []),
    ...(evidence.times.length > 0 ? [el("h3", {}, "Times"), plainTable([
      {title: "Setting", of: row => row.setting}, {title: "Subject", of: row => row.subject},
      {title: "Median", number: true, of: row => time(row.median_us)}, {title: "Samples", number: true, of: row => count(row.samples)},
      {title: "Clock", of: row => row.clock},
    ], evidence.times)] : []),
  ];
}

function profileParts(profile) {
  const launches = profile.settings.flatMap(setting => setting.launches.map(launch => ({setting: setting.id, ...launch})));
  const dims = launch => launch.grid && launch.block ? `${launch.grid.join("×")} of ${launch.block.join("×")}` : "";
  return [
    ...(launches.length > 0 ? [plainTable([
      {title: "Setting", of: row => row.setting}, {title: "Kernel", of: row => row.kernel}, {title: "Blocks of threads", of: dims},
      {title: "Estimate", number: true, of: row => time(row.estimated_us)},
      {title: "Occupancy", number: true, of: row => row.occupancy > 0 ? `${percent(row.occupancy)}${row.limited_by ? ` (${row.limited_by})` : ""}` : ""},
      {title: "Bytes read", number: true, of: row => count(row.global_load_bytes)},
      {title: "written", number: true, of: row => count(row.global_store_bytes)},
      {title: "32-byte sectors", number: true, of: row => row.global_load_sectors === undefined ? "" : count(row.global_load_sectors + (row.global_store_sectors || 0))},
      {title: "sector bytes used", number: true, of: row => {
        const sectors = (row.global_load_sectors || 0) + (row.global_store_sectors || 0);
        return sectors > 0 && row.touched_bytes !== undefined ? percent(row.touched_bytes / (32 * sectors)) : "";
      }},
      {title: "Bank conflicts", number: true, of: row => row.shared_wavefronts > 0 && row.shared_ideal_wavefronts !== undefined
        ? percent((row.shared_wavefronts - row.shared_ideal_wavefronts) / row.shared_wavefronts) : ""},
      {title: "Atomics", number: true, of: row => row.global_atomics > 0 ? count(row.global_atomics) : ""},
    ], launches)] : []),
    ...(profile.resources.length > 0 ? [plainTable([
      {title: "Kernel", of: row => row.name || row.kernel}, {title: "Registers", number: true, of: row => count(row.registers)},
      {title: "Shared bytes", number: true, of: row => count(row.static_shared_bytes)},
      {title: "Local bytes", number: true, of: row => count(row.local_bytes)},
      {title: "Spilled bytes", number: true, of: row => row.spill_store_bytes === undefined ? "" : count(row.spill_store_bytes + (row.spill_load_bytes || 0))},
    ], profile.resources)] : []),
  ];
}

function winner() {
  if (!best) return;
  const parts = [], start = lineage[0];
  const show = el("button", {type: "button"}, `Show candidate ${best.candidate} with source, thought and questions`);
  show.addEventListener("click", () => choose(best.candidate, true));
  parts.push(el("p", {}, `Candidate ${best.candidate}, ${nameOf(best)}: ${valueText(valueOf(best))}${estimates ? " (estimate)" : ""}.`), show);
  if (start && start !== best) {
    parts.push(folded(`Difference to the start (candidate ${start.candidate})`, () => diffElement(textOf(start.source), textOf(best.source)), true));
  }
  const profile = data.profile || {};
  const counted = of => of && of.settings.length + of.resources.length > 0;
  if (counted(profile.best)) parts.push(folded("Profile: resources, and what the emulator counted", () => profileParts(profile.best), true));
  if (counted(profile.start) && start !== best) parts.push(folded("Profile of the start", () => profileParts(profile.start)));
  if (data.evidence) parts.push(folded("Evidence", () => evidenceParts(data.evidence), true));
  fill("winner", parts);
}

function cascade() {
  if (data.cascade.length === 0) return;
  part("cascade", ".caption").append("Saved: the estimated time of judging and measuring for the candidates that failed at a stage, from the mean of "
    + "those that passed it. Good candidates lost are only known if candidates were judged although the stage had rejected them.");
  fill("cascade", plainTable([
    {title: "Stage", of: row => row.stage}, {title: "In", number: true, of: row => row.in},
    {title: "Passed", number: true, of: row => row.passed}, {title: "Failed", number: true, of: row => row.fell},
    {title: "Time", number: true, of: row => duration(row.seconds)},
    {title: "Time each", number: true, of: row => row.in > 0 ? duration(row.seconds / row.in) : ""},
    {title: "Saved", number: true, of: row => row.saved_seconds === undefined ? "" : duration(row.saved_seconds) || "0 s"},
    {title: "Failed, but judged", number: true, of: row => row.judged_anyway > 0 ? row.judged_anyway : ""},
    {title: "Accepted of these", number: true, of: row => row.judged_anyway > 0 ? row.good : ["judge", "measure"].includes(row.stage) ? "" : "not known"},
  ], data.cascade));
}

function generations() {
  const counted = ["asked", "unusable", "copies", "reviewed"].filter(key => data.generations.some(row => row[key] !== undefined));
  if (data.generations.length < 2) return;
  fill("generations", plainTable([
    {title: "Generation", number: true, of: row => row.generation},
    ...counted.map(key => ({title: capital(key), number: true, of: row => row[key]})),
    {title: "Candidates", number: true, of: row => row.candidates}, {title: "Judged", number: true, of: row => row.judged},
    {title: "Accepted", number: true, of: row => row.accepted},
    {title: "Best so far", number: true, of: row => valueText(row.best)},
    {title: "by candidate", number: true, of: row => row.best_candidate},
    {title: "Time", number: true, of: row => duration(row.seconds)},
  ], data.generations));
}

function contributors(id, rows, name, asked, rewarded) {
  const has = key => rows.some(row => row[key] !== undefined);
  const shown = value => value === undefined ? "" : +value.toPrecision(3);
  fill(id, plainTable([
    {title: name, of: row => row[name.toLowerCase()]},
    ...(has("text") ? [{title: "Text", of: row => row.text}] : []),
    {title: "Candidates", number: true, of: row => row.candidates}, {title: "Judged", number: true, of: row => row.judged},
    {title: "Accepted", number: true, of: row => row.accepted}, {title: "New bests", number: true, of: row => row.new_bests},
    {title: "Best", number: true, of: row => valueText(row.best)},
    ...[asked, rewarded, "expected"].filter(has).map(key => ({title: capital(key), number: true, of: row => shown(row[key])})),
  ], rows));
}

// Tokens of models that do not count them are a quarter of the bytes.
const tokens = (row, key) => (row.tokens_are_estimates ? "~" : "") + count(row[key]);

function costs() {
  const spent = data.spent, parts = [];
  part("costs", ".caption").append(`Total: ${duration(spent.seconds) || "no time"}, ${spent.questions} questions to models, `
    + `${tokens(spent, "input_tokens")} tokens in, ${tokens(spent, "output_tokens")} out, cost ${dollars(spent.usd)}. Times overlap: models answer while kernels are compiled and run.`);
  if (data.questions.length > 0) {
    parts.push(plainTable([
      {title: "Role", of: row => row.role}, {title: "Model", of: row => row.model}, {title: "Asked", number: true, of: row => row.asked},
      {title: "Answered", number: true, of: row => row.answered}, {title: "Tokens in", number: true, of: row => tokens(row, "input_tokens")},
      {title: "out", number: true, of: row => tokens(row, "output_tokens")}, {title: "Cost", number: true, of: row => dollars(row.usd)},
      {title: "Time", number: true, of: row => duration(row.seconds)},
      {title: "Candidates", number: true, of: row => row.candidates}, {title: "Accepted", number: true, of: row => row.accepted},
    ], data.questions));
  }
  if (data.costs.length > 0) {
    parts.push(plainTable([
      {title: "Spent on", of: row => row.kind}, {title: "Time", number: true, of: row => duration(row.seconds)},
      {title: "Cost", number: true, of: row => row.usd > 0 ? dollars(row.usd) : ""},
    ], data.costs));
  }
  fill("costs", parts);
}

function unusable() {
  const lost = data.exchanges.filter(exchange => exchange.candidate === undefined);
  if (data.unusable.length + lost.length === 0) return;
  fill("unusable", [
    data.unusable.length > 0 ? plainTable([
      {title: "Generation", number: true, of: row => row.generation}, {title: "Model", of: row => row.model},
      {title: "Why the answer was unusable", of: row => row.reason},
    ], data.unusable) : null,
    lost.length > 0 ? folded(`The questions (${lost.length})`, () => lost.map(exchangeElement)) : null,
  ]);
}
