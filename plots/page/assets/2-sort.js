// Tables sort by a click on a head, or by the key Enter on it.
function valueOf(row, i) {
  const cell = row.cells[i];
  if (!cell) return ["", NaN];
  const number = cell.dataset.v !== undefined ? parseFloat(cell.dataset.v) : parseFloat(cell.textContent.replace(/[^\d.eE+-]/g, ""));
  return [cell.textContent.trim(), cell.classList.contains("n") ? number : NaN];
}
function sortTable(table, i, down) {
  const body = table.tBodies[0];
  const sign = down ? -1 : 1;
  [...body.rows].map((row) => [valueOf(row, i), row]).sort(([[at, an]], [[bt, bn]]) => {
    const a = Number.isNaN(an), b = Number.isNaN(bn);
    if (!a && !b) return sign * (an - bn);
    if (a !== b) return a ? 1 : -1; // what is not known is last either way
    return sign * at.localeCompare(bt);
  }).forEach(([, row]) => body.append(row));
  all("th", table.tHead).forEach((th, j) => th.setAttribute("aria-sort", j === i ? (down ? "descending" : "ascending") : "none"));
}
all("table.sortable").forEach((table, n) => {
  const name = "sort" + n;
  all("th", table.tHead).forEach((th, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...th.childNodes);
    th.append(button);
    button.addEventListener("click", () => {
      const down = th.getAttribute("aria-sort") === "ascending";
      sortTable(table, i, down);
      state.set(name, i + (down ? "d" : "a"));
    });
  });
  const kept = /^(\d+)([ad])$/.exec(state.get(name));
  if (kept && +kept[1] < table.tHead.rows[0].cells.length) sortTable(table, +kept[1], kept[2] === "d");
});
