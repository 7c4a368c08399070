"""Compares groups of runs with a reference. The measures are time to accuracy and its two factors, statistical efficiency (samples and
updates to the target) and hardware efficiency (samples per second). A missed target counts as infinity and is never dropped. A run
that diverged is treated as any other run. Files that are equal but for dates are copies of one run, which counts once.

  read_inputs() -> Loaded -split_workloads()-> Workload -compare_workloads()-> Comparison -> texts, tables, JSON, a frame
"""

from __future__ import annotations

import argparse
import functools
import math
import pathlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from . import _results, _stats, _text
from ._errors import REGRESSION, quote, refusal, usage_error
from ._results import GroupNames, Json, Loaded, Target, dump, hashable
from ._stats import NOTHING, Interval

if TYPE_CHECKING:
    import pandas as pd

ENOUGH_SEEDS = 6  # the least number of pairs that can show a difference
MOST_NAMES = 6  # in one sentence
FINE_EVALUATIONS = 20  # with fewer before a target, one evaluation changes its time by more than 5 %
LONGEST_LABEL = 28  # groups with longer labels list their options in a note below the table
LONG_LABEL, MOST_FOLDERS = 40, 3  # of the names of workloads


@dataclass
class RunTarget:
    """The times and counts of a run at a target; infinity if the target is not held."""
    time_s: float = math.inf
    first_crossing_s: float = math.inf
    samples: float = math.inf
    updates: float = math.inf
    evaluation: float = math.inf  # number of the one that holds it; 0: the initial model
    resolution_s: float = math.nan  # gap to the evaluation before, the error of time_s
    uncertain: bool = False  # held at the end of a run that is too short to be sure
    misses_at_end: bool = False  # crossed, but the last evaluation misses the target


@dataclass
class RunRow:
    """A run; NaN where no time passed or nothing was measured."""
    path: str
    label: str
    algorithm: str
    status: str
    seed: int
    samples_per_s: float
    updates_per_s: float  # until the last evaluation
    final_value: float  # of the comparison's metric
    targets: list[RunTarget]
    tuning: Json  # the result's `tuning`; None: not tuned
    values: list[str] = field(default_factory=list)  # of Comparison.varying; "": no such option


@dataclass
class Relation:
    """A quantity of a group relative to the reference: the ratio of the medians (group over reference), a test, and the least ratio
    that these seeds would have shown. Paired groups have those of pairs. The reference has 1 and NaN. All NaN if a run lacks the
    value; the p-value also of one run against one, of which no test says anything."""
    ratio: Interval = NOTHING
    p_value: float = math.nan
    least_effect: float = math.nan
    exact: bool = True  # the p-value counts all orders or signs


@dataclass
class GroupTarget:
    """A group at a target. Time is samples to the target over samples per second until then, so speedup = statistical * hardware."""
    reached: int  # runs that hold the target, cross it but miss it at the end, end too soon to be certain
    misses_at_end: int
    uncertain: int
    time_s: Interval
    first_crossing_s: Interval
    samples: float  # medians
    updates: float
    evaluation: float
    resolution_s: float  # largest over the runs that reached it; NaN: none
    ratio: float = math.nan  # median time over the reference's: above 1 is slower; NaN: neither reached it
    speedup: Interval = NOTHING  # the reverse with its interval
    statistical: float = math.nan  # the reference's samples to the target over this one's
    hardware: float = math.nan  # this one's samples per second until the target over the reference's
    p_value: float = math.nan  # of the times, as the two below
    least_effect: float = math.nan
    p_holm: float = math.nan  # corrected for all comparisons with the reference at this target
    exact: bool = True
    first_crossing_relation: Relation = field(default_factory=Relation)
    samples_relation: Relation = field(default_factory=Relation)
    updates_relation: Relation = field(default_factory=Relation)


@dataclass
class GroupRow:
    """A group of runs that differ only in their seed."""
    algorithm: str
    case_name: str  # of all its runs; "": none
    name: str  # see GroupNames, as the two below
    options: str
    label: str
    runs: list[int]  # places in Comparison.runs, without copies
    copies: list[tuple[int, int]]  # (a run, the one that it is a copy of)
    tuning: Json  # of its first run
    reference: bool = False
    # The group and the reference have the same data and the same seeds, each of them once. Runs of one seed are a pair: they have the
    # same data order and, if the model is the same, the same initial model.
    paired: bool = False
    diverged: int = 0
    samples_per_s: Interval = NOTHING
    final_value: Interval = NOTHING
    samples_per_s_relation: Relation = field(default_factory=Relation)
    updates_per_s_relation: Relation = field(default_factory=Relation)
    final_relation: Relation = field(default_factory=Relation)
    targets: list[GroupTarget] = field(default_factory=list)


@dataclass
class Comparison:
    """Runs in the order of the results, groups by median time to the first target, then by final value."""
    targets: list[Target]
    metric: str  # of final_value
    clock: str
    varying: list[str] = field(default_factory=list)  # options in which the groups with them differ
    runs: list[RunRow] = field(default_factory=list)
    groups: list[GroupRow] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    passed_over: str = ""  # label of the first group, if it was no reference because it missed a target
    asked_for: str = ""  # a reference that names no group here, or several

    @property
    def reference(self) -> GroupRow:
        """The group that the others are compared with."""
        return next(group for group in self.groups if group.reference)

    @property
    def worst_ratio(self) -> float:
        """The largest ratio of all groups and targets; 0 if there is none."""
        ratios = [each.ratio for group in self.groups if not group.reference for each in group.targets]
        return max((ratio for ratio in ratios if ratio > 0), default=0.0)


# --- runs ----------------------------------------------------------------------------------------

def _run_target(clock: str, result: Loaded, target: Target) -> RunTarget:
    points, values = _results.evaluations(result.document, target.metric)
    times = [_results.time_on(clock, point, result.document) for point in points]
    if None in times:
        raise usage_error(f"--clock: found {clock}, which {result.path} does not have ({_results.no_time_reason(result.document)})")
    reaching = [target.reached(value) for value in values]
    first, held = _results.crossings(reaching)
    row = RunTarget()
    if held is not None:
        row.time_s, row.evaluation = times[held], float(held)
        row.samples, row.updates = float(points[held]["samples_count"]), float(points[held]["updates"])
        row.resolution_s = times[held] - times[held - 1] if held else math.nan
        row.uncertain = 2 * sum(reaching[held:held + _results.HOLD_EVALUATIONS]) <= _results.HOLD_EVALUATIONS
    if first is not None:
        row.first_crossing_s, row.misses_at_end = times[first], not reaching[-1]
    return row


def _number_at(row: Json, key: str) -> float:
    return float(row[key]) if isinstance(row, dict) and _results.KINDS["a number"](row.get(key)) else math.nan


def _run_row(loaded: Loaded, comparison: Comparison) -> RunRow:
    result, metric = loaded.document, comparison.metric
    last = result["curve"][-1] if result["curve"] else {"time_s": 0}
    final = _number_at(result["summary"].get("final"), metric)
    if math.isnan(final) and result["status"] == "diverged":  # the worst value, not an unknown one
        final = -math.inf if metric in _results.HIGHER_IS_BETTER else math.inf
    return RunRow(loaded.path, "", result["config"]["algorithm"], result["status"], result["config"]["seed"],
                  _number_at(result["summary"], "samples_per_s"), last["updates"] / last["time_s"] if last["time_s"] > 0 else math.nan,
                  final, [_run_target(comparison.clock, loaded, target) for target in comparison.targets], result.get("tuning"))


def _check_measured(result: Loaded, target: Target) -> None:
    """Refuses a target whose metric the result does not measure: a mistake, no miss. A run without evaluations may have had any."""
    curve = result.document["curve"]
    if curve and target.metric not in curve[0]:
        there = ", ".join(metric for metric in _results.METRICS if metric in curve[0])
        raise usage_error(f"{result.path}: the target is {target.text}, but {target.metric} was not measured, expected one of {there}",
                          "--target names another target, for example --target 'accuracy>=0.8'")


# --- groups --------------------------------------------------------------------------------------

def _without_copies(loaded: Sequence[Loaded], runs: Sequence[int]) -> tuple[list[int], list[tuple[int, int]]]:
    """The runs of a group, and (copy, run): simulated runs of one seed are equal in all but dates, real ones differ in their times."""
    known: dict[int, list[int]] = {}
    copies = []
    for run in runs:
        document = loaded[run].document
        alike = known.setdefault(document["config"]["seed"], [])
        same = next((other for other in alike if all(loaded[other].document[key] == document[key] for key in ("curve", "workers"))), None)
        if same is None:
            alike.append(run)
        else:
            copies.append((run, same))
    left_out = {run for run, _ in copies}
    return [run for run in runs if run not in left_out], copies


def _make_groups(loaded: Sequence[Loaded], names: GroupNames, comparison: Comparison) -> None:
    groups = _results.groups_of(loaded)
    configs = [_results.telling_options(loaded[runs[0]].document) for runs in groups]
    texts = [{key: _results.option_text(value) for key, value in config.items()} for config in configs]
    keys = sorted({key for each in texts for key in each} - {"algorithm"})
    comparison.varying = [key for key in keys if len({each[key] for each in texts if key in each}) > 1]
    for runs, text, (name, options, label) in zip(groups, texts, _results.group_names(loaded, groups, names)):
        first = comparison.runs[runs[0]]
        own, copies = _without_copies(loaded, runs)
        case = _results.common_name([loaded[run] for run in runs], "case")
        comparison.groups.append(GroupRow(first.algorithm, case, name, options, label, own, copies, first.tuning))
        for run in runs:
            comparison.runs[run].label = label
            comparison.runs[run].values = [text.get(key, "") for key in comparison.varying]


def _values(comparison: Comparison, group: GroupRow, member: str, t: int | None = None) -> list[float]:
    """A quantity of the group's runs (t: at this target) by seed, so that the values of paired groups stand in one order."""
    runs = sorted((comparison.runs[run] for run in group.runs), key=lambda run: run.seed)
    return [getattr(run if t is None else run.targets[t], member) for run in runs]


def _group_target(comparison: Comparison, group: GroupRow, t: int) -> GroupTarget:
    def values(member: str) -> list[float]:
        return _values(comparison, group, member, t)

    times, gaps = values("time_s"), [gap for gap in values("resolution_s") if not math.isnan(gap)]
    return GroupTarget(sum(map(math.isfinite, times)), sum(values("misses_at_end")), sum(values("uncertain")),
                       _stats.bootstrap_median(times), _stats.bootstrap_median(values("first_crossing_s")),
                       _stats.median(values("samples")), _stats.median(values("updates")), _stats.median(values("evaluation")),
                       max(gaps, default=math.nan))


def _fill_group(comparison: Comparison, group: GroupRow) -> None:
    group.samples_per_s = _stats.bootstrap_median(_values(comparison, group, "samples_per_s"))
    group.final_value = _stats.bootstrap_median(_values(comparison, group, "final_value"))
    group.diverged = sum(comparison.runs[run].status == "diverged" for run in group.runs)
    group.targets = [_group_target(comparison, group, t) for t in range(len(comparison.targets))]


def groups_named(reference: str, comparison: Comparison) -> list[GroupRow]:
    """The groups that a text may mean: those with this file, else with this label, name, case, algorithm."""
    labels = {run.label for run in comparison.runs if run.path == reference}
    ways = [[group for group in comparison.groups if group.label in labels],
            *([group for group in comparison.groups if getattr(group, member) == reference]
              for member in ("label", "name", "case_name", "algorithm"))]
    return next(filter(None, ways), [])


def _refuse_reference(text: str, named: Sequence[GroupRow], groups: Sequence[GroupRow]) -> NoReturn:
    labels = ", ".join(quote(group.label) for group in named or groups)
    if named:
        raise refusal("--reference", f"{quote(text)}, which {len(named)} groups have in common", f"one of {labels}")
    raise refusal("--reference", quote(text), "one of the compared files, a group's name, or an algorithm or a case with one group",
                  f"the groups are {labels}")


def _choose_reference(comparison: Comparison, reference: str, first_is_reference: bool) -> None:
    """Marks the reference. Without a name it is the first group among those that reached the most targets: beside a group that missed
    one, every other is infinitely fast."""
    if reference:
        named = groups_named(reference, comparison)
        if len(named) != 1:
            _refuse_reference(reference, named, comparison.groups)
        named[0].reference = True
        return
    first = comparison.groups[0]
    best = first if first_is_reference else max(
        comparison.groups, key=lambda group: sum(math.isfinite(target.time_s.median) for target in group.targets))
    best.reference = True
    comparison.passed_over = "" if best is first else first.label


def _pair_groups(loaded: Sequence[Loaded], comparison: Comparison) -> None:
    found = {group.label: (_values(comparison, group, "seed"), _results.data_of(loaded[group.runs[0]].document))
             for group in comparison.groups}
    base = found[comparison.reference.label]
    for group in comparison.groups:
        group.paired = len(set(base[0])) == len(base[0]) and found[group.label] == base


# --- relations to the reference --------------------------------------------------------------------

def _relation(group: GroupRow, values: Sequence[float], base: Sequence[float]) -> Relation:
    """The relation of the values of a group to those of the reference, both in the order of seeds."""
    if any(map(math.isnan, [*values, *base])):
        return Relation()
    if group.reference:
        return Relation(Interval(1.0, 1.0, 1.0))
    _, p_value, exact = (_stats.signed_rank if group.paired else _stats.mann_whitney)(values, base)
    return Relation(_stats.bootstrap_ratio(values, base, group.paired), math.nan if len(values) == len(base) == 1 else p_value,
                    _stats.least_effect(values, base, group.paired), exact)


def _factor(a: float, b: float) -> float:
    """a / b if both are positive and finite, else NaN."""
    return a / b if 0 < a < math.inf and 0 < b < math.inf else math.nan


def _relate(comparison: Comparison, group: GroupRow, t: int) -> None:
    reference = comparison.reference
    base, target = reference.targets[t], group.targets[t]

    def relation_of(member: str) -> Relation:
        return _relation(group, _values(comparison, group, member, t), _values(comparison, reference, member, t))

    target.first_crossing_relation = relation_of("first_crossing_s")
    target.samples_relation, target.updates_relation = relation_of("samples"), relation_of("updates")
    target.ratio = _stats.ratio_of_times(target.time_s.median, base.time_s.median)
    target.statistical = _factor(base.samples, target.samples)
    target.hardware = _factor(_factor(target.samples, target.time_s.median), _factor(base.samples, base.time_s.median))
    if group.reference:
        target.speedup = Interval(target.ratio, target.ratio, target.ratio)
        return
    speedup = _relation(group, _values(comparison, reference, "time_s", t), _values(comparison, group, "time_s", t))
    target.speedup, target.p_value, target.least_effect = speedup.ratio, speedup.p_value, speedup.least_effect
    target.exact = speedup.exact


def _relate_groups(comparison: Comparison) -> None:
    reference = comparison.reference
    for group in comparison.groups:
        for member, relation in (("samples_per_s", "samples_per_s_relation"), ("updates_per_s", "updates_per_s_relation"),
                                 ("final_value", "final_relation")):
            setattr(group, relation, _relation(group, _values(comparison, group, member), _values(comparison, reference, member)))
        for t in range(len(group.targets)):
            _relate(comparison, group, t)
    for t in range(len(comparison.targets)):  # the tests of all groups against the reference are one family per target
        tested = [group.targets[t] for group in comparison.groups if not math.isnan(group.targets[t].p_value)]
        for target, corrected in zip(tested, _stats.holm([each.p_value for each in tested])):
            target.p_holm = corrected


def _place_of(group: GroupRow, metric: str) -> tuple[float, bool, float]:
    """By which groups are sorted: the time to the first target, then the final value, the best first and an unknown one last."""
    value = group.final_value.median * (-1 if metric in _results.HIGHER_IS_BETTER else 1)
    return group.targets[0].time_s.median if group.targets else 0.0, math.isnan(value), 0.0 if math.isnan(value) else value


def _metric_of(loaded: Sequence[Loaded], targets: Sequence[Target]) -> str:
    """The metric of the first target, else the first metric of the first curve."""
    curve = loaded[0].document["curve"]
    return targets[0].metric if targets else next((metric for metric in _results.METRICS if curve and metric in curve[-1]), "test_loss")


def compare(loaded: Sequence[Loaded], targets: Sequence[Target] = (), reference: str = "", first_is_reference: bool = False,
            clock: str = "training", names: GroupNames | None = None, or_default: bool = False) -> Comparison:
    """Compares results. `targets`: none: every target that a result names. `reference`: a path, a label, or a case or algorithm that
    has one group; "": the first group among those that reached the most targets, or with `first_is_reference` the first result's.
    `or_default`: a reference that is none here is the default one. `names`: by default names_of() these results.
    Raises a usage error (no results, no such reference, a clock that a result lacks)."""
    if not loaded:
        raise usage_error("compare: found no result files, expected at least one")
    targets = list(targets) or _results.targets_of(each.document for each in loaded)
    comparison = Comparison(targets, _metric_of(loaded, targets), clock)
    for each in loaded:
        for target in targets:
            _check_measured(each, target)
        comparison.runs.append(_run_row(each, comparison))
    _make_groups(loaded, names or _results.names_of([loaded]), comparison)
    for group in comparison.groups:
        _fill_group(comparison, group)
    if or_default and reference and len(groups_named(reference, comparison)) != 1:
        comparison.asked_for, reference = reference, ""
    _choose_reference(comparison, reference, first_is_reference)
    _pair_groups(loaded, comparison)
    _relate_groups(comparison)
    comparison.groups.sort(key=lambda group: _place_of(group, comparison.metric))
    comparison.warnings = warnings_of(loaded, comparison)
    return comparison


# --- warnings ------------------------------------------------------------------------------------

@dataclass(frozen=True)
class EqualPart:
    """A part of a result that is equal in every fair comparison."""
    what: str  # "the training data"
    place: str  # JSON pointer
    workload: bool = True  # part of the data, model or machine; False: of the measurement


EQUAL_PARTS = (
    EqualPart("the training data", "/dataset/train/content_hash"), EqualPart("the test data", "/dataset/test/content_hash"),
    EqualPart("the model's layers", "/model/layer_sizes"), EqualPart("the cluster", "/cluster/name"),
    EqualPart("the device profile", "/cluster/device_profile"), EqualPart("the server's profile", "/cluster/server_profile"),
    EqualPart("the network", "/cluster/network"), EqualPart("the charged sizes", "/cluster/charge"),
    EqualPart("the stragglers", "/stragglers"), EqualPart("the number of workers", "/config/workers"),
    EqualPart("the speeds", "/config/speed"), EqualPart("the samples between evaluations", "/config/evaluate_every", False),
    EqualPart("the evaluated test rows", "/config/evaluate_samples", False), EqualPart("the mega-batch", "/config/mega_batch", False))


def value_at(document: Json, place: str) -> Json:
    """The value at a JSON pointer; None: there is none."""
    for key in place.split("/")[1:]:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def value_of(part: EqualPart, document: dict) -> Json:
    """The value of a part in a result; None: it is absent. `source` explains the numbers of a profile, and makes no difference."""
    def without_source(value: Json) -> Json:
        return {key: each for key, each in value.items() if key != "source"} if isinstance(value, dict) else value

    found = value_at(document, part.place)
    if isinstance(found, (dict, list)):
        return without_source(found) if isinstance(found, dict) else list(map(without_source, found))
    return "auto" if found == 0 and not isinstance(found, bool) else found  # 0 is the spelling of earlier versions


def _enumerated(names: Sequence[str]) -> str:
    """"a, b and 2 more"."""
    return ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")


Name = Callable[[str], str]  # from the label of a group to its name in a text


def warnings_of(loaded: Sequence[Loaded], comparison: Comparison, names: dict[str, str] | None = None) -> list[str]:
    """A sentence for each part that should be equal and is not, and for each fact that makes a difference doubtful. `names`: how to
    call groups by their labels; by default so."""
    def name(label: str) -> str:
        return (names or {}).get(label, label)

    said = []
    if comparison.passed_over:
        missed = comparison.targets[0].text if len(comparison.targets) == 1 else "more of the targets"
        said.append(f"the reference is {name(comparison.reference.label)}, because the median run of {name(comparison.passed_over)}, which "
                    f"comes first, missed {missed}; --reference names another")
    said += _different_workloads(loaded)
    said += _step_sizes(loaded, comparison, name) + _staging(loaded, comparison, name) + _load(loaded)
    said += _seeds(comparison, name) + _holding(comparison, name) + _resolution(comparison, name, wordy=not names)
    said += _tuning(comparison, name)
    said += [f"{name(group.label)}: {group.diverged} of {len(group.runs)} runs diverged" for group in comparison.groups if group.diverged]
    said += [f"{run.path}: the run is not complete, its status is {run.status}" for run in comparison.runs
             if run.status not in _results.DONE]
    if comparison.asked_for:
        said.append(f"--reference {comparison.asked_for} names no group or several groups: the reference is "
                    f"{name(comparison.reference.label)}")
    return said


def _different_workloads(loaded: Sequence[Loaded]) -> list[str]:
    keys = {part.what: [hashable(value_of(part, each.document)) for each in loaded] for part in EQUAL_PARTS}
    others = {what: next((each.path for each, key in zip(loaded, found) if key != found[0]), None) for what, found in keys.items()}
    return [f"different workloads: {loaded[0].path} and {path} differ in {what}" for what, path in others.items() if path is not None]


def _samples_per_step(document: dict) -> float | None:
    """The measured samples per step of a worker. None: unknown, or the method varies batch sizes during a run by design."""
    if any(event["type"] == "merge" and any(size != event["batch_size"][0] for size in event["batch_size"])
           for event in document["events"] if "batch_size" in event):
        return None
    samples, steps = (sum(worker.get(key, 0) for worker in document["workers"]) for key in ("samples", "steps"))
    return samples / steps if steps > 0 else None


def _step_sizes(loaded: Sequence[Loaded], comparison: Comparison, name: Name) -> list[str]:
    """Groups with the same --batch-size whose steps learn from different numbers of samples. A user who sets different batch sizes
    knows that already."""
    sizes: dict[str, dict[float, list[str]]] = {}
    for group in comparison.groups:
        document = loaded[group.runs[0]].document
        samples = _samples_per_step(document)
        if samples is None:
            continue
        of_option = sizes.setdefault(dump(document["config"].get("batch_size")), {})
        # The tolerance of 10 % allows for incomplete last batches of an epoch or run.
        near = next((size for size in sorted(of_option) if abs(size - samples) <= 0.1 * max(size, samples)), samples)
        of_option.setdefault(near, []).append(name(group.label))
    return [f"the groups differ in the samples per step of a worker, although all have --batch-size {option} ("
            + "; ".join(f"{size:.3g}: {_enumerated(labels)}" for size, labels in sorted(of_option.items()))
            + "): their times compare batch sizes as well as methods" for option, of_option in sorted(sizes.items()) if len(of_option) > 1]


def _staging(loaded: Sequence[Loaded], comparison: Comparison, name: Name) -> list[str]:
    """rna and eager-* reduce on the hosts, so their copies between GPU and host are charged by default; others reduce on the GPUs."""
    documents = [(group, loaded[group.runs[0]].document) for group in comparison.groups]
    charged = [name(group.label) for group, document in documents
               if document["cluster"]["virtual_time"] and document["config"].get("staging") is True]
    if len(charged) in (0, len(comparison.groups)):
        return []
    return [f"only {_enumerated(charged)} {'is' if len(charged) == 1 else 'are'} charged for copies between GPU and host memory "
            "(--staging); --no-staging removes the charge"]


def _load(loaded: Sequence[Loaded]) -> list[str]:
    """Real times that other programs have disturbed, as the run itself has recorded. Half a thread is the background of any system."""
    loads = [(each.path, each.document.get("environment", {}).get("load")) for each in loaded]
    slowed = [path for path, load in loads if load and max(load["start"], load["end"] or 0) > load["idle_cores"] + 0.5]
    return [f"other programs took cores from {len(slowed)} of {len(loaded)} runs ({_enumerated(slowed)}): their times are not reliable"
            ] if slowed else []


def _seeds(comparison: Comparison, name: Name) -> list[str]:
    said, few, paths = [], [], [run.path for run in comparison.runs]
    for group in comparison.groups:
        label, seeds = name(group.label), [comparison.runs[run].seed for run in group.runs]
        if group.copies:
            copies = _enumerated([f"{paths[copy]} of {paths[run]}" for copy, run in group.copies])
            said.append(f"{label}: {len(group.copies)} of {len(group.runs) + len(group.copies)} results are copies, with the seed and the "
                        f"numbers of another one ({copies}): they are one run and count once")
        said += [f"{label}: seed {seed} occurs {seeds.count(seed)} times" for seed in sorted(set(seeds)) if seeds.count(seed) > 1]
        if len(set(seeds)) < ENOUGH_SEEDS:
            few.append(f"{label} {len(set(seeds))}")
    if few:
        paired = any(group.paired and not group.reference and not _stats.can_show(len(group.runs)) for group in comparison.groups)
        why = ("so few pairs can show no difference, since a signed-rank test of five has no p-value below 0.0625" if paired
               else "the differences may be chance")
        said.append(f"fewer than {ENOUGH_SEEDS} seeds ({', '.join(few)}): {why}")
    return said


def _holding(comparison: Comparison, name: Name) -> list[str]:
    """A target that is crossed and lost again, or held only at the very end of a run."""
    said = []
    for t, wanted in enumerate(comparison.targets):
        fastest = min(group.targets[t].time_s.median for group in comparison.groups)
        for group in comparison.groups:
            target, label, n = group.targets[t], name(group.label), len(group.runs)
            if group.reference and math.isinf(target.time_s.median) and fastest < math.inf:
                said.append(f"{label}, the reference, holds {wanted.text} in {target.reached} of {n} runs: speed-ups over it are infinite")
            if target.misses_at_end:
                said.append(f"{label}: the final value misses {wanted.text} in {target.misses_at_end} of {n} runs that crossed it")
            if target.uncertain:
                said.append(f"{label}: {target.uncertain} of {n} runs end two evaluations after they reach {wanted.text}, and one of these "
                            "misses it. Three evaluations instead of five decide whether the target is held.")
    return said


def _resolution(comparison: Comparison, name: Name, wordy: bool) -> list[str]:
    said = []
    for t, wanted in enumerate(comparison.targets):
        early = [f"{name(group.label)} {math.floor(group.targets[t].evaluation)}" for group in comparison.groups
                 if group.targets[t].evaluation < FINE_EVALUATIONS]
        if early:
            said.append(f"{wanted.text} is reached within the first {FINE_EVALUATIONS} evaluations ({_enumerated(early)}): its times are "
                        "coarse. A smaller --evaluate-every makes them finer, down to one round"
                        + (" of a method (such as a mega-batch)" if wordy else ""))
    return said


def _budget(tuning: Json) -> str:
    """The tuning budget, which every algorithm should have been given alike."""
    if tuning is None:
        return "not tuned"
    return f"{tuning['trials']} trials for {tuning['goal']} on {tuning['validation_rows']} rows, grid {','.join(map(dump, tuning['grid']))}"


def _tuning(comparison: Comparison, name: Name) -> list[str]:
    said, budgets, doubts = [], {}, set()
    for run in comparison.runs:
        budgets.setdefault(_budget(run.tuning), set()).add(name(run.label))
        if run.tuning and run.tuning["edge_of_grid"]:
            doubts.add(f"{name(run.label)}: its learning rate {dump(run.tuning['learning_rate'])} lies at the edge of the grid, a better "
                       "one may lie beyond")
        if run.tuning and run.tuning["differs"]:
            doubts.add(f"{name(run.label)}: its runs and the trials of its tuning differ in these options: "
                       + ", ".join(run.tuning["differs"]))
    if list(budgets) == ["not tuned"] and len({run.algorithm for run in comparison.runs}) > 1:
        said.append("no learning rate was tuned: the ranking may only show which algorithm suits its learning rate (hetsgd tune gives all "
                    "the same trials)")
    if len(budgets) > 1:
        parts = "; ".join(f"{', '.join(sorted(labels))} ({budget})" for budget, labels in sorted(budgets.items()))
        said.append(f"learning rates were tuned with unequal budgets: {parts}")
    return said + sorted(doubts)


# --- workloads -------------------------------------------------------------------------------------

@dataclass
class Workload:
    """A learning task on a machine. Only groups of one workload are compared, so no number relates runs of unequal machines."""
    name: str = ""  # its setup or case in a sweep, else its own folder, else `about`
    about: str = ""  # the training data, and the differences to other workloads
    facts: list[tuple[str, str]] = field(default_factory=list)  # ("network", "pcie3") ...
    results: list[Loaded] = field(default_factory=list)
    comparison: Comparison | None = None


def shown(value: Json) -> str:
    """A value of a result for people: texts without quotes, profiles by their names."""
    if isinstance(value, dict):
        value = next((value[key] for key in ("name", "preset") if isinstance(value.get(key), str)), value)
    if isinstance(value, list):
        return ", ".join(map(shown, value)) or "none"
    return "-" if value is None else value if isinstance(value, str) else dump(value)


Folder = tuple[str, ...]


def _folders(results: Iterable[Loaded]) -> set[Folder]:
    return {pathlib.PurePath(each.path).parent.parts for each in results}


def _common(folders: Iterable[Folder]) -> Folder:
    """The innermost folder that holds all files."""
    folders = list(folders)
    return next(folders[0][:size] for size in range(len(folders[0]), -1, -1) if all(each[:size] == folders[0][:size] for each in folders))


def _own_folders(sets: Sequence[set[Folder]], own: int) -> str:
    """The folders in which only the set `own` has files, below the common folder of all sets: the innermost one, or a few next to each
    other; "" if there are none."""
    def belongs(folder: Folder) -> bool:
        return not any(each[:len(folder)] == folder for i, other in enumerate(sets) if i != own for each in other)

    outer, inner = _common(set().union(*sets)), _common(sets[own])
    if belongs(inner):
        return "/".join(inner[len(outer):])
    firsts = {folder[:len(outer) + 1] for folder in sets[own]}
    good = len(firsts) <= MOST_FOLDERS and all(len(first) > len(outer) and belongs(first) for first in firsts)
    return ", ".join(sorted(first[-1] for first in firsts)) if good else ""


def _own_name(workloads: Sequence[Workload], own: int, member: str) -> str:
    """The name in a sweep that all runs of this workload have and no other runs; "" if there is none."""
    names = [_results.common_name(workload.results, member) for workload in workloads]
    return names[own] if len(names) > 1 and names.count(names[own]) == 1 else ""


def _train_of(workload: Workload) -> Json:
    return (workload.results[0].document.get("dataset") or {}).get("train")


def _differing(workloads: Sequence[Workload], keys: Sequence[tuple]) -> list[bool]:
    """Which parts differ; not the data where their names tell as much as their hashes."""
    differs = [len(set(values)) > 1 for values in zip(*keys)]
    trains = [train for train in map(_train_of, workloads) if train]
    if differs[0] and len({train["name"] for train in trains}) == len({(train["name"], train["content_hash"]) for train in trains}):
        differs[:2] = False, False
    return differs


def _describe(workloads: Sequence[Workload], keys: Sequence[tuple], parts: Sequence[EqualPart]) -> None:
    differs = _differing(workloads, keys)
    folders = [_folders(workload.results) for workload in workloads]
    for i, workload in enumerate(workloads):
        document, train = workload.results[0].document, _train_of(workload)
        words = [shown(train["name"]) if train else "no data"]
        for part, differing in zip(parts, differs):
            value, what = value_of(part, document), part.what.removeprefix("the ")
            if differing and not (what == "test data" and differs[0]):  # it follows the training data
                words.append(f"{what}: {shown(value)}")
            if value is not None:
                data = value_at(document, part.place.removesuffix("/content_hash")) if part.place.endswith("/content_hash") else None
                known = f"{shown(data['name'])}, {shown(data['rows'])} rows ({shown(value)})" if data else shown(value)
                workload.facts.append((what, known))
        workload.about = "; ".join(words)
        workload.name = (_own_name(workloads, i, "setup") or _own_name(workloads, i, "case") or _own_folders(folders, i) or workload.about)


def split_workloads(loaded: Sequence[Loaded]) -> list[Workload]:
    """Results that are equal in all parts of a workload belong together, in the order of their first results."""
    parts = [part for part in EQUAL_PARTS if part.workload]
    keys = [tuple(hashable(value_of(part, each.document)) for part in parts) for each in loaded]
    places = _results.places_by_key(keys)
    workloads = [Workload(results=[loaded[i] for i in own]) for own in places]
    if workloads:
        _describe(workloads, [keys[own[0]] for own in places], parts)
    return workloads


def _measures(workload: Workload, metric: str) -> bool:
    """Whether all runs measure the metric; a run without a curve may have had any."""
    return all(metric in curve[0] for curve in (each.document["curve"] for each in workload.results) if curve)


def _use_folders_as_names(workload: Workload) -> bool:
    """Names groups by their own folders where labels are long: a folder says more than many options. Whether any is."""
    groups = workload.comparison.groups
    folders = [_folders(workload.results[run] for run in group.runs) for group in groups]
    renamed = False
    for i, group in enumerate(groups):
        name = _own_folders(folders, i) if len(group.label) > LONG_LABEL else ""
        for run in group.runs + [copy for copy, _ in group.copies]:
            if name and not workload.results[run].case:
                workload.results[run].case, renamed = name, True
    return renamed


def compare_workloads(workloads: Sequence[Workload], targets: Sequence[Target] = (), reference: str = "",
                      first_is_reference: bool = False, clock: str = "training") -> None:
    """Fills the comparisons. A method has the same label in all of them. A target applies to the workloads that measured its metric, a
    reference to those in which it names one group; the others take the default one, with a warning.
    Raises a usage error (as compare(); a target that no workload measured; a reference that no workload has)."""
    several = len(workloads) > 1
    for target in targets:
        if several and not any(_measures(workload, target.metric) for workload in workloads):
            raise refusal("--target", target.text, "a metric that all runs of a workload measure, for example 'accuracy>=0.8'")

    def compare_all() -> None:
        names = _results.names_of([workload.results for workload in workloads])
        for workload in workloads:
            own = [target for target in targets if not several or _measures(workload, target.metric)]
            workload.comparison = compare(workload.results, own, reference, first_is_reference, clock, names, or_default=True)

    compare_all()
    if any([_use_folders_as_names(workload) for workload in workloads]):
        compare_all()
    if reference and all(workload.comparison.asked_for for workload in workloads):
        found = (groups_named(reference, workload.comparison) for workload in workloads)
        _refuse_reference(reference, next(filter(None, found), []), workloads[0].comparison.groups)


# --- output for programs -----------------------------------------------------------------------------

def _text_of(value: float, form: str) -> str:
    return "-" if math.isnan(value) else ("inf" if value > 0 else "-inf") if math.isinf(value) else format(value, form)


_time_text, _count_text, _metric_text, _p_text = (functools.partial(_text_of, form=form) for form in (".6g", ".0f", ".4f", ".4g"))
Cell = tuple[str, Any, Callable[[Any], str]]  # heading, value, how it is written


def _or_dash(text: str) -> str:
    return text or "-"


def _identity(comparison: Comparison, run: RunRow) -> list[Cell]:
    pairs = [("group", run.label), ("algorithm", run.algorithm), *zip(comparison.varying, run.values)]
    return [(heading, value, _or_dash) for heading, value in pairs]


def _interval_cells(heading: str, interval: Interval, show: Callable[[float], str]) -> list[Cell]:
    return [(heading + end, value, show) for end, value in zip(("", "_low", "_high"), interval)]


def test_of(group: GroupRow) -> str:
    """The name of the test against the reference; "" of the reference."""
    return "" if group.reference else "signed_rank" if group.paired else "mann_whitney"


def _group_cells(comparison: Comparison, group: GroupRow, t: int) -> list[Cell]:
    cells = [*_identity(comparison, comparison.runs[group.runs[0]]), ("n", len(group.runs), str), ("diverged", group.diverged, str)]
    if group.targets:
        target = group.targets[t]
        cells += [("target", comparison.targets[t].text, str), ("reached", target.reached, str),
                  *_interval_cells("time_s", target.time_s, _time_text), ("first_crossing_s", target.first_crossing_s.median, _time_text),
                  ("samples", target.samples, _count_text), ("updates", target.updates, _count_text), ("ratio", target.ratio, _metric_text),
                  *_interval_cells("speedup", target.speedup, _metric_text),
                  ("statistical_efficiency_ratio", target.statistical, _metric_text),
                  ("hardware_efficiency_ratio", target.hardware, _metric_text), ("p_value", target.p_value, _p_text),
                  ("p_value_holm", target.p_holm, _p_text), ("test", test_of(group), _or_dash),
                  ("least_effect", target.least_effect, _p_text), ("evaluation", target.evaluation, _time_text),
                  ("resolution_s", target.resolution_s, _time_text)]
    tuned = group.tuning or {"trials": math.nan, "train_s": math.nan}
    return [*cells, *_interval_cells("samples_per_s", group.samples_per_s, _time_text),
            *_interval_cells(f"final_{comparison.metric}", group.final_value, _metric_text),
            ("tuning_trials", tuned["trials"], _count_text), ("tuning_train_s", tuned["train_s"], _time_text)]


def _run_cells(comparison: Comparison, run: RunRow) -> list[Cell]:
    cells = [*_identity(comparison, run), ("file", run.path, str), ("seed", run.seed, str), ("status", run.status, str)]
    for wanted, target in zip(comparison.targets, run.targets):
        cells += [(f"{wanted.text} {heading}", value, show) for heading, value, show in (
            ("time_s", target.time_s, _time_text), ("first_crossing_s", target.first_crossing_s, _time_text),
            ("samples", target.samples, _count_text), ("updates", target.updates, _count_text),
            ("evaluation", target.evaluation, _count_text), ("resolution_s", target.resolution_s, _time_text))]
    return [*cells, ("samples_per_s", run.samples_per_s, _time_text), (f"final_{comparison.metric}", run.final_value, _metric_text)]


def _table(rows: Sequence[Sequence[Cell]], kind: str) -> str:
    return _text.table([heading for heading, _, _ in rows[0]], [[show(value) for _, value, show in row] for row in rows], kind)


def _rows_of_groups(comparison: Comparison) -> list[list[Cell]]:
    return [_group_cells(comparison, group, t) for group in comparison.groups for t in range(max(1, len(group.targets)))]


def runs_table(comparison: Comparison, kind: str) -> str:
    """A row per run. Times are seconds, a missed target is inf. `kind`: as of _text.table()."""
    return _table([_run_cells(comparison, run) for run in comparison.runs], kind)


def groups_table(comparison: Comparison, kind: str) -> str:
    """A row per group and target."""
    return _table(_rows_of_groups(comparison), kind)


def groups_frame(comparison: Comparison) -> pd.DataFrame:
    """The same with the numbers themselves."""
    import pandas as pd
    return pd.DataFrame([{heading: value for heading, value, _ in row} for row in _rows_of_groups(comparison)])


RENAMED = {"samples": "samples_count", "statistical": "statistical_efficiency_ratio", "hardware": "hardware_efficiency_ratio",
           "p_holm": "p_value_holm", "final_value": "final", "path": "file"}
# Fields that have no key of their own in the JSON.
INNER = {RunTarget: ("uncertain", "misses_at_end"), Relation: ("exact",), GroupTarget: ("uncertain", "exact"),
         RunRow: ("updates_per_s", "tuning", "values", "targets"), GroupRow: ("case_name", "name", "options", "runs", "copies", "targets")}


def _plain(row: Any) -> Json:
    if type(row) in INNER:
        return {RENAMED.get(key, key): _plain(value) for key, value in vars(row).items() if key not in INNER[type(row)]}
    return row._asdict() if isinstance(row, Interval) else row


def _options_json(comparison: Comparison, run: RunRow) -> dict:
    return {key: value for key, value in zip(comparison.varying, run.values) if value}


def _group_json(comparison: Comparison, group: GroupRow) -> dict:
    runs = [comparison.runs[run] for run in group.runs]
    targets = [{"target": wanted.text, "times_s": [run.targets[t].time_s for run in runs], **_plain(target),
                **({} if target.exact else {"p_value_approximate": True})}
               for t, (wanted, target) in enumerate(zip(comparison.targets, group.targets))]
    return {**_plain(group), "test": test_of(group) or None, "n": len(runs), "options": _options_json(comparison, runs[0]),
            "targets": targets}


def _run_json(comparison: Comparison, run: RunRow) -> dict:
    targets = [{"target": wanted.text, **_plain(target)} for wanted, target in zip(comparison.targets, run.targets)]
    return {**_plain(run), "options": _options_json(comparison, run), "targets": targets}


def groups_by_file(comparison: Comparison) -> list[GroupRow]:
    """The groups in the order of their first files, so that a program finds them in its own order."""
    return sorted(comparison.groups, key=lambda group: group.runs[0])


def comparison_json(comparison: Comparison) -> dict:
    """The document with every number; null has its reason beside it."""
    return _results.explain_nonfinite(
        {"metric": comparison.metric, "clock": comparison.clock, "reference": comparison.reference.label,
         "runs": [_run_json(comparison, run) for run in comparison.runs],
         "groups": [_group_json(comparison, group) for group in groups_by_file(comparison)], "warnings": comparison.warnings})


# --- output for people -----------------------------------------------------------------------------

def _short_number(value: float) -> str:
    """Three significant digits ("0.0123", "12.3"), or all integer digits ("1234"). Very small or large numbers have an exponent."""
    return _text_of(value, ".0f" if 99.95 <= abs(value) < 1e7 else "#.3g")


def _factor_text(value: float) -> str:
    return _text_of(value, ".2f") if value < 99.5 else _short_number(value)


def _probability_text(value: float) -> str:
    return "<0.0001" if value < 0.0001 else _metric_text(value)


def _interval_text(interval: Interval, several: bool, show: Callable[[float], str]) -> str:
    """"12.3 [11.9, 14.0]"; one run has no interval."""
    middle = show(interval.median)
    return middle if not several or math.isnan(interval.median) else f"{middle} [{show(interval.low)}, {show(interval.high)}]"


def short_labels(comparison: Comparison) -> tuple[dict[str, str], list[str]]:
    """({label: how the tables for people call the group}, the options of those that are numbered). Long labels have a number."""
    labels, notes = {}, []
    for group in comparison.groups:
        numbered = len(group.label.encode("utf-8", "replace")) > LONGEST_LABEL and group.options
        if numbered:
            notes.append(group.options)
        labels[group.label] = f"{group.name} [{len(notes)}]" if numbered else group.label
    return labels, notes


def names_in_warnings(comparison: Comparison) -> dict[str, str]:
    """{label: its number in the tables for people, "[3]"} of the groups that have one."""
    return {label: short[short.rfind("["):] for label, short in short_labels(comparison)[0].items() if short != label}


class _Report:
    """The tables for people, and what their columns mean."""

    def __init__(self, comparison: Comparison, kind: str):
        self.comparison, self.kind = comparison, kind
        self.labels, self.notes = short_labels(comparison)
        self.tuned = any(group.tuning for group in comparison.groups)
        self.several_tests = len(comparison.groups) > 2

    def text(self) -> str:
        count = len(self.comparison.targets)
        tables = "\n".join(self.table(t) for t in range(count)) if count else self.table(None)
        legend = self.legend()
        return tables + "\n" + ("".join(f"% {line}\n" for line in legend.splitlines()) if self.kind == "latex" else legend)

    def table(self, t: int | None) -> str:
        rows = []
        for group in self.comparison.groups:
            cells = [("algorithm", self.labels[group.label])]
            cells += self.cells_of_target(group, t) if t is not None else [("runs", str(len(group.runs)))]
            cells += [("samples/s", _short_number(group.samples_per_s.median)),
                      (f"final {self.comparison.metric}", _metric_text(group.final_value.median))]
            if self.tuned:
                cells.append(("tuning_s", _short_number(group.tuning["train_s"] if group.tuning else math.nan)))
            rows.append([(heading, cell, str) for heading, cell in cells])
        return _table(rows, self.kind)

    def cells_of_target(self, group: GroupRow, t: int) -> list[tuple[str, str]]:
        target, n = group.targets[t], len(group.runs)
        spread = not group.reference and max(n, len(self.comparison.reference.runs)) > 1
        return [("reached", f"{target.reached}/{n}"),
                (f"time_s to {self.comparison.targets[t].text}", _interval_text(target.time_s, n > 1, _short_number)),
                ("crossed", _short_number(target.first_crossing_s.median)),
                ("speedup", _interval_text(target.speedup, spread, _factor_text)), ("stat", _factor_text(target.statistical)),
                ("hw", _factor_text(target.hardware)), ("p", _probability_text(target.p_value)),
                *([("p_holm", _probability_text(target.p_holm))] if self.several_tests else [])]

    def legend(self) -> str:
        comparison, text = self.comparison, ""
        if comparison.targets:
            name = self.labels[comparison.reference.label]
            text = ("Medians over the runs [95 % bootstrap interval]; a missed target counts as infinity.\n"
                    "A target is reached when it is held: time_s is that of the first evaluation that reaches it\n"
                    "and whose median with the next four does, too. crossed: at the first crossing, held or not.\n"
                    f"speedup over {name} = stat (fewer samples to the target) x hw (more samples per second).\n{self.tests(name)}")
            if self.several_tests:
                text += f"p_holm: corrected for {len(comparison.groups) - 1} comparisons (Holm).\n"
            if comparison.clock != "training":
                text += f"Times are those of the clock {comparison.clock}.\n"
            text += "".join(map(self.resolution, range(len(comparison.targets))))
        if self.tuned:
            text += "tuning_s: training time spent on choosing the learning rate.\n"
        text += "".join(f"[{number}] {options}\n" for number, options in enumerate(self.notes, 1))
        return text or "Medians over the runs.\n"

    def tests(self, reference: str) -> str:
        """Which tests the p-values are of; "" if there is no other group than the reference."""
        others = [group for group in self.comparison.groups if not group.reference]
        unpaired = [self.labels[group.label] for group in others if not group.paired]
        text = ""
        if len(unpaired) < len(others):
            text = f"p: two-sided Wilcoxon signed-rank test of the times against {reference}, paired by seed.\n"
        if unpaired:
            whose = f" of {', '.join(unpaired)}" if text else ""
            text += (f"p{whose}: two-sided Mann-Whitney U test of the times against {reference}, not paired, since the seeds or the data "
                     "differ.\n")
        normal = [self.labels[group.label] for group in others if not all(target.exact for target in group.targets)]
        return text + (f"p of {', '.join(normal)}: by the normal approximation, since there are many runs.\n" if normal else "")

    def resolution(self, t: int) -> str:
        """"p1>=0.6 is held from evaluation 3 to 7 on. Times are exact to one evaluation interval: 0.5 to 2 s."."""
        targets = [group.targets[t] for group in self.comparison.groups]
        evaluations = [math.floor(each.evaluation + 0.5) for each in targets if math.isfinite(each.evaluation)]
        gaps = [each.resolution_s for each in targets if math.isfinite(each.resolution_s)]
        if not evaluations or not gaps:
            return ""

        def ends(values: Sequence[float], show: Callable[[float], str]) -> str:
            least, most = show(min(values)), show(max(values))
            return least if least == most else f"{least} to {most}"

        return (f"{self.comparison.targets[t].text} is held from evaluation {ends(evaluations, _count_text)} on. Times are exact to one "
                f"evaluation interval: {ends(gaps, _short_number)} s.\n")


def groups_report(comparison: Comparison, kind: str) -> str:
    """A table per target, about 130 columns wide at most, and an explanation (a comment in LaTeX). `kind`: text, markdown or latex."""
    return _Report(comparison, kind).text()


# --- the command -----------------------------------------------------------------------------------

HEADINGS = {"markdown": "## ", "latex": "% ", "csv": "# ", "text": ""}


def _print(workloads: Sequence[Workload], options: argparse.Namespace) -> None:
    if options.format == "json":
        several = len(workloads) > 1
        documents = [{**comparison_json(workload.comparison), **({"workload": workload.name} if several else {})} for workload in workloads]
        return _results.print_json({"comparisons": documents} if several else documents[0])
    for workload in workloads:
        if len(workloads) > 1:
            end = "\n\n" if options.format == "markdown" else "\n"
            _text.say(("" if workload is workloads[0] else "\n") + HEADINGS[options.format] + workload.name + end)
        _text.say(runs_table(workload.comparison, options.format) if options.runs else
                  groups_table(workload.comparison, "csv") if options.format == "csv" else
                  groups_report(workload.comparison, options.format))
    return None


TAKEN = ("config", "status", "curve", "summary", "workers", "dataset", "model", "cluster", "stragglers", "wall", "time_to_accuracy",
         "tuning", "plugins")


def _reduced(document: dict) -> dict:
    """The parts of a result that a comparison takes, so that ten thousand results fit into memory."""
    merges = [{"type": "merge", "batch_size": event["batch_size"]} for event in document["events"]
              if event["type"] == "merge" and "batch_size" in event]
    return {**{key: document[key] for key in TAKEN if key in document}, "events": merges,
            "environment": {"load": document.get("environment", {}).get("load")}}


def command(options: argparse.Namespace, operands: list[str]) -> int:
    """hetsgd compare. Setups of a sweep are machines or workloads, and each has its own table; other results are compared as given,
    with a warning if their workloads differ. Returns 7 if a group is slower than --fail-if-slower allows."""
    targets = [_results.parse_target(text, "--target") for text in options.target]
    loaded = _results.read_inputs(operands, keep=_reduced).loaded
    if not loaded:
        raise refusal("compare", "no result files", "at least one")
    workloads = split_workloads(loaded) if len({each.setup for each in loaded}) > 1 else [Workload(results=loaded)]
    limit = options.fail_if_slower
    # With --fail-if-slower the first results are the reference for the later ones, even if they missed the target.
    compare_workloads(workloads, targets, options.reference, limit is not None, options.clock)
    _print(workloads, options)
    for workload in workloads:
        comparison = workload.comparison
        numbered = not options.runs and options.format in ("text", "markdown", "latex")  # its tables number long labels
        said = warnings_of(workload.results, comparison, names_in_warnings(comparison)) if numbered else comparison.warnings
        for warning in said:
            _text.warn((f"{workload.name}: " if len(workloads) > 1 else "") + warning)
    worst = max(workload.comparison.worst_ratio for workload in workloads)
    if limit is None or not worst > limit:
        return 0
    _text.log("error", f"a group is slower than the reference by a factor of {worst:.3f} (--fail-if-slower {_results.shortest(limit)})")
    return REGRESSION
