// Differences of sources by line (Myers, "An O(ND) difference algorithm", 1986). If two sources have little in common,
// all lines of the first are shown as removed and all lines of the second as added.
const mostEdits = 1500, context = 3;

function editsBetween(a, b) {
  const n = a.length, m = b.length, most = Math.min(n + m, mostEdits), reached = [];
  let far = new Int32Array(2 * most + 3);
  for (let d = 0; d <= most; ++d) {
    reached.push(far.slice());
    for (let k = -d; k <= d; k += 2) {
      const at = k + most + 1;
      let x = k === -d || (k !== d && far[at - 1] < far[at + 1]) ? far[at + 1] : far[at - 1] + 1;
      while (x < n && x - k < m && a[x] === b[x - k]) ++x;
      far[at] = x;
      if (x >= n && x - k >= m) return walkBack(a, b, reached, d, most);
    }
  }
  return [...a.map(line => ["removed", line]), ...b.map(line => ["added", line])];
}

function walkBack(a, b, reached, d, most) {
  const lines = [];
  let x = a.length, y = b.length;
  for (; d > 0; --d) {
    const far = reached[d], k = x - y, at = k + most + 1;
    const down = k === -d || (k !== d && far[at - 1] < far[at + 1]);
    const fromX = down ? far[at + 1] : far[at - 1], fromY = fromX - (down ? k + 1 : k - 1);
    while (x > fromX && y > fromY && x > 0 && y > 0 && a[x - 1] === b[y - 1]) {
      lines.push(["same", a[--x]]);
      --y;
    }
    lines.push(down ? ["added", b[--y]] : ["removed", a[--x]]);
  }
  while (x > 0) lines.push(["same", a[--x]]);
  return lines.reverse();
}

function linesBetween(a, b) {
  let from = 0, endA = a.length, endB = b.length;
  while (from < endA && from < endB && a[from] === b[from]) ++from;
  while (endA > from && endB > from && a[endA - 1] === b[endB - 1]) { --endA; --endB; }
  const same = line => ["same", line];
  return [...a.slice(0, from).map(same), ...editsBetween(a.slice(from, endA), b.slice(from, endB)), ...a.slice(endA).map(same)];
}

// Changed lines with their context.
function diffElement(before, after) {
  if (before === null || after === null) return el("p", {class: "kernel"}, notHere);
  const lines = linesBetween(before.split("\n"), after.split("\n"));
  const near = new Uint8Array(lines.length);
  lines.forEach(([kind], place) => {
    if (kind !== "same") near.fill(1, Math.max(0, place - context), place + context + 1);
  });
  if (!near.includes(1)) return el("p", {class: "kernel"}, "The sources are the same.");
  const box = el("pre", {class: "diff", tabindex: 0});
  for (let place = 0; place < lines.length; ++place) {
    if (near[place]) {
      const [kind, line] = lines[place];
      box.append(el("span", {class: kind}, `${kind === "added" ? "+" : kind === "removed" ? "-" : " "} ${line}`));
      continue;
    }
    const from = place;
    while (place + 1 < lines.length && !near[place + 1]) ++place;
    box.append(el("span", {class: "skipped"}, `… ${place - from + 1} unchanged lines`));
  }
  return box;
}
