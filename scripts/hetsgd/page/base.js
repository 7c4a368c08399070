// Elements, numbers and themes. Texts of results only ever become text nodes or attributes' values,
// never markup.

const data = JSON.parse(document.getElementById("data").textContent);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "onclick" || name === "onchange") element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) element.append(child);
  }
  return element;
}
const make = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// A number that JSON does not have is null, with the reason beside it.
function number(object, key) {
  if (object[key] !== null && object[key] !== undefined) return object[key];
  return { inf: Infinity, "-inf": -Infinity }[object[key + "_reason"]] ?? NaN;
}
function interval(object, key) {
  const value = object[key];
  return { median: number(value, "median"), low: number(value, "low"), high: number(value, "high") };
}

// Three significant digits; an exponent for what is very small or large.
function short(value) {
  if (value === null || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e7 || size < 1e-4) return value.toExponential(2);
  return size >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3)));
}
function fixed(value, digits) {
  return Number.isFinite(value) ? value.toFixed(digits) : short(value);
}
function probability(value) {
  if (Number.isNaN(value)) return "–";
  return value < 0.0001 ? "<0.0001" : value.toFixed(4);
}

// What axes count in, smallest first: [from this value on, factor, name].
const UNITS = {
  time: [[0, 1e-6, "µs"], [1e-3, 1e-3, "ms"], [1, 1, "s"], [600, 60, "min"], [7200, 3600, "h"]],
  bytes: [[0, 1, "B"], [1e3, 1e3, "kB"], [1e6, 1e6, "MB"], [1e9, 1e9, "GB"], [1e12, 1e12, "TB"]],
  count: [[0, 1, ""], [1e4, 1e3, "thousand"], [1e6, 1e6, "million"], [1e9, 1e9, "billion"]],
  share: [[0, 0.01, "%"]],
  plain: [[0, 1, ""]],
};
function unitFor(kind, most) {
  const units = UNITS[kind || "plain"].filter(([from]) => from <= most);
  const [, factor, name] = units[units.length - 1] || UNITS[kind][0];
  return { factor, name };
}
// Times beside each other have the unit of the longest one.
function timeUnit(values) {
  return unitFor("time", Math.max(0, ...values.filter(Number.isFinite)));
}

// Blue, vermilion, green, pink, brown, sky, ink: told apart with the common kinds of colour
// blindness (after Okabe and Ito 2008), each with a lightness for a light and one for a dark ground.
// From the eighth series on they repeat with other dashes; markers differ throughout.
const THEMES = {
  light: {
    background: "#ffffff", text: "#1b1f24", muted: "#57606a", grid: "#e3e6ea", line: "#8b949e",
    colours: ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7a5200", "#45a8e0", "#2b2f36"],
    states: { compute: "#57606a", communicate: "#b4bcc6", wait: "#7d3fc8" },
    ramp: [[247, 251, 255], [8, 48, 107]],
  },
  dark: {
    background: "#14171c", text: "#e6e9ed", muted: "#a3acb7", grid: "#2b3139", line: "#6b7683",
    colours: ["#5489e9", "#ff822b", "#00cf82", "#ce96b3", "#f7f36e", "#96eaff", "#8c9880"],
    states: { compute: "#b9c2cc", communicate: "#5f6a76", wait: "#b98cff" },
    ramp: [[29, 33, 39], [140, 205, 255]],
  },
};
const DASHES = ["", "7 4", "2 3", "10 3 2 3"];
const darkness = window.matchMedia("(prefers-color-scheme: dark)");
let printing = false;
function themeNow() {
  const chosen = document.documentElement.dataset.theme;
  if (printing) return THEMES.light;
  return chosen ? THEMES[chosen] : darkness.matches ? THEMES.dark : THEMES.light;
}
const styleOf = index => ({ index, dash: DASHES[Math.floor(index / 7) % DASHES.length] });
// What workers do has greys and violet, which no series has: {state} instead of {index, dash}.
const colourOf = (style, theme) => (style.state ? theme.states[style.state] : theme.colours[style.index % theme.colours.length]);

// A label keeps its colour in all charts of all workloads, unless there are so many labels that each
// workload has to begin anew.
const MOST_COMMON_STYLES = 14;
const labelIndex = new Map();
for (const workload of data.workloads) {
  for (const group of [...workload.groups].sort((a, b) => a.place - b.place)) {
    if (!labelIndex.has(group.label)) labelIndex.set(group.label, labelIndex.size);
  }
}
const styleOfLabel = label => styleOf(labelIndex.get(label) ?? 0);

// Which series are shown; several charts may share one selection.
class Selection {
  constructor(keys, most) {
    this.keys = keys;
    this.shown = new Set(keys.slice(0, most));
    this.listeners = [];
  }
  has(key) { return this.shown.has(key); }
  toggle(key) {
    if (!this.shown.delete(key)) this.shown.add(key);
    this.tell();
  }
  set(keys) {
    this.shown = new Set(keys);
    this.tell();
  }
  tell() { for (const listener of this.listeners) listener(); }
}
