"""Pictures of plans of `hetsgd memory`: used bytes over steps, peak and minimum, images/s over batch, times, capacities.

A plan is (network, batch, policy entry) of a document; plans of several documents may be drawn together. What fails has no
bar and no point: its place stays empty, with "fails" written there.
"""

import json

import numpy as np
from hetsgd._plot.style import GREY, MOST_PANELS, PlotError, finish, grid_of, look, outer_labels

MIB = 2 ** 20
PANEL_IN = 2.3
# The parts of an iteration, from below: what hides what.
PARTS = [("compute_only_s", "computing alone", "#0072B2"), ("overlap_s", "computing and transfer", "#56B4E9"),
         ("transfer_only_s", "transfer alone", "#E69F00"), ("idle_s", "neither", "#DDDDDD")]


class Plan:
    """One policy's plan of one network and batch; `label` names it where `policy` would not do."""

    def __init__(self, network, batch, entry, label=None):
        self.network, self.batch, self.entry = network, batch, entry
        self.label = label or entry["policy"]
        self.fits = entry["status"] == "fits"

    def mib(self, key):
        value = self.entry.get(key)
        return None if value is None else value / MIB


def kind_of(path):
    """The kind of a file of `hetsgd memory`: "plans" (-o) or "trace" (--trace); "" for another file, or one that cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        if document.get("tool") == "hetsgd memory":
            return "plans"
        is_trace = any(event["ph"] == "i" and "offset_bytes" in event.get("args", {}) for event in document.get("traceEvents"))
        return "trace" if is_trace else ""
    except (OSError, ValueError, AttributeError, TypeError, KeyError):
        return ""


def plans_of(document):
    return [Plan(one["network"]["name"], one["batch"], entry) for one in document["networks"] for entry in one["policies"]]


def load_plans(paths):
    plans = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            plans += plans_of(json.load(file))
    return plans


def two_lines(name):
    """The label of a case, short enough for a narrow panel."""
    return name.replace(", batch ", "\nbatch ")


GROUPS = {"movable": "#0072B2", "temporary": "#D55E00", "reclaimed": "#009E73", "workspace": "#DDDDDD"}


def address_map(path, title="", width_in=6.2):
    """Where each tensor lies from its allocation to its release, over steps; one trace."""
    with open(path, encoding="utf-8") as file:
        events = [event for event in json.load(file)["traceEvents"] if event["ph"] == "i"]
    figure, (axis,) = grid_of(1, width_in, 2 * PANEL_IN)
    begin, labelled = {}, set()
    for event in events:
        args = event["args"]
        if event["name"].startswith("allocate"):
            begin[args["offset_bytes"]] = args["step"]
            continue
        first = begin.pop(args["offset_bytes"])
        group = args["group"]
        axis.bar(first - 0.5, args["bytes"] / MIB, args["step"] - first + 1, bottom=args["offset_bytes"] / MIB, align="edge",
                 color=GROUPS[group], edgecolor="white", linewidth=0.3, label=None if group in labelled else group)
        labelled.add(group)
    axis.set_xlabel("step")
    axis.set_ylabel("address, MiB")
    return finish(figure, [axis], title)


def in_order(values):
    return list(dict.fromkeys(values))


def panels(plans, key):
    """Plans by key(plan), in order. Raises PlotError where they are too many."""
    groups = {}
    for plan in plans:
        groups.setdefault(key(plan), []).append(plan)
    if len(groups) > MOST_PANELS:
        raise PlotError(f"found {len(groups)} networks and batches, expected at most {MOST_PANELS} in a picture")
    return groups


def case(plan):
    return f"{plan.network}, batch {plan.batch}"


def over_panels(groups, draw, names, title, width_in, height_in=PANEL_IN, from_zero=True):
    """A panel per group of plans, drawn by draw(axis, plans, {label: number of its look}); None without a group. names: of the axes."""
    if not groups:
        return None
    figure, axes = grid_of(len(groups), width_in, height_in)
    labels = in_order(plan.label for group in groups.values() for plan in group)
    for axis, (name, group) in zip(axes, groups.items()):
        draw(axis, group, {label: number for number, label in enumerate(labels)})
        axis.set(title=two_lines(name), xlabel=names[0], ylabel=names[1])
        if from_zero:
            axis.set_ylim(0, 1.06 * max(axis.get_ylim()[1], 0))
    outer_labels(axes)
    return finish(figure, axes, title)


def used_over_steps(plans, title="", width_in=6.2):
    """Used MiB of the pool in each step, forward and backward (Dymem, figure 4.7)."""
    def draw(axis, group, numbers):
        for plan in group:
            steps = plan.entry["steps"]
            axis.plot([step["step"] for step in steps], [step["used_bytes"] / MIB for step in steps],
                      label=plan.label, **{**look(numbers[plan.label]), "marker": None})
        turn = next(step["step"] for step in group[0].entry["steps"] if step["pass"] == "backward") - 0.5
        axis.axvline(turn, color=GREY, linewidth=0.8, linestyle=":")

    groups = panels([plan for plan in plans if plan.fits and "steps" in plan.entry], case)
    return over_panels(groups, draw, ("step (dotted: turn)", "used, MiB"), title, width_in, (2 if len(groups) == 1 else 1) * PANEL_IN)


def bar_places(count, groups):
    """x of the bars of each of `count` kinds in each group, and their width."""
    width = 0.8 / count
    return [np.arange(groups) + (i - (count - 1) / 2) * width for i in range(count)], width


def mark_failures(axis, places, heights, width):
    for x, height in zip(places, heights):
        if height is None:
            axis.text(x, 0, " fails", rotation=90, ha="center", va="bottom", color=GREY,
                      fontsize=5)


def peak_and_minimum(plans, title="", width_in=6.2):
    """The most that a plan uses, and the least memory with which it works (figure 4.4a)."""
    cases = in_order(case(plan) for plan in plans)
    labels = in_order(plan.label for plan in plans)
    found = {(case(plan), plan.label): plan for plan in plans}
    figure, axes = grid_of(2, width_in, PANEL_IN * 1.3, most_columns=2, sharey=True)
    for axis, key, name in zip(axes, ("peak_bytes", "minimum_bytes"), ("peak with all memory", "least memory that works")):
        places, width = bar_places(len(labels), len(cases))
        for i, label in enumerate(labels):
            heights = [found[each, label].mib(key) if (each, label) in found else None for each in cases]
            axis.bar(places[i], [height or 0 for height in heights], width, label=label, color=look(i)["color"])
            mark_failures(axis, places[i], heights, width)
        axis.set_xticks(range(len(cases)), [two_lines(each) for each in cases], rotation=30, ha="right")
        axis.set_title(name)
        axis.set_ylabel("MiB")
        axis.grid(axis="x", visible=False)
    axes[1].set_ylabel("")
    return finish(figure, axes, title)


def images_over_batch(plans, title="", width_in=6.2):
    """Images per second over the batch (figure 4.5); a line ends where a plan fails."""
    def draw(axis, group, numbers):
        for label in in_order(plan.label for plan in group):
            points = sorted((plan.batch, plan.entry["images_per_s"]) for plan in group if plan.label == label and plan.fits)
            if points:
                axis.plot(*zip(*points), label=label, **look(numbers[label]))

    groups = {name: group for name, group in panels(plans, lambda plan: plan.network).items()
              if len({plan.batch for plan in group}) > 1}
    return over_panels(groups, draw, ("batch", "images/s"), title, width_in)


def stacked_times(plans, title="", width_in=6.2):
    """The parts of an iteration's seconds (figure 4.6)."""
    def draw(axis, group, _):
        base = np.zeros(len(group))
        for key, part, color in PARTS:
            heights = np.array([max(plan.entry[key], 0) for plan in group])
            axis.bar(range(len(group)), heights, 0.7, bottom=base, label=part, color=color)
            base += heights
        axis.set_xticks(range(len(group)), [plan.label for plan in group], rotation=30, ha="right")
        axis.grid(axis="x", visible=False)

    return over_panels(panels([plan for plan in plans if plan.fits], case), draw, ("", "s per iteration"), title, width_in, from_zero=False)


def iteration_over_capacity(plans, title="", width_in=6.2):
    """Seconds of an iteration over the memory that it may use (--memory-curve)."""
    def draw(axis, group, numbers):
        for plan in group:
            points = [(point["capacity_bytes"] / MIB, point["iteration_s"]) for point in plan.entry["curve"] if point["status"] == "fits"]
            if points:
                axis.plot(*zip(*points), label=plan.label, **look(numbers[plan.label]))

    return over_panels(panels([plan for plan in plans if plan.entry.get("curve")], case), draw, ("memory, MiB", "s per iteration"), title,
                       width_in)


PICTURES = {"used_over_steps": used_over_steps, "peak_and_minimum": peak_and_minimum,
            "images_per_s_over_batch": images_over_batch, "iteration_parts": stacked_times,
            "iteration_over_capacity": iteration_over_capacity}
