"""Reports: many results as one page that needs no server and no network.

report_data() computes every number of the page, each workload with its comparison; report_page() puts them into page/, whose script
only draws. lib/result/README.md describes the document."""

import base64
import collections
import hashlib
import html
import math
import pathlib
import re
from collections.abc import Iterable, Sequence

import numpy as np

from . import _compare, _errors, _output, _results, _stats, _text, _validate
from ._compare import GroupRow, Workload
from ._results import Loaded

PAGE = pathlib.Path(__file__).with_name("page")
# The parts in order: tools for drawing come before the parts that use them.
SCRIPTS = ("base", "scale", "frame", "lines", "bars", "tables", "sections", "details", "main")
AXES = ("time_s", "samples_count", "bytes_sent")
# The budget of numbers of all curves together, at about 6 bytes each, so that 500 runs stay below 5 MB.
CURVE_NUMBERS, FEWEST_POINTS, MOST_POINTS, CURVE_DIGITS = 330_000, 12, 120, 5
MOST_BINS, SHARE_DIGITS = 80, 4
MOST_WORKERS, MOST_BATCH_WORKERS, MOST_MERGES, WORKER_DIGITS = 64, 16, 80, 4
MOST_NAMED = 3  # operands in a heading
FAILURES = ("kind=fail,", "kind=return,", "kind=churn,")
FAILURE_OPTIONS = {"straggler", "detect", "on_loss", "restart_time", "checkpoint_at", "checkpoint_every", "checkpoint_time"}
ENVIRONMENT = {
    "host": "/environment/hostname", "processor": "/environment/cpu_model", "cores": "/environment/cores",
    "cores available": "/environment/cores_available", "memory_bytes": "/environment/memory_bytes", "system": "/environment/os",
    "kernel": "/environment/kernel", "measured on": "/environment/evaluation_device", "convolutions": "/environment/convolution_library",
    "MPI": "/cluster/machine/mpi_library", "version": "/tool/version", "revision": "/tool/git_revision", "changed since": "/tool/git_dirty",
    "build": "/environment/build/build_type", "compiler": "/environment/build/compiler", "flags": "/environment/build/compiler_flags"}


def rounded(values: Sequence[float] | np.ndarray, digits: int) -> np.ndarray:
    """The numbers with so many significant digits, which keeps the page small. Halves go away from zero; NaN and infinity stay."""
    array = np.asarray(values, float)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        exponent = np.floor(np.log10(np.abs(array)))
        # Powers of ten with exponents >= 0 are exact, and those below are not.
        up, down = 10.0 ** (digits - 1 - exponent), 10.0 ** (exponent - digits + 1)
        small = np.floor(np.abs(array) * up + 0.5) / up
        kept = np.copysign(np.where(exponent < digits, small, np.floor(np.abs(array) / down + 0.5) * down), array)
    return np.where((array == 0) | ~np.isfinite(array) | ~np.isfinite(kept), array, kept)


def spread(count: int, most: int) -> list[int]:
    """At most `most` of the numbers 0 .. count - 1, evenly spread, including the first and the last."""
    return list(range(count)) if count <= most else [i * (count - 1) // (most - 1) for i in range(most)]


def results_of(workload: Workload, group: GroupRow) -> list[dict]:
    """The results of a group, in the order of the files."""
    return [workload.results[run].document for run in group.runs]


# --- curves of a group on a common grid, as median and band over its runs ---


def column(curve: list[dict], key: str) -> np.ndarray:
    """The numbers under a key of the points; NaN where there is none."""
    values = [point.get(key) for point in curve]
    return np.array([value if isinstance(value, (int, float)) else math.nan for value in values], float)


def positions(result: dict, axis: str) -> np.ndarray:
    """The positions of a result's points on an axis. Bytes that its points lack are shared out in proportion to the samples."""
    measured = column(result["curve"], axis)
    if axis != "bytes_sent":
        return measured
    summary = result["summary"]
    samples = summary["samples_count"]
    shares = column(result["curve"], "samples_count") / samples if samples > 0 else np.zeros(len(measured))
    return np.where(np.isnan(measured), summary["bytes_sent"] * shares, measured)


def grid_of(runs: list[np.ndarray], points: int) -> np.ndarray:
    """All positions of evaluations, thinned out evenly. The grid ends where fewer than half of the runs go on."""
    ends = sorted(run[-1] for run in runs if len(run))
    if not ends:
        return np.array([])
    every = np.unique(np.concatenate(runs))
    every = every[every <= ends[len(ends) // 2]]
    return every[spread(len(every), points)]


def values_at(grid: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A run's curve on the grid: a straight line between evaluations, its last value after them, NaN before them."""
    known = np.isfinite(y)
    x, y = x[known], y[known]
    if not len(x):
        return np.full(len(grid), math.nan)
    after = np.searchsorted(x, grid, "right")
    left, right = np.maximum(after - 1, 0), np.minimum(after, len(x) - 1)
    width = x[right] - x[left]
    # Not by np.interp, whose slopes may be infinite where the values are large.
    rise = (y[right] - y[left]) * (grid - x[left]) / np.where(width > 0, width, 1)
    return np.where(after > 0, y[left] + np.where(width > 0, rise, 0), math.nan)


def band(curves: np.ndarray) -> dict:
    """Median, lowest and highest of the curves (runs, points); null where fewer than half of them have a value. A single run has no
    band."""
    ordered, count = np.sort(curves, axis=0), (~np.isnan(curves)).sum(axis=0)
    shown = (2 * count >= len(curves)) & (count > 0)

    def at(places: np.ndarray) -> np.ndarray:
        return np.take_along_axis(ordered, np.clip(places, 0, len(curves) - 1)[None], axis=0)[0]

    def listed(values: np.ndarray) -> list:
        return np.where(shown, rounded(values, CURVE_DIGITS).astype(object), None).tolist()

    with np.errstate(over="ignore"):
        result = {"median": listed((at((count - 1) // 2) + at(count // 2)) / 2)}
    if len(curves) > 1:
        result.update(low=listed(ordered[0]), high=listed(at(count - 1)))
    return result


def group_curves(workload: Workload, group: GroupRow, points: int) -> dict:
    """{"x": {axis: [..]}, "y": {metric: {axis: {"median", "low", "high"}}}} with at most so many points each."""
    results, document = results_of(workload, group), {"x": {}, "y": {}}
    metrics = {metric: [column(result["curve"], metric) for result in results] for metric in curve_metrics(workload)}
    for axis in AXES:
        places = [positions(result, axis) for result in results]
        grid = grid_of(places, points)
        document["x"][axis] = rounded(grid, CURVE_DIGITS + 1).tolist()
        for metric, values in metrics.items():
            runs = np.array([values_at(grid, *run) for run in zip(places, values)])
            document["y"].setdefault(metric, {})[axis] = band(runs)
    return document


def last_points(workload: Workload) -> list[dict]:
    """The last point of each result that has one."""
    return [each.document["curve"][-1] for each in workload.results if each.document["curve"]]


def curve_metrics(workload: Workload) -> list[str]:
    """The metrics of a workload that have curves, the comparison's metric first."""
    measured = [name for name in _results.METRICS if any(name in point for point in last_points(workload))]
    return list(dict.fromkeys([workload.comparison.metric, *measured]))


def points_per_curve(workloads: list[Workload]) -> int:
    """The points per curve with which all curves keep to their budget."""
    curves = sum(len(AXES) * len(curve_metrics(workload)) * (3 if len(group.runs) > 1 else 1)
                 for workload in workloads for group in workload.comparison.groups)
    return min(max(CURVE_NUMBERS // max(1, curves), FEWEST_POINTS), MOST_POINTS)


# --- what workers did, histograms ---


def histogram(counts: dict[int, float]) -> dict:
    """Bins of equal width from the smallest value on, named by their lower ends."""
    values = np.array(sorted(counts))
    shares = np.array([counts[value] for value in sorted(counts)], float)
    total, first, last = shares.sum(), values[0], values[-1]
    width = 1 if len(values) <= MOST_BINS else (last - first) // MOST_BINS + 1
    bins, places = np.unique(first + (values - first) // width * width, return_inverse=True)
    p50, p95 = (values[np.searchsorted(shares.cumsum(), share * total)] for share in (0.5, 0.95))
    return {"value": bins.tolist(), "share": rounded(np.bincount(places, shares) / total, SHARE_DIGITS).tolist(), "count": float(total),
            "width": int(width), "p50": int(p50), "p95": int(p95), "max": int(last)}


def histograms(results: list[dict]) -> dict:
    """The histograms by name, over the counts of all runs together."""
    every: dict[str, collections.Counter] = {}
    for result in results:
        for name, counts in result["histograms"].items():
            every.setdefault(name, collections.Counter()).update({int(value): count for value, count in counts.items() if count > 0})
    return {name: histogram(counts) for name, counts in every.items() if counts}


def worker_shares(results: list[dict]) -> dict | None:
    """The shares of elapsed time that the workers spent computing, communicating and waiting, as means over the runs. None if no
    time has passed in any run."""
    workers = results[0]["workers"]
    used = [result for result in results if result["summary"]["elapsed_s"] > 0 and len(result["workers"]) == len(workers)]
    if not used or not workers:
        return None
    ranks = spread(len(workers), MOST_WORKERS)
    document = {"count": len(workers), "rank": ranks, "elapsed_s": sum(result["summary"]["elapsed_s"] for result in used) / len(used),
                "device": [workers[rank]["device"] for rank in ranks]}
    for part in ("compute", "communicate", "wait"):
        shares = [sum(result["workers"][rank][part + "_s"] / result["summary"]["elapsed_s"] for result in used) / len(used)
                  for rank in ranks]
        document[part] = rounded(shares, WORKER_DIGITS).tolist()
    return document


def waited_for(results: list[dict]) -> dict | None:
    """Seconds that each worker waited for each worker, then for each service: means over the runs that say it. None if none does."""
    count = len(results[0]["workers"])
    says = [result for result in results if len(result["workers"]) == count > 0 and all("waited_for" in each for each in result["workers"])]
    if not says:
        return None
    services = sorted({whom.get("service", "a service") for result in results for worker in result["workers"]
                       for whom in worker.get("waited_for", ()) if whom["rank"] is None})
    sums = np.zeros((count, count + len(services)))
    for result in says:
        for i, worker in enumerate(result["workers"]):
            for whom in worker["waited_for"]:
                rank = whom["rank"]
                place = count + services.index(whom.get("service", "a service")) if rank is None else rank
                if place < sums.shape[1]:
                    sums[i, place] += whom["wait_s"]
    ranks = spread(count, MOST_WORKERS)
    columns = [*ranks, *range(count, count + len(services))]
    return {"count": count, "rank": ranks, "service": services,
            "wait_s": rounded(sums[np.ix_(ranks, columns)] / len(says), WORKER_DIGITS).tolist()}


def survival(results: list[dict]) -> dict | None:
    """Means of what results say of lost workers, over the runs that lost some. None if none did."""
    lost = [result for result in results if "survival" in result]
    if not lost:
        return None
    values: dict[str, list[float]] = {"lost_workers": [len(result["failures"]) for result in lost]}
    for result in lost:
        for key, value in result["survival"].items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                values.setdefault(key, []).append(value)
    return {"runs": len(lost), **{key: float(rounded(sum(each) / len(each), WORKER_DIGITS)) for key, each in values.items()}}


def add_step_efficiency(loaded: list[Loaded]) -> None:
    """Gives the `survival` of each run that lost workers the key "step_efficiency": its updates per second over those of the run of
    the same seed and settings without failures, if that is among the results."""

    def key_of(result: dict) -> tuple:
        config = {key: value for key, value in _results.telling_options(result).items() if key not in FAILURE_OPTIONS}
        others = [each for each in result["stragglers"] if not each.startswith(FAILURES)]
        return _results.hashable([config, result["config"]["seed"], others])

    def speed(result: dict) -> float:
        summary = result["summary"]
        return summary["updates"] / summary["elapsed_s"] if summary["elapsed_s"] > 0 else 0.0

    lost = [each.document for each in loaded if "survival" in each.document]
    whole = [each.document for each in loaded if lost and "survival" not in each.document and speed(each.document) > 0]
    speeds = {key_of(result): speed(result) for result in reversed(whole)}
    for result in lost:
        if speed(result) > 0 and key_of(result) in speeds:
            result["survival"]["step_efficiency"] = speed(result) / speeds[key_of(result)]


def batch_sizes(results: list[dict]) -> dict | None:
    """The batch sizes per worker at the merges of the first run. None if they never changed."""
    merges = [event for event in results[0]["events"] if event["type"] == "merge" and event["batch_size"]]
    if len({size for merge in merges for size in merge["batch_size"]}) <= 1:
        return None
    count = len(merges[0]["batch_size"])
    ranks, shown = spread(count, MOST_BATCH_WORKERS), [merges[place] for place in spread(len(merges), MOST_MERGES)]

    def size_of(rank: int, merge: dict) -> int | None:
        sizes, whose = merge["batch_size"], merge.get("workers")
        place = rank if whose is None else whose.index(rank) if rank in whose else len(sizes)
        return sizes[place] if place < len(sizes) else None

    return {"count": count, "merges": len(merges), "rank": ranks, "seed": results[0]["config"]["seed"],
            "time_s": rounded([merge["time_s"] for merge in shown], WORKER_DIGITS + 2).tolist(),
            "batch_size": [[size_of(rank, merge) for merge in shown] for rank in ranks]}


# --- the document ---


def performance_profile(workloads: list[Workload]) -> dict:
    """The performance profile of all workloads. A problem is a workload with a target that one group at least reached at the median,
    a method a label, which is judged by the problems that it ran on."""
    problems: list[dict] = []
    ran_on: dict[str, dict[int, float]] = {}
    for place, workload in enumerate(workloads):
        for t, target in enumerate(workload.comparison.targets):
            medians = {group.label: group.targets[t].time_s.median for group in workload.comparison.groups}
            best = min(medians.values(), default=math.inf)
            if not math.isfinite(best):
                continue
            for label, time in medians.items():
                ran_on.setdefault(label, {})[len(problems)] = math.inf if math.isinf(time) else _stats.ratio_of_times(time, best)
            problems.append({"workload": place, "target": target.text, "best_time_s": best})
    solvers = [{"label": label, "problems": list(ratios), "ratios": list(ratios.values()),
                "solved": sum(map(math.isfinite, ratios.values())), "area": float(_stats.profile_area(list(ratios.values())))}
               for label, ratios in ran_on.items()]
    return {"problems": problems, "solvers": solvers, "end": _stats.PROFILE_END}


def environment_of(result: dict) -> list[tuple[str, str]]:
    """Where a run took place, as rows of name and value."""
    found = {name: _compare.value_at(result, place) for name, place in ENVIRONMENT.items()}
    rows = [(name, value) for name, value in found.items() if value is not None] + sorted(result["environment"]["variables"].items())
    return [(name, _compare.shown(value)) for name, value in rows]


def environments(workloads: list[Workload]) -> list[dict]:
    """The different environments, with the number of their runs."""
    counts = collections.Counter(tuple(environment_of(each.document)) for workload in workloads for each in workload.results)
    return [{"runs": runs, "rows": rows} for rows, runs in counts.items()]


def simulated(result: dict) -> str:
    """The machine that a simulation stands for, as people read it; "" for a run in real time."""
    cluster = result["cluster"]
    if not cluster["virtual_time"]:
        return ""
    devices = collections.Counter(worker.get("profile", worker["device"]) for worker in result["workers"])
    machine = " + ".join(f"{count} x {device}" for device, count in devices.items())
    return machine + (f", network {_compare.shown(cluster['network'])}" if cluster["network"] else "")


def settings(workload: Workload, groups: list[GroupRow]) -> dict:
    """{"options": those in which groups differ, "groups": [{"values": by option, "own": ["name=value"]}]} in the order of the groups.
    `own` are options that not all groups have."""
    options = workload.comparison.varying
    configs = [_results.telling_options(workload.results[group.runs[0]].document) for group in groups]
    having = collections.Counter(name for config in configs for name in config)
    rows = []
    for config in configs:
        own = [f"{name}={_compare.shown(value)}" for name, value in sorted(config.items())
               if name not in options and name != "algorithm" and having[name] < len(groups)]
        rows.append({"values": [_compare.shown(config[name]) if name in config else None for name in options], "own": own})
    return {"options": options, "groups": rows}


def workload_json(workload: Workload, points: int) -> dict:
    """The comparison of a workload as `compare --format json` has it, with more for the page."""
    comparison = workload.comparison
    document = _compare.comparison_json(comparison)
    groups = _compare.groups_by_file(comparison)
    machines = list(dict.fromkeys(simulated(each.document) for each in workload.results))
    document.update(
        name=workload.name, about=workload.about, facts=workload.facts, metrics=curve_metrics(workload),
        simulated=machines[0] if len(machines) == 1 else "", bytes_measured=all("bytes_sent" in point for point in last_points(workload)),
        higher_is_better=comparison.metric in _results.HIGHER_IS_BETTER, targets=[target.text for target in comparison.targets],
        settings=settings(workload, groups))
    for entry, group in zip(document["groups"], groups, strict=True):
        results = results_of(workload, group)
        entry.update(
            place=next(place for place, each in enumerate(comparison.groups) if each is group), batch_sizes=batch_sizes(results),
            curves=group_curves(workload, group, points), workers=worker_shares(results), waited_for=waited_for(results),
            survival=survival(results), histograms=histograms(results))
    return document


def report_data(loaded: list[Loaded], *, title: str = "hetsgd report", about: str = "", targets: Sequence[_results.Target] = (),
                reference: str = "", notes: Iterable[str] = (), program: str = "") -> dict:
    """The document of a report. Results of the same data, model, machine and stragglers are one workload. Raises usage errors: no
    results, a target that no result measures, a reference that none has."""
    if not loaded:
        raise _errors.usage_error("report: found no result files, expected at least one")
    add_step_efficiency(loaded)
    workloads = _compare.split_workloads(loaded)
    _compare.compare_workloads(workloads, targets, reference)
    points = points_per_curve(workloads)
    return {
        "title": title, "about": about, "program": program, "runs": len(loaded), "notes": list(notes),
        "workloads": [workload_json(workload, points) for workload in workloads], "profile": performance_profile(workloads),
        "environments": environments(workloads)}


def report_page(data: dict) -> str:
    """The page. Nothing in `data` becomes markup or a script, and its content security policy allows no requests."""

    def file(name: str) -> str:
        return (PAGE / name).read_text(encoding="utf-8")

    def source(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    # One function encloses all scripts, so that their names are not global.
    script = '"use strict";\n(() => {\n' + "".join(file(f"{part}.js") for part in SCRIPTS) + "})();\n"
    style = file("style.css")
    # "<" occurs only inside of texts, where \u003c means the same and cannot end the script element.
    numbers = _results.json_text(data).replace("<", "\\u003c")
    values = {"title": html.escape(_results.json_bytes(data["title"])), "style": style, "style_source": source(style), "script": script,
              "script_source": source(script), "data": numbers}
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], file("page.html"))


def heading_of(operands: list[str]) -> str:
    """A title that names few operands, because *.json in a shell names every file of a sweep."""
    return ", ".join(operands) if len(operands) <= MOST_NAMED else f"{operands[0]} and {len(operands) - 1} others"


def data_of(inputs: _results.Inputs, operands: list[str], **more) -> dict:
    """report_data() of the inputs. Readers check the fields that groups are made of; where the page finds others broken, the schema
    says which file and what: one that was named is an error, one of a folder is left out with a note."""
    try:
        return report_data(inputs.loaded, notes=inputs.notes, **more)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        broken = {each.path: findings[0].line() for each in inputs.loaded if (findings := _validate.validate_result(each.document))}
        if not broken:
            raise
    for path, line in broken.items():
        message = f"{path}: not a valid result: {line}"
        if path in operands:
            raise _errors.Error(message, _errors.DATA, f"hetsgd validate {path} lists all findings")
        _text.warn(f"left out: {message}")
        inputs.notes.append(message)
    return report_data([each for each in inputs.loaded if each.path not in broken], notes=inputs.notes, **more)


def command(options, operands: list[str]) -> int:
    """hetsgd report."""
    targets = [_results.parse_target(text, "--target") for text in options.target]
    output = _output.Output("--output", options.output, "the report")
    output.check(options.overwrite, dict.fromkeys(_results.result_files(operands), "report"))
    inputs = _results.read_inputs(operands)
    data = data_of(inputs, operands, title=options.title or inputs.title or heading_of(operands), about=inputs.about, targets=targets,
                   reference=options.reference, program="hetsgd {version} ({git_revision})".format(**_output.tool()))
    output.write(report_page(data) if options.format == "html" else _results.json_text(data, 1) + "\n")
    count = len(data["workloads"])
    _text.log("", f"{options.output}: {data['runs']} runs, {count} workload{'' if count == 1 else 's'}")
    return 0
