// Tables that sort. A cell is a text or a number, or {text, sort, range, mark}: what is shown, by
// what it is sorted, a quieter part behind it, and a picture before it.

const sortKey = cell => (typeof cell === "object" && cell !== null ? cell.sort ?? cell.text : cell);
// Numbers before texts before nothing; infinity is the largest number.
function compareCells(a, b) {
  const rank = value => (typeof value === "number" && !Number.isNaN(value) ? 0 : value === null || Number.isNaN(value) ? 2 : 1);
  if (rank(a) !== rank(b)) return rank(a) - rank(b);
  if (rank(a) === 0) return a === b ? 0 : a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

function cellElement(cell, column, first) {
  const tag = first ? "th" : "td";
  const attributes = { class: column.number ? "number" : "text", scope: first ? "row" : null };
  if (typeof cell !== "object" || cell === null) return make(tag, attributes, cell === null ? "–" : String(cell));
  return make(tag, attributes, cell.mark ? cell.mark() : null, String(cell.text),
    cell.range ? make("span", { class: "range" }, " " + cell.range) : null);
}

// {columns: [{name, number, title}], rows: [[cell]], label, marked: row -> class}
function tableOf({ columns, rows, label, marked, whole }) {
  const body = make("tbody");
  const show = order => body.replaceChildren(...order.map(row => make("tr", { class: marked ? marked(row) : null },
    row.map((cell, i) => cellElement(cell, columns[i], i === 0)))));
  const heads = columns.map((column, i) => {
    const head = make("th", { class: column.number ? "number" : null, scope: "col", title: column.title || null });
    head.append(make("button", {
      type: "button", onclick: () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const each of heads) each.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const sorted = [...rows].sort((a, b) => compareCells(sortKey(a[i]), sortKey(b[i])));
        show(down ? sorted.reverse() : sorted);
      },
    }, column.name));
    return head;
  });
  show(rows);
  const box = make("div", { class: whole ? "scroll whole" : "scroll", tabindex: 0, role: "region", "aria-label": label },
    make("table", { "aria-label": label }, make("thead", {}, make("tr", {}, heads)), body));
  new ResizeObserver(() => box.classList.toggle("cut", box.scrollWidth > box.clientWidth + 1)).observe(box);
  return box;
}

const withRange = ({ median, low, high }, show, several) => ({
  text: show(median), sort: median,
  range: several && !Number.isNaN(median) ? `[${show(low)}, ${show(high)}]` : null,
});
