// A long table with search, filters and sorting. The page must contain a form "controls", a line "shown" and a table.
// The form has a search field "search", a select for each filter with its name, the select "sort" and the button "order".
// Columns: {key, title, number, of: row => value to sort by}. Rows: {text (lower case), elements, and a member for each
// filter}.
function listing(id, columns, rows, filters) {
  rows.forEach((row, index) => { row.place = index; });
  const search = document.getElementById("search"), order = document.getElementById("order"), sort = document.getElementById("sort");
  const state = {key: "place", down: false};
  for (const name of filters) {
    const values = [...new Set(rows.map(row => row[name]).filter(value => value !== null && value !== undefined && value !== ""))]
      .sort((a, b) => String(a).localeCompare(String(b), undefined, {numeric: true}));
    put(name, el("option", {value: ""}, "all"), ...values.map(value => el("option", {value}, value)));
    document.getElementById(name).closest("label").hidden = values.length < 2;
  }
  put("sort", el("option", {value: "place"}, "original order"), ...columns.map(column => el("option", {value: column.key}, column.title)));
  const heads = columns.map(column => {
    const button = el("button", {type: "button"}, column.title);
    button.addEventListener("click", () => {
      state.down = state.key === column.key ? !state.down : false;
      state.key = column.key;
      show();
    });
    return el("th", {scope: "col", class: column.number ? "number" : null}, button);
  });
  part(id, "thead tr").append(...heads, el("td"));

  function show() {
    const text = search.value.trim().toLowerCase();
    const wanted = filters.map(name => [name, document.getElementById(name).value]).filter(([, value]) => value !== "");
    const shown = rows.filter(row => wanted.every(([name, value]) => String(row[name]) === value) && row.text.includes(text));
    const column = columns.find(candidate => candidate.key === state.key), value = column ? column.of : row => row.place;
    const lacks = row => { const v = value(row); return v === null || v === undefined || v === ""; };
    // Rows without a value come last in either order.
    shown.sort((a, b) => {
      if (lacks(a) || lacks(b)) return lacks(a) - lacks(b) || a.place - b.place;
      const x = value(a), y = value(b);
      const by = typeof x === "number" ? x - y : String(x).localeCompare(String(y), undefined, {numeric: true});
      return (state.down ? -by : by) || a.place - b.place;
    });
    part(id, "tbody").replaceChildren(...shown.flatMap(row => row.elements));
    document.getElementById("shown").textContent = `${shown.length} of ${rows.length} rows`;
    heads.forEach((head, index) => {
      if (columns[index].key === state.key) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    sort.value = state.key;
    order.setAttribute("aria-pressed", String(state.down));
  }
  for (const name of ["search", ...filters]) document.getElementById(name).addEventListener("input", show);
  sort.addEventListener("input", () => { state.key = sort.value; show(); });
  order.addEventListener("click", () => { state.down = !state.down; show(); });
  document.getElementById("controls").addEventListener("submit", event => event.preventDefault());
  show();
}
