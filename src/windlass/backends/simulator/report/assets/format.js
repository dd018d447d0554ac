"use strict";
// Numbers as people read them. Times come in seconds, shares in [0, 1].

const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

function spanOf(seconds) {
  const size = Math.abs(seconds);
  if (size < 0.9995) return size === 0 ? "0 s" : `${trimmed(seconds * 1000, 3)} ms`;
  for (const [name, length] of UNITS) {
    if (size >= length * 0.9995) return `${trimmed(seconds / length, 3)} ${name}`;
  }
  return "";
}

function trimmed(value, digits) {
  const whole = Math.abs(value) >= 10 ** digits;
  return whole ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(digits)));
}

const FORMATS = {
  s: spanOf,
  share: (value) => `${(value * 100).toFixed(1)} %`,
  count: (value) => trimmed(value, 3),
  gpus: (value) => `${trimmed(value, 3)} GPUs`,
  ratio: (value) => trimmed(value, 3),
};

function told(value, unit) {
  return value === null || value === undefined ? "–" : FORMATS[unit](value);
}

// Text of an axis: without the word that its title says already.
function ticked(value, unit) {
  if (unit === "share") return `${Math.round(value * 100)} %`;
  if (unit === "gpus" || unit === "count") return value.toLocaleString("en");
  return FORMATS[unit](value);
}

function made(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    else if (value !== null && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

function tint(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const colourOf = (index) => tint(`--p${index % 8}`);
