"""How pictures look: colours, sizes, legends, panels, units, files."""

import math
import os

import matplotlib
import matplotlib.pyplot as plt

from .._errors import Error

# Okabe & Ito's palette with a wine red for yellow, which fades on white. Style and marker repeat the distinction for readers
# who see no colours.
COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#882255"]
STYLES = ["-", "--", "-.", (0, (5, 1.5, 1, 1.5, 1, 1.5)), (0, (3, 1.5)), ":", (0, (8, 2)), (0, (1, 1, 4, 1))]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]
MOST_LINES = len(COLORS)  # that a reader tells apart in one panel
MOST_PANELS = 12
GREY = "#555555"

METRICS = {"p1": "P@1", "p3": "P@3", "p5": "P@5", "accuracy": "Accuracy", "auc": "AUC",
           "calibration": "Calibration", "perplexity": "Perplexity", "bits_per_byte": "Bits per byte",
           "test_loss": "Test loss", "train_loss": "Training loss"}

DEFAULT_WIDTH_IN = 6.2
NARROW_IN = 4.2          # below: a column of a paper, smaller type
NARROWEST_PANEL_IN = 1.9

STYLE = {"font.size": 9, "axes.titlesize": 9, "axes.labelsize": 9, "legend.fontsize": 8,
         "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
         "grid.color": "#DDDDDD", "grid.linewidth": 0.6, "axes.axisbelow": True,
         "lines.linewidth": 1.6, "lines.markersize": 4.5, "legend.frameon": False,
         "figure.dpi": 100, "savefig.dpi": 200, "figure.constrained_layout.use": True,
         "svg.fonttype": "none", "svg.hashsalt": "hetsgd", "pdf.fonttype": 42}
SMALL = {"font.size": 7.5, "axes.titlesize": 7.5, "axes.labelsize": 7.5, "legend.fontsize": 6.5, "xtick.labelsize": 6.5,
         "ytick.labelsize": 6.5, "lines.linewidth": 1.2, "lines.markersize": 3.5}


class PlotError(Error):
    """A picture was asked for that cannot be drawn."""


def style(width_in):
    """The rcParams for pictures of this width."""
    return {**STYLE, **(SMALL if width_in < NARROW_IN else {})}


def look(i):
    """Colour, line style and marker of the i-th line."""
    return {"color": COLORS[i % MOST_LINES], "linestyle": STYLES[i % MOST_LINES], "marker": MARKERS[i % MOST_LINES]}


def grid_of(count, width_in, height_in, most_columns=3, **shared):
    """(figure, list of `count` axes) in as many columns as the width has room for; height_in: of one row, or a list of what each panel
    needs, where a row is as high as its highest panel."""
    columns = max(1, min(count, most_columns, int(width_in / NARROWEST_PANEL_IN)))
    needed = height_in if isinstance(height_in, list) else [height_in] * count
    heights = [max(needed[first:first + columns]) for first in range(0, count, columns)]
    figure, table = plt.subplots(len(heights), columns, figsize=(width_in, sum(heights)), height_ratios=heights, squeeze=False, **shared)
    axes = list(table.flat)
    for unused in axes[count:]:
        unused.set_visible(False)
    return figure, axes[:count]


def outer_labels(all_axes):
    """Labels at the left of the first column alone, and below the last panel of each column."""
    columns = all_axes[0].get_gridspec().ncols
    for i, axes in enumerate(all_axes):
        if i % columns and axes.get_shared_y_axes().joined(axes, all_axes[i - 1]):
            axes.set_ylabel("")
        if i + columns < len(all_axes):
            axes.set_xlabel("")
        else:
            axes.xaxis.set_tick_params(labelbottom=True)


def wrapped(name, width_in):
    """The name on as many lines as this width takes, broken after commas."""
    most = max(14, int(width_in * 72 / (0.55 * plt.rcParams["font.size"])))
    rows = [""]
    for part in name.split(", "):
        if rows[-1] and len(rows[-1]) + len(part) + 2 > most:
            rows[-1] += ","
            rows.append(part)
        else:
            rows[-1] += f", {part}" if rows[-1] else part
    return "\n".join(rows)


def columns_for(labels, width_in):
    """As many columns of a legend as fit."""
    letter_in = plt.rcParams["legend.fontsize"] / 72
    longest = max(len(line) for label in labels for line in label.split("\n"))
    longest_in = (0.55 * longest + 5.5) * letter_in
    return max(1, min(len(labels), 4, int(width_in / longest_in)))


def legend_below(figure, all_axes, title=None):
    """One legend at the bottom of the figure, each label once; the figure grows by the room for it."""
    width_in, height_in = figure.get_size_inches()
    seen = {}
    for axes in all_axes:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            seen.setdefault(wrapped(label, 0.85 * width_in), handle)
    if not seen:
        return
    columns = columns_for(list(seen), width_in)
    rows = math.ceil(len(seen) / columns) + sum(label.count("\n") for label in seen)
    lines = rows + (1 if title else 0)
    room_in = (lines + 1) * 1.5 * plt.rcParams["legend.fontsize"] / 72
    figure.set_size_inches(width_in, height_in + room_in)
    share = room_in / (height_in + room_in)
    figure.get_layout_engine().set(rect=(0, share, 1, 1 - share))
    figure.legend(seen.values(), seen.keys(), loc="lower center", bbox_to_anchor=(0.5, 0), ncol=columns, handlelength=3.2,
                  columnspacing=1.2, title=title, title_fontsize=plt.rcParams["legend.fontsize"])


def finish(figure, all_axes, title="", note=None):
    """The figure with a legend below, headed by `note`, and a title."""
    legend_below(figure, all_axes, note)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize="medium")
    return figure


def time_unit(longest_s):
    """(divisor, name) of the unit in which `longest_s` reads well."""
    for limit, divisor, name in ((1, 1e-3, "ms"), (600, 1, "s"), (7200, 60, "min")):
        if longest_s <= limit:
            return divisor, name
    return 3600, "h"


def plain(axis):
    """Ticks of a logarithmic axis as numbers rather than powers, only as many as there is room for."""
    axis.set_major_locator(matplotlib.ticker.LogLocator(subs=(1, 2, 5), numticks=8))
    axis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(matplotlib.ticker.NullFormatter())


def save(figure, folder, name, formats):
    """Writes the figure in its exact size, so that a paper needs not scale it; returns the paths."""
    paths = []
    for extension in formats:
        path = os.path.join(folder, f"{name}.{extension}")
        # Without dates, equal data give equal files.
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(extension)
        figure.savefig(path, metadata=metadata)
        paths.append(path)
    plt.close(figure)
    return paths
