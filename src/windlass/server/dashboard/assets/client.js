// Answers of the API, and the stream that says when there are new ones.

const answers = new Map();
let csrf = "";

export class RequestError extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

export async function get(path) {
  const before = answers.get(path);
  const headers = before ? { "If-None-Match": before.etag } : {};
  const response = await fetch(path, { headers, cache: "no-store" });
  if (response.status === 304) return before.content;
  if (!response.ok) throw await errorOf(response);
  const content = await response.json();
  const etag = response.headers.get("etag");
  if (etag) {
    answers.delete(path);
    answers.set(path, { etag, content });
    if (answers.size > 50) answers.delete(answers.keys().next().value);
  }
  return content;
}

const REST = 4;

// A function that asks again for the same only after a rest of four times as long as the last answer took; else null.
export function paced(ask) {
  let [next, last] = [0, null];
  return async (about) => {
    if (about === last && Date.now() < next) return null;
    const began = Date.now();
    last = about;
    next = Infinity;
    try { return await ask(about); } finally { if (last === about) next = Date.now() + REST * (Date.now() - began); }
  };
}

// Waits for a promise, but not for longer than a page may take to appear: what comes later is shown later.
export function soon(promise) {
  return Promise.race([promise, new Promise((resolve) => { setTimeout(resolve, 400); })]);
}

export async function session() {
  const found = await get("/api/session");
  csrf = found.csrf;
  return found;
}

export function act(verb, id, body = {}) {
  return post(`/api/jobs/${id.split("/").map(encodeURIComponent).join("/")}/${verb}`, { by: "the dashboard", ...body });
}

export async function post(path, body) {
  const headers = { "X-Windlass-CSRF": csrf, "Content-Type": "application/json" };
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  if (!response.ok) throw await errorOf(response);
  return response.json();
}

async function errorOf(response) {
  const text = await response.text();
  try {
    const { error } = JSON.parse(text);
    return new RequestError(response.status, error.fix ? `${error.message} (${error.fix})` : error.message);
  } catch {
    return new RequestError(response.status, text.trim() || `the daemon answered ${response.status}`);
  }
}

// Calls `changed` for each new version and `connected` with true or false. The browser reconnects and names the last version.
export function follow(changed, connected) {
  const stream = new EventSource("/api/stream");
  stream.addEventListener("version", () => { connected(true); changed(); });
  stream.addEventListener("open", () => connected(true));
  stream.addEventListener("error", () => {
    connected(false);
    if (stream.readyState === EventSource.CLOSED) { changed(); setTimeout(() => follow(changed, connected), 2000); }
  });
  return stream;
}
