// Checkpoints of a job, and the work that each failure has cost.
import { encodeId, h, section } from "./dom.js";
import { bytes, clock, count, duration, iso, seconds } from "./format.js";
import { Table } from "./table.js";

const PAUSE_MS = 10_000; // between two readings of the folder

export class Checkpoints {
  constructor(id, get) {
    this.path = `/api/checkpoints/${encodeId(id)}`;
    this.get = get;
    this.about = h("p", { class: "about" });
    this.saved = new Table([
      ["Step", (row) => (row.step === null ? "" : String(row.step)), { num: true }], ["State", (row) => row.state],
      ["Saved", (row) => clock(row.saved_at), { short: true, csv: (row) => iso(row.saved_at) }], ["Size", (row) => bytes(row.size), { num: true, csv: (row) => row.size ?? "", csvTitle: "Size (bytes)" }], ["Problem", (row) => row.why, { optional: true }],
    ], (row) => row.folder, "Checkpoints");
    this.lost = new Table([
      ["When", (row) => clock(row.at), { short: true, csv: (row) => iso(row.at) }], ["Lost steps", (row) => (row.steps === null ? "unknown" : String(row.steps)), { num: true }],
      ["Lost time", (row) => (row.time === null ? "unknown" : duration(row.time)), { num: true, csv: (row) => seconds(row.time), csvTitle: "Lost time (s)" }], ["Cause", (row) => row.text, { whole: true }],
    ], (row) => `${row.at} ${row.text}`, "Lost work");
    this.lossTitle = h("h3", {}, "Lost work");
    this.element = section("checkpoints", "Checkpoints", this.about, this.saved.withButton("checkpoints"), this.lossTitle, this.lost.withButton("lost work"));
    this.at = 0;
    this.losses = []; // for the head of the page as well
  }

  async update(job) {
    const ended = ["Succeeded", "Failed"].includes(job.phase);
    if (!job.attempts || (Date.now() - this.at < PAUSE_MS && !(ended && !this.ended))) return;
    Object.assign(this, { at: Date.now(), ended });
    let found;
    try { found = await this.get(this.path); } catch { return; }
    this.element.hidden = !found.checkpoints.length && !found.losses.length && !(found.is_remote && found.place) && !found.newest_at;
    this.saved.update(found.checkpoints);
    this.saved.element.parentElement.hidden = !found.checkpoints.length;
    this.losses = found.losses;
    this.lost.update(found.losses);
    for (const each of [this.lossTitle, this.lost.element.parentElement]) each.hidden = !found.losses.length;
    this.about.textContent = explanation(found, job);
  }
}

// The work that all failures together have cost, in words; empty if no rank was lost.
export function totalLoss(losses) {
  if (!losses.length) return "";
  const known = (part) => losses.map((each) => each[part]).filter((value) => value !== null);
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const [steps, times] = [known("steps"), known("time")];
  const parts = [steps.length ? count(sum(steps), "step") : "", times.length ? duration(sum(times)) : ""].filter(Boolean);
  return `${parts.length ? parts.join(", ") : "unknown"} by ${count(losses.length, losses.some((each) => each.is_stop) ? "interruption" : "failure")}`;
}

function explanation(found, job) {
  if (found.trouble) return found.trouble;
  if (found.is_remote) return [remotePlace(found, job.id), newest(found, job.now), unknownLoss(found.losses)].filter(Boolean).join(" ");
  if (!found.checkpoints.length) return "None is in the folder of the job. A script that names another folder keeps them there.";
  return `${count(found.checkpoints.length, "checkpoint")} in ${found.place}`;
}

// Where checkpoints lie that are not read here, and the command that lists them. The author of the job chooses the place,
// and a reader of the page runs the command: the place is one word, and no option.
function remotePlace({ place, is_folder: isFolder }, id) {
  if (!place) return "The environment of the job does not name their place (WINDLASS_CHECKPOINTS).";
  const list = `windlass checkpoint ls ${place.startsWith("-") ? "-- " : ""}${shellWord(place)}`;
  return isFolder ? `They are in ${place} of its pods: windlass exec ${id} -- ${list}` : `They are in ${place}: ${list}`;
}

// A text as one word of a shell.
export function shellWord(text) {
  return /^[\w@%+=:,./][\w@%+=:,./-]*$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function unknownLoss(losses) {
  const isUnknown = losses.some((each) => each.steps === null && each.time === null);
  return isUnknown ? "What earlier failures have cost is unknown: steps are not recorded, and these checkpoints are not read." : "";
}

function newest({ newest_at: at }, now) {
  return at ? `A failure now would cost the work since ${clock(at)}, ${duration(now - at)} ago.` : "";
}
