// A table whose rows are kept and updated in place, with a CSV of everything that it shows.
import { h } from "./dom.js";

// columns: [title, cell(row) → text or element, options: {num, short, wide, csv(row)}]
export class Table {
  constructor(columns, key, label) {
    this.columns = columns;
    this.key = key;
    this.rows = [];
    this.drawn = new Map();
    this.body = h("tbody");
    const head = columns.map(([title, , how = {}]) => h("th", { scope: "col", class: classOf(how) }, title));
    this.table = h("table", {}, h("thead", {}, h("tr", {}, head)), this.body);
    this.element = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, this.table);
  }

  update(rows) {
    this.rows = rows;
    const before = this.drawn;
    this.drawn = new Map();
    const elements = rows.map((row) => {
      const id = this.key(row);
      const text = JSON.stringify(row);
      const known = before.get(id);
      const drawn = known && known.text === text && !this.always ? known : { text, element: this.draw(row) };
      this.drawn.set(id, drawn);
      return drawn.element;
    });
    const focused = this.body.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    this.body.replaceChildren(...elements);
    if (focused) this.body.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
  }

  draw(row) {
    return h("tr", {}, this.columns.map(([, cell, how = {}]) => h("td", { class: classOf(how) }, cell(row) ?? "")));
  }

  csv() {
    const cell = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const safe = (text) => (/^[=+\-@\t]/.test(text) && !/^-?[\d.]+$/.test(text) ? `'${text}` : text);
    const textOf = ([, draw, how = {}], row) => {
      const found = how.csv ? how.csv(row) : draw(row);
      return safe(found instanceof Node ? found.textContent : String(found ?? ""));
    };
    const lines = [this.columns.map(([title]) => cell(title)), ...this.rows.map((row) => this.columns.map((column) => cell(textOf(column, row))))];
    return `${lines.map((line) => line.join(",")).join("\n")}\n`;
  }

  button(name) {
    return h("button", { type: "button", on: { click: () => this.save(name) } }, "CSV");
  }

  // The table with its button below it.
  withButton(name) {
    const button = this.button(name);
    button.className = "small";
    return h("div", {}, this.element, h("p", { class: "more" }, button));
  }

  save(name) {
    const address = URL.createObjectURL(new Blob([this.csv()], { type: "text/csv" }));
    h("a", { href: address, download: `${name}.csv` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }
}

function classOf({ num, short, wide }) {
  return [num && "num", short && "short", wide && "wide"].filter(Boolean).join(" ") || null;
}
