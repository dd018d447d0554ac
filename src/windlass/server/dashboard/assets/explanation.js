// Why a job waits: position, reason, start, which jobs hold what it needs, and the nodes as it sees them.
import { h, jobLink } from "./dom.js";
import { amount, duration, starts } from "./format.js";
import { Table } from "./table.js";

const FEW_NODES = 12;
const MOST_NODES = 100;

// `job`: its line, with the time `now` of the answer.
export function explanationOf(job, found) {
  const all = found.explanation;
  const parts = [h("p", {}, h("b", {}, job.position ? `Position ${job.position}: ` : ""), job.message, " ", h("span", { class: "reason" }, job.reason))];
  const when = starts(job, job.now) || (all?.expected ? `in ${duration(Math.max(0, all.expected - job.now))} (expected)` : "");
  parts.push(h("p", {}, when ? `Starts ${when}.` : "Its start is unknown: jobs that run or go before it have no time limit."));
  if (!all) return parts;
  if (all.never) parts.push(h("p", { class: "finding" }, all.never));
  if (all.would_start.length) parts.push(h("p", {}, `Would start now with: ${all.would_start.map((each) => each.change).join("; ")}`));
  if (all.frees.length) {
    const table = new Table([["Holds what it needs", (row) => jobLink(row.job_id)],
      ["Amount", (row) => amount(all.resource, row.amount), { num: true }],
      ["Ends", (row) => (row.ends_by ? `in ${duration(Math.max(0, row.ends_by - job.now))}` : "has no time limit"), { num: true }]], (row) => row.job_id, "Jobs that hold what it needs");
    table.update(all.frees);
    parts.push(table.withButton("what frees it"));
  }
  if (all.resource) parts.push(...nodesOf(all));
  return parts;
}

// Few nodes one by one; many by their reason, and one by one on request.
function nodesOf(all) {
  const reasonOf = (row) => row.cause || (row.held_for ? `kept for ${row.held_for}` : row.fits ? "has room" : "is in use");
  const table = new Table([["Node", (row) => row.node], ["Free", (row) => `${amount(all.resource, row.free)} of ${amount(all.resource, row.capacity)}`, { num: true }],
    ["Replicas that fit", (row) => String(row.fits), { num: true }], ["Reason", reasonOf]], (row) => row.node, "Nodes");
  table.update(all.nodes.slice(0, MOST_NODES));
  if (all.nodes.length <= FEW_NODES) return [table.withButton("nodes")];
  const groups = new Map();
  for (const row of all.nodes) {
    const reason = reasonOf(row);
    const group = groups.get(reason) ?? { reason, nodes: 0, free: 0, fits: 0 };
    groups.set(reason, { reason, nodes: group.nodes + 1, free: group.free + row.free, fits: group.fits + row.fits });
  }
  const sums = new Table([["Nodes", (row) => row.nodes.toLocaleString("en"), { num: true }], ["Reason", (row) => row.reason],
    ["Free", (row) => amount(all.resource, row.free), { num: true }], ["Replicas that fit", (row) => row.fits.toLocaleString("en"), { num: true }]], (row) => row.reason, "Nodes by reason");
  sums.update([...groups.values()].sort((a, b) => b.fits - a.fits || b.nodes - a.nodes));
  const more = all.nodes.length > MOST_NODES ? ` (the first ${MOST_NODES})` : "";
  return [sums.withButton("nodes by reason"), h("details", { "data-kept": "nodes" }, h("summary", {}, `Node by node${more}`), table.withButton("nodes"))];
}
