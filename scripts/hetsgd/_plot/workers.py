"""Pictures of what the workers did: batch sizes over the merges, shares of their time."""

import numpy as np
from matplotlib.ticker import MaxNLocator

from .._results import per_worker
from .style import COLORS, DEFAULT_WIDTH_IN, MOST_LINES, MOST_PANELS, PlotError, finish, grid_of, look, outer_labels, plt, wrapped

# Part of the run's time, column, colour and hatch.
PARTS = [("compute", "compute_s", "#0072B2", ""), ("communicate", "communicate_s", "#E69F00", "//"),
         ("wait", "wait_s", "#BBBBBB", "..")]
MOST_BARS = 48  # beyond, a line of runs has one bar, the mean over its workers


def batch_tables(data, lines):
    """{line's name: batch_size[run, merge, worker]}, of the lines that recorded merges."""
    merges = per_worker(data.events)
    if "batch_size" not in merges:
        return {}
    tables = {}
    for line in lines:
        rows = merges[merges.run.isin(line.runs)]
        runs = [run.pivot(index="event", columns="rank", values="batch_size").to_numpy() for _, run in rows.groupby("run")]
        if runs:
            count = min(map(len, runs))
            tables[line.name()] = np.array([run[:count] for run in runs])
    return tables


def plot_batch_sizes(data, lines, how="minmax", title="", width_in=DEFAULT_WIDTH_IN):
    """One panel per line: each worker's batch size over the merges. None if no run recorded merges."""
    tables = batch_tables(data, lines)
    if not tables:
        return None
    if len(tables) > MOST_PANELS:
        raise PlotError(f"batch_size: found {len(tables)} lines with merges, expected at most {MOST_PANELS} panels")
    figure, all_axes = grid_of(len(tables), width_in, 2.3, most_columns=2 if len(tables) > 2 else 1, sharex=True, sharey=True)
    for axes, (name, table) in zip(all_axes, tables.items()):
        draw_batch_sizes(axes, table, how)
        seeds = f" ({len(table)} seeds)" if len(table) > 1 else ""
        axes.set_title(wrapped(name + seeds, width_in / min(2, len(tables)) - 0.5), loc="left")
        axes.set_ylim(0, 1.08 * max(table.max() for table in tables.values()))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("Merge")
        axes.set_ylabel("Batch size (samples)")
    outer_labels(all_axes)
    return finish(figure, all_axes, title)


def draw_batch_sizes(axes, table, how):
    merge = np.arange(1, table.shape[1] + 1)
    median = np.median(table, axis=0)  # [merge, worker]
    workers = table.shape[2]
    every = max(1, len(merge) // 10)
    if workers > MOST_LINES:
        axes.fill_between(merge, median.min(axis=1), median.max(axis=1), step="mid", color=COLORS[0],
                          alpha=0.18, linewidth=0, label="smallest to largest")
        axes.plot(merge, np.median(median, axis=1), color=COLORS[0], drawstyle="steps-mid",
                  label=f"median of {workers} workers")
        return
    if np.all(table == table[:, :, :1]):
        axes.plot(merge, median[:, 0], color=COLORS[0], drawstyle="steps-mid", label="every worker")
        return
    edges = (25, 75) if how == "iqr" else (0, 100)
    for w in range(workers):
        axes.plot(merge, median[:, w], drawstyle="steps-mid", markevery=(min(w, len(merge) - 1), every), label=f"worker {w}",
                  **look(w))
        if len(table) > 1:
            low, high = np.percentile(table[:, :, w], edges, axis=0)
            axes.fill_between(merge, low, high, step="mid", color=COLORS[w], alpha=0.15, linewidth=0)


def shares(data, line):
    """share[worker, part]: medians over the line's runs of what each worker did with the run's time."""
    elapsed = data.runs.set_index("run").elapsed_s
    rows = data.workers[data.workers.run.isin(line.runs)]
    columns = [column for _, column, _, _ in PARTS]
    ratios = rows[columns].div(rows.run.map(elapsed), axis=0).fillna(0)
    return ratios.groupby(rows["rank"]).median().to_numpy()


def bars_of(data, lines):
    """[(label, share[part])], from top to bottom, and where the next line of runs begins."""
    tables = [(line.name(), shares(data, line)) for line in lines if data.workers.run.isin(line.runs).any()]
    if sum(len(table) for _, table in tables) > MOST_BARS:
        return [(name, table.mean(axis=0)) for name, table in tables], [], "Share of time, mean of workers (%)"
    bars, starts = [], []
    for name, table in tables:
        starts.append((len(bars), name))
        bars += [(str(rank), share) for rank, share in enumerate(table)]
    return bars, starts, "Share of the run's time (%)"


def plot_utilisation(data, lines, title="", width_in=DEFAULT_WIDTH_IN):
    """Stacked bars, one per worker, or one per line of runs where they are many. None if there are no workers."""
    if data.workers.empty:
        return None
    bars, starts, label = bars_of(data, lines)
    gaps = np.cumsum([1.6 if i in dict(starts) and i else 0 for i in range(len(bars))])
    place = np.arange(len(bars)) + gaps
    names = [name if starts else wrapped(name, 0.38 * width_in) for name, _ in bars]
    rows = max(name.count("\n") + 1 for name in names)
    figure, axes = plt.subplots(figsize=(width_in, 0.6 + 0.17 * rows * (len(bars) + 1.6 * len(starts))))
    left = np.zeros(len(bars))
    for part, (name, _, color, hatch) in enumerate(PARTS):
        width = np.array([share[part] for _, share in bars])
        axes.barh(place, width, 0.82, left=left, color=color, hatch=hatch, edgecolor="white", linewidth=0.4, label=name)
        left += width
    for start, name in starts:
        axes.annotate(wrapped(name, width_in - 1), (0, place[start] - 0.55), xytext=(2, 1), textcoords="offset points",
                      va="bottom")
    axes.set_yticks(place, names)
    axes.set_ylim(place[-1] + 0.7, -2.2 if starts else -0.7)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.set_ylabel("Worker" if starts else "")
    axes.set_xlabel(label)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}")
    axes.set_title(title, loc="left")
    return finish(figure, [axes])
