#!/usr/bin/env python3
"""Plots results of `hetsgd train` and folders of `hetsgd sweep`: accuracy, time to target, batch sizes, utilisation. It also
plots plans of `hetsgd memory`: used bytes over steps, peak and minimum, images/s over batch size, parts of an iteration, capacities.

  scripts/plot.py runs/*.json -o plots --metric p3 --targets 0.55 --format pdf --title Delicious
  scripts/plot.py runs/rates --over learning_rate --figures time_to_target,final_p1
  scripts/plot.py runs/*.json --x time,epochs,bytes --width 3.3in --format pdf
  scripts/plot.py m.json -o plots      # m.json: plans of hetsgd memory (-o); a file of its --trace gives a map of addresses

Runs that differ only in the seed become one line (the median) with a band, or one bar with a 95 % bootstrap interval. Options
that differ name the lines, as in `hetsgd compare`. More than eight lines become several panels. It writes, for each format,
  accuracy_over_AXIS (for time and samples, or the axes of --x), time_to_target (or the figures of --figures),
  batch_size (if the runs record merges), utilisation, losses (if the runs lost workers)
or, with --over, only FIGURE_over_OPTION, and prints the paths. A missed target is drawn beyond all others, never left out.
Exit codes: 0 done; 1 a file cannot be read or written; 2 wrong option, or a picture that cannot be drawn (the others are drawn);
4 a file that is not a result.
"""

import argparse
import os
import re
import sys
from functools import partial

try:
    import matplotlib
    matplotlib.use("Agg")
    import hetsgd
    import plot_memory
    from hetsgd import _plot
    from hetsgd._plot.curves import AXES
    from hetsgd._plot.style import DEFAULT_WIDTH_IN, METRICS, save
except ModuleNotFoundError as error:
    sys.exit(f"plot.py: {error} in {sys.executable}: {sys.executable} -m pip install matplotlib pandas; scripts/setup-debian.sh plots gives"
             " them to Debian's /usr/bin/python3")

INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4}


def say(note):
    print(f"plot.py: {note}", file=sys.stderr)


def load(sources):
    """The results without a sweep's tuning runs. Raises ResultError."""
    data = hetsgd.load(*sources)
    for note in data.notes:
        say(note)
    final = _plot.without_tuning(data)
    if len(final.runs) < len(data.runs):
        say(f"{len(data.runs) - len(final.runs)} runs of the tuning stage left out")
    return final


def plot_all(data, options):
    """Writes the pictures; (their paths, whether something could not be drawn)."""
    pictures, notes = _plot.pictures_of(data, options.metric, options.targets, options.x, options.over, options.figures, options.group_by,
                                        options.panels, options.log_time, options.band, options.title, options.width)
    for note in notes:
        say(note)
    return draw(pictures, options)


def plot_plans(options):
    """The pictures of plans; as plot_all."""
    plans = plot_memory.load_plans(options.results)
    return draw({name: partial(make, plans, title=options.title, width_in=options.width)
                 for name, make in plot_memory.PICTURES.items()}, options)


def draw(pictures, options):
    """Writes what can be drawn; (paths, whether something could not be)."""
    os.makedirs(options.output, exist_ok=True)
    paths, refused = [], []

    def refuse(text):
        refused.append(text)
        say(text)

    for name, picture in _plot.drawn(pictures, options.width, refuse):
        if picture:
            paths += save(picture, options.output, name, options.format)
        elif name == "batch_size":
            say("there is no plot of batch sizes, because no run recorded merges")
    return paths, bool(refused)


def words(text):
    return text.split(",")


def number_list(text):
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f'found "{text}", expected numbers such as 0.6,0.65') from None


def list_of(names):
    def parse(text):
        for name in text.split(","):
            if name not in names:
                raise argparse.ArgumentTypeError(f'found "{name}", expected {", ".join(names)}')
        return text.split(",")
    return parse


def width(text):
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(in|cm|mm)", text)
    inches = float(found[1]) * INCHES[found[2]] if found else 0
    if not 1.5 <= inches <= 40:
        raise argparse.ArgumentTypeError(f'found "{text}", expected a width from 1.5in to 40in such as 3.3in or 84mm')
    return inches


def parser():
    result = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("results", nargs="+", metavar="RESULT", help="result files, folders of results, or the folder or index of a sweep")
    result.add_argument("-o", "--output", default="plots", metavar="DIR", help="folder for the pictures (default: plots)")
    result.add_argument("--metric", choices=list(METRICS), help="metric to plot (default: the first one that the runs have)")
    result.add_argument("--targets", type=number_list, metavar="X,...",
                        help="values of the metric to use as targets (default: the targets of the runs)")
    result.add_argument("--x", type=list_of(AXES), default=[], metavar="AXIS,...",
                        help=f"horizontal axes of accuracy plots: {', '.join(AXES)} (default: time,samples; none with --over)")
    result.add_argument("--over", metavar="OPTION", help="draw figures over this option, such as learning_rate, instead of bars")
    result.add_argument("--figures", type=words, metavar="NAME,...",
                        help="figures to draw: time_to_target (default), first_crossing, samples_to_target, updates_to_target, or a "
                        "number of each run such as samples_per_s, computing_ratio, final_p1")
    result.add_argument("--group-by", type=words, default=[], metavar="OPTION,...",
                        help="options that separate lines, besides the algorithm (default: those in which its runs differ)")
    result.add_argument("--panels", metavar="OPTION",
                        help="option with one panel for each of its values (default: chosen if there are more than eight lines)")
    result.add_argument("--format", type=list_of(["png", "svg", "pdf"]), default=["png", "svg"], metavar="png,svg,pdf",
                        help="formats of the pictures (default: png,svg)")
    result.add_argument("--width", type=width, default=DEFAULT_WIDTH_IN, metavar="3.3in", help="width of the pictures (default: 6.2in)")
    result.add_argument("--title", default="", help="title of the pictures (default: none)")
    result.add_argument("--log-time", action="store_true", help="make the time axis logarithmic")
    result.add_argument("--band", choices=["minmax", "iqr"], default="minmax",
                        help="band of the seeds around a line: their range, or their middle half (default: minmax)")
    return result


def main(argv=None):
    options = parser().parse_args(argv)
    try:
        kinds = set(map(plot_memory.kind_of, options.results))
        if kinds == {"plans"}:
            paths, refused = plot_plans(options)
        elif len(options.results) == 1 and kinds == {"trace"}:
            make = partial(plot_memory.address_map, options.results[0], title=options.title, width_in=options.width)
            paths, refused = draw({"address_map": make}, options)
        else:
            paths, refused = plot_all(load(options.results), options)
    except hetsgd.ResultError as error:
        say(error)
        return 4
    except OSError as error:
        say(f"{error.filename}: {error.strerror}")
        return 1
    print("\n".join(paths))
    return 2 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
