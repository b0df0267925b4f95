// All metrics of all runs, without histograms.
function csv() {
  const quote = (v) => v === null ? "" : /[",\n]/.test(v) ? '"' + String(v).replaceAll('"', '""') + '"' : v;
  return [["id", "trial", "time", "valid", ...data.metrics], ...data.runs].map((line) => line.map(quote).join(",")).join("\n") + "\n";
}
byID("csv").addEventListener("click", () => {
  const a = document.createElement("a");
  a.href = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
  a.download = "lockbench.csv";
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 1000);
});
if (state.get("at") && byID(state.get("at"))) byID(state.get("at")).scrollIntoView();
