// Scales, axes and the texts on them.

const FONT = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif";
const ruler = document.createElement("canvas").getContext("2d");
function widthOf(text, size) {
  ruler.font = `${size}px ${FONT}`;
  return ruler.measureText(text).width;
}
// `text`, cut so that it is at most `width` wide.
function clipped(text, size, width) {
  if (widthOf(text, size) <= width) return text;
  let length = Math.max(1, Math.floor((text.length * width) / widthOf(text, size)));
  while (length > 1 && widthOf(text.slice(0, length) + "…", size) > width) --length;
  return text.slice(0, length) + "…";
}
const write = (text, x, y, attributes) => svg("text", { x, y, ...attributes }, text);

// Whether values span so much that only a logarithmic axis shows them all.
function spansDecades(values, factor) {
  const positive = values.filter(value => value > 0 && Number.isFinite(value));
  return positive.length > 1 && Math.max(...positive) / Math.min(...positive) > factor;
}

function niceStep(span, count) {
  const rough = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find(step => step * power >= rough * (1 - 1e-9));
}
function linearTicks(low, high, count) {
  const step = niceStep(high - low, count), ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) ticks.push(i * step);
  return ticks;
}
function logTicks(low, high, count) {
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high)), ticks = [];
  const every = Math.max(1, Math.ceil((last - first) / count));
  const steps = last - first <= 2 ? [1, 2, 5] : [1];
  for (let power = first; power <= last; power += every) {
    for (const step of steps) {
      const tick = Number((step * 10 ** power).toPrecision(3));
      if (tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9)) ticks.push(tick);
    }
  }
  return ticks.length > 1 ? ticks : [low, high];
}

// Maps [low, high] to [from, to] in pixels; low < high, and 0 < low if it is logarithmic. Ticks are
// round in the unit that the axis shows.
function makeScale({ low, high, log, unit }, from, to, count) {
  const place = log ? Math.log : value => value;
  const start = place(low), span = place(high) - start;
  return {
    low, high, log, from, to,
    at: value => from + ((place(value) - start) / span) * (to - from),
    back: pixel => {
      const share = (pixel - from) / (to - from);
      return log ? Math.exp(start + share * span) : start + share * span;
    },
    ticks: (log ? logTicks : linearTicks)(low / unit.factor, high / unit.factor, count).map(tick => tick * unit.factor),
  };
}

// The range of an axis: {low, high, log, unit} for values in base units. zero: from 0 on.
function rangeOf(values, { kind, log, zero, low: fixedLow, high: fixedHigh }) {
  let kept = values.filter(value => Number.isFinite(value) && (!log || value > 0));
  if (kept.length === 0) kept = log ? [1, 10] : [0, 1];
  let low = Math.min(...kept), high = Math.max(...kept);
  if (zero && !log) low = Math.min(0, low);
  if (fixedLow !== undefined) low = fixedLow;
  if (fixedHigh !== undefined) high = Math.max(high, fixedHigh);
  if (low === high) [low, high] = log ? [low / 2, high * 2] : [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
  return { low, high, log: Boolean(log), unit: unitFor(kind, Math.abs(high)) };
}

function tickText(value, unit, step) {
  const scaled = value / unit.factor;
  if (value === 0) return "0";
  const size = Math.abs(scaled);
  if (size >= 1e5 || size < 1e-3) return scaled.toExponential(0).replace("e", "·10^").replace("^+", "^").replace(/^1·/, "");
  return String(Number(scaled.toPrecision(step ? Math.max(2, Math.ceil(Math.log10(Math.abs(value) / step)) + 1) : 3)));
}
const tickTexts = (scale, unit) => {
  const step = scale.log || scale.ticks.length < 2 ? 0 : scale.ticks[1] - scale.ticks[0];
  return scale.ticks.map(tick => tickText(tick, unit, step));
};

const titled = (title, unit) => (unit.name ? `${title} (${unit.name})` : title);

// Grid lines and texts below the plot; texts that would touch their left neighbour are left out.
function bottomAxis(scale, unit, title, box, theme) {
  const texts = tickTexts(scale, unit);
  let free = -Infinity;
  const marks = scale.ticks.map((tick, i) => {
    const x = scale.at(tick), half = widthOf(texts[i], 12) / 2;
    const fits = x - half > free && x + half <= box.width;
    if (fits) free = x + half + 6;
    return [
      svg("line", { x1: x, x2: x, y1: box.top, y2: box.bottom, stroke: theme.grid }),
      fits ? write(texts[i], x, box.bottom + 17, { "text-anchor": "middle", fill: theme.muted }) : null,
    ];
  });
  return svg("g", {}, marks.flat(),
    svg("line", { x1: scale.from, x2: scale.to, y1: box.bottom, y2: box.bottom, stroke: theme.line }),
    write(titled(title, unit) + (scale.log ? ", logarithmic" : ""), scale.to, box.bottom + 35,
      { "text-anchor": "end", fill: theme.text }));
}
function leftAxis(scale, unit, title, box, theme) {
  const texts = tickTexts(scale, unit);
  return svg("g", {}, scale.ticks.map((tick, i) => [
    svg("line", { x1: box.left, x2: box.right, y1: scale.at(tick), y2: scale.at(tick), stroke: theme.grid }),
    write(texts[i], box.left - 7, scale.at(tick) + 4, { "text-anchor": "end", fill: theme.muted }),
  ]).flat(),
    write(titled(title, unit) + (scale.log ? ", logarithmic" : ""), 2, 14, { fill: theme.text }));
}

const canvasOf = (width, height, theme, label) => svg("svg", {
  xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
  "aria-label": label, "font-family": FONT, "font-size": 12,
}, svg("rect", { width, height, fill: theme.background }));

const nothingNote = (width, height, theme) =>
  write("All series are switched off.", width / 2, height / 2, { "text-anchor": "middle", fill: theme.muted });

// A marker of a series, centred: seven shapes, so that nobody depends on colour alone.
function marker(style, x, y, colour) {
  const r = 4;
  const shapes = [
    () => svg("circle", { cx: x, cy: y, r }),
    () => svg("rect", { x: x - r, y: y - r, width: 2 * r, height: 2 * r }),
    () => svg("path", { d: `M${x} ${y - r - 1}L${x + r + 1} ${y + r}H${x - r - 1}Z` }),
    () => svg("path", { d: `M${x} ${y - r - 1}L${x + r + 1} ${y}L${x} ${y + r + 1}L${x - r - 1} ${y}Z` }),
    () => svg("path", { d: `M${x} ${y + r + 1}L${x + r + 1} ${y - r}H${x - r - 1}Z` }),
    () => svg("path", { d: `M${x - r} ${y - r}L${x + r} ${y + r}M${x - r} ${y + r}L${x + r} ${y - r}`, "stroke-width": 2.5, stroke: colour }),
    () => svg("path", { d: `M${x - r - 1} ${y}H${x + r + 1}M${x} ${y - r - 1}V${y + r + 1}`, "stroke-width": 2.5, stroke: colour }),
  ];
  const shape = shapes[style.index % shapes.length]();
  shape.setAttribute("fill", colour);
  return shape;
}
function swatch(style, theme) {
  const colour = colourOf(style, theme);
  if (style.state) {
    return svg("svg", { class: "swatch", width: 28, height: 12, viewBox: "0 0 28 12", "aria-hidden": "true" },
      svg("rect", { x: 6, y: 0, width: 16, height: 12, fill: colour }));
  }
  return svg("svg", { class: "swatch", "data-series": style.index, width: 28, height: 12, viewBox: "0 0 28 12", "aria-hidden": "true" },
    svg("line", { x1: 1, x2: 27, y1: 6, y2: 6, stroke: colour, "stroke-width": 2.5, "stroke-dasharray": style.dash || null }),
    marker(style, 14, 6, colour));
}
