// Charts of the locks that are shown. Each has its table beside it: that of the locks.
const NS = "http://www.w3.org/2000/svg";
function el(parent, name, attributes, text) {
  const e = document.createElementNS(NS, name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  parent.append(e);
  return e;
}
const time = (ns) => ns >= 1e9 ? +(ns / 1e9).toPrecision(3) + " s" : ns >= 1e6 ? +(ns / 1e6).toPrecision(3) + " ms" : ns >= 1e3 ? +(ns / 1e3).toPrecision(3) + " µs" : Math.round(ns) + " ns";
const colours = { redis: "#0072b2", valkey: "#56b4e9", mariadb: "#e69f00", mysql: "#e69f00", postgresql: "#d55e00", zookeeper: "#009e73", etcd: "#cc79a7", nats: "#7f5cc4", memory: "#888888" };
const colour = (engine) => colours[engine] || "#666666";
const inView = () => rows.filter((r) => !r.hidden && !r.classList.contains("off") && r.dataset.none === undefined);
function canvas(id, w, h, label) {
  const box = byID(id);
  box.replaceChildren();
  const svg = el(box, "svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": label });
  return svg;
}

// scatter draws grants a second against the longest wait, on a log axis.
function scatter() {
  const list = inView().filter((r) => r.dataset.rate && r.dataset.longest);
  const w = 900, h = 340, left = 60, bottom = 40;
  const svg = canvas("scatter", w, list.length ? h : 60, `Grants a second against the longest wait of ${list.length} locks; the figures are in the table above`);
  if (!list.length) { el(svg, "text", { x: 20, y: 40 }, "No lock is shown that has both figures."); return; }
  const xs = list.map((r) => Math.log10(+r.dataset.longest)), ys = list.map((r) => +r.dataset.rate);
  const x0 = Math.floor(Math.min(...xs)), x1 = Math.max(Math.ceil(Math.max(...xs)), x0 + 1), y1 = Math.max(...ys) * 1.08;
  const x = (v) => left + (v - x0) / (x1 - x0) * (w - left - 150), y = (v) => h - bottom - v / y1 * (h - bottom - 12);
  for (let d = x0; d <= x1; d++) {
    el(svg, "line", { class: "grid", x1: x(d), x2: x(d), y1: 12, y2: h - bottom });
    el(svg, "text", { x: x(d), y: h - bottom + 15, "text-anchor": "middle" }, time(10 ** d));
  }
  const ten = 10 ** Math.floor(Math.log10(y1)), step = ten * (y1 / ten > 5 ? 2 : y1 / ten > 2 ? 1 : 0.5);
  for (let v = 0; v <= y1; v += step) {
    el(svg, "line", { class: "grid", x1: left, x2: w - 150, y1: y(v), y2: y(v) });
    el(svg, "text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, +v.toPrecision(3));
  }
  el(svg, "text", { x: (left + w - 150) / 2, y: h - 6, "text-anchor": "middle" }, "longest wait");
  el(svg, "text", { x: 14, y: h / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${h / 2})` }, "grants a second");
  list.forEach((r, i) => {
    const c = el(svg, "circle", { class: "dot", cx: x(xs[i]), cy: y(ys[i]), r: 6, fill: colour(r.dataset.engine), tabindex: 0, "data-name": r.dataset.name });
    el(c, "title", {}, `${r.dataset.name}: ${Math.round(ys[i])}/s, longest wait ${time(+r.dataset.longest)}`);
  });
  // The best have their names beside them, where there is room for one.
  const good = (i) => ys[i] / y1 - (xs[i] - x0) / (x1 - x0);
  const taken = list.map((r, i) => ({ x: x(xs[i]) - 6, y: y(ys[i]) - 6, w: 12, h: 12 }));
  const free = (a) => a.y > 0 && a.y + a.h < h - bottom && !taken.some((b) => a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h);
  list.map((r, i) => i).sort((a, b) => good(b) - good(a)).slice(0, 8).forEach((i) => {
    const name = list[i].dataset.name, width = 6.5 * name.length, px = x(xs[i]), py = y(ys[i]);
    const spot = [[8, -7], [-width - 8, -7], [-width / 2, -22], [-width / 2, 8]].map(([dx, dy]) => ({ x: px + dx, y: py + dy, w: width, h: 14 })).find(free);
    if (!spot) return;
    taken.push(spot);
    el(svg, "text", { x: spot.x, y: spot.y + 11 }, name);
  });
  [...new Set(list.map((r) => r.dataset.engine))].forEach((name, i) => {
    el(svg, "circle", { cx: w - 130, cy: 22 + 18 * i, r: 5, fill: colour(name) });
    el(svg, "text", { x: w - 120, y: 26 + 18 * i }, name);
  });
}

// bars draws one figure of each lock, longest first, beside a second one in words.
function bars(id, field, label, text, most) {
  const list = inView().filter((r) => r.dataset[field]).sort((a, b) => +b.dataset[field] - +a.dataset[field]).slice(0, most);
  const line = 16, w = 900;
  const svg = canvas(id, w, Math.max(1, list.length) * line + 8, `${label} of ${list.length} locks; the figures are in the table above`);
  const max = Math.max(...list.map((r) => +r.dataset[field]), 1e-9);
  list.forEach((r, i) => {
    el(svg, "text", { x: 215, y: line * i + 14, "text-anchor": "end" }, r.dataset.name);
    const b = el(svg, "rect", { x: 222, y: line * i + 4, width: Math.max(1, +r.dataset[field] / max * 420), height: line - 5, fill: colour(r.dataset.engine) });
    el(b, "title", {}, r.dataset.name + ": " + text(r));
    el(svg, "text", { x: 228 + +r.dataset[field] / max * 420, y: line * i + 14 }, text(r));
  });
}
function draw() {
  scatter();
  bars("fair", "jain", "Evenness", (r) => (+r.dataset.jain).toFixed(3) + (r.dataset.rate ? ", " + Math.round(r.dataset.rate) + " grants/s" : ""), 80);
  bars("cost", "cpu", "Server CPU for a grant", (r) => time(+r.dataset.cpu), 80);
}
choose();
