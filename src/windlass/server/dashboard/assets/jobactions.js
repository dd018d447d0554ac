// Buttons that change a job, each after a question.
import { act } from "./client.js";
import { encodeId, h } from "./dom.js";

const DETAILS = {
  cancel: "Its processes end after their grace period. This cannot be undone.",
  suspend: "Its processes end, and it waits until it is resumed.",
  resume: "It goes back into the queue.",
  rerun: "A new job with the same definition starts from the beginning. It has the daemon's environment: that of the shell which submitted the job is not kept.",
  priority: "Jobs with a higher number go first. A job that holds nodes can only be given a lower one.",
};
const NAMES = { cancel: "Cancel", suspend: "Suspend", resume: "Resume", rerun: "Run again", priority: "Priority" };
const HOLDING = ["Admitted", "Running", "Restarting"];

// `page`: the functions confirm, refresh and go of the page.
export function actionButtons(job, page) {
  return verbsOf(job).map((verb) => h("button", { type: "button", class: verb === "cancel" ? "danger" : null,
    on: { click: () => change(verb, job, page).catch((error) => page.confirm(`${NAMES[verb]} is not possible`, error.message, "Close")) } }, NAMES[verb]));
}

function verbsOf(job) {
  if (["Succeeded", "Failed"].includes(job.phase)) return ["rerun"];
  if (job.phase === "Suspended") return ["resume", "priority", "cancel"];
  return HOLDING.includes(job.phase) || job.phase === "Queued" ? ["priority", "suspend", "cancel"] : ["cancel"];
}

async function change(verb, job, page) {
  const input = verb === "priority" ? h("input", { type: "number", step: "1", "aria-label": "Priority", value: String(job.priority) }) : null;
  const answer = await page.confirm(`${NAMES[verb]}: ${job.id}?`, DETAILS[verb], verb === "priority" ? "Change" : NAMES[verb], input);
  if (answer === false) return;
  const done = await act(verb, job.id, verb === "priority" ? { priority: Number(answer) } : {});
  if (verb === "rerun") await page.go(`/jobs/${encodeId(done.ids[0])}`);
  else await page.refresh();
}
