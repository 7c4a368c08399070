"""Shared by the tests of scripts/plot.py: results in frames, and the contents of a picture."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "scripts")]
try:
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from hetsgd import _results
    from hetsgd._plot import style as plot_style
except ImportError as error:
    print(f"skipped: {error}; scripts/setup-debian.sh installs it")
    sys.exit(77)
from synthetic_result import result  # noqa: E402

plt.rcParams.update(plot_style.style(plot_style.DEFAULT_WIDTH_IN))


class PictureTest(unittest.TestCase):
    def tearDown(self):
        plt.close("all")


def results(*runs):
    return of_sweep([(run, {}) for run in runs])


def of_sweep(runs):
    """runs: (result, its line of the index)."""
    loaded = [_results.Loaded(f"{i}.json", run, line.get("setup", ""), line.get("case", ""), line) for i, (run, line) in enumerate(runs)]
    return _results.assemble({each.path: each for each in loaded}, [])


def configured(options, **more):
    run = result(**more)
    run["config"].update(options)
    return run


def points(run, x, metric):
    return [p[x] for p in run["curve"]], [p[metric] for p in run["curve"]]


def labels(lines):
    return [line.name() for line in lines]


def drawn(axes):
    return {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}
