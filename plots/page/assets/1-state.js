"use strict";
// What was chosen is kept in the hash of the address, as #view?sort=…, so that every view is a link.
const state = {
  values: new URLSearchParams(location.hash.split("?")[1] || ""),
  get(name, otherwise = "") { return this.values.get(name) ?? otherwise; },
  set(name, value) {
    if (value === "" || value === null) this.values.delete(name); else this.values.set(name, value);
    const text = this.values.toString();
    history.replaceState(null, "", text ? "#view?" + text : location.pathname + location.search);
  },
  list(name) { return this.get(name).split("|").filter(Boolean); },
};
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const byID = (id) => document.getElementById(id);
const data = JSON.parse(byID("data").textContent);

// A link to a section scrolls there and leaves the chosen view in the address.
all('a[href^="#"]').forEach((a) => a.addEventListener("click", (e) => {
  const to = byID(a.getAttribute("href").slice(1));
  if (!to) return;
  e.preventDefault();
  state.set("at", to.id);
  to.scrollIntoView();
  to.tabIndex = -1;
  to.focus({ preventScroll: true });
}));
byID("reset").addEventListener("click", () => { state.values = new URLSearchParams(); state.set("x", ""); location.reload(); });

// Dark and light: as the reader's system has it, until a choice is made.
const dark = () => state.get("theme") ? state.get("theme") === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
function paint() {
  document.documentElement.dataset.theme = dark() ? "dark" : "light";
  byID("theme").setAttribute("aria-pressed", dark());
}
byID("theme").addEventListener("click", () => { state.set("theme", dark() ? "light" : "dark"); paint(); });
paint();
