// The sections of one workload.

const MOST_SHOWN = 8;  // groups that are drawn at first
const AXES = {
  time_s: { title: "training time", kind: "time" },
  samples_count: { title: "samples", kind: "count" },
  bytes_sent: { title: "bytes sent", kind: "bytes" },
};
const METRICS = { p1: "P@1", p3: "P@3", p5: "P@5", auc: "AUC", calibration: "calibration", perplexity: "perplexity", bits_per_byte: "bits per byte", test_loss: "test loss", train_loss: "training loss" };
const metricName = metric => METRICS[metric] || metric;
const isLoss = metric => metric.endsWith("loss");

// A workload with what its charts share: the groups by place, and which of them are drawn.
function contextOf(workload, index) {
  const groups = [...workload.groups].sort((a, b) => a.place - b.place);
  for (const group of groups) {
    group.style = labelIndex.size > MOST_COMMON_STYLES ? styleOf(group.place) : styleOfLabel(group.label);
  }
  const items = groups.map(group => ({ key: group.label, name: group.label, style: group.style }));
  const most = groups.length > MOST_SHOWN + 2 ? MOST_SHOWN : groups.length;
  return { workload, groups, items, prefix: `w${index}`, target: 0, selection: new Selection(items.map(item => item.key), most) };
}
const shownGroups = context => context.groups.filter(group => context.selection.has(group.label));
const itemsOf = (context, groups) => context.items.filter(item => groups.some(group => group.label === item.key));

const unitOfTarget = context =>
  timeUnit(context.groups.map(group => interval(group.targets[context.target], "time_s").median));
const hasSeveralTests = context => context.groups.length > 2;
// Which tests the p-values are of.
function testsOf(context) {
  const tests = new Set(context.groups.map(group => group.test));
  return [tests.has("signed_rank") ? "two-sided Wilcoxon signed-rank test of the times against the reference, paired by seed" : "",
    tests.has("mann_whitney") ? "two-sided Mann-Whitney U test, not paired" + (tests.has("signed_rank") ? ", of groups with other seeds or data" : "") : ""]
    .filter(text => text).join("; ");
}
function columnsOfTarget(context) {
  return [
    { name: "reached", number: true, title: "Runs that reached the target and held it" },
    { name: `${context.workload.targets[context.target]} after (${unitOfTarget(context).name})`, number: true,
      title: "Median time to the target with 95 % bootstrap interval; a missed target counts as infinity" },
    { name: "speedup", number: true, title: "The reference's median time over this one's" },
    { name: "stat", number: true, title: "Statistical efficiency: the reference's samples to the target over this one's" },
    { name: "hw", number: true, title: "Hardware efficiency: samples per second to the target over the reference's" },
    { name: "p", number: true, title: testsOf(context) },
    { name: "least effect", number: true, title: "The least ratio of times that these seeds would have shown, with a probability of 45 % (six pairs) to 75 % (twenty)" },
    ...(hasSeveralTests(context) ? [{ name: "p (Holm)", number: true, title: "p, corrected for all comparisons with the reference (Holm)" }] : []),
  ];
}
function cellsOfTarget(context, group) {
  const target = group.targets[context.target];
  const unit = unitOfTarget(context);
  const tests = ["p_value", ...(hasSeveralTests(context) ? ["p_value_holm"] : [])].map(key => number(target, key));
  return [
    { text: `${target.reached}/${group.n}`, sort: target.reached / group.n },
    withRange(interval(target, "time_s"), value => short(value / unit.factor), group.n > 1),
    withRange(interval(target, "speedup"), value => fixed(value, 2), !group.reference),
    { text: fixed(number(target, "statistical_efficiency_ratio"), 2), sort: number(target, "statistical_efficiency_ratio") },
    { text: fixed(number(target, "hardware_efficiency_ratio"), 2), sort: number(target, "hardware_efficiency_ratio") },
    { text: probability(tests[0]), sort: tests[0] },
    { text: fixed(number(target, "least_effect"), 2), sort: number(target, "least_effect") },
    ...tests.slice(1).map(p => ({ text: probability(p), sort: p })),
  ];
}
function summaryTable(context) {
  const { workload, groups } = context;
  const hasTarget = workload.targets.length > 0, tuned = groups.some(group => group.tuning);
  const diverged = groups.some(group => group.diverged > 0);
  const columns = [{ name: "group" }, { name: "runs", number: true }, ...(hasTarget ? columnsOfTarget(context) : []),
    { name: "samples/s", number: true }, { name: "final " + metricName(workload.metric), number: true },
    ...(diverged ? [{ name: "diverged", number: true }] : []),
    ...(tuned ? [{ name: "tuning (s)", number: true, title: "Training time spent on choosing the learning rate" }] : [])];
  const rows = groups.map(group => [
    { text: group.label, mark: () => swatch(group.style, themeNow()), reference: group.reference },
    group.n, ...(hasTarget ? cellsOfTarget(context, group) : []),
    withRange(interval(group, "samples_per_s"), short, group.n > 1),
    withRange(interval(group, "final"), value => fixed(value, 4), group.n > 1),
    ...(diverged ? [group.diverged] : []), ...(tuned ? [group.tuning ? { text: short(group.tuning.train_s), sort: group.tuning.train_s } : null] : [])]);
  return tableOf({ columns, rows, label: "Summary", whole: groups.length < 40, marked: row => (row[0].reference ? "reference" : null) });
}
function summarySection(context) {
  const { workload } = context;
  const place = make("div", {}, summaryTable(context));
  const change = value => {
    context.target = Number(value);
    place.replaceChildren(summaryTable(context));
    for (const listener of context.targetListeners) listener();
  };
  return [
    make("h3", { id: `${context.prefix}-summary` }, "Summary"),
    workload.targets.length > 1 ? make("div", { class: "controls" }, choice("Target", workload.targets.map((text, i) => [i, text]), 0, change)) : null,
    place,
    make("p", { class: "muted" }, "Medians over the runs [95 % bootstrap interval]. " + (workload.targets.length === 0
      ? "No result names a target: --target gives one."
      : `The reference is ${workload.reference}. speedup = stat (fewer samples to the target) × hw (more samples per second). ` +
        "A target is reached when it is held: at the first evaluation that reaches it and whose median with the next four does, too. " +
        `A missed target counts as infinity. p: ${testsOf(context) || "none, there is one group"}` +
        (hasSeveralTests(context) ? `; p (Holm): corrected for ${context.groups.length - 1} comparisons.` : "."))),
  ];
}

function pointsOf(group, metric, axis) {
  const x = group.curves.x[axis], y = group.curves.y[metric][axis];
  const value = (list, i) => (list && list[i] !== null ? list[i] : NaN);
  return x.map((at, i) => ({ x: at, y: value(y.median, i), low: value(y.low, i), high: value(y.high, i) }));
}
function curvesFigure(context) {
  const { workload } = context;
  const state = { metric: workload.metric, axis: "time_s", band: true, logX: false, logY: false };
  const groups = context.groups.filter(group => group.curves.x.time_s.length > 0);
  if (groups.length === 0) return null;
  const seriesOf = group => ({ key: group.label, name: group.label, style: group.style, points: pointsOf(group, state.metric, state.axis) });
  const boxX = tick("logarithmic x", false, value => { state.logX = value; frame.refresh(); });
  const boxY = tick("logarithmic y", false, value => { state.logY = value; frame.refresh(); });
  const chooseScales = () => {
    const series = groups.map(seriesOf);
    state.logX = spansDecades(series.map(each => Math.max(0, ...each.points.map(point => point.x))), 8);
    state.logY = isLoss(state.metric) && spansDecades(series.flatMap(each => each.points.map(point => point.y)), 100);
    boxX.firstChild.checked = state.logX;
    boxY.firstChild.checked = state.logY;
  };
  chooseScales();
  const label = () => `${metricName(state.metric)} over ${AXES[state.axis].title}`;
  const chosen = key => value => { state[key] = value; chooseScales(); frame.refresh(); };
  const several = groups.some(group => group.n > 1);
  const bytesNote = workload.bytes_measured ? "" : " Bytes: each run's total, shared out in proportion to its samples.";
  const frame = new Frame({
    name: `${context.prefix}-curves`, title: "Learning curves", selection: context.selection, items: () => itemsOf(context, groups),
    note: (several ? "Median of the runs; the band goes from the lowest to the highest one." : "One run per group.") + bytesNote,
    controls: [
      choice("Metric", workload.metrics.map(metric => [metric, metricName(metric)]), state.metric, chosen("metric")),
      choice("over", Object.entries(AXES).map(([key, axis]) => [key, axis.title]), state.axis, chosen("axis")),
      boxX, boxY, several ? tick("bands", true, value => { state.band = value; frame.refresh(); }) : null],
    draw: (width, theme) => drawLines({
      series: groups.filter(group => context.selection.has(group.label)).map(seriesOf), band: state.band, label: label(),
      x: { ...AXES[state.axis], log: state.logX }, y: { title: metricName(state.metric), log: state.logY },
    }, width, theme),
    table: () => ({
      columns: [{ name: "group" }, ...[state.axis, state.metric, "lowest", "highest"].map(name => ({ name, number: true }))],
      rows: shownGroups(context).flatMap(group => pointsOf(group, state.metric, state.axis).map(point =>
        [group.label, point.x, point.y, point.low, point.high].map(cell => (Number.isNaN(cell) ? null : cell)))),
    }),
  });
  return frame;
}

function targetFigure(context) {
  const { workload } = context;
  if (workload.targets.length === 0) return null;
  const rowOf = group => {
    const target = group.targets[context.target], time = interval(target, "time_s"), unit = unitOfTarget(context);
    const scaled = value => short(value / unit.factor);
    const range = group.n > 1 && Number.isFinite(time.low) ? ` [${scaled(time.low)}, ${scaled(time.high)}]` : "";
    const text = Number.isFinite(time.median) ? `${scaled(time.median)}${range} ${unit.name}` : "not reached";
    return {
      key: group.label, name: group.label, style: group.style, value: time.median,
      low: group.n > 1 ? time.low : time.median, high: group.n > 1 ? time.high : time.median, text: `${text}, ${target.reached}/${group.n}`,
    };
  };
  const frame = new Frame({
    name: `${context.prefix}-target`, title: "Time to the target", selection: context.selection, items: () => context.items,
    note: "Median training time and its 95 % bootstrap interval; runs that reached and held the target. A dashed bar: the median missed it.",
    draw: (width, theme) => drawIntervals({
      rows: shownGroups(context).map(rowOf), kind: "time", title: `time to ${workload.targets[context.target]}`,
      label: `Time to ${workload.targets[context.target]}`,
    }, width, theme),
    table: () => ({
      columns: [{ name: "group" }, { name: "runs", number: true }, { name: "reached", number: true },
        ...["time_s", "low", "high", "first_crossing_s", "samples", "updates"].map(name => ({ name, number: true }))],
      rows: shownGroups(context).map(group => {
        const target = group.targets[context.target], time = interval(target, "time_s");
        const numbers = [time.median, time.low, time.high, interval(target, "first_crossing_s").median, number(target, "samples_count"), number(target, "updates")];
        return [group.label, group.n, target.reached, ...numbers.map(value => ({ text: short(value), sort: value }))];
      }),
    }),
  });
  context.targetListeners.push(() => frame.refresh());
  return frame;
}
