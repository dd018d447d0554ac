// Who held which GPU when: nodes downwards, time to the right. Drag, wheel, buttons and keys move and zoom.

const LEFT = 74, FOOT = 24, MOST_TALL = 620;

class Gantt {
  constructor(data, policies, section) {
    this.data = data;
    this.policies = policies;
    this.policy = 0;
    this.by = "job";
    this.over = null;
    this.rows = data.nodes.length;
    this.whole();
    this.canvas = made("canvas", { tabindex: "0", role: "img", "aria-label": data.alt, "aria-describedby": "gantt-keys" });
    this.said = made("output", { "aria-live": "polite" });
    this.queues = made("ul", { class: "queues", hidden: true });
    section.append(
      made("h2", { id: "gantt-title" }, "Who ran where"),
      made("p", { class: "about", id: "gantt-keys" }, `${data.about} Drag to move; + and −, or Ctrl and the wheel, zoom; arrow keys move, 0 shows all.`),
      this.controls(), this.canvas, this.queues, this.said);
    section.hidden = false;
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  controls() {
    const choice = (name, labels, act) => {
      const buttons = labels.map((label, index) => made("button", { type: "button", "aria-pressed": String(index === 0),
        on: { click: () => { buttons.forEach((b, i) => b.setAttribute("aria-pressed", String(i === index))); act(index); } } }, label));
      return made("div", { role: "group", "aria-label": name }, made("span", {}, name), ...buttons);
    };
    const zoom = [["+", "Zoom in", () => this.zoom(0.5)], ["−", "Zoom out", () => this.zoom(2)], ["All", "Show all", () => { this.whole(); this.draw(); }]]
      .map(([label, words, act]) => made("button", { type: "button", "aria-label": words, on: { click: act } }, label));
    return made("div", { class: "bar" },
      choice("Policy", this.policies, (index) => { this.policy = index; this.tell(null); this.draw(); }),
      choice("Colour by", ["job", "queue"], (index) => { this.by = ["job", "queue"][index]; this.draw(); }),
      made("div", { role: "group", "aria-label": "Zoom" }, ...zoom));
  }

  whole() {
    this.from = this.data.from;
    this.to = this.data.to;
    this.top = 0;
    this.seen = this.rows;
  }

  listen() {
    const canvas = this.canvas;
    const pointers = new Map();
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, event);
      canvas.classList.add("held");
    });
    const release = (event) => { pointers.delete(event.pointerId); canvas.classList.remove("held"); };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (before) {
        this.shift(-(event.clientX - before.clientX) / this.wide * (this.to - this.from), -(event.clientY - before.clientY) / this.tall * this.seen);
        pointers.set(event.pointerId, event);
      } else {
        this.tell(this.at(event.offsetX, event.offsetY));
      }
    });
    canvas.addEventListener("pointerleave", () => this.tell(null));
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, (event.offsetX - LEFT) / this.wide, event.offsetY / this.tall);
    }, { passive: false });
    canvas.addEventListener("dblclick", (event) => this.zoom(0.5, (event.offsetX - LEFT) / this.wide, event.offsetY / this.tall));
    canvas.addEventListener("keydown", (event) => {
      const across = (this.to - this.from) / 8, down = this.seen / 8;
      const acts = { ArrowLeft: () => this.shift(-across, 0), ArrowRight: () => this.shift(across, 0), ArrowUp: () => this.shift(0, -down),
        ArrowDown: () => this.shift(0, down), "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
        0: () => { this.whole(); this.draw(); } };
      if (event.ctrlKey || event.metaKey || event.altKey || !acts[event.key]) return;
      event.preventDefault();
      acts[event.key]();
    });
  }

  shift(across, down) {
    const { from, to } = this.data, wide = this.to - this.from;
    this.from = Math.min(Math.max(this.from + across, from), to - wide);
    this.to = this.from + wide;
    this.top = Math.min(Math.max(this.top + down, 0), this.rows - this.seen);
    this.draw();
  }

  zoom(factor, x = 0.5, y = 0.5) {
    const whole = this.data.to - this.data.from;
    const wide = Math.min(whole, Math.max(whole / 2000, (this.to - this.from) * factor));
    const seen = Math.min(this.rows, Math.max(Math.min(4, this.rows), this.seen * Math.sqrt(factor)));  // rows are short already
    const from = this.from + (this.to - this.from - wide) * x, top = this.top + (this.seen - seen) * y;
    [this.from, this.to, this.top, this.seen] = [from, from + wide, top, seen];
    this.shift(0, 0);
  }

  // Height of a GPU: nodes of many GPUs are drawn taller than those of few.
  draw() {
    const canvas = this.canvas, ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = Math.min(MOST_TALL, Math.max(160, this.rows * 44)) + FOOT;
    if (!width) return;
    canvas.style.height = `${height}px`;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    [this.wide, this.tall] = [width - LEFT, height - FOOT];
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    this.drawBars(pen);
    this.drawNames(pen);
    this.drawHours(pen, height);
    this.drawQueues();
  }

  drawBars(pen) {
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, 0, this.wide, this.tall);
    pen.clip();
    pen.fillStyle = tint("--code");
    pen.fillRect(LEFT, 0, this.wide, this.tall);
    const line = tint("--card");
    this.each((bar, x, y, w, h) => {
      pen.fillStyle = this.colour(bar.job);
      pen.globalAlpha = this.over === null || this.over === bar.job ? 1 : 0.25;
      pen.fillRect(x, y, w, h);
      if (w > 3 && h > 3) {
        pen.globalAlpha = 1;
        pen.strokeStyle = line;
        pen.lineWidth = 0.75;
        pen.strokeRect(x, y, w, h);
      }
    });
    pen.globalAlpha = 1;
    if (this.tall / this.seen > 5) {
      pen.strokeStyle = line;
      pen.lineWidth = 2;
      for (let row = Math.ceil(this.top); row <= this.top + this.seen; row++) {
        const y = this.y(row);
        pen.beginPath();
        pen.moveTo(LEFT, y);
        pen.lineTo(LEFT + this.wide, y);
        pen.stroke();
      }
    }
    pen.restore();
  }

  // Bars lie flat in the file: job, node, first lane, lanes, begin, end.
  each(act) {
    const bars = this.data.bars[this.policy];
    for (let i = 0; i < bars.length; i += 6) {
      const [job, row, lane, lanes, begin, end] = bars.slice(i, i + 6);
      if (end < this.from || begin > this.to || row + 1 < this.top || row > this.top + this.seen) continue;
      const each = this.tall / this.seen / this.data.lanes[row];
      const x = this.x(begin), w = Math.max(0.6, this.x(end) - x);
      if (act({ job, row, begin, end }, x, this.y(row) + lane * each, w, lanes * each) === true) return;
    }
  }

  x(time) {
    return LEFT + (time - this.from) / (this.to - this.from) * this.wide;
  }

  y(row) {
    return (row - this.top) / this.seen * this.tall;
  }

  at(px, py) {
    let found = null;
    if (px >= LEFT && py <= this.tall) {
      this.each((bar, x, y, w, h) => {
        if (px >= x && px <= x + w && py >= y && py <= y + h) found = bar;
        return found !== null;
      });
    }
    return found;
  }

  colour(job) {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    if (this.by === "queue") return hue(this.data.jobs[job].queue * 137.508 + 205, 58, dark ? 62 : 46);
    return hue(job * 137.508 + 205, dark ? 46 : 52, (dark ? 52 : 50) + (job % 5) * 4);
  }

  drawNames(pen) {
    const space = this.tall / this.seen, every = Math.max(1, Math.ceil(16 / space));
    pen.fillStyle = tint("--quiet");
    pen.font = FONT;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (let row = Math.floor(this.top); row < Math.min(this.rows, this.top + this.seen); row++) {
      const y = this.y(row + 0.5);
      if (row % every || y < 6 || y > this.tall - 4) continue;
      const name = this.data.nodes[row];
      pen.fillText(name.length > 10 ? `…${name.slice(-9)}` : name, LEFT - 8, y);
    }
  }

  drawHours(pen, height) {
    const most = Math.max(2, this.wide / 90), wide = this.to - this.from;
    const step = TIME_STEPS.find((size) => wide / size <= most) || wide;
    pen.textAlign = "center";
    pen.textBaseline = "alphabetic";
    for (let time = Math.ceil(this.from / step) * step; time <= this.to; time += step) {
      const x = this.x(time);
      const text = clock(time, step), half = pen.measureText(text).width / 2;
      if (x - half < LEFT - 20 || x + half > LEFT + this.wide) continue;
      pen.fillStyle = tint("--line");
      pen.fillRect(x, this.tall, 1, 5);
      pen.fillStyle = tint("--quiet");
      pen.fillText(text, x, height - 5);
    }
  }

  drawQueues() {
    this.queues.hidden = this.by !== "queue";
    if (this.by !== "queue") return;
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    this.queues.replaceChildren(...this.data.queues.map((name, index) => {
      const swatch = made("i");
      swatch.style.background = hue(index * 137.508 + 205, 58, dark ? 62 : 46);
      return made("li", {}, swatch, name);
    }));
  }

  tell(bar) {
    const over = bar ? bar.job : null;
    if (bar) {
      const job = this.data.jobs[bar.job];
      const who = [job.user && `of ${job.user}`, `in queue ${this.data.queues[job.queue]}`].filter(Boolean).join(" ");
      this.said.textContent = `${job.id}, ${told(job.units, "count")} ${this.data.noun}${job.units === 1 ? "" : "s"}, ${who}: on ${this.data.nodes[bar.row]} from ${clock(bar.begin, 60)}, `
        + `for ${spanOf(bar.end - bar.begin)}; handed in at ${clock(job.submit, 60)}`;
    } else {
      this.said.textContent = "";
    }
    if (over !== this.over) {
      this.over = over;
      this.draw();
    }
  }
}

function hue(degrees, saturation, light) {
  return `hsl(${(degrees % 360).toFixed(1)} ${saturation}% ${light}%)`;
}

// A moment of the trace as the charts have it: "20 d", "20 d 14:05".
function clock(time, step) {
  const day = Math.floor(time / 86400), rest = time - day * 86400;
  const two = (value) => String(Math.floor(value)).padStart(2, "0");
  if (step >= 86400) return `${day} d`;
  return `${day ? `${day} d ` : ""}${two(rest / 3600)}:${two(rest % 3600 / 60)}${step < 60 ? `:${two(rest % 60)}` : ""}`;
}
