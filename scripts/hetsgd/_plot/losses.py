"""The picture of lost workers: who lived and took part when."""

from matplotlib.ticker import MaxNLocator

from .style import DEFAULT_WIDTH_IN, MOST_PANELS, PlotError, finish, grid_of, time_unit, wrapped

LIVES, UNNOTICED, AWAY = "#0072B2", "#D55E00", "#DDDDDD"
NAMES = {LIVES: "takes part", UNNOTICED: "is lost, and nobody knows", AWAY: "is away"}


def spans(failures, elapsed_s):
    """[(worker, from_s, until_s, colour)] of the times in which a worker does not take part."""
    found = []
    for failure in failures:
        until_s = failure["returned_s"] if failure["returned_s"] is not None else elapsed_s
        known_s = min(failure["detected_s"], until_s)
        found += [(failure["worker"], failure["failed_s"], known_s, UNNOTICED), (failure["worker"], known_s, until_s, AWAY)]
    return [(worker, begin, min(end, elapsed_s), colour) for worker, begin, end, colour in found if begin < elapsed_s]


def plot_losses(data, lines, title="", width_in=DEFAULT_WIDTH_IN):
    """A panel per line, of its first run: a bar per worker over the training time. None if no run has lost a worker."""
    shown = []
    for line in lines:
        lossy = [run for run in line.runs if data.documents[run].get("failures")]
        if lossy:
            shown.append((line.name(), data.documents[lossy[0]], len(lossy)))
    if not shown:
        return None
    if len(shown) > MOST_PANELS:
        raise PlotError(f"losses: found {len(shown)} lines with lost workers, expected at most {MOST_PANELS} panels")
    figure, all_axes = grid_of(len(shown), width_in, 1.9, most_columns=2 if len(shown) > 2 else 1)
    for axes, (name, document, runs) in zip(all_axes, shown):
        elapsed_s, survival = document["summary"]["elapsed_s"], document["survival"]
        workers = range(len(document["workers"]))
        scale, unit = time_unit(elapsed_s)
        axes.barh(workers, elapsed_s / scale, color=LIVES, height=0.8, label=NAMES[LIVES])
        for worker, begin, end, colour in spans(document["failures"], elapsed_s):
            axes.barh(worker, (end - begin) / scale, left=begin / scale, color=colour, height=0.8, label=NAMES[colour])
        which = f", seed {document['config']['seed']}" if runs > 1 else ""
        shares = ", ".join(f"{key} {survival[key]:.2f}" for key in ("availability", "participation", "goodput"))
        axes.set_title(wrapped(f"{name}{which}: {shares}", width_in / min(2, len(shown)) - 0.5), loc="left")
        axes.set_xlim(0, elapsed_s / scale)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.invert_yaxis()
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel(f"Training time ({unit})")
        axes.set_ylabel("Worker")
    return finish(figure, all_axes, title)
