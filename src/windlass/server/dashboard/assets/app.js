// The shell: navigation by address, live updates, theme and keyboard. Each page is a module with create(context).
import { follow, get, session } from "./client.js";
import { h } from "./dom.js";
import { confirmDialog, helpDialog } from "./dialogs.js";

const PAGES = [
  { path: /^\/$/, name: "overview", title: "Overview", key: "o", href: "/" },
  { path: /^\/queue$/, name: "queue", title: "Queue", key: "q", href: "/queue" },
  { path: /^\/nodes$/, name: "nodes", title: "Nodes", key: "n", href: "/nodes" },
  { path: /^\/share$/, name: "share", title: "Fair share", key: "s", href: "/share" },
  { path: /^\/history$/, name: "history", title: "History", key: "h", href: "/history" },
  { path: /^\/simulator$/, name: "simulator", title: "Simulator", key: "m", href: "/simulator" },
  { path: /^\/workshop(?:\/(.+))?$/, name: "workshop", title: "Workshop", key: "p", href: "/workshop" },
  { path: /^\/jobs\/(.+)$/, name: "job", title: "Job" },
];
const VIEWS = { simulator: "simulation", workshop: "workshop" }; // by page: views that not every dashboard serves
const main = document.getElementById("main");
const live = document.getElementById("live");
let current = null;
let about = { may_act: false, views: ["schedules", ...Object.values(VIEWS)] }; // until the session is known
let busy = null; // the page that is being refreshed
let stale = false;
let shown = "";
let lostAt = 0; // time at which the stream was lost; 0 while it lasts
const LONG_LOST_MS = 5_000;

function pageOf(path) {
  return PAGES.find((page) => page.path.test(path)) || PAGES[0];
}

async function show() {
  const page = pageOf(location.pathname);
  let module;
  try { module = await load(location.pathname); } catch {
    if (shown) history.replaceState(null, "", shown);
    problem(new Error("The page cannot be loaded: the server does not answer."));
    return;
  }
  const argument = (page.path.exec(location.pathname) || [])[1];
  markCurrent(page.name);
  document.title = `${argument ? decodeURIComponent(argument) : page.title} – Windlass`;
  current?.close?.();
  current = module.create({ get, about, argument: argument && decodeURIComponent(argument), go, confirm: confirmDialog, refresh });
  delete main.dataset.ready; // what is not drawn yet takes no place on the screen
  main.replaceChildren(...current.elements);
  shown = location.pathname + location.search;
  await refresh();
  scrollToPart();
}

function load(path) {
  return import(`./pages/${pageOf(path).name}.js`);
}

// The part of a page that the address names after "#".
function scrollToPart() {
  document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

function onMove() {
  if (location.pathname + location.search === shown) scrollToPart();
  else show();
}

// One refresh of a page at a time: versions that arrive meanwhile cause one more. A new page does not wait for the last.
async function refresh() {
  const page = current;
  if (busy === page) { stale = true; return; }
  busy = page;
  do {
    stale = false;
    try {
      await page.update();
      if (page === current) main.querySelector(".problem")?.remove();
    } catch (error) {
      if (page === current) problem(error);
    }
    if (page === current) main.dataset.ready = "true"; // even while newer versions arrive faster than they are drawn
  } while (stale && page === current);
  if (busy === page) busy = null;
}

function problem(error) {
  main.querySelector(".problem")?.remove();
  const text = error.status === 401 ? "The session has ended: run windlass ui again." : error.message;
  main.prepend(h("section", { class: "problem", role: "alert" }, text));
}

export async function go(href, replace = false) {
  try { await load(new URL(href, location.href).pathname); } catch {
    problem(new Error("The page cannot be loaded: the server does not answer."));
    return;
  }
  history[replace ? "replaceState" : "pushState"](null, "", href);
  await show();
  main.focus({ preventScroll: replace });
}

function markCurrent(name) {
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.page === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function connected(yes) {
  lostAt = yes ? 0 : lostAt || Date.now();
  live.dataset.state = yes ? "live" : "lost";
  const isLong = lostAt && Date.now() - lostAt > LONG_LOST_MS && !about.user;
  document.getElementById("live-text").textContent = yes ? "live" : isLong ? "connection lost: run windlass ui" : "connection lost, retrying";
}

function switchTheme() {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", document.documentElement.dataset.theme);
  current?.redraw?.();
}

function onClick(event) {
  const link = event.target.closest("a[href^='/']");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || link.target) return;
  event.preventDefault();
  go(link.getAttribute("href"));
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("dialog")) return;
  if (event.target.closest("input, select, textarea")) { if (event.key === "Escape") event.target.blur(); return; }
  const page = PAGES.find((each) => each.key === event.key);
  if (page) go(page.href);
  else if (current?.keys?.[event.key]) current.keys[event.key].act();
  else if (event.key === "?") help();
  else if (event.key === "t") switchTheme();
  else if (event.key === "/") main.querySelector("input[type=search]")?.focus();
  else if (event.key === "Escape") main.querySelector("section:not([hidden]) [data-close]")?.click();
  else if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
  else return;
  event.preventDefault();
}

function help() {
  helpDialog([...PAGES.filter((page) => page.key).map((page) => [page.key, page.title]),
    ...Object.entries(current?.keys ?? {}).map(([key, { text }]) => [key, text])]);
}

function step(by) {
  const links = [...main.querySelectorAll("tbody a[href^='/jobs/']")];
  const at = links.indexOf(document.activeElement);
  links[Math.max(0, Math.min(links.length - 1, at + by))]?.focus();
}

async function begin() {
  const theme = localStorage.getItem("theme");
  if (theme) document.documentElement.dataset.theme = theme;
  const nav = document.getElementById("nav");
  nav.append(...PAGES.filter((page) => page.href).map((page) => h("a", { href: page.href, "data-page": page.name }, page.title)));
  document.addEventListener("click", onClick);
  document.addEventListener("keydown", onKey);
  addEventListener("popstate", onMove);
  document.getElementById("theme").addEventListener("click", switchTheme);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => current?.redraw?.());
  document.getElementById("help").addEventListener("click", help);
  const signedIn = session().catch((error) => { problem(error); return about; });
  await load(location.pathname); // loads meanwhile
  about = await signedIn;
  for (const [page, view] of Object.entries(VIEWS)) if (!about.views.includes(view)) nav.querySelector(`[data-page=${page}]`).remove();
  await show();
  follow(() => { if (!document.hidden) refresh(); else stale = true; }, connected);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
}

begin();
