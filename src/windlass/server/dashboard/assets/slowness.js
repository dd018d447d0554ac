// What slows a job: the rank that others wait for and its phase, waiting for samples or saves, low clocks.
import { encodeId, h, section } from "./dom.js";

const PAUSE_MS = 5_000; // between two analyses

export class Slowness {
  constructor(id, get) {
    Object.assign(this, { id, get, at: 0 });
    this.element = section("slow", "What slows it");
  }

  async update(job) {
    if (!job.progress || Date.now() - this.at < PAUSE_MS) return;
    this.at = Date.now();
    const { causes } = await this.get(`/api/slowness/${encodeId(this.id)}`);
    this.element.hidden = !causes.length;
    this.element.replaceChildren(this.element.firstChild, ...causes.map(causeOf));
  }
}

function causeOf({ share, text, evidence, fix }) {
  return h("div", { class: "cause" },
    h("p", {}, share === null ? null : h("b", {}, `${Math.round(share * 100)} % of the run: `), text.replace(/^\d+% of the run: /, "")),
    evidence.length ? h("p", { class: "about" }, evidence.join("; ")) : null,
    fix ? h("p", { class: "about" }, `Fix: ${fix}`) : null);
}
