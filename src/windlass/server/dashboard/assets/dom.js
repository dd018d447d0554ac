// Builds elements. Text from the API goes through text nodes only, never through HTML.

export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    else if (key === "vars") for (const [name, of] of Object.entries(value)) element.style.setProperty(name, of);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function jobLink(id) {
  return h("a", { href: `/jobs/${encodeId(id)}` }, id);
}

export function encodeId(id) {
  return id.split("/").map(encodeURIComponent).join("/");
}

export function stateOf(job) {
  const name = job.phase === "Failed" && job.reason === "Cancelled" ? "Cancelled" : job.phase;
  return h("span", { class: `state ${name.replace(" ", "-")}` }, name);
}

export function empty(text, command = "") {
  return h("p", { class: "empty" }, text, command ? h("code", {}, command) : null);
}

// What a page without jobs says. `about`: the session, in which a cluster names the user.
export function noJobs(about) {
  if (about.sees_jobs === false) return empty("You may see the jobs of no namespace that has any. Ask its owner for the ClusterRole windlass-view in it.");
  if (about.user) return empty("No job that you may see waits or runs. One is submitted by:", "windlass submit --on CONTEXT --image IMAGE -N 2 -- python train.py");
  return empty("No job waits or runs. One is submitted by:", "windlass submit -N 2 -- python train.py");
}

export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== "" && value !== undefined)
    .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

// A section with a heading whose link names it in the address.
export function section(id, title, ...children) {
  return h("section", { id, hidden: true }, h("h2", {}, title, h("a", { class: "anchor", href: `#${id}`, "aria-label": `Link to ${title}` }, "#")), ...children);
}

const FOCUSABLE = "a[href], button, input, select, summary, [tabindex='0']";

// Replaces what an element contains if it differs; keeps the focus, open parts and, where nothing changes, a selection.
export function swap(element, ...children) {
  const fresh = h(element.tagName, {}, ...children);
  for (const part of element.querySelectorAll("details[open][data-kept]")) {
    fresh.querySelector(`details[data-kept="${part.dataset.kept}"]`)?.setAttribute("open", "");
  }
  if (fresh.innerHTML === element.innerHTML) return;
  const at = [...element.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
  element.replaceChildren(...fresh.childNodes);
  if (at >= 0) element.querySelectorAll(FOCUSABLE)[at]?.focus({ preventScroll: true });
}

// Keeps a filter of the page in its address.
export function remember(name, value) {
  const parameters = new URLSearchParams(location.search);
  if (value) parameters.set(name, value); else parameters.delete(name);
  history.replaceState(null, "", `${location.pathname}${parameters.size ? `?${parameters}` : ""}${location.hash}`);
}

// A text field for a filter that is kept in the address.
export function searchField(parameters, name, label) {
  return h("input", { type: "search", name, placeholder: label, "aria-label": label, value: parameters.get(name) || "" });
}

export function choice(label, options, selected, change) {
  return h("select", { "aria-label": label, on: { change: (event) => change(event.target.value) } },
    options.map(([value, text]) => h("option", { value, selected: value === selected }, text)));
}

export function colourOf(index) {
  return tint(colourName(index));
}

// The name of a colour of the theme, for styles: unlike the colour itself, it follows the theme.
export function colourName(index) {
  return `--p${((index % 8) + 8) % 8}`;
}

export function tint(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
