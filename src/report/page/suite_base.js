// What the results of a suite mean: their times, speed-ups and names.
const estimates = data.engine === "emu";
const against = Object.keys(data.scores.against);
const listed = item => (item.settings || []).filter(setting => !setting.derived);
const passed = setting => setting.status === "passed";

// Those by which a kernel's speed is told: the multi ones, else the single one, else all. The single one is
// mostly among the multi ones; held-out sizes are odd on purpose.
const ofKind = (settings, kind) => settings.filter(setting => setting.kind === kind);
const ofSpeed = item => [ofKind(listed(item), "multi"), ofKind(listed(item), "single"), listed(item)]
  .find(settings => settings.length > 0) || [];

const timeOf = setting => setting.us ? setting.us.estimate : setting.estimate_us || null;
const meanTime = item => mean(ofSpeed(item).filter(passed).map(timeOf).filter(us => us > 0));
const withSpeedup = (settings, name) => settings.filter(setting => passed(setting) && setting.speedup
  && setting.speedup[name]);
const speedups = (item, name) => withSpeedup(listed(item), name);
const meanSpeedup = (item, name) => mean(withSpeedup(ofSpeed(item), name).map(setting => setting.speedup[name].estimate));

const kernelsOf = new Map();
for (const item of data.items) {
  const key = `${item.task}\n${item.direction}`;
  kernelsOf.set(key, (kernelsOf.get(key) || 0) + 1);
}
// A problem's name, and which of its kernels where it has several.
function nameOf(item) {
  const name = item.direction === "forward" ? item.task : `${item.task} ${item.direction}`;
  return kernelsOf.get(`${item.task}\n${item.direction}`) > 1 ? `${name} · ${item.kernel}` : name;
}
