// The diagnosis of the newest failed attempt: verdict, the lines that prove it, and what to do next.
import { encodeId, h, section } from "./dom.js";

export class Findings {
  constructor(id, get) {
    this.path = `/api/findings/${encodeId(id)}`;
    this.id = id;
    this.get = get;
    this.element = section("findings", "What went wrong");
    this.attempt = 0;
    this.waiting = h("p", { class: "about", role: "status" }, "The output of the failed attempt is read for its cause …");
  }

  // The output of a failed attempt does not change: asked for once each.
  async update(job) {
    const attempt = job.status.failed_generation;
    if (!attempt || attempt === this.attempt || this.isAsking) return;
    this.isAsking = true; // a diagnosis takes longer than the next version
    if (!this.attempt) this.element.append(this.waiting);
    this.element.hidden = false;
    const found = await this.get(this.path).finally(() => { this.isAsking = false; });
    this.attempt = attempt;
    this.element.hidden = !found.verdict && !found.unseen.length;
    this.element.replaceChildren(this.element.firstChild, ...(found.verdict ? this.verdict(found) : []), ...gaps(found.unseen));
  }

  verdict({ attempt, verdict }) {
    const where = [verdict.rank === null ? "" : `rank ${verdict.rank}`, verdict.node ?? ""].filter(Boolean).join(" on ");
    const command = verdict.command || `windlass doctor ${this.id}`;
    return [
      h("p", { class: "verdict" }, h("b", {}, verdict.text)),
      h("p", { class: "about" }, `${verdict.certainty}, in attempt ${attempt}${where ? `, ${where}` : ""}. ${verdict.why}`),
      h("h3", {}, "Fix"), h("p", {}, verdict.fix), h("pre", { class: "command", tabindex: "0" }, command),
      ...(verdict.evidence.length ? [h("h3", {}, "Evidence"), h("ul", { class: "evidence" }, verdict.evidence.map(lineOf))] : []),
      ...(verdict.alternatives.length ? [h("h3", {}, "Also possible"), h("ul", {}, verdict.alternatives.map((each) =>
        h("li", {}, each.text, each.decide ? h("span", { class: "about" }, ` ${each.decide}`) : null)))] : []),
    ];
  }
}

function lineOf(line) {
  return h("li", {}, h("code", {}, line.text), h("span", { class: "about" }, ` ${line.source}${line.line ? `, line ${line.line}` : ""}`));
}

function gaps(unseen) {
  return unseen.length ? [h("p", { class: "about" }, `Not seen: ${unseen.join("; ")}`)] : [];
}
