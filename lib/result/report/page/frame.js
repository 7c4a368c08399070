// The frame of every chart: caption, controls, picture, legend, downloads, and its numbers as a table.

const EXPORT_WIDTH = 760;
const frames = new Set();

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

class Frame {
  // {title, note, name, draw(width, theme), items() -> legend, selection, controls, table()}
  constructor(spec) {
    this.spec = spec;
    this.plot = make("div", { class: "plot" });
    this.legend = make("div", { class: "legend", role: "group", "aria-label": `Series of ${spec.title}` });
    this.numbers = make("details", {}, make("summary", {}, "Numbers"));
    this.numbers.addEventListener("toggle", () => this.fillNumbers());
    const button = (text, action) => make("button", { type: "button", onclick: action, "aria-label": `${text} of ${spec.title}` }, text);
    this.element = make("figure", { id: spec.name },
      make("figcaption", {}, spec.title, spec.note ? make("p", {}, spec.note) : null),
      spec.controls ? make("div", { class: "controls" }, spec.controls) : null,
      this.plot, this.legend,
      make("div", { class: "actions" },
        button("SVG", () => save(`${spec.name}.svg`, new Blob([this.source()], { type: "image/svg+xml" }))),
        button("PNG", () => this.savePng()),
        button("CSV", () => save(`${spec.name}.csv`, new Blob([csvOf(spec.table())], { type: "text/csv" })))),
      this.numbers);
    if (spec.selection) spec.selection.listeners.push(() => this.refresh());
    this.width = 0;
    frames.add(this);
    this.observer = new ResizeObserver(() => {
      if (Math.abs(this.plot.clientWidth - this.width) > 1) this.redraw();
    });
    this.observer.observe(this.plot);
    this.plot.addEventListener("pointermove", event => this.point(event));
    this.plot.addEventListener("pointerleave", () => this.unpoint());
    this.fillLegend();
  }

  close() {
    this.observer.disconnect();
    frames.delete(this);
  }

  refresh() {
    this.redraw();
    this.fillLegend();
    this.fillNumbers();
  }

  redraw() {
    this.width = this.plot.clientWidth;
    if (this.width < 50) return;
    this.picture = this.spec.draw(this.width, themeNow());
    this.plot.replaceChildren(this.picture);
  }

  // Buttons keep the focus when one of them is pressed: they are changed, not made anew.
  fillLegend() {
    const items = this.spec.items ? this.spec.items() : [];
    const same = this.buttons && this.buttons.length === items.length &&
      this.buttons.every((button, i) => button.dataset.key === items[i].key);
    if (!same) this.makeLegend(items);
    items.forEach((item, i) => {
      this.buttons[i].firstChild.replaceWith(swatch(item.style, themeNow()));
      this.buttons[i].setAttribute("aria-pressed", String(this.spec.selection.has(item.key)));
    });
  }
  makeLegend(items) {
    const selection = this.spec.selection;
    this.buttons = items.map(item => make("button",
      { type: "button", "data-key": item.key, onclick: () => selection.toggle(item.key) }, make("span"), item.name));
    const keys = items.map(item => item.key);
    const all = (text, chosen) => make("button", { type: "button", class: "all", onclick: () => selection.set(chosen) }, text);
    this.legend.replaceChildren(...this.buttons, ...(items.length > 6 ? [all("All", keys), all("None", [])] : []));
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
  for (const frame of frames) {
    frame.redraw();
    frame.fillLegend();
  }
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
