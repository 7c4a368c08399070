"""The plots of a figure ([[figure.plots]] of its specification), in the paper's own axes. All have `kind` and `name` (of the
files), and may have setups, cases (all that have runs). Curves and bars have a panel per setup, or per case (panel = "case").

  curves    y (a metric) over x: time_s, epoch_num, samples_count or mega_batches. Median over the seeds, with the middle half of
            them as a band.
  bars      y (reproduce_runs.VALUES, or speedup, updates_ratio, updates_per_s_ratio over the figure's reference). Medians with
            intervals; what is missed is said.
  lines     y over an option x, which differs by setup (one panel) or by case (a panel per setup). series: [{label, cases}] or
            [{label, points: [[setup, case]]}], each case by default. relative = "first": to the first point of the series.
            from_zero = false: values do not begin at 0; those of curves begin at the lowest second evaluation.
  events    y of each worker (tensor) in the events of a kind, one run; a panel per setup and case.
  workers   share of computing (y = "computing") of each worker by case; a panel per setup.
  bench     latency over sizes, or y = "in_call"; a line per operator, a panel per setup.

Axes of time (curves) and of values (bars) are logarithmic where what they show differs by more than WIDE. figure.labels names
the setups.
"""
import math
import textwrap

import matplotlib
import matplotlib.ticker
import numpy as np

import reproduce_runs
from hetsgd import _results
from hetsgd._plot import style as plot_style

NAMES = {
    "time_s": "time, s", "epoch_num": "epochs", "samples_count": "samples", "mega_batches": "mega-batches", "p1": "P@1",
    "samples": "samples to the target", "samples_per_s": "samples/s",
    "updates": "iterations to the target", "updates_per_s": "iterations/s", "update_s": "time of a round, s",
    "epochs": "epochs to the target", "final": "final P@1", "speedup": "speed-up to the target",
    "updates_ratio": "iterations to the target, ratio",
    "updates_per_s_ratio": "iterations/s, ratio", "bytes_per_s": "bytes sent/s", "learners_per_device": "learners per GPU",
    "auc": "AUC", "hot_fraction": "share of the rows on the device", "device_hit_share": "share of lookups served there",
    "table_hit_share": "share of rows asked for that were there", "table_capacity": "rows that there is room for",
    "max_samples": "samples of the run", "megabytes_to_target": "MB sent until the target", "local_steps": "local steps H",
    "in_call": "time in the call", "goodput": "goodput, share of the workers' time"}
SHARES = {"goodput"}  # between 0 and 1, so that their axis is never logarithmic
EVENT_NAMES = {"value": "orthogonality", "weight": "merge weight", "learners": "learners of a GPU"}
EVENT_COUNTS = {"merge": "merge of the run", "learners": "decision of the tuner"}  # along the axis, where events name no iteration
RATIOS = {"speedup": "speedup", "updates_ratio": "updates_relation", "updates_per_s_ratio": "updates_per_s_relation"}
POINTS = 100  # of a curve
WIDE = 6      # beyond this ratio an axis is logarithmic

BLUE, RED = plot_style.COLORS[:2]

matplotlib.use("Agg")
matplotlib.rcParams.update({**plot_style.STYLE, "savefig.dpi": 120})


def named(name):
    return NAMES.get(name, name.replace("_", " "))


def wide(values):
    """Whether an axis for these positive numbers has to be logarithmic."""
    return bool(values) and min(values) > 0 and max(values) > WIDE * min(values)


def numbers_of(figure, cases):
    """{case: number of its look} in one panel: its place among the cases of the specification, in all plots of the figure. Looks repeat
    after some cases; one whose look another case of the panel has takes the next that is free."""
    places = [each["name"] for each in figure.spec["cases"]]
    numbers = {}
    for case in sorted(cases, key=places.index):
        free = [number for number in range(places.index(case), places.index(case) + plot_style.MOST_LINES) if
                number % plot_style.MOST_LINES not in {each % plot_style.MOST_LINES for each in numbers.values()}]
        numbers[case] = free[0] if free else places.index(case)
    return numbers


def titled(figure, setup):
    return figure.labels.get(setup, setup)


def value_label(plot):
    if plot["y"] == "time_s":
        return "time to the target, s"
    return named(plot["y"]) + (", relative to the first" if plot.get("relative") else "")


def chosen(figure, plot):
    """{setup: cases with runs}, of those that the plot asks for."""
    wanted = plot.get("setups", list(figure.pairs))
    cases = {setup: [case for case in figure.there(setup) if case in plot.get("cases", figure.there(setup))] for setup in wanted}
    return {setup: each for setup, each in cases.items() if each}


def panels(titles, size=(4.0, 3.1)):
    """A figure and its axes, one for each title; size: the width and, as plot_style.grid_of takes it, the height in inches."""
    figure, axes = plot_style.grid_of(len(titles), size[0] * min(3, len(titles)), size[1])
    for axis, title in zip(axes, titles):
        axis.set_title(textwrap.fill(title, 44))
    return figure, axes


def by_panel(figure, plot, pairs):
    """{title: [(label, setup, case)]} of these pairs of a setup and a case: a panel per setup, or per case."""
    found = {}
    for setup, case in pairs:
        title, label = (case, titled(figure, setup)) if plot.get("panel") == "case" else (titled(figure, setup), case)
        found.setdefault(title, []).append((label, setup, case))
    return found


def abscissa(result, x):
    points = result["curve"]
    if x == "mega_batches":
        mega_batch = result["config"]["batch_size"] * result["config"]["mega_batch"]
        return [point["samples_count"] / mega_batch for point in points]
    return [point[x] for point in points]


def draw_curve(axis, results, plot, label, number):
    """Median and middle half of the curves, each between its first and last measurement; on a logarithmic axis from the first one
    after the start."""
    lines = [(abscissa(result, plot["x"]), [_results.number(point, plot["y"]) for point in result["curve"]])
             for result in results]
    end = min(x[-1] for x, _ in lines)
    log = axis.get_xscale() == "log"
    grid = np.geomspace(max(x[1] for x, _ in lines), end, POINTS) if log else np.linspace(0, end, POINTS)
    values = np.array([np.interp(grid, x, y) for x, y in lines])
    low, middle, high = np.nanquantile(values, (0.25, 0.5, 0.75), axis=0)
    look = {**plot_style.look(number), "marker": ""}
    axis.plot(grid, middle, label=label, **look)
    axis.fill_between(grid, low, high, color=look["color"], alpha=0.15, linewidth=0)


def curves(figure, plot):
    pairs = [(setup, case) for setup, cases in chosen(figure, plot).items() for case in cases if
             len(figure.results[setup, case][0]["curve"]) > 1]
    found = by_panel(figure, plot, pairs)
    drawing, axes = panels(found)
    for inside, axis in zip(found.values(), axes):
        results = [figure.results[setup, case] for _, setup, case in inside]
        if wide([abscissa(of_seeds[0], plot["x"])[-1] for of_seeds in results]):
            axis.set_xscale("log")
        numbers = numbers_of(figure, {case for _, _, case in inside})
        for (label, setup, case), of_seeds in zip(inside, results):
            number = list(figure.pairs).index(setup) if plot.get("panel") == "case" else numbers[case]
            draw_curve(axis, of_seeds, plot, label, number)
        if axis.get_xscale() == "linear":
            axis.set_xlim(left=0)
        else:
            plot_style.plain(axis.xaxis)
        if not plot.get("from_zero", True):
            axis.set_ylim(bottom=min(_results.number(result["curve"][:3][-1], plot["y"]) for of_seeds in results for result in of_seeds))
        axis.set_xlabel("iterations" if plot["x"] == "updates" else named(plot["x"]))  # of a run; a bar has those to the target
        axis.set_ylabel(named(plot["y"]))
    plot_style.legend_below(drawing, axes)
    return drawing


def bar_value(figure, plot, setup, case):
    if plot["y"] not in RATIOS:
        return figure.value(setup, case, plot["y"])
    ratio = figure.rows(setup, figure.figure["reference"])[case][RATIOS[plot["y"]]]
    return ratio.get("ratio", ratio)


def finite(values, *keys):
    return [value[key] for value in values if value for key in keys if value[key] is not None and math.isfinite(value[key])]


def draw_bar(axis, y, value, largest, log):
    if not finite([value], "median"):
        axis.annotate(" not reached", (axis.get_xlim()[0], y), va="center", fontsize=8, color=plot_style.GREY)
        return
    middle, low = value["median"], value["low"] or 0
    high = min(value["high"], largest) if value["high"] is not None else largest
    if not log:
        axis.barh(y, middle, color="#9CC9E3", height=0.7)
    axis.plot([low, high], [y, y], color=BLUE, linewidth=1.5)
    axis.plot(middle, y, "o", color=BLUE, markersize=4)
    if value["high"] is not None and value["high"] > largest:
        axis.plot(high, y, ">", color=BLUE, markersize=5)


def bars(figure, plot):
    found = by_panel(figure, plot, [(setup, case) for setup, cases in chosen(figure, plot).items() for case in cases])
    bars_of = [max(len(inside), 3) for inside in found.values()]
    drawing, axes = panels(found, (4.2, [0.9 + 0.24 * count for count in bars_of]))
    columns = axes[0].get_gridspec().ncols
    for place, (axis, inside) in enumerate(zip(axes, found.values())):
        first = place - place % columns
        values = [bar_value(figure, plot, setup, case) for _, setup, case in inside]
        medians, ends = finite(values, "median"), finite(values, "median", "high")
        largest = min(max(ends, default=1), 3 * max(medians, default=1))
        log = wide(medians) and plot["y"] not in SHARES
        if log:
            axis.set_xscale("log")
            lows = [low for low in finite(values, "low") if low > 0]
            axis.set_xlim(0.8 * min([*medians, *lows]), 1.15 * largest)
            plot_style.plain(axis.xaxis)
        else:
            axis.set_xlim(0, 1.08 * largest or 1)
        for number, value in enumerate(values):
            draw_bar(axis, number, value, largest, log)
        axis.set_yticks(range(len(inside)), [label for label, _, _ in inside], fontsize=8)
        axis.set_ylim(max(bars_of[first:first + columns]) - 0.4, -0.6)
        axis.grid(axis="y", visible=False)
        axis.set_xlabel(value_label(plot))
        if not log and largest >= 10000:
            axis.xaxis.set_major_formatter(matplotlib.ticker.EngFormatter())
        if plot["y"] in RATIOS:
            axis.axvline(1, color=RED, linewidth=1)
    return drawing


def series_of(figure, plot, pairs):
    """[(label, [(setup, case)])]"""
    given = plot.get("series") or [{"label": case, "cases": [case]} for case in dict.fromkeys(sum(pairs.values(), []))]
    all_pairs = [(setup, case) for setup, cases in pairs.items() for case in cases]
    return [(each["label"], [pair for pair in all_pairs
                             if pair[1] in each.get("cases", []) or list(pair) in each.get("points", [])]) for each in given]


def draw_line(axis, figure, plot, points, label, number):
    rows = [(figure.setting(*pair, plot["x"]), figure.value(*pair, plot["y"])) for pair in points or []]
    rows.sort(key=lambda row: row[0])
    rows = [(x, value) for x, value in rows if isinstance(x, (int, float)) and value and math.isfinite(value["median"])]
    if not rows:
        return []
    base = rows[0][1]["median"] if plot.get("relative") else 1
    x = [each for each, _ in rows]
    y, low, high = ([value[key] / base for _, value in rows] for key in ("median", "low", "high"))
    high = [min(end, 3 * middle) for end, middle in zip(high, y)]  # a missed target is no length on paper
    # Ends of an interval of equal runs may lie a rounding beyond its middle.
    error = [[max(0, middle - end) for middle, end in zip(y, low)], [max(0, end - middle) for middle, end in zip(y, high)]]
    axis.errorbar(x, y, yerr=error, label=label, capsize=2.5, **plot_style.look(number))
    return x


def lines(figure, plot):
    pairs = chosen(figure, plot)
    by_case = any(len({str(figure.setting(setup, case, plot["x"])) for case in cases}) > 1 for setup, cases in pairs.items())
    parts = [{setup: cases} for setup, cases in pairs.items()] if by_case else [pairs]
    drawing, axes = panels([titled(figure, next(iter(part))) if by_case else "" for part in parts], size=(4.6, 3.4))
    for axis, part in zip(axes, parts):
        ticks = set()
        for number, (label, points) in enumerate(series_of(figure, plot, part)):
            ticks.update(draw_line(axis, figure, plot, points, label, number))
        if ticks and min(ticks) > 0:
            axis.set_xscale("log", base=2)
        axis.set_xticks(sorted(ticks), [f"{tick:g}" if tick < 20000 else f"{tick / 1000:.3g}K" for tick in sorted(ticks)])
        axis.minorticks_off()
        if plot.get("relative"):
            axis.plot(sorted(ticks), [tick / min(ticks) for tick in sorted(ticks)], color="#999999", linewidth=1, label="linear")
        if plot.get("from_zero", True):
            axis.set_ylim(bottom=0)
        axis.set_xlabel(named(plot["x"]))
        axis.set_ylabel(value_label(plot))
    plot_style.legend_below(drawing, axes)
    return drawing


def event_series(found, y):
    """{label: values over the events}: of each tensor or worker."""
    names = found[0].get("tensor") or [f"worker {rank}" for rank in range(len(found[0][y]))]
    return {name: [np.nan if event[y][place] is None else event[y][place] for event in found] for place, name in enumerate(names)}


def draw_events(axis, plot, found):
    rows = event_series(found, plot["y"])
    steps = [event.get("iteration", place) for place, event in enumerate(found, 1)]
    for number, (name, values) in enumerate(rows.items()):
        axis.plot(steps, values, label=name, markersize=3, **plot_style.look(number))
    if "tensor" in found[0]:
        axis.plot(steps, np.mean(list(rows.values()), axis=0), label="mean", color="#CC0000", linewidth=3)
    marked = [step for step, event in zip(steps, found) if event.get("perturbed")]
    if marked:
        axis.plot(marked, np.full(len(marked), 0.02), "|", color="#000000", markersize=6, label="perturbed merge",
                  transform=axis.get_xaxis_transform())


def of_events(figure, plot):
    found = {(setup, case): reproduce_runs.events(figure.results[setup, case][0], plot["event"])
             for setup, cases in chosen(figure, plot).items() for case in cases}
    found = {pair: each for pair, each in found.items() if each}
    if not found:
        return None
    drawing, axes = panels([f"{titled(figure, setup)}: {case}" for setup, case in found])
    for axis, each in zip(axes, found.values()):
        draw_events(axis, plot, each)
        axis.set_xlabel("iteration" if "iteration" in each[0] else EVENT_COUNTS[plot["event"]])
        axis.set_ylabel(EVENT_NAMES.get(plot["y"], plot["y"].replace("_", " ")))
        axis.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
    plot_style.legend_below(drawing, axes)
    return drawing


def of_workers(figure, plot):
    pairs = chosen(figure, plot)
    drawing, axes = panels([titled(figure, setup) for setup in pairs], size=(6.5, 3.2))
    for axis, (setup, cases) in zip(axes, pairs.items()):
        width, looks = 0.8 / len(cases), numbers_of(figure, cases)
        for number, case in enumerate(cases):
            shares = np.median([reproduce_runs.computing_of_workers(result) for result in figure.results[setup, case]], axis=0)
            axis.bar(np.arange(len(shares)) + (number - (len(cases) - 1) / 2) * width, shares, width, label=case,
                     color=plot_style.look(looks[case])["color"])
        axis.set_xticks(range(len(shares)))
        axis.set_xlabel("worker")
        axis.set_ylabel("share of the time computing")
        axis.set_ylim(0, 1)
        axis.grid(axis="x", visible=False)
    plot_style.legend_below(drawing, axes)
    return drawing


def bench(figure, plot):
    drawing, axes = panels([titled(figure, setup) for setup in figure.benches], size=(5.6, 3.8))
    for setup, axis in zip(figure.benches, axes):
        for number, (name, row) in enumerate(figure.bench(setup, plot.get("y", "latency")).items()):
            axis.plot(list(row), [1000 * seconds for seconds in row.values()], label=name, **plot_style.look(number))
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xlabel("message, bytes")
        axis.set_ylabel(named(plot.get("y", "latency")) + ", ms")
    plot_style.legend_below(drawing, axes)
    return drawing


KINDS = {"curves": curves, "bars": bars, "lines": lines, "events": of_events, "workers": of_workers, "bench": bench}


def draw(figure, folder):
    """Writes NAME.svg of each plot that has runs; the names."""
    names = []
    for plot in figure.figure.get("plots", []):
        if not (any(figure.bench_file(setup).exists() for setup in figure.benches) or chosen(figure, plot)):
            continue
        drawing = KINDS[plot["kind"]](figure, plot)
        if drawing is None:
            continue
        plot_style.save(drawing, folder, plot["name"], ("svg",))
        names.append(plot["name"])
    return names
