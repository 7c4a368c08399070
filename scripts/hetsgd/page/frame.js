// The frame of every chart: caption, controls, picture, and its numbers as a table; and what charts share.

const EXPORT_WIDTH = 760;
const frames = new Set(), legends = new Set();

function save(name, blob) {
  const address = URL.createObjectURL(blob);
  const link = make("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
const csvCell = text => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const plainText = cell => (typeof cell === "object" && cell !== null ? String(cell.text) : cell === null ? "" : String(cell));
function csvOf({ columns, rows }) {
  const lines = [columns.map(column => column.name), ...rows.map(row => row.map(plainText))];
  return lines.map(line => line.map(csvCell).join(",")).join("\n") + "\n";
}

// The legend below an exported picture, which has no buttons.
function drawLegend(items, width, top, theme) {
  const parts = [];
  let x = 8, y = top + 14;
  for (const item of items) {
    const text = clipped(item.name, 12, width - 50), space = 36 + widthOf(text, 12) + 16;
    if (x > 8 && x + space > width) { x = 8; y += 20; }
    const sample = swatch(item.style, theme);
    for (const [name, value] of [["x", x], ["y", y - 10]]) sample.setAttribute(name, value);
    parts.push(sample, write(text, x + 34, y, { fill: theme.text }));
    x += space;
  }
  return { parts, height: items.length === 0 ? 0 : y + 10 - top };
}

// Buttons that switch series, for all charts that share the selection. items() -> [{key, name, style}]
class Legend {
  constructor(title, selection, items) {
    this.selection = selection;
    this.items = items;
    this.buttons = [];
    this.element = make("div", { class: "legend", role: "group", "aria-label": `Series of ${title}` });
    selection.listeners.push(() => this.fill());
    legends.add(this);
    this.fill();
  }
  close() { legends.delete(this); }

  // Buttons keep the focus when one of them is pressed: they are changed, not made anew.
  fill() {
    const items = this.items();
    const same = this.buttons.length === items.length && this.buttons.every((button, i) => button.dataset.key === items[i].key);
    if (!same) this.makeButtons(items);
    items.forEach((item, i) => {
      this.buttons[i].firstChild.replaceWith(swatch(item.style, themeNow()));
      this.buttons[i].setAttribute("aria-pressed", String(this.selection.has(item.key)));
    });
  }
  makeButtons(items) {
    const { selection } = this;
    this.buttons = items.map(item => make("button",
      { type: "button", "data-key": item.key, onclick: () => selection.toggle(item.key) }, make("span"), item.name));
    const keys = items.map(item => item.key);
    const all = (text, chosen) => make("button", { type: "button", class: "all", onclick: () => selection.set(chosen) }, text);
    this.element.replaceChildren(...this.buttons, ...(items.length > 6 ? [all("All", keys), all("None", [])] : []));
  }
}

// What several frames have in common: one legend, and one set of buttons that save the chosen one.
class Toolbar {
  constructor(title, frames, selection, items) {
    this.legend = new Legend(title, selection, items);
    let chosen = frames[0];
    const which = frames.length === 1 ? make("span", {}, "Save as")
      : choice("Save", frames.map((frame, i) => [i, frame.spec.title]), 0, value => { chosen = frames[value]; });
    const button = (text, action) => make("button",
      { type: "button", onclick: () => action(chosen), "aria-label": `Save as ${text}` }, text);
    this.element = make("div", { class: "toolbar" }, this.legend.element, make("div", { class: "actions" }, which,
      button("SVG", frame => frame.saveSvg()), button("PNG", frame => frame.savePng()), button("CSV", frame => frame.saveCsv())));
  }
  close() { this.legend.close(); }
}

class Frame {
  // {title, note, name, draw(width, theme), items() -> legend, selection, ownLegend, controls, table()}
  // ownLegend: the series are not those of the toolbar.
  constructor(spec) {
    this.spec = spec;
    this.plot = make("div", { class: "plot" });
    this.legend = spec.ownLegend ? new Legend(spec.title, spec.selection, spec.items) : null;
    this.numbers = make("details", {}, make("summary", {}, "Numbers"));
    this.numbers.addEventListener("toggle", () => this.fillNumbers());
    this.element = make("figure", { id: spec.name },
      make("figcaption", {}, spec.title, spec.note ? make("p", {}, spec.note) : null),
      spec.controls ? make("div", { class: "controls" }, spec.controls) : null,
      this.plot, this.legend ? this.legend.element : null, this.numbers);
    if (spec.selection) spec.selection.listeners.push(() => this.refresh());
    this.width = 0;
    frames.add(this);
    this.observer = new ResizeObserver(() => {
      if (Math.abs(this.plot.clientWidth - this.width) > 1) this.redraw();
    });
    this.observer.observe(this.plot);
    this.plot.addEventListener("pointermove", event => this.point(event));
    this.plot.addEventListener("pointerleave", () => this.unpoint());
  }

  close() {
    this.observer.disconnect();
    frames.delete(this);
    if (this.legend) this.legend.close();
  }

  refresh() {
    if (this.legend) this.legend.fill();  // its series may be others now
    this.redraw();
    this.fillNumbers();
  }

  redraw() {
    this.width = this.plot.clientWidth;
    if (this.width < 50) return;
    this.picture = this.spec.draw(this.width, themeNow());
    this.plot.replaceChildren(this.picture);
  }

  fillNumbers() {
    if (!this.numbers.open) return;
    for (const old of this.numbers.querySelectorAll(".scroll")) old.remove();
    this.numbers.append(tableOf({ ...this.spec.table(), label: `Numbers of ${this.spec.title}` }));
  }

  // The picture for papers: light, of a fixed width, with title and legend.
  source() {
    const theme = THEMES.light;
    const picture = this.spec.draw(EXPORT_WIDTH, theme);
    const height = Number(picture.getAttribute("height"));
    const shown = (this.spec.items ? this.spec.items() : []).filter(item => this.spec.selection.has(item.key));
    const { parts, height: more } = drawLegend(shown, EXPORT_WIDTH, height, theme);
    picture.querySelector("rect").setAttribute("height", height + more);
    picture.setAttribute("height", height + more);
    picture.setAttribute("viewBox", `0 0 ${EXPORT_WIDTH} ${height + more}`);
    picture.append(...parts);
    return new XMLSerializer().serializeToString(picture);
  }
  saveSvg() {
    save(`${this.spec.name}.svg`, new Blob([this.source()], { type: "image/svg+xml" }));
  }
  saveCsv() {
    save(`${this.spec.name}.csv`, new Blob([csvOf(this.spec.table())], { type: "text/csv" }));
  }
  savePng() {
    const image = new Image();
    image.onload = () => {
      const canvas = make("canvas", { width: 2 * image.width, height: 2 * image.height });
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob(blob => save(`${this.spec.name}.png`, blob), "image/png");
    };
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(this.source());
  }

  // The values under the pointer.
  point(event) {
    const found = this.picture && this.picture.readout && this.picture.readout(event.clientX - this.plot.getBoundingClientRect().left);
    if (!found) return this.unpoint();
    if (!this.tip) this.tip = make("div", { class: "tip", "aria-hidden": "true" });
    this.tip.replaceChildren(...found.lines.map(line => make("div", {}, line)));
    this.plot.append(this.tip);
    const right = found.x > this.width / 2;
    this.tip.style.left = right ? "auto" : `${found.x + 12}px`;
    this.tip.style.right = right ? `${this.width - found.x + 12}px` : "auto";
    this.picture.cursor.setAttribute("x1", found.x);
    this.picture.cursor.setAttribute("x2", found.x);
    this.picture.cursor.setAttribute("opacity", 1);
  }
  unpoint() {
    if (this.tip) this.tip.remove();
    if (this.picture && this.picture.cursor) this.picture.cursor.setAttribute("opacity", 0);
  }
}

function redrawAll() {
  for (const frame of frames) frame.redraw();
  for (const legend of legends) legend.fill();
  for (const old of document.querySelectorAll("table .swatch")) {
    old.replaceWith(swatch(styleOf(Number(old.dataset.series)), themeNow()));
  }
}
darkness.addEventListener("change", redrawAll);
window.addEventListener("beforeprint", () => { printing = true; redrawAll(); });
window.addEventListener("afterprint", () => { printing = false; redrawAll(); });

function choice(label, options, value, action) {
  const select = make("select", { onchange: () => action(select.value) },
    options.map(([key, text]) => make("option", { value: key }, text)));
  select.value = value;
  return make("label", {}, label, select);
}
function tick(label, value, action) {
  const box = make("input", { type: "checkbox", onchange: () => action(box.checked) });
  box.checked = value;
  return make("label", {}, box, label);
}
