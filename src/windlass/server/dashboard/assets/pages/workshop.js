import { paced } from "../client.js";
import { empty, facts, h, section } from "../dom.js";
import { count } from "../format.js";
import { inline, markdown } from "../markdown.js";
import { Table } from "../table.js";

const POLL_MS = 5_000; // progress is no part of the cluster's state
const STATES = { accepted: ["Succeeded", "accepted"], started: ["Admitted", "started"], new: ["Queued", "not started"] };

export function create({ get, about, argument }) {
  if (!about.views.includes("workshop")) return { elements: [h("h1", {}, "Workshop"), empty("The workshop runs on your own machine:", "windlass lab list")], async update() {} };
  return argument ? part(get, argument) : overview(get);
}

function overview(get) {
  const labs = new Table([
    ["Lab", (row) => h("a", { href: `/workshop/labs/${encodeURIComponent(row.id)}` }, row.id)],
    ["Title", (row) => row.title],
    ["State", state, { short: true }],
    ["Minutes", (row) => String(row.minutes), { num: true }],
    ["Needs", (row) => row.needs.join(", ") || "Python"],
    ["Path", (row) => row.days.map((day) => (day === 1 ? "one day" : "two days")).join(", "), { wide: true }],
    ["Checks", (row) => (row.checks ? String(row.checks) : ""), { num: true, wide: true }],
    ["Hints", (row) => (row.hints ? String(row.hints) : ""), { num: true, wide: true }],
  ], (row) => row.id, "Labs");
  const quizzes = new Table([
    ["Module", (row) => row.module], ["Quiz", (row) => row.title], ["Before", (row) => row.before, { num: true }], ["After", (row) => row.after, { num: true }],
  ], (row) => row.module, "Scores of quizzes");
  const total = h("p", { class: "about", role: "status" });
  const bar = h("progress", { max: "1", value: "0", "aria-label": "Accepted labs" });
  const cards = h("ul", { class: "links" });
  const parts = [section("labs", "Labs", bar, labs.element, h("p", { class: "about" }, "Labs are done in a terminal: ", h("code", {}, "windlass lab start c1"), " prints the steps and makes the files.")),
    section("cards", "Concept cards", cards), section("quizzes", "Quizzes", quizzes.element)];
  return polled(get, {
    elements: [h("div", { class: "head" }, h("div", {}, h("h1", {}, "Workshop"), total), h("div", { class: "tools" }, labs.button("workshop"))), ...parts],
    path: "/api/workshop",
    draw(found) {
      const accepted = found.labs.filter((lab) => lab.state === "accepted");
      total.textContent = `${accepted.length} of ${count(found.labs.length, "lab")} accepted, in ${found.folder}`;
      bar.value = found.labs.length ? accepted.length / found.labs.length : 0;
      labs.update(found.labs);
      quizzes.update(found.quizzes);
      cards.replaceChildren(...found.cards.map((card) => h("li", {}, h("a", { href: `/workshop/cards/${encodeURIComponent(card.name)}` }, card.title))));
      for (const each of parts) each.hidden = false;
    },
  });
}

// A lab or a card: `labs/c1`, `cards/gangs`.
function part(get, argument) {
  const body = h("section", { class: "prose" });
  const above = h("div", {});
  return polled(get, {
    elements: [h("p", {}, h("a", { href: "/workshop" }, "All labs and cards")), above, body],
    path: `/api/workshop/${argument.split("/").map(encodeURIComponent).join("/")}`,
    draw(found) {
      const [title, ...text] = found.text.split("\n");
      above.replaceChildren(h("h1", {}, title.replace(/^#+ /, "")), ...(found.id ? [labFacts(found)] : []));
      body.replaceChildren(...(found.gpu ? [h("p", {}, h("strong", {}, "Where GPUs are real: "), inline(found.gpu))] : []), ...markdown(text.join("\n"), 1));
    },
  });
}

function labFacts(lab) {
  return facts([["State", state(lab)], ["Minutes", String(lab.minutes)], ["Needs besides Python", lab.needs.join(", ")],
    ["Cards", h("span", {}, lab.cards.map((name, index) => [index ? ", " : "", h("a", { href: `/workshop/cards/${encodeURIComponent(name)}` }, name)]).flat())],
    ["In a terminal", h("code", {}, `windlass lab start ${lab.id}`)]]);
}

function state(lab) {
  const [colour, text] = STATES[lab.state];
  return h("span", { class: `state ${colour}` }, text);
}

// A page that asks again while it is open.
function polled(get, { elements, path, draw }) {
  const ask = paced(() => get(path));
  let [timer, shown] = [0, ""];
  const page = {
    elements,
    close: () => clearInterval(timer),
    async update() {
      const found = await ask(path);
      if (!found || JSON.stringify(found) === shown) return;
      shown = JSON.stringify(found);
      draw(found);
    },
  };
  timer = setInterval(() => { if (!document.hidden) page.update().catch(() => {}); }, POLL_MS);
  return page;
}
