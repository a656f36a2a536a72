// The table of kernels, and each kernel's settings.
const columns = [
  {key: "task", title: "Task", free: true, of: row => row.task},
  {key: "direction", title: "Direction", of: row => row.direction},
  {key: "kernel", title: "Kernel", free: true, of: row => row.kernel},
  {key: "decision", title: "Decision", of: row => row.decision},
  {key: "passed", title: "Settings", number: true, of: row => row.all > 0 ? row.passed / row.all : null,
   show: row => row.all > 0 ? `${row.passed} of ${row.all}` : ""},
  {key: "error", title: "Error of limit", number: true, of: row => row.error, show: row => row.error === Infinity ? "∞" : row.error > 0 ? `${digits(100 * row.error)} %` : ""},
  {key: "time", title: estimates ? "Estimate" : "Time", number: true, of: row => row.time, show: row => time(row.time)},
  ...against.map(name => ({key: name, title: `vs ${name}`, number: true, of: row => row[name], show: row => times(row[name])})),
  ...(against.length > 0 ? [{key: "roofline", title: "Roofline", number: true, of: row => row.roofline,
                             show: row => row.roofline ? percent(row.roofline) : ""}] : []),
];

function rowOf(item) {
  const settings = listed(item), right = settings.filter(passed);
  const row = {item, task: item.task, direction: item.direction, kernel: item.kernel, decision: item.decision,
               passed: right.length, all: settings.length, time: meanTime(item),
               error: Math.max(0, ...settings.map(setting => +setting.over_limit || (setting.over_limit ? Infinity : 0))) || null,
               roofline: mean(right.map(setting => setting.roofline).filter(share => share > 0))};
  for (const name of against) row[name] = meanSpeedup(item, name);
  row.text = [item.task, item.direction, item.kernel, item.decision,
              ...(item.reasons || []).flatMap(reason => [reason.code, reason.message])].join("\n").toLowerCase();
  return row;
}

// Values that JSON cannot represent as numbers are texts: "inf", "nan".
const errorOf = setting => setting.over_limit > 0 ? `${digits(100 * setting.over_limit)} %` : setting.over_limit || "";
const problemRow = problem => rowOf({...problem, kernel: "", decision: "no kernel", settings: [], reasons: []});
const interval = (value, unit) => value.low && value.high ? `${unit(value.estimate)} [${unit(value.low)}, ${unit(value.high)}]` : unit(value.estimate);

function settingCells(setting) {
  const us = setting.us ? interval(setting.us, time) : setting.estimate_us ? `${time(setting.estimate_us)} (estimate)` : setting.not_timed || "";
  const cells = [["Setting", setting.id], ["Sizes", [setting.description, setting.derived && `derived: ${setting.derived}`,
                                                     setting.reduced && `reduced: ${setting.reduced}`].filter(Boolean).join("; ")],
                 ["Status", setting.status], ["Error of limit", errorOf(setting)],
                 [estimates ? "Estimate" : "Time", us]];
  for (const name of against) {
    const baseline = setting.baselines && setting.baselines[name], ratio = setting.speedup && setting.speedup[name];
    cells.push([name, baseline ? time(baseline.us.estimate) : ""], [`vs ${name}`, ratio ? interval(ratio, times) : ""]);
  }
  if (against.length > 0) cells.push(["Roofline", setting.roofline ? percent(setting.roofline) : ""]);
  return cells;
}

function detail(row) {
  const parts = (row.item.reasons || []).map(reason => el("p", {}, el("strong", {}, reason.code), ` ${reason.where || ""}: ${reason.message}`));
  if (row.item.declared) parts.push(el("p", {}, row.item.declared));
  const settings = row.item.settings || [];
  if (settings.length > 0) {
    const columnsOf = settingCells(settings[0]).map(([title], place) => ({title, of: setting => settingCells(setting)[place][1]}));
    parts.push(plainTable(columnsOf, settings));
  }
  const timing = row.item.timing;
  if (timing) parts.push(el("p", {class: "kernel"}, `compiled in ${timing.build_seconds.toFixed(1)} s, judged in ${timing.seconds.toFixed(1)} s by ${timing.worker}`));
  return el("tr", {class: "detail"}, el("td", {colspan: columns.length + 1}, ...parts));
}

function rowElements(row, index) {
  const cells = columns.map(column => {
    const text = column.show ? column.show(row) : row[column.key];
    const kind = column.key === "decision" ? `decision ${row.decision === "no kernel" ? "missing" : row.decision}` : column.number ? "number" : column.free ? "free" : null;
    return el("td", {class: kind, "data-label": column.title}, ...(text ? [column.key === "decision" ? el("span", {}, text) : text] : []));
  });
  const main = el("tr", {}, ...cells);
  if (row.decision === "no kernel" || row.decision === "pending") {
    main.append(el("td"));
    return [main];
  }
  const more = detail(row), id = `detail-${index}`;
  more.id = id;
  more.hidden = true;
  const button = el("button", {type: "button", class: "more", "aria-expanded": "false", "aria-controls": id,
                               "aria-label": `Settings of ${nameOf(row.item)}`}, "details");
  button.addEventListener("click", () => {
    more.hidden = !more.hidden;
    button.setAttribute("aria-expanded", String(!more.hidden));
  });
  main.append(el("td", {}, button));
  return [main, more];
}

function kernelTable() {
  const rows = [...data.items.map(rowOf), ...data.without_kernel.map(problemRow)];
  rows.forEach((row, index) => { row.elements = rowElements(row, index); });
  listing("kernels", columns, rows, ["decision", "direction"]);
}
