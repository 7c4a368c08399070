// Line charts: curves with bands, profiles as steps, histograms as points.

// The pieces of a series between points that have no value.
function piecesOf(points) {
  const pieces = [[]];
  for (const point of points) {
    if (Number.isFinite(point.y)) pieces[pieces.length - 1].push(point);
    else if (pieces[pieces.length - 1].length > 0) pieces.push([]);
  }
  return pieces.filter(piece => piece.length > 0);
}
const pixel = value => Math.round(value * 10) / 10;
const at = (x, y, point, key) => `${pixel(x.at(point.x))} ${pixel(y.at(point[key]))}`;

function pathOf(piece, x, y, step) {
  return piece.map((point, i) => {
    if (i === 0) return `M${at(x, y, point, "y")}`;
    return (step ? `H${pixel(x.at(point.x))}` : "") + `L${at(x, y, point, "y")}`;
  }).join("");
}
function bandOf(piece, x, y) {
  const ends = piece.filter(point => Number.isFinite(point.low) && (!y.log || point.low > 0));
  if (ends.length < 2) return null;
  return "M" + ends.map(point => at(x, y, point, "high")).join("L") + "L" +
    [...ends].reverse().map(point => at(x, y, point, "low")).join("L") + "Z";
}

function drawSeries(series, x, y, theme, chart) {
  const colour = colourOf(series.style, theme);
  const points = series.points.filter(point => (!x.log || point.x > 0) && (!y.log || !(point.y <= 0)));
  const group = svg("g", { class: "series", "data-key": series.key });
  for (const piece of piecesOf(points)) {
    const band = chart.band ? bandOf(piece, x, y) : null;
    if (band) group.append(svg("path", { d: band, fill: colour, opacity: 0.18 }));
    group.append(svg("path", {
      d: pathOf(piece, x, y, series.step), fill: "none", stroke: colour, "stroke-width": 2,
      "stroke-dasharray": series.style.dash || null, "stroke-linejoin": "round",
    }));
    const every = chart.allMarkers ? 1 : Math.max(1, Math.ceil(piece.length / 6));
    piece.forEach((point, i) => {
      if ((piece.length - 1 - i) % every === 0) group.append(marker(series.style, pixel(x.at(point.x)), pixel(y.at(point.y)), colour));
    });
  }
  return group;
}

// A series' value at x: along the line, or that of the step.
function valueAt(series, x) {
  const points = series.points.filter(point => Number.isFinite(point.y));
  const after = points.findIndex(point => point.x > x);
  if (points.length === 0 || after === 0) return NaN;
  const left = points[after < 0 ? points.length - 1 : after - 1];
  if (after < 0) return series.step || left.x === x ? left.y : NaN;
  if (series.step) return left.y;
  return left.y + ((points[after].y - left.y) * (x - left.x)) / (points[after].x - left.x);
}
function readoutOf(series, x, xUnit, yUnit, chart) {
  return px => {
    if (px < x.from || px > x.to) return null;
    const value = x.back(px);
    const lines = series.map(each => ({ name: each.name, y: valueAt(each, value) })).filter(each => Number.isFinite(each.y));
    if (lines.length === 0) return null;
    lines.sort((a, b) => b.y - a.y);
    const shown = lines.slice(0, 8).map(each => `${each.name}: ${short(each.y / yUnit.factor)} ${yUnit.name}`);
    if (lines.length > 8) shown.push(`and ${lines.length - 8} more`);
    return { x: px, lines: [`${chart.x.title}: ${short(value / xUnit.factor)} ${xUnit.name}`, ...shown] };
  };
}

// {x: {title, kind, log, zero, low}, y: the same, series: [{key, name, style, points: [{x, y, low,
// high}], step}], band, allMarkers, label}
function drawLines(chart, width, theme) {
  const height = Math.round(Math.min(400, Math.max(240, width * 0.45)));
  const picture = canvasOf(width, height, theme, chart.label);
  const points = chart.series.flatMap(each => each.points);
  const xRange = rangeOf(points.map(point => point.x), chart.x);
  const ys = points.flatMap(point => (chart.band ? [point.y, point.low ?? point.y, point.high ?? point.y] : [point.y]));
  const yRange = rangeOf(ys, chart.y);
  const box = { top: 26, bottom: height - 44, right: width - 12, width, left: 0 };
  const y = makeScale(yRange, box.bottom, box.top, Math.max(3, Math.round((box.bottom - box.top) / 48)));
  box.left = Math.ceil(Math.max(24, ...tickTexts(y, yRange.unit).map(text => widthOf(text, 12)))) + 12;
  const x = makeScale(xRange, box.left, box.right, Math.max(3, Math.round((box.right - box.left) / 90)));
  picture.append(leftAxis(y, yRange.unit, chart.y.title, box, theme),
    bottomAxis(x, xRange.unit, chart.x.title, box, theme));
  for (const each of chart.series) picture.append(drawSeries(each, x, y, theme, chart));
  if (chart.series.length === 0) picture.append(nothingNote(width, height, theme));
  picture.cursor = svg("line", { y1: box.top, y2: box.bottom, stroke: theme.muted, opacity: 0, "stroke-dasharray": "3 3" });
  picture.append(picture.cursor);
  picture.readout = readoutOf(chart.series, x, xRange.unit, yRange.unit, chart);
  return picture;
}
