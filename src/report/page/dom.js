"use strict";
// Shared by all pages: the data, elements, numbers as texts. Everything shown comes from the data block. Untrusted texts
// are inserted as text, never as markup.
const data = JSON.parse(document.getElementById("data").textContent);

function make(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter(child => child !== null && child !== undefined));
  return element;
}
const el = (tag, attributes = {}, ...children) => make(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) =>
  make(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

const digits = value => !(value > 0) ? "" : value >= 1000 ? value.toFixed(0) : value.toPrecision(3);
const time = us => !(us > 0) ? "" : us < 1e3 ? `${digits(us)} µs` : us < 1e6 ? `${digits(us / 1e3)} ms`
  : `${digits(us / 1e6)} s`;
const times = ratio => !(ratio > 0) ? "" : `${ratio.toFixed(2)} ×`;
const percent = share => `${Math.round(100 * share)} %`;
const mean = values => values.length === 0 ? null
  : Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);

// Draws now and whenever the width changes, so that texts keep their size on every screen.
function drawn(container, draw) {
  let width = 0;
  new ResizeObserver(() => {
    if (container.clientWidth === width || container.clientWidth === 0) return;
    width = container.clientWidth;
    container.replaceChildren(...[draw(width)].flat());
  }).observe(container);
}

// Access to parts of the page.
const put = (id, ...children) => document.getElementById(id).append(...children);
const part = (id, query) => document.querySelector(`#${id} ${query}`);
const tile = (title, value, small) =>
  put("tiles", el("div", {}, el("dt", {}, title), el("dd", {}, value, el("small", {}, small))));
const remark = text => put("remarks", el("p", {class: "remark"}, text));

// A table. On a phone each cell shows its column's title. Columns: {title, number, of: row => text or element}.
function plainTable(columns, rows) {
  return el("table", {},
            el("thead", {}, el("tr", {}, ...columns.map(column => el("th", {scope: "col", class: column.number ? "number" : null}, column.title)))),
            el("tbody", {}, ...rows.map(row => el("tr", {}, ...columns.map(column => {
              const cell = column.of(row);
              return el("td", {class: column.number ? "number" : "free", "data-label": column.title},
                        ...(cell === null || cell === undefined || cell === "" ? [] : [cell]));
            })))));
}

// Buttons of which one is pressed. `set` is called with the value of the new one.
function chooseOne(box, options, chosen, set) {
  const buttons = options.map(([value, text]) => {
    const button = el("button", {type: "button", "aria-pressed": String(value === chosen)}, text);
    button.addEventListener("click", () => {
      buttons.forEach(other => other.setAttribute("aria-pressed", String(other === button)));
      set(value);
    });
    return button;
  });
  box.append(...buttons);
}

// Draws a plot again after a choice has changed.
function redrawn(id, draw) {
  const plot = part(id, ".plot").cloneNode(false);
  part(id, ".plot").replaceWith(plot);
  drawn(plot, draw);
}
