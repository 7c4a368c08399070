// The sections about workers, histograms and settings of one workload.

// Of many workers only some are drawn.
const ranksNote = blocks => {
  const cut = blocks.find(block => block.count > block.rank.length);
  return cut ? ` ${cut.rank.length} of ${cut.count} workers are shown.` : "";
};
const blocksOf = (context, groups, key) =>
  groups.filter(group => context.selection.has(group.label)).map(group => ({ name: group.label, ...group[key] }));

function workersFigure(context) {
  const groups = context.groups.filter(group => group.workers);
  if (groups.length === 0) return null;
  const parts = new Selection(PARTS.map(part => part.key), PARTS.length);
  const blocks = () => blocksOf(context, groups, "workers");
  const frame = new Frame({
    name: `${context.prefix}-workers`, title: "Utilisation and waiting of the workers", selection: parts, items: () => PARTS, ownLegend: true,
    note: "Share of the elapsed training time that each worker spent, mean over the runs." + ranksNote(groups.map(group => group.workers)),
    draw: (width, theme) => drawStacks({ blocks: blocks(), selection: parts, label: "Utilisation and waiting of the workers" }, width, theme),
    table: () => ({
      columns: [{ name: "group" }, { name: "worker", number: true }, { name: "device" }, ...PARTS.map(part => ({ name: part.name + " (%)", number: true }))],
      rows: blocks().flatMap(block => block.rank.map((rank, i) =>
        [block.name, rank, block.device[i], ...PARTS.map(part => Number((100 * block[part.key][i]).toFixed(2)))])),
    }),
  });
  context.selection.listeners.push(() => frame.refresh());
  return frame;
}

function waitsFigure(context) {
  const groups = context.groups.filter(group => group.waited_for);
  if (groups.length === 0) return null;
  const blocks = () => blocksOf(context, groups, "waited_for");
  return new Frame({
    name: `${context.prefix}-waits`, title: "Who waited for whom", selection: context.selection, items: () => itemsOf(context, groups),
    note: "Seconds that the worker of a row waited for the worker or service of a column, mean over the runs." + ranksNote(groups.map(group => group.waited_for)),
    draw: (width, theme) => drawHeat({ blocks: blocks(), label: "Who waited for whom" }, width, theme),
    table: () => ({
      columns: [{ name: "group" }, { name: "worker", number: true }, { name: "waited for" }, { name: "seconds", number: true }],
      rows: blocks().flatMap(block => block.rank.flatMap((rank, i) =>
        columnNames(block).map((other, j) => [block.name, rank, other, block.wait_s[i][j]]))),
    }),
  });
}

function batchesFigure(context) {
  const groups = context.groups.filter(group => group.batch_sizes);
  if (groups.length === 0) return null;
  const state = { group: groups[0] };
  const keys = Array.from({ length: Math.max(...groups.map(group => group.batch_sizes.rank.length)) }, (_, i) => String(i));
  const selection = new Selection(keys, keys.length);
  const items = () => state.group.batch_sizes.rank.map((rank, i) => ({ key: String(i), name: `worker ${rank}`, style: styleOf(i) }));
  const points = i => state.group.batch_sizes.time_s.map((x, merge) => ({ x, y: state.group.batch_sizes.batch_size[i][merge] ?? NaN }));
  const frame = new Frame({
    name: `${context.prefix}-batches`, title: "Batch sizes", selection, items, ownLegend: true,
    note: "Samples per batch of each worker at the merges of the group's first run. " +
      "Groups whose batch sizes never change are left out." + ranksNote(groups.map(group => group.batch_sizes)),
    controls: [groups.length === 1 ? make("span", {}, groups[0].label)
      : choice("Group", groups.map((group, i) => [i, group.label]), 0, value => { state.group = groups[value]; frame.refresh(); })],
    draw: (width, theme) => drawLines({
      series: items().filter(item => selection.has(item.key)).map((item, i, shown) => ({ ...item, points: points(Number(shown[i].key)), step: true })),
      x: AXES.time_s, y: { title: "batch size", zero: true }, label: `Batch sizes of ${state.group.label}`,
    }, width, theme),
    table: () => ({
      columns: [{ name: "worker", number: true }, { name: "time_s", number: true }, { name: "batch size", number: true }],
      rows: items().filter(item => selection.has(item.key)).flatMap(item =>
        points(Number(item.key)).map(point => [item.name, point.x, Number.isNaN(point.y) ? null : point.y])),
    }),
  });
  return frame;
}

const MOST_BARS = 16;  // values; of more the shares are drawn as points
const HISTOGRAMS = {
  staleness: { title: "Staleness", axis: "iterations between read and apply" },
  contributors: { title: "Contributors of a reduction", axis: "workers" },
  local_steps: { title: "Local steps of a round", axis: "steps" },
};
const capitalised = text => text.charAt(0).toUpperCase() + text.slice(1);
function histogramFigure(context, name) {
  const groups = context.groups.filter(group => group.histograms[name]);
  const { title, axis } = HISTOGRAMS[name] || { title: capitalised(name.replaceAll("_", " ")), axis: "value" };
  const log = spansDecades(groups.map(group => group.histograms[name].max), 50);
  const few = new Set(groups.flatMap(group => group.histograms[name].value)).size <= MOST_BARS;
  const seriesOf = group => {
    const { value, share } = group.histograms[name];
    return { key: group.label, name: group.label, style: group.style, points: value.map((x, i) => ({ x, y: share[i] })) };
  };
  const widths = groups.filter(group => group.histograms[name].width > 1);
  return new Frame({
    name: `${context.prefix}-${name}`, title, selection: context.selection, items: () => itemsOf(context, groups),
    note: "Share of all counts of the group's runs." + (log && !few ? " Zero is left of the logarithmic axis: see the numbers." : "") +
      (widths.length > 0 ? " Where there are many values, neighbours are put together." : ""),
    draw: (width, theme) => {
      const series = shownGroups(context).filter(group => group.histograms[name]).map(seriesOf);
      const chart = { series, allMarkers: true, label: title, x: { title: axis, kind: "plain", log }, y: { title: "share", kind: "share", zero: true } };
      return few ? drawHistogram(chart, width, theme) : drawLines(chart, width, theme);
    },
    table: () => ({
      columns: [{ name: "group" }, ...["value", "share", "median", "p95", "most", "counts"].map(each => ({ name: each, number: true }))],
      rows: shownGroups(context).filter(group => group.histograms[name]).flatMap(group => {
        const counts = group.histograms[name];
        return counts.value.map((value, i) => [group.label, value, counts.share[i], counts.p50, counts.p95, counts.max, counts.count]);
      }),
    }),
  });
}
function histogramFigures(context) {
  const names = new Set(context.groups.flatMap(group => Object.keys(group.histograms)));
  const known = Object.keys(HISTOGRAMS).filter(name => names.has(name));
  return [...known, ...[...names].filter(name => !(name in HISTOGRAMS)).sort()].map(name => histogramFigure(context, name));
}

const SURVIVAL = [["lost_workers", "lost workers"], ["availability", "availability"], ["participation", "participation"],
  ["goodput", "goodput"], ["step_efficiency", "step efficiency"], ["wasted_samples", "wasted samples"], ["resume_s", "time to return (s)"]];
function lossesSection(context) {
  const groups = context.groups.filter(group => group.survival);
  if (groups.length === 0) return [];
  const label = "Lost workers";
  const rows = groups.map(group => [group.label, group.survival.runs, ...SURVIVAL.map(([key]) => group.survival[key] ?? null)]);
  return [
    make("h3", { id: `${context.prefix}-losses` }, label),
    make("p", {}, "Means over the runs that lost workers. Availability: share of the workers' time in which they live. Participation: " +
      "mean share of the workers in a merge. Goodput: share of the workers' time that is neither lost, nor waiting, nor work that was lost again. " +
      "Step efficiency: updates per second over those of the same run without failures, if that is in the report."),
    tableOf({ columns: [{ name: "group" }, { name: "runs", number: true }, ...SURVIVAL.map(([, name]) => ({ name, number: true }))], rows, label }),
  ];
}

function settingsSection(context) {
  const { workload } = context;
  const { options, groups } = workload.settings;
  const label = "Differences of configuration";
  const rows = context.groups.map(group => {
    const { values, own } = groups[workload.groups.indexOf(group)];
    return [group.label, ...values, own.length > 0 ? own.join(", ") : null];
  });
  const same = options.length === 0 && groups.every(group => group.own.length === 0);
  return [
    make("h3", { id: `${context.prefix}-settings` }, label),
    same ? make("p", {}, "The groups differ in nothing but their algorithm.")
      : tableOf({ columns: [{ name: "group" }, ...options.map(name => ({ name })), { name: "options of its own" }], rows, label }),
  ];
}
function runsSection(context) {
  const { workload } = context;
  const columns = [{ name: "file" }, { name: "group" }, { name: "seed", number: true }, { name: "status" },
    ...workload.targets.map(target => ({ name: target + " after (s)", number: true })),
    { name: "samples/s", number: true }, { name: "final " + metricName(workload.metric), number: true }];
  const rows = workload.runs.map(run => [run.file, run.label, run.seed, run.status,
    ...run.targets.map(target => ({ text: short(number(target, "time_s")), sort: number(target, "time_s") })),
    { text: short(number(run, "samples_per_s")), sort: number(run, "samples_per_s") },
    { text: fixed(number(run, "final"), 4), sort: number(run, "final") }]);
  const details = make("details", {}, make("summary", {}, `All ${rows.length} runs`));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(tableOf({ columns, rows, label: "Runs" }));
  });
  return [make("h3", { id: `${context.prefix}-runs` }, "Runs"), details];
}
