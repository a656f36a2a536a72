"use strict";
// Everything shown comes from the data block. Texts of tasks and kernels are put in as text, never as markup.
const data = JSON.parse(document.getElementById("data").textContent);
const estimates = data.engine === "emu";
const against = Object.keys(data.scores.against);
const listed = item => (item.settings || []).filter(setting => !setting.derived);
const passed = setting => setting.status === "passed";

function make(document_, tag, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) document_.setAttribute(name, value);
  }
  document_.append(...children.flat().filter(child => child !== null && child !== undefined));
  return document_;
}
const el = (tag, attributes = {}, ...children) => make(document.createElement(tag), tag, attributes, children);
const svg = (tag, attributes = {}, ...children) =>
  make(document.createElementNS("http://www.w3.org/2000/svg", tag), tag, attributes, children);

const digits = value => !(value > 0) ? "" : value >= 1000 ? value.toFixed(0) : value.toPrecision(3);
const time = us => !(us > 0) ? "" : us < 1e3 ? `${digits(us)} µs` : us < 1e6 ? `${digits(us / 1e3)} ms`
  : `${digits(us / 1e6)} s`;
const times = ratio => !(ratio > 0) ? "" : `${ratio.toFixed(2)} ×`;
const percent = share => `${Math.round(100 * share)} %`;
const mean = values => values.length === 0 ? null
  : Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);

const timeOf = setting => setting.us ? setting.us.estimate : setting.estimate_us || null;
const meanTime = item => mean(listed(item).filter(passed).map(timeOf).filter(us => us > 0));
const speedups = (item, name) => listed(item).filter(setting => passed(setting) && setting.speedup
  && setting.speedup[name]);
const meanSpeedup = (item, name) => mean(speedups(item, name).map(setting => setting.speedup[name].estimate));

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

// Draws now and whenever the width changes: texts keep their size on every screen.
function drawn(container, draw) {
  let width = 0;
  new ResizeObserver(() => {
    if (container.clientWidth === width || container.clientWidth === 0) return;
    width = container.clientWidth;
    container.replaceChildren(...[draw(width)].flat());
  }).observe(container);
}
