function about() {
  const created = data.timing && data.timing.created_ms ? new Date(data.timing.created_ms).toISOString().slice(0, 10) : "";
  put("about", [data.device, `PyTorch ${data.torch}`, created,
                `seed ${data.seed}`, data.status].filter(Boolean).join(" · "));
  put("made", `cupel ${data.cupel}`);
  document.title = `Suite results: ${data.device || data.engine}`;
  const pending = data.items.filter(item => item.decision === "pending").length;
  if (estimates) {
    remark("Times on this page are the emulator's estimates from counted work, not measurements. Therefore speed-ups over "
      + "PyTorch are not reported.");
  }
  if (data.items.some(item => (item.settings || []).some(setting => setting.reduced))) {
    remark("Some settings were judged at smaller sizes, since the task's own are too large for the emulator. The table "
      + "shows which.");
  }
  if (data.merged) remark(`Judged in ${data.merged.length} runs: ${data.merged.map(run => run.name).join(", ")}.`);
  for (const note of data.notes) remark(note);
  const untimed = data.items.filter(item => item.unfinished);
  if (untimed.length > 0) {
    remark(`Judged, but not fully timed yet: ${untimed.map(item => `${nameOf(item)} (${item.unfinished.timed} of `
      + `${item.unfinished.of} settings)`).join(", ")}.`);
  }
  if (pending > 0) remark(`${pending} of ${data.items.length} kernels are not judged yet.`);
}

function tiles() {
  const scores = data.scores;
  const share = (some, all) => all > 0 ? percent(some / all) : "–";
  tile("Problems solved", share(scores.correct_problems, scores.problems), `${scores.correct_problems} of ${scores.problems}`);
  tile("Kernels accepted", share(scores.accepted_kernels, scores.kernels), `${scores.accepted_kernels} of ${scores.kernels}`);
  tile("Settings passed", share(scores.passed_settings, scores.settings), `${scores.passed_settings} of ${scores.settings}`);
  for (const name of against) {
    const score = scores.against[name], fast = score.fast_p.find(entry => entry.p === 1);
    tile(`Speed-up over ${name}`, times(score.geometric_mean_over_problems), `geometric mean of ${score.timed_problems} problems`);
    tile(`fast_1 against ${name}`, percent(fast.share), "solved and faster");
  }
}

function speed() {
  const rowsOf = name => data.items.map(item => {
    const settings = name ? speedups(item, name) : listed(item).filter(setting => passed(setting) && timeOf(setting));
    const points = settings.map(setting => {
      const ratio = name ? setting.speedup[name] : setting.us || {estimate: setting.estimate_us};
      const value = ratio.estimate, shown = name ? times(value) : time(value) + (setting.us ? "" : " (estimate)");
      return {value, low: ratio.low || value, high: ratio.high || value,
              text: `${nameOf(item)}, ${setting.id}: ${shown}${setting.reduced ? `, at ${setting.reduced}` : ""}\n${setting.description}`};
    });
    return {name: nameOf(item), points, mean: name ? meanSpeedup(item, name) : meanTime(item)};
  }).filter(row => row.points.length > 0);
  const show = name => {
    const rows = rowsOf(name);
    redrawn("speed", width => rows.length === 0 ? el("p", {}, "No kernel has a time.") : rowsPlot(rows, width, {
      one: Boolean(name), tick: name ? tick => `${+tick.toPrecision(3)}×` : us => time(us).replace(/\.0+ /, " "),
      label: name ? `Speed-up over ${name} by kernel and setting` : "Time of a call by kernel and setting"}));
  };
  part("speed", "h2").append(against.length > 0 ? "Speed-up by task and setting"
    : estimates ? "Estimated time by task and setting" : "Time by task and setting");
  part("speed", ".caption").append(`Dots are settings${against.length > 0 ? " with 99 % intervals" : ""}, diamonds are geometric means`
    + `${estimates ? "; estimates from counted work" : ""}.`);
  if (against.length > 1) {
    chooseOne(part("speed", ".choices"), against.map(name => [name, `over ${name}`]), against[0], show);
  }
  show(against[0]);
}

function figures() {
  part("right", ".caption").append("✓ correct, ✕ wrong or not run, – not judged (the task's reference fails there, or "
    + "the kernel does not claim or rejects the setting).");
  const judged = data.items.filter(item => item.decision !== "pending");
  drawn(part("right", ".plot"), width => cellsPlot(judged, width));
  if (against.length > 0) {
    part("fast", ".caption").append("Share of all problems, including those without a kernel, that are solved and more than p times as fast. "
      + against.map((name, index) => `${index === 0 ? "Solid" : "Dashed"}: against ${name}.`).join(" "));
    drawn(part("fast", ".plot"), fastPlot);
  } else {
    part("fast", ".caption").append(`fast_0 is ${percent(data.scores.problems > 0 ? data.scores.correct_problems / data.scores.problems : 0)}: the share of `
      + `problems that are solved. There is no fast_p above p = 0: ${data.scores.why_no_times}.`);
  }
  const points = rooflinePoints(), counted = points.filter(point => point.flops > 0 && point.bytes > 0);
  const source = estimates ? "The emulator counted operations and bytes, and estimated times. The roof is that of the emulated GPU."
    : "Operations and bytes are those that the task requires. The roof was measured on this GPU.";
  if (points.length === 0) {
    part("roofline", ".caption").append("No kernel has a time.");
  } else if (counted.length > 0) {
    part("roofline", ".caption").append(source + (counted.length < points.length
      ? ` ${points.length - counted.length} settings with an unknown number of operations are not shown.` : ""));
    drawn(part("roofline", ".plot"), width => intensityPlot(counted, width));
  } else {
    part("roofline", ".caption").append("No task states its number of operations, so the plot shows the share of the memory-bound limit.");
    drawn(part("roofline", ".plot"), width => sharePlot(points, width));
  }
}

about();
tiles();
speed();
figures();
kernelTable();
