// On paper nothing can be opened, so everything is; what was closed is closed again after it.
let opened = [];
addEventListener("beforeprint", () => {
  opened = all("details:not([open])");
  opened.forEach((d) => { d.open = true; });
});
addEventListener("afterprint", () => opened.forEach((d) => { d.open = false; }));
