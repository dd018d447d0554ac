// Attempts of a job side by side: nodes, ranks, what ended each, and what differs from the attempt before.
import { h, section } from "./dom.js";
import { count } from "./format.js";
import { Table } from "./table.js";

export class Attempts {
  constructor() {
    this.table = new Table([
      ["Attempt", (row) => String(row.attempt), { num: true }], ["Ranks", (row) => String(row.ranks), { num: true }],
      ["Nodes", (row) => row.nodes.join(", ")], ["Compared with the one before", (row) => row.change],
      ["Ended by", (row) => row.end],
    ], (row) => row.attempt, "Attempts");
    this.element = section("attempts", "Attempts", this.table.withButton("attempts"));
  }

  update(job) {
    const rows = attemptsOf(job.tasks);
    this.element.hidden = rows.length < 2;
    this.table.update(rows);
  }
}

export function attemptsOf(tasks) {
  const found = new Map();
  for (const task of tasks) found.set(task.generation, [...(found.get(task.generation) ?? []), task]);
  const rows = [...found].sort(([a], [b]) => a - b).map(([attempt, all]) => {
    const broken = all.find((task) => task.code || task.signal);
    const how = broken && (broken.detail || (broken.signal ? `signal ${broken.signal}` : `exit code ${broken.code}`));
    return { attempt, ranks: all.length, nodes: [...new Set(all.map((task) => task.node))], end: broken ? `rank ${broken.rank} on ${broken.node}: ${how}` : "" };
  });
  return rows.map((row, index) => ({ ...row, change: index ? difference(rows[index - 1], row) : "" }));
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
