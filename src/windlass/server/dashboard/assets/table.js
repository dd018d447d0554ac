// A table whose rows are kept and updated in place, with a CSV of everything that it has.
import { h } from "./dom.js";

const MOST_NARROW = 4; // columns of a table that a phone shows as one; of a wider one, each row is a card

// columns: [title, cell(row) → text or element, options: {num, short, wide, csv(row), csvTitle, optional, whole}]
// csv: text for programs instead, null for no column. csvTitle: the head there, with the unit of plain numbers.
// optional: hidden while all of its cells are empty. whole: takes the whole width of a card.
export class Table {
  constructor(columns, key, label) {
    this.columns = columns;
    this.key = key;
    this.rows = [];
    this.drawn = new Map();
    this.body = h("tbody");
    const head = columns.map(([title, , how = {}]) => h("th", { scope: "col", class: classOf(how) }, title));
    this.head = head;
    this.table = h("table", { class: columns.length > MOST_NARROW ? "cards" : null }, h("thead", {}, h("tr", {}, head)), this.body);
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
    this.hideEmpty();
    if (focused) this.body.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
  }

  draw(row) {
    return h("tr", {}, this.columns.map(([title, cell, how = {}], index) => {
      const content = cell(row) ?? "";
      const named = index && title.length > 1 && !(content instanceof Node && content.matches("a, .state, button"));
      return h("td", { class: classOf(how), "data-title": named && !how.whole ? title : null }, content === "" ? [] : content);
    }));
  }

  hideEmpty() {
    for (const [index, [, , how = {}]] of this.columns.entries()) {
      if (!how.optional) continue;
      const cells = [...this.body.rows].map((row) => row.cells[index]);
      const isEmpty = cells.every((cell) => !cell.textContent);
      for (const cell of [this.head[index], ...cells]) cell.classList.toggle("none", isEmpty);
    }
  }

  csv(rows) {
    const cell = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const safe = (text) => (/^[=+\-@\t]/.test(text) && !/^-?[\d.]+$/.test(text) ? `'${text}` : text);
    const textOf = ([, draw, how = {}], row) => {
      const found = how.csv ? how.csv(row) : draw(row);
      return safe(found instanceof Node ? found.textContent : String(found ?? ""));
    };
    const columns = this.columns.filter(([, , how = {}]) => how.csv !== null);
    const lines = [columns.map(([title, , how = {}]) => cell(how.csvTitle ?? title)), ...rows.map((row) => columns.map((column) => cell(textOf(column, row))))];
    return `${lines.map((line) => line.join(",")).join("\n")}\n`;
  }

  // `all`: returns every row where the table shows only some.
  button(name, all = null) {
    return h("button", { type: "button", on: { click: async () => this.save(name, all ? await all() : this.rows) } }, "CSV");
  }

  // The table with its button below it.
  withButton(name, all = null) {
    const button = this.button(name, all);
    button.className = "small";
    return h("div", {}, this.element, h("p", { class: "more" }, button));
  }

  save(name, rows) {
    const address = URL.createObjectURL(new Blob([this.csv(rows)], { type: "text/csv" }));
    h("a", { href: address, download: `${name}.csv` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }
}

function classOf({ num, short, wide, whole }) {
  return [num && "num", short && "short", wide && "wide", whole && "whole"].filter(Boolean).join(" ") || null;
}
