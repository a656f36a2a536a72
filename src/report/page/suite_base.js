// Times, speed-ups and names from the results of a suite.
const estimates = data.engine === "emu";
const against = Object.keys(data.scores.against);
const listed = item => (item.settings || []).filter(setting => !setting.derived);
const passed = setting => setting.status === "passed";

// The settings that define a kernel's speed: the multi settings; if there are none, the single one; otherwise all. The
// single one is usually among the multi ones. Held-out settings do not count, because their sizes are unusual on purpose.
const ofKind = (settings, kind) => settings.filter(setting => setting.kind === kind);
const speedSettings = item => [ofKind(listed(item), "multi"), ofKind(listed(item), "single"), listed(item)]
  .find(settings => settings.length > 0) || [];

const timeOf = setting => setting.us ? setting.us.estimate : setting.estimate_us || null;
const meanTime = item => mean(speedSettings(item).filter(passed).map(timeOf).filter(us => us > 0));
const withSpeedup = (settings, name) => settings.filter(setting => passed(setting) && setting.speedup
  && setting.speedup[name]);
const speedups = (item, name) => withSpeedup(listed(item), name);
const meanSpeedup = (item, name) => mean(withSpeedup(speedSettings(item), name).map(setting => setting.speedup[name].estimate));

const kernelsOf = new Map();
for (const item of data.items) {
  const key = `${item.task}\n${item.direction}`;
  kernelsOf.set(key, (kernelsOf.get(key) || 0) + 1);
}
// A problem's name, with the kernel's name if the problem has several.
function nameOf(item) {
  const name = item.direction === "forward" ? item.task : `${item.task} ${item.direction}`;
  return kernelsOf.get(`${item.task}\n${item.direction}`) > 1 ? `${name} · ${item.kernel}` : name;
}
