// A cell of the matrix shows what was done and seen in it.
function show(n) {
  const c = data.cells[n], box = byID("evidence");
  if (!c || !box) return;
  const title = document.createElement("h3"), said = document.createElement("p"), lines = document.createElement("pre");
  title.textContent = `${c.lock} under ${c.fault}: ${c.verdict}` + (c.plays > 1 ? `, the worst of ${c.plays} plays` : "");
  said.textContent = c.sentence + (c.fence ? ` A resource that checks tokens: ${c.fence}.` : "");
  lines.textContent = c.lines;
  box.replaceChildren(title, said, lines);
}
all("#matrix button[data-cell]").forEach((b) => b.addEventListener("click", () => {
  const c = data.cells[+b.dataset.cell];
  state.set("cell", c.lock + "|" + c.fault);
  show(+b.dataset.cell);
}));
if (state.get("cell")) {
  const [lock, fault] = state.list("cell");
  show(data.cells.findIndex((c) => c.lock === lock && c.fault === fault));
}
