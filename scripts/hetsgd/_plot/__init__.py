"""Pictures of results: a metric over time, times to targets, batch sizes, utilisation, lost workers. scripts/plot.py draws the same."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from .._errors import Error
from . import style
from .curves import plot_curves
from .figures import plot_bars, plot_over
from .lines import lines_of
from .losses import plot_losses
from .style import DEFAULT_WIDTH_IN, METRICS, PlotError
from .workers import plot_batch_sizes, plot_utilisation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .._results import Results


def without_tuning(data: Results) -> Results:
    """The results without a sweep's tuning runs, if there are others. Raises Error for a run that was never evaluated."""
    tuning = data.runs.stage == "tuning"
    if tuning.any() and not tuning.all():
        data = data.select(~tuning)
    for run, document in data.documents.items():
        if not document["curve"]:
            raise Error(f"{run}: found no evaluations (status {document['status']}), expected at least one")
    return data


def checked_metric(data: Results, metric: str | None) -> str:
    """The metric, or the first one that the runs have. Raises Error for a run without it."""
    if metric is None:
        found = [name for name in METRICS if name in data.curve and data.curve[name].notna().any()]
        if not found:
            raise Error(f"{data.runs.run[0]}: found no metric in the curve, expected one of {', '.join(METRICS)}")
        metric = found[0]
    for run in data.runs.run:
        if metric not in data.curve or data.curve[data.curve.run == run][metric].isna().all():
            raise Error(f"{run}: found no {metric} in the curve, expected it for --metric {metric}")
    return metric


Pictures = dict[str, Callable[[], "Figure | None"]]  # name -> what draws it, or returns None where there is nothing to draw


def pictures_of(data: Results, metric: str | None = None, targets: Sequence[float] | None = None, x: Sequence[str] = (),
                over: str | None = None, figures: Sequence[str] | None = None, group_by: Sequence[str] = (), panels: str | None = None,
                log_time: bool = False, band: str = "minmax", title: str = "",
                width_in: float = DEFAULT_WIDTH_IN) -> tuple[Pictures, list[str]]:
    """The pictures with the options of plot(), and notes."""
    metric = checked_metric(data, metric)
    lines, notes = lines_of(data, group_by)
    of_metric = data.targets[data.targets.metric == metric] if len(data.targets) else data.targets
    levels = targets if targets is not None else sorted(set(of_metric.value)) if len(of_metric) else []
    size = {"title": title, "width_in": width_in}
    pictures = {f"accuracy_over_{axis}": partial(plot_curves, data, lines, axis, metric, levels, band, log=log_time, by=panels, **size)
                for axis in x or ([] if over else ["time", "samples"])}
    for figure in figures or (["time_to_target"] if len(data.targets) else []):
        if over:
            pictures[f"{figure}_over_{over}"] = partial(plot_over, data, lines, over, figure, targets, by=panels, **size)
        else:
            pictures[figure] = partial(plot_bars, data, lines, figure, targets, **size)
    if not over:
        pictures["batch_size"] = partial(plot_batch_sizes, data, lines, band, **size)
        pictures["utilisation"] = partial(plot_utilisation, data, lines, **size)
        pictures["losses"] = partial(plot_losses, data, lines, **size)
    return pictures, notes


def drawn(pictures: Pictures, width_in: float, refuse: Callable[[str], None]) -> Iterator[tuple[str, Figure | None]]:
    """(name, picture) of each in the style for this width, which lasts while a picture is used. `refuse` is told what cannot be drawn."""
    with style.plt.rc_context(style.style(width_in)):
        for name, make in pictures.items():
            try:
                yield name, make()
            except PlotError as error:
                refuse(str(error))


def plot(data: Results, output: str | None = None, formats: Sequence[str] = ("png", "svg"), width_in: float = DEFAULT_WIDTH_IN,
         **options: object) -> dict[str, Figure]:
    """The pictures of results by their names: accuracy_over_AXIS, the figures, batch_size, utilisation, losses; what the runs have.

    output    folder for files NAME.FORMAT; None: none are written, and a notebook shows the pictures
    formats   of "png", "svg", "pdf"
    width_in  of each picture, in inches
    metric    "p1" ...; None: the first one that the runs have. targets: its values to use; None: those of the runs
    x         axes of the metric: "time", "epochs", "samples", "updates", "mega_batches", "bytes"
    over      an option along the axis of the figures, such as "learning_rate", in place of bars
    figures   "time_to_target", "first_crossing", "samples_to_target", "updates_to_target", or a numeric column of `runs`
    group_by  options that separate lines, besides the algorithm. panels: the option with a panel for each of its values
    log_time, band ("minmax" or "iqr", of the seeds around a line), title

    What cannot be drawn is left out with a warning. Raises Error for runs without evaluations or without the metric."""
    pictures, notes = pictures_of(without_tuning(data), width_in=width_in, **options)
    for note in notes:
        warnings.warn(note, stacklevel=2)
    made = {}
    for name, figure in drawn(pictures, width_in, lambda text: warnings.warn(text, stacklevel=4)):
        if figure is not None:
            made[name] = figure
            if output is not None:
                os.makedirs(output, exist_ok=True)
                style.save(figure, output, name, formats)
    return made
