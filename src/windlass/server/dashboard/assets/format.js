// Numbers as people read them. Times in ms unless a name says otherwise.

const UNITS = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1000]];

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  const size = Math.abs(ms);
  if (size < 999.5) return `${Math.round(ms)} ms`;
  for (const [index, [name, length]] of UNITS.entries()) {
    if (size < length * 0.9995) continue;
    const whole = Math.floor(ms / length);
    const next = UNITS[index + 1];
    if (!next || name === "s") return `${trimmed(ms / length, 3)} ${name}`;
    const rest = Math.floor((ms - whole * length) / next[1]);
    return rest ? `${whole} ${name} ${rest} ${next[0]}` : `${whole} ${name}`;
  }
  return "";
}

export function trimmed(value, digits) {
  if (Math.abs(value) >= 10 ** digits) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(digits)));
}

// For programs: a time with its date and zone, and seconds as a number.
export function iso(ms) {
  return ms ? new Date(ms).toISOString() : "";
}

export function seconds(ms) {
  return ms === null || ms === undefined ? "" : String(Math.round(ms) / 1000);
}

export function clock(ms) {
  if (!ms) return "–";
  const at = new Date(ms);
  const today = new Date().toDateString() === at.toDateString();
  const time = at.toLocaleTimeString("en-GB");
  return today ? time : `${at.toLocaleDateString("en-CA")} ${time}`;
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let index = 0;
  let left = value;
  while (left >= 1024 && index < units.length - 1) { left /= 1024; index += 1; }
  return `${trimmed(left, 3)} ${units[index]}`;
}

export function amount(resource, value) {
  if (resource === "memory" || resource.endsWith("-storage")) return bytes(value);
  if (resource === "cpu") return `${trimmed(value / 1000, 3)} ${value === 1000 ? "core" : "cores"}`;
  if (resource === "pods") return count(value, "pod");
  return `${value.toLocaleString("en")} ${resource}`;
}

export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

export function gang(job) {
  const ranks = job.replicas ? Math.round(job.ranks / job.replicas) : job.ranks;
  if (!job.elastic) return `${job.replicas}×${ranks}`;
  return `${job.elastic[0]}–${job.elastic[1]}×${ranks}, now ${job.replicas}`;
}

export function measured(value, unit) {
  if (value === null || value === undefined) return "–";
  if (unit === "s") return duration(value * 1000);
  if (unit === "By") return bytes(value);
  if (unit === "1") return `${(value * 100).toFixed(1)} %`;
  return `${trimmed(value, 4)}${unit ? ` ${unit}` : ""}`;
}

// A reason of waiting as words: "WaitingForQuota" → "waiting for quota".
export function words(reason) {
  return reason.replace(/(?<=[a-z])(?=[A-Z])/g, " ").replace(/[A-Z](?=[a-z])/g, (letter) => letter.toLowerCase());
}

export function starts(job, now) {
  if (!job.eta) return "";
  const when = job.eta <= now ? "now" : `in ${duration(job.eta - now)}`;
  return job.certainty ? `${when} (${job.certainty.toLowerCase()})` : when;
}
