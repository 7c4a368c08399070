// Bars with intervals, stacked shares per worker, and heat maps.

// Rows {name, style, value, low, high, text}: a value that is infinite was not reached.
function drawIntervals(chart, width, theme) {
  const rowHeight = 40, top = 8;
  const height = top + chart.rows.length * rowHeight + 48;
  const picture = canvasOf(width, height, theme, chart.label);
  if (chart.rows.length === 0) picture.append(nothingNote(width, height, theme));
  const ends = chart.rows.flatMap(row => [row.value, row.low, row.high]).filter(Number.isFinite);
  const log = spansDecades(ends, 30);
  const range = rangeOf(ends, { kind: chart.kind, log, zero: true });
  if (log) range.low /= 1.6;
  range.high *= log ? 1.3 : 1.06;
  const box = { top, bottom: height - 44, left: 8, right: width - 24, width };
  const x = makeScale(range, box.left, box.right, Math.max(3, Math.round(width / 110)));
  picture.append(bottomAxis(x, range.unit, chart.title, box, theme));
  chart.rows.forEach((row, i) => picture.append(intervalRow(row, x, top + i * rowHeight, width, theme)));
  return picture;
}
function intervalRow(row, x, top, width, theme) {
  const colour = colourOf(row.style, theme), middle = top + 26, edge = x.to + 14;
  const place = value => (Number.isFinite(value) ? x.at(Math.max(x.low, value)) : edge);
  const textWidth = widthOf(row.text, 12);
  const missed = !Number.isFinite(row.value);
  const group = svg("g", { class: "series", "data-key": row.key },
    write(clipped(row.name, 12, width - textWidth - 32), x.from, top + 13, { fill: theme.text, "font-weight": 600 }),
    write(row.text, width - 8, top + 13, { fill: theme.text, "text-anchor": "end" }),
    svg("rect", {
      x: x.from, y: middle - 7, width: Math.max(1, place(row.value) - x.from), height: 14, rx: 2, fill: colour,
      "fill-opacity": missed ? 0.12 : 0.8, stroke: colour, "stroke-dasharray": missed ? "5 4" : null,
    }));
  if (Number.isFinite(row.low) && row.low !== row.high) {
    const low = place(row.low), high = place(row.high), stroke = { stroke: theme.text, "stroke-width": 1.6, fill: "none" };
    group.append(svg("path", { d: `M${low} ${middle - 5}v10M${low} ${middle}H${high}`, ...stroke }));
    const end = Number.isFinite(row.high) ? `M${high} ${middle - 5}v10` : `M${high - 5} ${middle - 5}l5 5l-5 5`;
    group.append(svg("path", { d: end, ...stroke }));
  }
  return group;
}

// Where small pictures stand side by side: their columns and their width.
function columnsFor(width, count) {
  const columns = Math.max(1, Math.min(count, Math.floor(width / 330)));
  return { columns, space: width / columns };
}

const PARTS = ["compute", "communicate", "wait"].map((key, i) =>
  ({ key, name: ["computing", "communicating", "waiting"][i], style: { state: key } }));
// Blocks {name, rank: [..], compute: [..], communicate: [..], wait: [..]} of shares of the time.
function drawStacks(chart, width, theme) {
  const { columns, space } = columnsFor(width, chart.blocks.length || 1);
  const thick = block => (block.rank.length > 20 ? 5 : 14);
  const blockHeight = Math.max(60, ...chart.blocks.map(block => 26 + thick(block) * block.rank.length + 40));
  const height = Math.max(60, Math.ceil(chart.blocks.length / columns) * blockHeight + 14);
  const picture = canvasOf(width, height, theme, chart.label);
  if (chart.blocks.length === 0) picture.append(nothingNote(width, height, theme));
  const parts = PARTS.filter(part => chart.selection.has(part.key));
  const totals = chart.blocks.flatMap(block =>
    block.rank.map((_, i) => parts.reduce((sum, part) => sum + block[part.key][i], 0)));
  const most = Math.max(1, ...totals);
  chart.blocks.forEach((block, i) => {
    const left = (i % columns) * space, top = Math.floor(i / columns) * blockHeight;
    picture.append(stackBlock(block, left, top, space, thick(block), most, parts, theme));
  });
  return picture;
}
function stackBlock(block, left, top, space, thick, most, parts, theme) {
  const named = thick > 10;
  const margin = left + (named ? 12 + Math.max(...block.rank.map(rank => widthOf(String(rank), 12))) : 10);
  const bottom = top + 26 + thick * block.rank.length;
  const box = { top: top + 24, bottom, left: margin, right: left + space - 22, width: left + space };
  const unit = unitFor("share", most);
  const x = makeScale({ low: 0, high: most, log: false, unit }, box.left, box.right, 4);
  const group = svg("g", { class: "block" },
    write(clipped(block.name, 12, space - 24), left + 4, top + 15, { fill: theme.text, "font-weight": 600 }),
    bottomAxis(x, unit, "share of the time", box, theme));
  block.rank.forEach((rank, i) => {
    const y = bottom - thick * (block.rank.length - i);
    if (named) group.append(write(String(rank), margin - 6, y + 11, { "text-anchor": "end", fill: theme.muted }));
    let from = 0;
    for (const part of parts) {
      const share = block[part.key][i];
      group.append(svg("rect", {
        class: "series", "data-key": part.key, x: x.at(from), y: y + 1, width: Math.max(0, x.at(from + share) - x.at(from)),
        height: thick - 2, fill: colourOf(part.style, theme), opacity: 0.85,
      }));
      from += share;
    }
  });
  return group;
}

// Bars of every series at whole numbers of an axis. {series, x: {title}, y: {title, kind}, label}
function drawHistogram(chart, width, theme) {
  const height = 280;
  const picture = canvasOf(width, height, theme, chart.label);
  const values = [...new Set(chart.series.flatMap(each => each.points.map(point => point.x)))].sort((a, b) => a - b);
  if (values.length === 0) return fill(picture, {}, [nothingNote(width, height, theme)]);
  const range = rangeOf(chart.series.flatMap(each => each.points.map(point => point.y)), chart.y);
  const box = { top: 26, bottom: height - 44, right: width - 12, left: 44, width };
  const y = makeScale(range, box.bottom, box.top, 5);
  const gap = Math.min(1, ...values.slice(1).map((value, i) => value - values[i]));
  const unit = unitFor("plain", 1), low = values[0] - gap / 2, high = values[values.length - 1] + gap / 2;
  const x = makeScale({ low, high, log: false, unit }, box.left, box.right, Math.max(2, Math.min(12, Math.round(width / 90))));
  x.ticks = x.ticks.filter(Number.isInteger);
  const thick = Math.min(28, ((x.at(low + gap) - x.from) * 0.8) / chart.series.length);
  picture.append(leftAxis(y, range.unit, chart.y.title, box, theme), bottomAxis(x, unit, chart.x.title, box, theme));
  chart.series.forEach((each, s) => {
    const colour = colourOf(each.style, theme);
    for (const point of each.points) {
      const left = x.at(point.x) + thick * (s - chart.series.length / 2);
      picture.append(svg("rect", {
        class: "series", "data-key": each.key, x: pixel(left), y: pixel(y.at(point.y)), width: Math.max(1.5, pixel(thick - 1)), fill: colour,
        height: Math.max(0, pixel(box.bottom - y.at(point.y))), "fill-opacity": 0.85, stroke: colour, "stroke-dasharray": each.style.dash || null,
      }));
    }
  });
  return picture;
}

const mix = (ramp, share) => {
  const parts = ramp[0].map((from, i) => Math.round(from + (ramp[1][i] - from) * share));
  return { fill: `rgb(${parts.join(",")})`, bright: (parts[0] * 0.299 + parts[1] * 0.587 + parts[2] * 0.114) > 140 };
};
// Blocks {name, rank: [..], service: [..], wait_s: [[..]]}: row i waited for column j, workers first.
const columnNames = block => [...block.rank.map(String), ...block.service];
function drawHeat(chart, width, theme) {
  const { columns, space } = columnsFor(width, chart.blocks.length || 1);
  const most = Math.max(0, ...chart.blocks.flatMap(block => block.wait_s.flat()));
  const unit = unitFor("time", most);
  const cellOf = block => Math.max(2, Math.min(44, (space - 60) / columnNames(block).length));
  const blockHeight = Math.max(60, ...chart.blocks.map(block => 62 + cellOf(block) * block.rank.length));
  const height = Math.max(60, Math.ceil(chart.blocks.length / columns) * blockHeight + 34);
  const picture = canvasOf(width, height, theme, chart.label);
  if (chart.blocks.length === 0) picture.append(nothingNote(width, height, theme));
  chart.blocks.forEach((block, i) => {
    const left = (i % columns) * space, top = Math.floor(i / columns) * blockHeight;
    picture.append(heatBlock(block, left, top, cellOf(block), space, most, unit, theme));
  });
  picture.append(heatKey(most, unit, height, theme));
  return picture;
}
function heatBlock(block, left, top, cell, space, most, unit, theme) {
  const start = left + 36, first = top + 42;
  const group = svg("g", { class: "block" },
    write(clipped(block.name, 12, space - 24), left + 4, top + 15, { fill: theme.text, "font-weight": 600 }),
    write("worker (row) waited for (column)", left + 4, top + 31, { fill: theme.muted, "font-size": 11 }));
  if (cell >= 14) {
    columnNames(block).forEach((name, j) => group.append(write(clipped(name, 12, Math.max(cell, 60)), start + cell * (j + 0.5),
      first + cell * block.rank.length + 14, { "text-anchor": "middle", fill: theme.muted })));
  }
  block.rank.forEach((rank, i) => {
    if (cell >= 14) group.append(write(String(rank), start - 6, first + cell * (i + 0.5) + 4, { "text-anchor": "end", fill: theme.muted }));
    block.wait_s[i].forEach((value, j) => {
      const { fill: colour, bright } = mix(theme.ramp, most > 0 ? value / most : 0);
      group.append(svg("rect", { x: start + cell * j, y: first + cell * i, width: cell - 1, height: cell - 1, fill: colour, stroke: theme.grid }));
      const text = short(Number((value / unit.factor).toPrecision(2)));
      if (value > 0 && widthOf(text, 11) < cell - 4) {
        group.append(write(text, start + cell * (j + 0.5), first + cell * (i + 0.5) + 4,
          { "text-anchor": "middle", "font-size": 11, fill: bright ? "#14171c" : "#ffffff" }));
      }
    });
  });
  return group;
}
function heatKey(most, unit, height, theme) {
  const group = svg("g", {}, write("0", 6, height - 10, { fill: theme.muted }));
  for (let i = 0; i <= 10; ++i) {
    group.append(svg("rect", { x: 20 + 12 * i, y: height - 21, width: 12, height: 13, fill: mix(theme.ramp, i / 10).fill }));
  }
  group.append(write(`${short(most / unit.factor)} ${unit.name}`, 158, height - 10, { fill: theme.muted }));
  return group;
}
