// Guarantees and words filter the locks; a box before each lock hides it in tables and charts.
const rows = all("#main tbody tr");
const wants = all("input[name=want]"), shows = all("input[name=show]"), find = byID("find");
const hidden = new Set(state.list("hide"));
wants.forEach((box) => { box.checked = state.list("want").includes(box.value); });
find.value = state.get("find");
shows.forEach((box) => { box.checked = !hidden.has(box.value); });

// follow hides in the other tables what is not chosen in the main one.
function follow() {
  const out = new Set(rows.filter((r) => r.hidden || r.classList.contains("off")).map((r) => r.dataset.name));
  all("tbody tr[data-name]").forEach((row) => { if (!rows.includes(row)) row.hidden = out.has(row.dataset.name); });
}
function choose() {
  const wanted = wants.filter((b) => b.checked).map((b) => b.value);
  const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
  let n = 0;
  rows.forEach((row) => {
    const traits = row.dataset.traits.split(" ");
    const text = (row.dataset.name + " " + row.dataset.engine).toLowerCase();
    row.hidden = !wanted.every((w) => traits.includes(w)) || !words.every((w) => text.includes(w));
    row.classList.toggle("off", hidden.has(row.dataset.name));
    if (!row.hidden) n++;
  });
  follow();
  byID("shown").textContent = n + " of " + rows.length + " locks";
  draw();
}
wants.forEach((box) => box.addEventListener("change", () => { state.set("want", wants.filter((b) => b.checked).map((b) => b.value).join("|")); choose(); }));
shows.forEach((box) => box.addEventListener("change", () => {
  if (box.checked) hidden.delete(box.value); else hidden.add(box.value);
  state.set("hide", [...hidden].join("|"));
  choose();
}));
find.addEventListener("input", () => { state.set("find", find.value); choose(); });
