"""Pictures of a metric over time, epochs, samples, updates, mega-batches or bytes."""

import numpy as np
from matplotlib.ticker import EngFormatter

from .lines import looks_of, panels_of
from .style import DEFAULT_WIDTH_IN, GREY, METRICS, PlotError, finish, grid_of, look, outer_labels, plain, time_unit

BANDS = {"minmax": "median and range over seeds", "iqr": "median and middle half over seeds"}
# Name of the axis -> (column of the curve, label).
AXES = {"time": ("time_s", "Training time"), "epochs": ("epoch_num", "Epochs"), "samples": ("samples_count", "Training samples"),
        "updates": ("updates", "Model updates"), "mega_batches": ("mega_batches", "Mega-batches"),
        "bytes": ("bytes_sent", "Bytes sent by all workers")}


def with_axis(data, x):
    """The curve with the axis' column. Raises PlotError if the runs lack it."""
    if x not in AXES:
        raise PlotError(f"--x: found {x}, expected one of {', '.join(AXES)}")
    column, _ = AXES[x]
    curve = data.curve
    if x == "mega_batches":
        sizes = data.runs.set_index("run")[["mega_batch", "batch_size"]].prod(axis=1) if "mega_batch" in data.runs else None
        if sizes is None or not (sizes > 0).all():
            raise PlotError("--x mega_batches: found runs without mega_batch and batch_size, expected both")
        return curve.assign(mega_batches=curve.samples_count / curve.run.map(sizes))
    if column not in curve:
        raise PlotError(f"--x {x}: found no {column} in the curve, expected runs that have it")
    return curve


def points(rows, column, metric):
    """(x, y) of one run's evaluations, those without the metric left out."""
    rows = rows[rows[metric].notna()]
    return rows[column].to_numpy(float), rows[metric].to_numpy(float)


def band(curves, how):
    """x, median, low and high over the runs, on the union of their x values where all of them have data.

    Between evaluations a run counts with the straight line between them.
    """
    low = max(x[0] for x, _ in curves)
    high = min(x[-1] for x, _ in curves)
    grid = np.unique(np.concatenate([x for x, _ in curves]))
    grid = grid[(grid >= low) & (grid <= high)]
    values = np.array([np.interp(grid, x, y) for x, y in curves])
    edges = (25, 75) if how == "iqr" else (0, 100)
    return grid, np.median(values, axis=0), *np.percentile(values, edges, axis=0)


def draw_line(axes, curves, number, label, scale, how, log):
    grid, median, low, high = band(curves, how)
    if log:
        keep = grid > 0
        grid, median, low, high = grid[keep], median[keep], low[keep], high[keep]
    drawn, = axes.plot(grid / scale, median, label=label, markevery=(0.02 * number, 0.1), **look(number))
    if len(curves) > 1:
        axes.fill_between(grid / scale, low, high, color=drawn.get_color(), alpha=0.18, linewidth=0)


def set_x(axes, data, x, log, longest, several):
    """Names and scales the axis; the divisor of its values."""
    _, label = AXES[x]
    if log:
        axes.set_xscale("log")
        plain(axes.xaxis)
    if x != "time":
        axes.set_xlabel(label)
        if x != "epochs":
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        return 1.0
    scale, unit = time_unit(longest)
    simulated = all(run.get("cluster", {}).get("virtual_time") for run in data.documents.values())
    kind = ("sim. " if several else "simulated ") if simulated else ""
    axes.set_xlabel(f"{'Time' if several else label} ({kind}{unit})")
    return scale


def draw_targets(axes, targets, all_axes):
    """Their names stand beside the only panel, or in the legend, last."""
    for target in targets:
        line = axes.axhline(target, color=GREY, linestyle=(0, (1, 1.5)), linewidth=1.1)
        if axes is all_axes[-1] and len(all_axes) > 1:
            line.set_label(f"target {target:g}")
        elif len(all_axes) == 1:
            axes.annotate(f"target {target:g}", (1, target), xycoords=("axes fraction", "data"), xytext=(4, 0),
                          textcoords="offset points", va="center", fontsize="small", color=GREY)


def plot_curves(data, lines, x, metric, targets=(), how="minmax", title="", log=False, width_in=DEFAULT_WIDTH_IN, by=None):
    """`metric` over the axis x, a line per Line, in panels where there are many."""
    curve = with_axis(data, x)
    panels, without = panels_of(lines, by)
    looks, alike = looks_of(panels, without)
    column = AXES[x][0]
    of_run = dict(list(curve.groupby("run")))
    height_in = 0.58 * width_in if len(panels) == 1 else 1.75
    figure, all_axes = grid_of(len(panels), width_in, height_in, sharex=True, sharey=True)
    several = False
    for axes, (heading, members) in zip(all_axes, panels.items()):
        scale = set_x(axes, data, x, log and x == "time", curve[column].max(), len(panels) > 1)
        for i, line in enumerate(members):
            curves = [each for each in (points(of_run[run], column, metric) for run in line.runs) if len(each[0])]
            if not curves:
                continue
            several = several or len(curves) > 1
            name = line.name(without)
            label = name if len(line.runs) == 1 or len(panels) > 1 else f"{name} ({len(line.runs)} seeds)"
            if not alike and name != heading:
                label = f"{heading}, {name}"
            draw_line(axes, curves, looks[heading, i], label, scale, how, log and x == "time")
        draw_targets(axes, targets, all_axes)
        if heading:
            axes.set_title(heading, loc="left")
        axes.margins(x=0.02)
    label = METRICS.get(metric, metric)
    for axes in all_axes:
        axes.set_ylabel(label if metric == "train_loss" else f"{label} on the test set")
    outer_labels(all_axes)
    if len(panels) == 1:
        all_axes[0].set_title(title, loc="left")
    return finish(figure, all_axes, title if len(panels) > 1 else "", BANDS[how] if several else None)
