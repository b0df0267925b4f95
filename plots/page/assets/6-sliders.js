// What if: the load of the sliders, reckoned with the measured parts of each lock. Beyond twice
// what was measured a line says so and tells nothing.
const sliders = { rate: (v) => 10 ** v, hold: (v) => 1e6 * 10 ** v, keys: (v) => Math.round(10 ** v), rtt: (v) => 1e6 * v };
const told = { rate: (x) => Math.round(x) + "/s", hold: time, keys: (x) => x, rtt: time };
const reach = 2;
byID("noparts").hidden = data.sizes.length > 0;
function reckon(s, q) {
  const refuse = (says) => ({ says, refused: true });
  if (q.rate > reach * Math.max(s.rate, 1) * Math.max(1, q.keys / s.keys)) return refuse(`refused: ${told.rate(q.rate)} is more than twice what was measured for each key`);
  if (q.hold > reach * s.longest_hold) return refuse(`refused: a hold beyond ${time(reach * s.longest_hold)}, twice what was measured`);
  const service = q.hold + s.beyond + s.handoff + q.rtt;
  const use = q.rate / q.keys * service / 1e9, cores = q.rate * s.cpu / 1e9;
  const servers = Math.max(1, Math.ceil(cores / s.cores / 0.6));
  if (use >= 1) return { use, cores, servers, says: "the hottest key is asked for more than it gives" };
  const says = servers > 1 && q.keys === 1 ? "one key lives on one server, and fills it" : s.in_order ? "" : "it polls or is passed: no formula for its wait";
  const wait = s.in_order ? s.free + q.rtt + use * service / (2 * (1 - use)) : NaN;
  return { use, cores, servers, wait, says };
}
function whatIf() {
  const q = {};
  for (const [name, of] of Object.entries(sliders)) {
    const input = byID("s-" + name);
    q[name] = of(+input.value);
    input.parentElement.querySelector("output").textContent = told[name](q[name]);
    input.setAttribute("aria-valuetext", told[name](q[name]));
  }
  const body = byID("whatif").tBodies[0];
  body.replaceChildren(...data.sizes.map((s) => {
    const a = reckon(s, q), row = document.createElement("tr"), head = document.createElement("th");
    row.dataset.name = s.name;
    head.scope = "row";
    head.textContent = s.name;
    row.append(head);
    row.classList.toggle("refused", !!a.refused);
    const number = (x, text) => {
      const cell = document.createElement("td");
      cell.className = "n";
      cell.textContent = x === undefined || Number.isNaN(x) ? "–" : text(x);
      if (x !== undefined) cell.dataset.v = x;
      row.append(cell);
    };
    number(a.use, (x) => Math.round(100 * x) + " %");
    number(a.wait, time);
    number(a.cores, (x) => x.toPrecision(2));
    number(a.servers, String);
    const says = document.createElement("td");
    says.textContent = a.says;
    row.append(says);
    return row;
  }));
  const heads = all("th", byID("whatif").tHead), sorted = heads.findIndex((th) => /cending/.test(th.getAttribute("aria-sort")));
  if (sorted >= 0) sortTable(byID("whatif"), sorted, heads[sorted].getAttribute("aria-sort") === "descending");
  follow();
}
for (const name of Object.keys(sliders)) {
  const input = byID("s-" + name);
  if (state.get(name)) input.value = state.get(name);
  input.addEventListener("input", () => { state.set(name, input.value); whatIf(); });
}
whatIf();
