"""Pictures of one figure per run, such as the time to a target: bars, or lines over an option, with bootstrap intervals."""

import difflib

import numpy as np
from matplotlib.ticker import EngFormatter, MaxNLocator

from .._results import summarise
from .lines import looks_of, order, panels_of, text
from .style import DEFAULT_WIDTH_IN, GREY, METRICS, PlotError, finish, grid_of, look, outer_labels, plain, time_unit, wrapped

# Figures of a target -> (column of `targets`, label).
TARGET_FIGURES = {"time_to_target": ("time_s", "Time"), "first_crossing": ("first_crossing_s", "Time of the first crossing"),
                  "samples_to_target": ("samples_count", "Training samples"), "updates_to_target": ("updates", "Model updates")}
MOST_BARS = 40
WIDE = 20  # ratio of largest to smallest from which an axis is logarithmic


def table_of(data, figure, targets=None):
    """[(heading, rows with run and value, label)]: one per target, or one for a figure of the run. targets: as values."""
    if figure in TARGET_FIGURES:
        column, label = TARGET_FIGURES[figure]
        if data.targets.empty:
            raise PlotError(f"{figure}: found no target in the runs, expected runs of hetsgd train --target")
        chosen = data.targets if targets is None else data.targets[data.targets.value.isin(targets)]
        if chosen.empty:
            raise PlotError(f"{figure}: found no target of --targets, expected one that the runs were given")
        return [(name, rows[["run", column]].rename(columns={column: "value"}), f"{label} to {pretty(name)}")
                for name, rows in chosen.groupby("target", sort=False)]
    if figure not in data.runs or not np.issubdtype(data.runs[figure].dtype, np.number):
        names = [*TARGET_FIGURES, *(name for name in data.runs if np.issubdtype(data.runs[name].dtype, np.number))]
        near = difflib.get_close_matches(figure, names, 3)
        raise PlotError(f"--figures: found {figure}, expected a number of each run such as {', '.join(near or names[:5])}")
    metric = figure.removeprefix("final_").removeprefix("best_")
    prefix = figure[:len(figure) - len(metric)].replace("_", " ").capitalize()
    return [("", data.runs[["run", figure]].rename(columns={figure: "value"}),
             f"{prefix}{METRICS[metric]}" if metric in METRICS else unit_label(figure))]


def pretty(target):
    """"P@1 >= 0.6"."""
    for metric, name in METRICS.items():
        if target.startswith(metric):
            return target.replace(metric, name, 1).replace(">=", " ≥ ").replace("<=", " ≤ ")
    return target


def unit_label(column):
    for ending, unit in (("_per_s", "1/s"), ("_s", "s"), ("_bytes", "bytes")):
        if column.endswith(ending):
            return f"{column.removesuffix(ending).replace('_', ' ').capitalize()} ({unit})"
    return column.replace("_", " ").capitalize()


def scaled(values, label):
    """(divisor, label with its unit) for times that are to be read."""
    if not label.startswith("Time"):
        return 1.0, label
    finite = values[np.isfinite(values)]
    if not len(finite):
        return 1.0, label
    divisor, unit = time_unit(finite.max())
    return divisor, f"{label} ({unit})"


def is_wide(values, ratio=WIDE):
    finite = values[np.isfinite(values)]
    return len(finite) > 0 and finite.min() > 0 and finite.max() >= ratio * finite.min()


def edge_beyond(values, log):
    """Where a missed target is drawn: beyond all that was measured."""
    finite = values[np.isfinite(values)]
    largest = finite.max() if len(finite) else 1.0
    return largest * 1.6 if log else largest * 1.15 if largest > 0 else 1.0


def mark_missed(axes, edge, vertical):
    """Marks the place of what was missed."""
    (axes.axhline if vertical else axes.axvline)(edge, color=GREY, linestyle=(0, (1, 1.5)), linewidth=0.9)
    place = {"xy": (1, edge), "xycoords": ("axes fraction", "data"), "ha": "right"} if vertical else \
        {"xy": (edge, 1), "xycoords": ("data", "axes fraction"), "ha": "center"}
    axes.annotate("missed", xytext=(0, 1), textcoords="offset points", va="bottom", fontsize="small", color=GREY, **place)


def plot_bars(data, lines, figure, targets=None, title="", width_in=DEFAULT_WIDTH_IN):
    """A bar per line, its median with the bootstrap interval over seeds; a panel per target."""
    if len(lines) > MOST_BARS:
        raise PlotError(f"{figure}: found {len(lines)} lines, expected at most {MOST_BARS} bars; --over OPTION draws "
                        "lines over an option instead")
    tables = table_of(data, figure, targets)
    name_of = {run: i for i, line in enumerate(lines) for run in line.runs}
    names = [wrapped(line.name(), 0.38 * width_in) for line in lines]
    height_in = 0.75 + (0.1 + 0.14 * max(name.count("\n") + 1 for name in names)) * len(lines)
    picture, all_axes = grid_of(len(tables), width_in, height_in, most_columns=1 if width_in < 2 * 2.6 else 2, sharey=True)
    for axes, (_, rows, label) in zip(all_axes, tables):
        stats = summarise(rows.assign(line=rows.run.map(name_of)), "value", ["line"]).set_index("line")
        reached = rows.groupby(rows.run.map(name_of)).value.apply(lambda values: np.isfinite(values).sum())
        draw_bars(axes, stats, reached, label)
        axes.set_yticks(range(len(lines)), names)
        axes.set_ylim(len(lines) - 0.4, -0.6)
    return finish(picture, all_axes, title)


def draw_bars(axes, stats, reached, label):
    values = stats[["median", "low", "high"]].to_numpy().ravel()
    divisor, words = scaled(values, label)
    log = is_wide(values)
    edge = edge_beyond(values, log) / divisor
    missed = np.isinf(values).any()
    for i, row in stats.iterrows():
        ends = [min(row[key] / divisor, edge) for key in ("median", "low", "high")]
        lost = np.isinf(row["median"])
        axes.barh(i, ends[0], 0.62, color="white" if lost else look(0)["color"], hatch="///" if lost else "", linewidth=0.6,
                  edgecolor=GREY if lost else "white", alpha=0.85)
        if row["n"] > 1 and ends[1] < edge:
            axes.plot(ends[1:], [i, i], color="black", linewidth=1.1, marker="|", markersize=5)
        if reached[i] < row["n"]:
            axes.annotate(f"{reached[i]}/{row['n']:.0f} reached", (0, i), xytext=(3, 0), textcoords="offset points", va="center",
                          fontsize="small", color=GREY, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
    if log:
        axes.set_xscale("log")
        plain(axes.xaxis)
    elif not words.endswith(")"):
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlim(left=None if log else 0, right=edge * (1.08 if missed else 1))
    if not np.isfinite(values).any():
        axes.set_xticks([])
    if missed:
        mark_missed(axes, edge, vertical=False)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(words)


def without_option(lines, key):
    """The lines with those joined that differ in this option alone."""
    joined = {}
    for line in lines:
        parts = {name: value for name, value in line.parts.items() if name != key}
        place = tuple((name, text(value)) for name, value in parts.items())
        joined.setdefault(place, type(line)(parts)).runs.extend(line.runs)
    return list(joined.values())


def plot_over(data, lines, key, figure, targets=None, title="", width_in=DEFAULT_WIDTH_IN, by=None):
    """A figure over an option, a line per rest of the options: medians with bootstrap intervals; what missed: at the top."""
    if key not in data.runs:
        near = difflib.get_close_matches(key, list(data.runs), 1) or data.varying()
        raise PlotError(f"--over: found {key}, expected an option of the runs such as {', '.join(near)}")
    tables = table_of(data, figure, targets)
    having = set(data.runs.run[data.runs[key].notna()])
    joined = without_option([line for line in lines if line.runs[0] in having], key)
    panels, without = panels_of(joined, by)
    if len(tables) > 1 and len(panels) > 1:
        raise PlotError(f"{figure} over {key}: found {len(tables)} targets and {len(panels)} panels, expected one of them; "
                        "--targets selects a target")
    looks, alike = looks_of(panels, without)
    option = data.runs.set_index("run")[key]
    cells = [(heading, rows, label, members, title_) for heading, rows, label in tables for title_, members in panels.items()]
    height_in = 0.58 * width_in if len(cells) == 1 else 2.0
    picture, all_axes = grid_of(len(cells), width_in, height_in, sharex=True, sharey=len(tables) == 1)
    values = sorted({text(value): value for value in option.dropna()}.values(), key=order)
    numeric = all(isinstance(value, (int, float, np.number)) and not isinstance(value, bool) for value in values)
    for axes, (_, rows, label, members, panel) in zip(all_axes, cells):
        numbers = [looks[panel, i] for i in range(len(members))]
        names = [line.name(without) if alike or line.name(without) == panel else f"{panel}, {line.name(without)}"
                 for line in members]
        draw_over(axes, rows, option, values, numeric, members, numbers, names, label)
        axes.set_title(panel or (title if len(cells) == 1 else ""), loc="left")
        axes.set_xlabel(key.replace("_", " ").capitalize())
    outer_labels(all_axes)
    note = "median and 95 % bootstrap interval over seeds" if len(data.runs) > len(data.runs.group.unique()) else None
    return finish(picture, all_axes, title if len(cells) > 1 else "", note)


def draw_over(axes, rows, option, values, numeric, members, numbers, names, label):
    places = {text(value): float(value) if numeric else i for i, value in enumerate(values)}
    at = rows.run.map(lambda run: places[text(option[run])] if option[run] == option[run] else np.nan)
    stats = [summarise(rows[rows.run.isin(line.runs)].assign(at=at).dropna(subset=["at"]), "value", ["at"]).sort_values("at")
             for line in members]
    every = np.concatenate([each[["median", "low", "high"]].to_numpy().ravel() for each in stats])
    divisor, words = scaled(every, label)
    log = is_wide(every)
    edge = edge_beyond(every, log) / divisor
    spread = numeric and is_wide(np.array(list(places.values())), 10)
    step = 0.0 if spread or not numeric else 0.004 * (max(places.values()) - min(places.values()))
    for name, number, each in zip(names, numbers, stats):
        x = each["at"].to_numpy() * (1.012 ** (number - 3) if spread else 1) + (0.03 if not numeric else step) * (number - 3)
        middle, low, high = (np.minimum(each[name].to_numpy() / divisor, edge) for name in ("median", "low", "high"))
        style = look(number)
        axes.plot(x, middle, label=name, **style)
        lost = np.isinf(each["median"].to_numpy())
        axes.plot(x[lost], middle[lost], linestyle="", marker=style["marker"], color=style["color"], markerfacecolor="white")
        axes.vlines(x, low, high, color=style["color"], linewidth=1.0)
    if log:
        axes.set_yscale("log")
        plain(axes.yaxis)
    if numeric and spread:
        axes.set_xscale("log")
        plain(axes.xaxis)
    if not numeric:
        axes.set_xticks(range(len(values)), [text(value) for value in values])
    elif all(float(value).is_integer() for value in values) and not spread:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if np.isinf(every).any():
        mark_missed(axes, edge, vertical=True)
        axes.set_ylim(top=edge * (1.5 if log else 1.12))
    axes.set_ylabel(words)
