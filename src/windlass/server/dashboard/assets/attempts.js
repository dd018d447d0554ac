// Attempts of a job side by side: nodes, ranks, what ended each, and what differs from the attempt before.
import { h, section } from "./dom.js";
import { count } from "./format.js";
import { Table } from "./table.js";

export class Attempts {
  constructor() {
    this.table = new Table([
      ["Attempt", (row) => String(row.attempt), { num: true }], ["Ranks", (row) => String(row.ranks), { num: true }],
      ["Nodes", (row) => row.nodes.join(", ")], ["Compared with the one before", (row) => row.change],
      ["Changed definition", (row) => row.defined, { optional: true }],
      ["Ended by", (row) => row.end, { whole: true }],
    ], (row) => row.attempt, "Attempts");
    this.element = section("attempts", "Attempts", this.table.withButton("attempts"));
  }

  update(job) {
    const rows = attemptsOf(job.tasks, job.transitions);
    this.element.hidden = rows.length < 2;
    this.table.update(rows);
  }
}

// `transitions`: the history of the job, in which each start begins an attempt.
export function attemptsOf(tasks, transitions = []) {
  const found = new Map();
  for (const task of tasks) found.set(task.generation, [...(found.get(task.generation) ?? []), task]);
  const rows = [...found].sort(([a], [b]) => a - b).map(([attempt, all]) => {
    const broken = all.find((task) => task.code || task.signal);
    const how = broken && (broken.detail || (broken.signal ? `signal ${broken.signal}` : `exit code ${broken.code}`));
    return { attempt, ranks: all.length, nodes: [...new Set(all.map((task) => task.node))], end: broken ? `rank ${broken.rank} on ${broken.node}: ${how}` : "" };
  });
  const starts = transitions.filter((each) => each.event === "Started").map((each) => each.at);
  return rows.map((row, index) => ({ ...row, change: index ? difference(rows[index - 1], row) : "",
    defined: index ? changesBetween(transitions, starts[index - 1], starts[index]) : "" }));
}

// Changes of the definition between two starts.
function changesBetween(transitions, from, to) {
  const found = transitions.filter((each) => each.event === "Changed" && each.at >= from && (to === undefined || each.at <= to));
  return found.map((each) => each.message).join("; ");
}

function difference(before, after) {
  const parts = [
    ...after.nodes.filter((node) => !before.nodes.includes(node)).map((node) => `+ ${node}`),
    ...before.nodes.filter((node) => !after.nodes.includes(node)).map((node) => `− ${node}`),
  ];
  const ranks = after.ranks - before.ranks;
  if (ranks) parts.push(`${count(Math.abs(ranks), "rank")} ${ranks > 0 ? "more" : "fewer"}`);
  return parts.join(", ") || "the same nodes";
}
