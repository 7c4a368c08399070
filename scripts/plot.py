#!/usr/bin/python3
"""Plots results of `hetsgd train`: accuracy over time and over samples, batch sizes, utilisation.

  scripts/plot.py adaptive-*.json elastic-*.json -o plots
  scripts/plot.py runs/*.json -o plots --metric p3 --targets 0.55 --format pdf --title Delicious

Runs that differ in the seed only become one line (the median) with a band. It writes, for each format,
  accuracy_over_time, accuracy_over_samples, batch_size (if the runs record merges), utilisation
and prints the paths. Exit codes: 0 done, 2 wrong option, 4 a file that is not a result.
"""

import argparse
import json
import os
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from matplotlib.ticker import EngFormatter, MaxNLocator  # noqa: E402

# Okabe & Ito's palette without yellow, which fades on white. Style and marker repeat the distinction for
# readers who see no colours.
COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
STYLES = ["-", "--", "-.", (0, (5, 1.5, 1, 1.5, 1, 1.5)), (0, (3, 1.5)), ":", (0, (8, 2))]
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]

METRICS = {"p1": "P@1", "p3": "P@3", "p5": "P@5", "accuracy": "Accuracy", "auc": "AUC",
           "test_loss": "Test loss", "train_loss": "Training loss"}
BANDS = {"minmax": "median and range over seeds", "iqr": "median and middle half over seeds"}
MOST_LINES = 8  # workers drawn one by one; beyond, their spread is drawn

STYLE = {"font.size": 9, "axes.titlesize": 10, "axes.labelsize": 9, "legend.fontsize": 8,
         "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
         "grid.color": "#DDDDDD", "grid.linewidth": 0.6, "axes.axisbelow": True,
         "lines.linewidth": 1.6, "lines.markersize": 4.5, "legend.frameon": False,
         "figure.dpi": 100, "savefig.dpi": 200,
         "svg.fonttype": "none", "svg.hashsalt": "hetsgd", "pdf.fonttype": 42}


class ResultError(Exception):
    """A file that is not what it should be."""


FILE_KINDS = pathlib.Path(__file__).resolve().parent.parent / "lib" / "result" / "file_kinds.json"


def other_kind(document):
    """What else of ours a JSON document is ("tuning", "trace" ...); None: a result, whole or broken, or nothing we know."""
    if not isinstance(document, dict) or "curve" in document:
        return None
    if isinstance(document.get("kind"), str):
        return document["kind"]
    kinds = json.loads(FILE_KINDS.read_text(encoding="utf-8"))
    return next((kind for key, kind in kinds.items() if key in document), None)


def load(path):
    """The result in `path`, with the keys that the plots need checked; None, with a message, for another file of ours."""
    try:
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
    except OSError as error:
        raise ResultError(f"{path}: {error.strerror}, expected a result of hetsgd train") from error
    except ValueError as error:
        raise ResultError(f"{path}: not JSON ({error}), expected a result of hetsgd train") from error
    kind = other_kind(result)
    if kind:
        print(f"plot.py: {path}: skipped, it is a {kind} and no result", file=sys.stderr)
        return None
    for key, kind in (("config", dict), ("curve", list), ("workers", list), ("events", list)):
        if not isinstance(result, dict) or not isinstance(result.get(key), kind):
            raise ResultError(f'{path}: found no "{key}", expected a result of hetsgd train')
    if "algorithm" not in result["config"]:
        raise ResultError(f'{path}: found no "config.algorithm", expected a result of hetsgd train')
    if not result["curve"]:
        raise ResultError(f"{path}: found no evaluations (status {result.get('status', '?')}), expected at least one")
    result["path"] = path
    return result


def group(results, keys):
    """Results by their configuration: {"adaptive": [run of seed 1, ...], ...}, in order of appearance."""
    groups = {}
    for result in results:
        config = result["config"]
        parts = [str(config["algorithm"])]
        parts += [str(config[key]) if key == "label" else f"{key}={config[key]}"
                  for key in ["label"] + keys if config.get(key) not in (None, "")]
        groups.setdefault(", ".join(parts), []).append(result)
    for name, runs in groups.items():
        seeds = [run["config"].get("seed") for run in runs]
        if len(set(seeds)) < len(seeds):
            print(f"plot.py: {name}: the same seed more than once; if the runs differ in an option, "
                  "name it with --group-by", file=sys.stderr)
    return groups


def curve(run, x, metric):
    """(x values, metric values) of one run's evaluations, those without the metric left out."""
    points = [(p[x], p[metric]) for p in run["curve"] if p.get(metric) is not None]
    return np.array([p[0] for p in points], float), np.array([p[1] for p in points], float)


def band(curves, how):
    """Median, low and high over the runs, on the union of their x values where all of them have data.

    Between evaluations a run counts with the straight line between them.
    """
    low = max(x[0] for x, _ in curves)
    high = min(x[-1] for x, _ in curves)
    grid = np.unique(np.concatenate([x for x, _ in curves]))
    grid = grid[(grid >= low) & (grid <= high)]
    values = np.array([np.interp(grid, x, y) for x, y in curves])
    edges = (25, 75) if how == "iqr" else (0, 100)
    return grid, np.median(values, axis=0), *np.percentile(values, edges, axis=0)


def time_unit(longest_s):
    """(divisor, name) of the unit in which `longest_s` reads well."""
    for limit, divisor, name in ((1, 1e-3, "ms"), (600, 1, "s"), (7200, 60, "min")):
        if longest_s <= limit:
            return divisor, name
    return 3600, "h"


def targets_of(results, metric):
    """The target values that the runs were given for this metric."""
    return sorted({t["value"] for r in results for t in r.get("time_to_accuracy", [])
                   if t.get("metric") == metric and t.get("value") is not None})


def new_axes(title, width=6.2, height=3.6):
    figure, axes = plt.subplots(figsize=(width, height), constrained_layout=True)
    if title:
        axes.set_title(title, loc="left")
    return figure, axes


def plot_curve(groups, x, metric, targets=(), how="minmax", title="", log_time=False):
    """One line per group: `metric` over `x` ("time_s" or "samples_count")."""
    figure, axes = new_axes(title)
    divisor = 1.0
    runs = [run for group_runs in groups.values() for run in group_runs]
    if x == "time_s":
        divisor, unit = time_unit(max(run["curve"][-1]["time_s"] for run in runs))
        simulated = all(run.get("cluster", {}).get("virtual_time") for run in runs)
        axes.set_xlabel(f"Training time ({'simulated ' if simulated else ''}{unit})")
        if log_time:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    else:
        axes.set_xlabel("Training samples")
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    for i, (name, group_runs) in enumerate(groups.items()):
        curves = [c for c in (curve(run, x, metric) for run in group_runs) if len(c[0])]
        if not curves:
            continue
        grid, median, low, high = band(curves, how)
        if log_time and x == "time_s":
            keep = grid > 0
            grid, median, low, high = grid[keep], median[keep], low[keep], high[keep]
        color = COLORS[i % len(COLORS)]
        label = name if len(group_runs) == 1 else f"{name} ({len(group_runs)} seeds)"
        axes.plot(grid / divisor, median, color=color, linestyle=STYLES[i % len(STYLES)],
                  marker=MARKERS[i % len(MARKERS)], markevery=(0.02 * i, 0.1), label=label)
        if len(curves) > 1:
            axes.fill_between(grid / divisor, low, high, color=color, alpha=0.18, linewidth=0)
    for target in targets:
        axes.axhline(target, color="#555555", linestyle=(0, (1, 1.5)), linewidth=1.1)
        axes.annotate(f"target {target:g}", (1, target), xycoords=("axes fraction", "data"),
                      xytext=(4, 0), textcoords="offset points", va="center", fontsize=8, color="#555555")
    axes.set_ylabel(f"{METRICS.get(metric, metric)} on the test set" if metric != "train_loss" else METRICS[metric])
    axes.margins(x=0.02)
    # Below the axes: the data keep their room, and the targets' names theirs at the right.
    handles, _ = axes.get_legend_handles_labels()
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncol=min(len(handles), 3), handlelength=3.2,
                columnspacing=1.5, title=BANDS[how] if len(runs) > len(groups) else None, title_fontsize=8)
    return figure


def merges(run):
    """batch_size[merge, worker] of one run; None without merges."""
    rows = [event["batch_size"] for event in run["events"]
            if event.get("type") == "merge" and event.get("batch_size")]
    return np.array(rows, float) if rows else None


def plot_batch_sizes(groups, how="minmax", title=""):
    """One panel per group: each worker's batch size over the merges. None if no run recorded merges."""
    panels = {}
    for name, runs in groups.items():
        tables = [table for table in map(merges, runs) if table is not None]
        if tables:
            count = min(len(table) for table in tables)
            panels[name] = np.array([table[:count] for table in tables])  # [run, merge, worker]
    if not panels:
        return None
    figure, all_axes = plt.subplots(len(panels), 1, figsize=(6.2, 0.8 + 1.8 * len(panels)), sharey=True,
                                    squeeze=False, constrained_layout=True)
    for axes, (name, table) in zip(all_axes[:, 0], panels.items()):
        draw_batch_sizes(axes, table, how)
        seeds = f" ({len(table)} seeds)" if len(table) > 1 else ""
        axes.set_title(f"{title}: {name}{seeds}" if title else name + seeds, loc="left")
        axes.set_ylabel("Batch size (samples)")
        axes.set_ylim(0, 1.08 * max(table.max() for table in panels.values()))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), handlelength=3.2)
    all_axes[-1, 0].set_xlabel("Merge")
    return figure


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
        color = COLORS[w % len(COLORS)]
        axes.plot(merge, median[:, w], color=color, linestyle=STYLES[w % len(STYLES)], drawstyle="steps-mid",
                  marker=MARKERS[w % len(MARKERS)], markevery=(min(w, len(merge) - 1), every), label=f"worker {w}")
        if len(table) > 1:
            low, high = np.percentile(table[:, :, w], edges, axis=0)
            axes.fill_between(merge, low, high, step="mid", color=color, alpha=0.15, linewidth=0)


# Part of the run's time, key, colour and hatch.
PARTS = [("compute", "compute_s", "#0072B2", ""), ("communicate", "communicate_s", "#E69F00", "//"),
         ("wait", "wait_s", "#BBBBBB", "..")]


def elapsed(run):
    """Seconds on the training clock at the end of the run."""
    seconds = (run.get("summary") or {}).get("elapsed_s")
    return seconds if seconds else run["curve"][-1]["time_s"]


def shares(runs):
    """share[part, worker]: medians over the runs of what each worker did with the run's time."""
    workers = min(len(run["workers"]) for run in runs)
    table = [[[run["workers"][w][key] / elapsed(run) if elapsed(run) else 0.0 for w in range(workers)]
              for _, key, _, _ in PARTS] for run in runs]
    return np.median(np.array(table), axis=0)


def plot_utilisation(groups, title=""):
    """Stacked bars, one per worker, the groups side by side."""
    tables = {name: shares(runs) for name, runs in groups.items()}
    bars = sum(table.shape[1] for table in tables.values())
    figure, axes = new_axes(title, width=min(12.0, max(4.2, 1.6 + 0.34 * bars + 0.3 * len(tables))))
    place, ticks, names = 0.0, [], []
    for table_number, (name, table) in enumerate(tables.items()):
        x = place + np.arange(table.shape[1])
        bottom = np.zeros(table.shape[1])
        for (part, _, color, hatch), share in zip(PARTS, table):
            axes.bar(x, share, 0.82, bottom=bottom, color=color, hatch=hatch, edgecolor="white",
                     linewidth=0.4, label=part if table_number == 0 else None)
            bottom += share
        axes.annotate(name, (x.mean(), 0), xycoords=("data", "axes fraction"), xytext=(0, -20),
                      textcoords="offset points", ha="center", va="top")
        step = max(1, table.shape[1] // 8)
        ticks += list(x[::step])
        names += [str(rank) for rank in range(0, table.shape[1], step)]
        place = x[-1] + 2.0
    axes.set_xticks(ticks, names)
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="x", visible=False)
    axes.annotate("worker", (0, 0), xycoords="axes fraction", xytext=(-2, -8), textcoords="offset points",
                  ha="right", va="top", fontsize=8, color="#555555")
    axes.set_ylabel("Share of the run's time (%)")
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1))
    return figure


def save(figure, folder, name, formats):
    paths = []
    for extension in formats:
        path = os.path.join(folder, f"{name}.{extension}")
        # Without dates, equal data give equal files.
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(extension)
        figure.savefig(path, bbox_inches="tight", metadata=metadata)
        paths.append(path)
    plt.close(figure)
    return paths


def default_metric(results):
    for metric in METRICS:
        if any(point.get(metric) is not None for point in results[0]["curve"]):
            return metric
    raise ResultError(f"{results[0]['path']}: found no metric in the curve, expected one of {', '.join(METRICS)}")


def plot_all(results, folder, metric=None, targets=None, formats=("png", "svg"), title="",
             log_time=False, how="minmax", group_by=()):
    """Writes all plots into `folder` and returns their paths."""
    metric = metric or default_metric(results)
    for result in results:
        if all(point.get(metric) is None for point in result["curve"]):
            raise ResultError(f"{result['path']}: found no {metric} in the curve, expected it for --metric {metric}")
    groups = group(results, list(group_by))
    targets = targets_of(results, metric) if targets is None else targets
    os.makedirs(folder, exist_ok=True)
    with plt.rc_context(STYLE):
        paths = save(plot_curve(groups, "time_s", metric, targets, how, title, log_time), folder,
                     "accuracy_over_time", formats)
        paths += save(plot_curve(groups, "samples_count", metric, targets, how, title), folder,
                      "accuracy_over_samples", formats)
        batch_sizes = plot_batch_sizes(groups, how, title)
        if batch_sizes:
            paths += save(batch_sizes, folder, "batch_size", formats)
        else:
            print("plot.py: no run recorded merges: no plot of batch sizes", file=sys.stderr)
        if any(run["workers"] for run in results):
            paths += save(plot_utilisation(groups, title), folder, "utilisation", formats)
    return paths


def number_list(text):
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f'found "{text}", expected numbers such as 0.6,0.65') from None


def format_list(text):
    formats = text.split(",")
    for name in formats:
        if name not in ("png", "svg", "pdf"):
            raise argparse.ArgumentTypeError(f'found "{name}", expected png, svg or pdf')
    return formats


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", metavar="RESULT.json")
    parser.add_argument("-o", "--output", default="plots", metavar="DIR", help="where to write (default: plots)")
    parser.add_argument("--metric", choices=list(METRICS), help="default: the first that the runs have")
    parser.add_argument("--targets", type=number_list, metavar="X,...", help="default: the runs' own targets")
    parser.add_argument("--format", type=format_list, default=["png", "svg"], metavar="png,svg,pdf")
    parser.add_argument("--title", default="")
    parser.add_argument("--log-time", action="store_true", help="logarithmic time axis")
    parser.add_argument("--band", choices=["minmax", "iqr"], default="minmax", help="over seeds (default: minmax)")
    parser.add_argument("--group-by", type=lambda text: text.split(","), default=[], metavar="KEY,...",
                        help="options besides algorithm and label that tell lines apart, such as learning_rate")
    options = parser.parse_args(argv)
    try:
        results = [result for result in map(load, options.results) if result]
        if not results:
            raise ResultError(f"found no result among {len(options.results)} files, expected at least one")
        paths = plot_all(results, options.output, options.metric,
                         options.targets, options.format, options.title, options.log_time, options.band,
                         options.group_by)
    except ResultError as error:
        print(f"plot.py: {error}", file=sys.stderr)
        return 4
    except OSError as error:
        print(f"plot.py: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    print("\n".join(paths))
    return 0


if __name__ == "__main__":
    sys.exit(main())
