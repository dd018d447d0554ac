// Draws the Markdown of labs and cards: headings, paragraphs, lists, tables, quotes, code. Text goes through text nodes only.
import { h } from "./dom.js";

const FENCE = /^\s*(`{3,})(\w*)/;
const ITEM = /^(\s*)(?:[-*]|\d+\.)\s+(.*)$/;
const INLINE = /(`[^`]+`)|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*|\[([^\]]+)\]\(([^)\s]+)\)/g;

// Elements of a text. Headings begin at level `top`.
export function markdown(text, top = 2) {
  const lines = text.split("\n");
  const elements = [];
  while (lines.length) {
    const line = lines[0];
    if (!line.trim()) lines.shift();
    else if (FENCE.test(line)) elements.push(code(lines));
    else if (/^#+ /.test(line)) elements.push(heading(lines.shift(), top));
    else if (line.startsWith("|")) elements.push(table(take(lines, (each) => each.startsWith("|"))));
    else if (ITEM.test(line)) elements.push(list(lines));
    else if (line.startsWith("> ")) elements.push(h("blockquote", {}, inline(take(lines, (each) => each.startsWith(">")).map((each) => each.replace(/^> ?/, "")).join(" "))));
    else elements.push(h("p", {}, inline(paragraph(lines))));
  }
  return elements;
}

function take(lines, fits) {
  const end = lines.findIndex((line) => !fits(line));
  return lines.splice(0, end < 0 ? lines.length : end);
}

function paragraph(lines) {
  return [lines.shift(), ...take(lines, (line) => line.trim() && !FENCE.test(line) && !/^(#+ |\||> )/.test(line) && !ITEM.test(line))].join(" ");
}

function code(lines) {
  const [, fence, language] = FENCE.exec(lines.shift());
  const inside = take(lines, (line) => !line.trim().startsWith(fence));
  lines.shift();
  return h("pre", { class: "command", tabindex: "0", "aria-label": language === "sh" ? "Commands to type" : "Text" }, h("code", {}, inside.join("\n")));
}

function heading(line, top) {
  const [marks, ...words] = line.split(" ");
  return h(`h${Math.min(6, marks.length + top - 1)}`, {}, inline(words.join(" ")));
}

function list(lines) {
  const isOrdered = /^\s*\d/.test(lines[0]);
  const items = [];
  while (lines.length && ITEM.test(lines[0])) {
    const [, indent, first] = ITEM.exec(lines.shift());
    const more = take(lines, (line) => line.trim() && !ITEM.test(line) && line.startsWith(`${indent} `));
    items.push(h("li", {}, inline([first, ...more.map((each) => each.trim())].join(" "))));
    if (!lines[0]?.trim() && ITEM.test(lines[1] ?? "")) lines.shift();
  }
  return h(isOrdered ? "ol" : "ul", {}, items);
}

function table(lines) {
  const cells = (line) => line.replace(/^\||\|\s*$/g, "").split("|").map((cell) => cell.trim());
  const [head, , ...rows] = lines.map(cells);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table" }, h("table", {},
    h("thead", {}, h("tr", {}, head.map((cell) => h("th", { scope: "col" }, inline(cell))))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, inline(cell))))))));
}

// Text with code, emphasis and links, within one element.
export function inline(text) {
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(INLINE)) {
    const [all, literal, strong, emphasis, label, address] = found;
    parts.push(text.slice(end, found.index));
    if (literal) parts.push(h("code", {}, literal.slice(1, -1)));
    else if (strong) parts.push(h("strong", {}, inline(strong)));
    else if (emphasis) parts.push(h("em", {}, inline(emphasis)));
    else parts.push(/^https:\/\//.test(address) ? h("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, label) : label);
    end = found.index + all.length;
  }
  return [...parts, text.slice(end)];
}
