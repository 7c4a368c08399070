"""A figure for reproduce.py: its specification (experiments/ID.toml), its runs, and what was measured of them.

Keys of a specification that `hetsgd sweep` keeps and ignores:

  about, paper, expectation   texts
  [figure]                    finding (opens the page: three sentences, the verdict first), exceptions (sentences that end it), number
                              (in the paper), machine, takes; reference (case of the tables), readings (of READINGS, in the
                              tables), labels (of setups), [[figure.plots]] (see reproduce_plots.py)
  [[claims]]                  see reproduce_verdicts.py
  [bench]                     in place of all that a sweep needs: options of `hetsgd bench`, `collective` of it, and `launch` of ranks,
                              with what differs in the settings of [[setups]], if there are any
"""
import dataclasses
import functools
import hashlib
import json
import math
import os
import pathlib
import subprocess
import sys
import tomllib

from hetsgd import _compare, _results, _score

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXPERIMENTS = ROOT / "experiments"
DECISIVE = ("settings", "tuning", "setups", "cases", "only", "seeds", "metric", "launch", "bench")  # keys of what runs
HETSGD = os.environ.get("HETSGD", str(ROOT / "build" / "release" / "apps" / "hetsgd" / "hetsgd"))


def hetsgd(*options, launch=""):
    """stdout of a call; ends the script with its message if it fails. launch: what starts it on ranks, as "mpirun -n 2"."""
    call = [*launch.split(), HETSGD, *map(str, options)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(call)}\nended with exit code {done.returncode}:\n{done.stderr}")
    return done.stdout


def mean_of(histogram, of=lambda value: value):
    """The mean over the counted values, or of a function of them; None of nothing."""
    total = sum(histogram.values())
    return sum(of(int(value)) * count for value, count in histogram.items()) / total if total else None


def deviation_of(histogram):
    mean = mean_of(histogram)
    return None if mean is None else math.sqrt(mean_of(histogram, lambda value: (value - mean) ** 2))


def histogram(result, name):
    return result["histograms"].get(name, {})


def events(result, kind):
    return [event for event in result["events"] if event["type"] == kind]


def last_of(result, kind, key, pick):
    found = events(result, kind)
    return pick(found[-1][key]) if found and found[-1].get(key) else None


def perturbed_share(result):
    merges = events(result, "merge")
    return sum(merge["perturbed"] for merge in merges) / len(merges) if merges else None


def late_batch_change(result):
    """Over the last quarter of the merges: by how much the batch size of a GPU changes, as a share of its largest; the most of all."""
    sizes = [merge["batch_size"] for merge in events(result, "merge") if merge.get("batch_size")]
    late = sizes[-max(2, len(sizes) // 4):] if len(sizes) > 1 else []
    return max((1 - min(own) / max(own) for own in zip(*late)), default=None)


def orthogonality(result):
    """[(epoch, mean over the tensors)] of the records; one of updates that are zero has none."""
    summary = result["summary"]
    return [(event["iteration"] * summary["epoch_num"] / summary["updates"], sum(event["value"]) / len(event["value"]))
            for event in events(result, "orthogonality") if None not in event["value"]]


def orthogonality_rise(result):
    """From the first record of a run to the last."""
    means = [mean for _, mean in orthogonality(result)]
    return means[-1] - means[0] if means else None


def orthogonality_at_step(result):
    """Three records after the first step of the learning rate less three before, means."""
    steps = result["config"]["step_epochs"]
    records = orthogonality(result) if steps else []
    before, after = ([mean for epoch, mean in records if (epoch > steps[0]) == late] for late in (False, True))
    if len(before) < 3 or len(after) < 3:
        return None
    return sum(after[:3]) / 3 - sum(before[-3:]) / 3


def orthogonality_spread(result):
    """The largest of the tensors less the smallest, in the last record of a run."""
    last = [event["value"] for event in events(result, "orthogonality") if None not in event["value"]][-1:]
    return max(last[0]) - min(last[0]) if last else None


def dropped_share(result):
    dropped, kept = (sum(histogram(result, name).values()) for name in ("dropped", "staleness"))
    return dropped / (dropped + kept) if kept else None


def computing_of_workers(result):
    """Each worker's share of the time for which it computes, delays of stragglers included: those are slow computation."""
    return [worker["compute_s"] / result["summary"]["elapsed_s"] for worker in result["workers"]]


def table_hit_share(result):
    """Under a capacity that is full at the end: of the rows that batches asked for, those that were there. The others came, at
    their initial values, and went or are there still."""
    tables, capacity = result.get("tables"), result["config"].get("table_capacity")
    if not tables or not isinstance(capacity, int):
        return None
    asked = tables["distinct_share"] * result["dataset"]["train"]["fields"] * result["summary"]["samples_count"]
    return 1 - (tables["evicted"] + capacity) / asked


def survival(result, key):
    """A number of a run with losses, as it says; without losses all workers live, and only waiting is no useful time."""
    if "survival" in result:
        return result["survival"][key]
    workers = result["workers"]
    idle = sum(worker["wait_s"] for worker in workers) / (result["summary"]["elapsed_s"] * len(workers))
    return {"availability": 1, "participation": None, "goodput": 1 - idle}[key]


def wasted_share(result):
    wasted = result.get("survival", {}).get("wasted_samples", 0)
    return wasted / sum(worker["samples"] for worker in result["workers"])


def megabytes_to_target(result):
    """Sent by all workers until the target; None where it is missed."""
    reached_s = of_target(result, "time_s")
    return next((1e-6 * point["bytes_sent"] for point in result["curve"] if point["time_s"] == reached_s), None)


def of_tables(result, key):
    return result.get("tables", {}).get(key)


# Figures of a result beside those that `compare` compares: name -> number or None.
READINGS = {
    "computing_ratio": lambda result: result["summary"]["computing_ratio"],
    "least_computing_ratio": lambda result: min(computing_of_workers(result)),
    "bytes_per_s": lambda result: result["summary"]["bytes_sent"] / result["summary"]["elapsed_s"],
    "megabytes_to_target": megabytes_to_target,
    "contributors": lambda result: mean_of(histogram(result, "contributors")),
    "stale_share": lambda result: mean_of(histogram(result, "staleness"), lambda rounds: rounds > 0),
    "dropped_share": dropped_share,
    "perturbed_share": perturbed_share,
    "smallest_batch": functools.partial(last_of, kind="merge", key="batch_size", pick=min),
    "largest_batch": functools.partial(last_of, kind="merge", key="batch_size", pick=max),
    "late_batch_change": late_batch_change,
    "learners_at_end": functools.partial(last_of, kind="learners", key="learners", pick=max),
    "samples_per_worker_s": lambda result: result["summary"]["samples_per_s"] / result["config"]["workers"],
    "steps_mean": lambda result: mean_of(histogram(result, "steps")),
    "steps_deviation": lambda result: deviation_of(histogram(result, "steps")),
    "steps_least": lambda result: min(map(int, histogram(result, "steps")), default=None),
    "steps_most": lambda result: max(map(int, histogram(result, "steps")), default=None),
    "auc": lambda result: result["summary"]["final"].get("auc"),
    "test_loss": lambda result: result["summary"]["final"].get("test_loss"),
    **{name: functools.partial(of_tables, key=key) for name, key in {
        "distinct_share": "distinct_share", "device_hit_share": "device_hit_share", "moved_rows": "moved", "table_rows": "rows"}.items()},
    "table_hit_share": table_hit_share,
    **{key: functools.partial(survival, key=key) for key in ("availability", "participation", "goodput")},
    "lost_workers": lambda result: len(result.get("failures", [])),
    "wasted_share": wasted_share,
    "orthogonality_rise": orthogonality_rise,
    "orthogonality_spread": orthogonality_spread,
    "orthogonality_at_step": orthogonality_at_step,
}


def of_target(result, key):
    return _results.target_rows(result)[0][key]


def final(result):
    metric = result["time_to_accuracy"][0]["metric"]
    return _results.number(result["summary"]["final"], metric)


# Values with a unit, one number a run: at the first target of the run, or over the whole run.
VALUES = {
    "time_s": lambda result: of_target(result, "time_s"),
    "samples": lambda result: of_target(result, "samples_count"),
    "updates": lambda result: of_target(result, "updates"),
    "epochs": lambda result: of_target(result, "samples_count") / result["dataset"]["train"]["rows"],
    "samples_per_s": lambda result: result["summary"]["samples_per_s"],
    "updates_per_s": lambda result: result["summary"]["updates"] / result["summary"]["elapsed_s"],
    "update_s": lambda result: result["summary"]["elapsed_s"] / result["summary"]["updates"],
    "final": final,
    **READINGS,
}


# Figures of a benchmark for an operator and a size.
BENCHED = {"latency": lambda row: row["time_s"]["median"], "in_call": lambda row: row["in_call_s"]}


def as_ends(values):
    return dict(zip(("median", "low", "high"), values, strict=True))


def as_document(part):
    """A part of a comparison as objects and lists of JSON, but for infinities; NaN, the number that there is not, is None."""
    if dataclasses.is_dataclass(part):
        part = vars(part)
    elif isinstance(part, tuple) and hasattr(part, "_asdict"):
        part = part._asdict()
    if isinstance(part, dict):
        return {key: as_document(each) for key, each in part.items()}
    if isinstance(part, (list, tuple)):
        return [as_document(each) for each in part]
    return None if isinstance(part, float) and math.isnan(part) else part


def quotient(value, base):
    """The ratio of two figures; its ends are those that the ends of both allow."""
    return {"median": value["median"] / base["median"], "low": value["low"] / base["high"], "high": value["high"] / base["low"]}


def configuration(result):
    return json.dumps({**result["config"], "seed": None}, sort_keys=True)


def read_index(path):
    """{(setup, case): {seed: file}} of the final runs that are there; two cases may share a run."""
    runs = {}
    for line in _results.index_lines(str(path)) if path.exists() else []:
        if line["stage"] == "final" and line["status"] in _results.DONE and os.path.exists(line["file"]):
            runs.setdefault((line["setup"], line["case"]), {})[line["seed"]] = line["file"]
    return runs


def read(file):
    """A result, checked. It is no part of a sweep: `compare` would put each setup into a table of its own."""
    document = _results.read_json(file)
    _results.check_result(document, file)
    return _results.Loaded(file, document)


class Figure:
    """A specification with its runs. folder: that of `hetsgd sweep`, and of the benchmark's file."""

    def __init__(self, path, folder):
        self.path = path
        self.spec = tomllib.loads(path.read_text()) if path.suffix == ".toml" else json.loads(path.read_text())
        self.id, self.folder = self.spec["name"], folder
        self.figure, self.claims = self.spec["figure"], self.spec.get("claims", [])
        self.labels = self.figure.get("labels", {})
        self.files = read_index(folder / f"{self.id}.index.jsonl")

    @functools.cached_property
    def loaded(self):
        """{(setup, case): its results as `compare` takes them, by seed}"""
        return {pair: [read(seeds[seed]) for seed in sorted(seeds)] for pair, seeds in self.files.items()}

    @functools.cached_property
    def results(self):
        """{(setup, case): the documents of its results, by seed}"""
        return {pair: [each.document for each in loaded] for pair, loaded in self.loaded.items()}

    @property
    def pairs(self):
        """{setup: its cases}, as the specification has them."""
        cases = [case["name"] for case in self.spec.get("cases", [])]
        setups = [setup["name"] for setup in self.spec.get("setups", [])]
        only = {each["setup"]: each.get("cases", cases) for each in self.spec.get("only", [])}
        return {setup: only[setup] for setup in setups if setup in only} if only else dict.fromkeys(setups, cases)

    @property
    def seeds(self):
        """How many there are to be of each case."""
        return len(_score.seeds_of(self.spec, str(self.path)))

    @property
    def specification(self):
        """A hash of what decides the runs: not of texts, plots and claims. Pages keep it, so that they can tell when the runs
        behind them are no longer those of the specification."""
        decisive = {key: self.spec.get(key) for key in DECISIVE}
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:12]

    def missing(self):
        """The runs that are missing, wholly or in part, in words."""
        rows = []
        for setup, cases in self.pairs.items():
            for case in cases:
                count = len(self.files.get((setup, case), []))
                if count < self.seeds:
                    rows.append(f"{setup}: {case}" + (f" ({count} of {self.seeds} seeds)" if count else ""))
        return rows

    def there(self, setup):
        """The cases of a setup that have runs."""
        return [case for case in self.pairs[setup] if (setup, case) in self.files]

    @property
    def benches(self):
        """{setup: options of its benchmark}; one without a name where there are no setups."""
        if "bench" not in self.spec:
            return {}
        setups = {setup["name"]: {**self.spec["bench"], **setup["settings"]} for setup in self.spec.get("setups", [])}
        return setups or {"": self.spec["bench"]}

    def bench_file(self, setup):
        return self.folder / (f"{self.id}.{setup.replace(' ', '-')}.bench.json" if setup else f"{self.id}.bench.json")

    def bench(self, setup, measure):
        """{operator: {bytes: seconds}}, medians over the iterations; empty before the benchmark has run. measure: of BENCHED."""
        rows, path = {}, self.bench_file(setup)
        for row in json.loads(path.read_text())["results"] if path.exists() else []:
            rows.setdefault(row["redop"], {})[row["size_bytes"]] = BENCHED[measure](row)
        return rows

    def setting(self, setup, case, key):
        """The value of an option in the runs of a case."""
        return self.results[setup, case][0]["config"][key]

    def values(self, setup, case, name):
        """The value NAME of VALUES for each run that has it."""
        return [value for value in map(VALUES[name], self.results[setup, case]) if value is not None]

    def value(self, setup, case, name):
        """{median, low, high}; readings have the smallest and the largest as ends, values the bootstrap interval of 95 %."""
        values = self.values(setup, case, name)
        if not values:
            return None
        ends = _results.interval(values)
        return as_ends((ends[0], min(values), max(values)) if name in READINGS else ends)

    def rows(self, setup, reference):
        """{case: its group of `hetsgd compare` against the reference}. Two cases of one configuration, as two rates that happen
        to be equal, are one group."""
        pairs = tuple((setup, case) for case in self.there(setup))
        return {case: row for (_, case), row in self.compare(pairs, (setup, reference)).items()}

    def row(self, own, base):
        """The group of the pair `own`, (setup, case), against that of the pair `base`, which may run under another setup. None if
        such a comparison says nothing: their targets differ, or their configurations do not."""
        if own[0] == base[0]:
            return self.rows(own[0], base[1])[own[1]]
        first, second = (self.results[pair][0] for pair in (own, base))
        if first["config"]["target"][:1] != second["config"]["target"][:1] or configuration(first) == configuration(second):
            return None
        return self.compare((own, base), base)[own]

    @functools.cache
    def compare(self, pairs, reference):
        """{pair: its group against the reference, and its first target}, of pairs (setup, case)."""
        first_with = {}
        same_as = {pair: first_with.setdefault(configuration(self.results[pair][0]), pair) for pair in pairs}
        first_run, results = {}, []  # pair -> place of its first result
        for pair in first_with.values():
            first_run[pair] = len(results)
            results += self.loaded[pair]
        target = _results.parse_target(results[0].document["config"]["target"][0], results[0].path)
        comparison = _compare.compare(results, [target], self.loaded[same_as[reference]][0].path)
        group_of = {run: group for group in comparison.groups for run in [*group.runs, *dict(group.copies)]}
        rows = {pair: row_of(group_of[place], target) for pair, place in first_run.items()}
        return {pair: rows[same_as[pair]] for pair in pairs}


def row_of(group, target):
    """The group with its values at the only target, `n`, how many runs it has, and the `test` of its relations; None: of the
    reference."""
    row = as_document({**vars(group), **vars(group.targets[0]), "final": group.final_value})
    return {**row, "n": len(group.runs), "test": _compare.test_of(group) or None, "target": target.text}
