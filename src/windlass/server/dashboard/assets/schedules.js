import { empty, h, jobLink, section as partOf, stateOf } from "./dom.js";
import { clock, iso } from "./format.js";
import { Table } from "./table.js";

const PERIOD_MS = 5_000; // between two requests: each reads the last runs of every schedule
const NONE = "No job is submitted again by a schedule. One for every night is made by:";
const COMMAND = ["windlass submit", "--name nightly --cron \"0 3 * * *\" -- python train.py"];
const CUT = "There are more schedules than these. All of a namespace are listed by: windlass queue --schedules";
const OPTIONS = "--on CONTEXT --image IMAGE "; // of a cluster

// The table of schedules, below the queue.
export class Schedules {
  // `about`: the session, in which a cluster names the user.
  constructor(get, about) {
    this.get = get;
    this.command = `${COMMAND[0]} ${about.user ? OPTIONS : ""}${COMMAND[1]}`;
    this.at = 0;
    const id = (row) => row.id || row.name;
    this.table = new Table([
      ["Schedule", (row) => (row.id ? row.id : h("a", { href: `/history?name=${encodeURIComponent(row.name)}` }, row.name))],
      ["State", stateOfSchedule, { short: true }],
      ["Times", (row) => `${row.cron} (${row.time_zone})`],
      ["Next run", (row) => clock(row.next), { short: true, csv: (row) => iso(row.next) }],
      ["While a run is active", (row) => row.policy, { wide: true }],
      ["Last runs", lastRuns],
      ["Latest outcome", (row) => row.notes.at(-1)?.message || "", { whole: true, optional: true }],
    ], id, "Schedules");
    this.body = h("div", {});
    this.cut = h("p", { hidden: true }, CUT);
    this.section = partOf("schedules", "Schedules", this.body, this.cut);
  }

  async update() {
    if (Date.now() - this.at < PERIOD_MS) return;
    this.at = Date.now();
    const { schedules, is_cut: isCut } = await this.get("/api/schedules");
    this.cut.hidden = !isCut;
    this.table.update(schedules);
    if (!schedules.length) this.body.replaceChildren(empty(NONE, this.command));
    else if (this.table.element.parentNode !== this.body) this.body.replaceChildren(this.table.element);
    this.section.hidden = false;
  }
}

function stateOfSchedule(row) {
  const name = row.suspended ? "Suspended" : row.active.length ? "Running" : "Queued";
  return h("span", { class: `state ${name}` }, { Suspended: "suspended", Running: "run active", Queued: "waits for its time" }[name]);
}

function lastRuns(row) {
  const ended = row.runs.map((run) => [jobLink(run.id), " ", stateOf(run)]);
  const all = [...row.active.map((id) => [jobLink(id), " active"]), ...ended];
  return h("span", {}, all.flatMap((parts, index) => (index ? [", ", ...parts] : parts)));
}
