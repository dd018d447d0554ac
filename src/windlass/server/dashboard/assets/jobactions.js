// Buttons that change a job, each after a question.
import { act, get } from "./client.js";
import { encodeId, h } from "./dom.js";

const DETAILS = {
  cancel: "Its processes end after their grace period. This cannot be undone.",
  suspend: "Its processes end, and it waits until it is resumed.",
  resume: "It goes back into the queue.",
  priority: "Jobs with a higher number go first. A job that holds nodes can only be given a lower one.",
};
const NAMES = { cancel: "Cancel", suspend: "Suspend", resume: "Resume", rerun: "Run again", priority: "Priority" };
const HOLDING = ["Admitted", "Running", "Restarting"];

// `current`: returns the job as it was last shown. `page`: the functions confirm, refresh and go of the page.
// `refusals`: why the visitor may not change the job, or run it again; empty for what the visitor may.
export function actionButtons(current, page, refusals = {}) {
  const verbs = verbsOf(current());
  const refusalOf = (verb) => refusals[verb === "rerun" ? "rerun" : "change"] ?? null;
  const buttons = verbs.map((verb) => h("button", { type: "button", class: verb === "cancel" ? "danger" : null, disabled: refusalOf(verb) !== null, title: refusalOf(verb),
    on: { click: () => change(verb, current(), page).catch((error) => page.confirm(`${NAMES[verb]} is not possible`, error.message, "Close")) } }, NAMES[verb]));
  const reason = refusalOf(verbs[0]);
  return reason === null ? buttons : [...buttons, h("p", { class: "about refusal" }, reason)];
}

function verbsOf(job) {
  if (["Succeeded", "Failed"].includes(job.phase)) return ["rerun"];
  if (job.phase === "Suspended") return ["resume", "priority", "cancel"];
  return HOLDING.includes(job.phase) || job.phase === "Queued" ? ["priority", "suspend", "cancel"] : ["cancel"];
}

async function change(verb, job, page) {
  const input = verb === "priority" ? h("input", { type: "number", step: "1", required: true, "aria-label": "Priority", value: String(job.priority) }) : null;
  const detail = verb === "rerun" ? rerunDetail(await get(`/api/rerun/${encodeId(job.id)}`)) : DETAILS[verb];
  const answer = await page.confirm(`${NAMES[verb]}: ${job.id}?`, detail, verb === "priority" ? "Change" : NAMES[verb], input);
  if (answer === false) return;
  const done = await act(verb, job.id, verb === "priority" ? { priority: Number(answer) } : {});
  if (verb === "rerun") await page.go(`/jobs/${encodeId(done.ids[0])}`);
  else await page.refresh();
}

// What a second run takes over from the first. `found`: its environment.
function rerunDetail(found) {
  if (found.is_object) return objectDetail(found.checkpoints);
  const begins = found.checkpoints ? `It goes on from the checkpoints in ${found.checkpoints}, which its environment names.` : "It starts from the beginning.";
  if (!found.is_kept) return `A new job has the same definition. ${begins} It has the daemon's environment: that of the first run is not known.`;
  const secrets = [
    found.filled.length ? `Values of ${found.filled.join(", ")} are the daemon's.` : "",
    found.missing.length ? `It lacks ${found.missing.join(", ")}: values that may be secrets are not kept after the end. To set them, submit it from the command line.` : "",
  ];
  return ["A new job has the same definition and environment.", begins, ...secrets].filter(Boolean).join(" ");
}

function objectDetail(place) {
  const there = place ? ` and the checkpoints in ${place}` : "";
  return `A new object has the same definition, without an array and what the first one waited for. It uses the same volumes${there}: a script that finds its checkpoints there goes on from them.`;
}
