// Puts the page together: the policies' switches, a figure for each chart, the gantt.

(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const names = data.policies;
  const charts = data.charts.map((chart) => new Chart(chart, names));
  document.getElementById("charts").append(...charts.map((chart) => chart.figure));
  const gantt = data.gantt && new Gantt(data.gantt, names, document.getElementById("gantt"));

  const bar = document.getElementById("policies");
  names.forEach((name, index) => {
    const button = made("button", { type: "button", "aria-pressed": "true", style: `--of: var(--p${index % 8})` }, name);
    button.addEventListener("click", () => {
      const visible = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(visible));
      charts.forEach((chart) => chart.show(index, visible));
    });
    bar.append(button);
  });

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    charts.forEach((chart) => chart.draw());
    if (gantt) gantt.draw();
  });

  const copy = document.getElementById("copy");
  copy.addEventListener("click", async () => {
    const code = document.querySelector(".repeat code");
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      // A page opened from a file may not write to the clipboard: mark the text, so that Ctrl-C does.
      getSelection().selectAllChildren(code);
      copy.textContent = "Marked";
      return;
    }
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  });
})();
