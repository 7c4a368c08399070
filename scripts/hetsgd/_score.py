"""The standing of the methods of a benchmark.

A benchmark consists of one sweep specification, which is its rules, and of all methods that were run by it:

  v1.toml -+-> hetsgd sweep v1.toml -o F         the methods of record: its cases
           +-> an entry: the same with other cases -> hetsgd sweep entry.json -o F
  F -> read_benchmark() -> scores (_stats.score_methods) -> table, JSON

A problem is a setup with its target, and a method is a case. experiments/benchmark/README.md states the rules for people. The rules
that a program can check are checked here."""

import functools
import json
import math
import os
import re
import tomllib
from dataclasses import dataclass, field
from typing import Any

from . import _errors, _output, _program, _results, _stats, _text, _validate
from ._errors import quote, usage_error
from ._results import Target

# The shares by which targets are relaxed for the scores beside the score: a ranking that changes with them rests on where a target
# happens to lie. A target of at least 0.6 becomes 0.594 by 0.01, one of at most 2 becomes 2.02.
RELAXED = (0.01, 0.02)
# Keys that decide no run, and those in which an entry may differ.
FREE_KEYS = ("about", "paper", "figure", "expectation", "claims", "max_wall", "interleave", "launch", "name", "cases")
# Options that a method may set, beside the options of its algorithm: those of optimizer and schedule (lib/optimizer).
METHOD_OPTIONS = frozenset((
    "algorithm", "optimizer", "momentum", "weight_decay", "decoupled_weight_decay", "clip_norm", "beta1", "beta2", "epsilon", "lars_trust",
    "schedule", "warmup_epochs", "warmup_share", "decay_epochs", "lr_floor", "decay_power", "decay_from", "step_epochs", "step_factor",
    "inverse_rate"))
MOST_NAMES = 3  # methods that a line names as the best
NOTES = """score: area under the performance profile up to {end} times the best time, 1 is best; brackets:
95 % bootstrap intervals over {seeds} seeds. -1 %, -2 %: the score at targets relaxed by so much.
(1) to ({problems}): median time to the target over the best one, inf: missed. edges: of so many
problems the tuned rate is an end of the grid, where a better one may lie beyond. *: an
entry, not one of the methods of record.
"""


@dataclass
class Rules:
    """A specification: as it is written, with its seeds and problems."""
    path: str
    written: dict
    name: str
    seeds: list[int]
    problems: list[tuple[str, Target]]  # setup and target


@dataclass
class Method:
    """A method that has all its runs."""
    name: str
    sweep: str  # name of the sweep that ran it
    is_entry: bool  # not one of the specification's own cases
    algorithm: str = ""
    # times_s[i][problem][seed]: to the target, and to those relaxed by RELAXED[i - 1]; infinity: missed
    times_s: list[list[list[float]]] = field(default_factory=list)
    tuning: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("trials", "samples_count", "train_s", "edges_of_grid"), 0))
    scores: list[_stats.MethodScore] = field(default_factory=list)  # as times_s

    @property
    def score(self) -> _stats.MethodScore:
        """The score at the targets themselves."""
        return self.scores[0]

    @property
    def reached(self) -> list[int]:
        """By problem, the runs that reached the target."""
        return [sum(map(math.isfinite, times)) for times in self.times_s[0]]


@dataclass
class Benchmark:
    """The standing. Methods are sorted by rank, then by name."""
    rules: Rules
    methods: list[Method] = field(default_factory=list)
    data: list[set[str]] = field(default_factory=list)  # by problem, content hashes of the training rows
    revisions: set[str] = field(default_factory=set)  # of the program that ran them
    notes: list[str] = field(default_factory=list)  # omissions with their reasons, and unequal conditions

    def best_time_s(self, problem: int) -> float:
        """The best median; infinity if no method reached the target."""
        return min(method.score.median_s[problem] for method in self.methods)


# --- rules and entries ---


def read_specification(path: str) -> dict:
    """A specification of a sweep in TOML, or in JSON with comments. Raises data errors, and usage errors for what is none."""
    text = _results.read_text(path, "specification")
    if path.endswith(".toml"):
        try:
            written = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise _errors.Error(f"{path}: {error}", _errors.DATA) from error
    else:
        text = re.sub(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', lambda found: found[1] or " ", text, flags=re.DOTALL)
        written = _results.parse_json(text, path)
    for finding in _validate.check_schema("sweep", written):
        raise usage_error(f"{path}: {finding.line()}")
    return written


def seeds_of(written: dict, path: str) -> list[int]:
    """The seeds of the final runs."""
    seeds = written.get("seeds", [1])
    if isinstance(seeds, str):
        first, last = map(int, seeds.split(":"))
        seeds = range(first, last + 1)
    if not 0 < len(seeds) <= 1_000_000 or len(set(seeds)) < len(seeds):
        raise _errors.refusal(f"{path}: seeds", quote(str(written["seeds"])), 'FROM:TO such as "1:10", or a list of different seeds')
    return list(seeds)


def read_rules(path: str) -> Rules:
    """Reads the specification of a benchmark. Raises usage errors: a setup without a target, a method that lacks a setup, parameters,
    or an option in a case that the rules fix."""
    written = read_specification(path)
    setups, cases = written.get("setups", [{"name": ""}]), written.get("cases", [{}])
    problems = []
    for setup in setups:
        metric = {**written.get("metric", {}), **setup.get("metric", {})}
        if metric.get("goal") != "time_to_target" or "target" not in metric or "name" not in metric:
            raise usage_error(f"{path}: setup {quote(setup['name'])}: found no target, expected metric.goal = \"time_to_target\"")
        sign = ">=" if metric["name"] in _results.HIGHER_IS_BETTER else "<="
        problems.append((setup["name"], _results.parse_target(f"{metric['name']}{sign}{metric['target']!r}", f"{path}: metric.target")))
    names = [case.get("name") for case in cases]
    cells = {(each["setup"], case) for each in written.get("only", ()) for case in each.get("cases", names)}
    if "only" in written and len(cells) != len(setups) * len(cases):
        raise usage_error(f"{path}: only: a benchmark runs every case on every setup")
    if written.get("parameters") or "zip" in written:
        raise usage_error(f"{path}: parameters: each case of a benchmark is one configuration")
    for key, all_names in (("setups", [name for name, _ in problems]), ("cases", names)):
        if twice := next((name for name in all_names if all_names.count(name) > 1), None):
            raise usage_error(f"{path}: {key}: found the name {quote(twice)} twice")
    rules = Rules(path, written, written["name"], seeds_of(written, path), problems)
    if reason := why_no_entry(rules, written):
        raise usage_error(f"{path}: {reason}")
    return rules


def first_difference(a: Any, b: Any, place: str = "") -> str:
    """The first place at which two JSON documents differ; "" if they are equal."""
    if isinstance(a, dict) and isinstance(b, dict):
        keys = [(key, f"{place}.{key}" if place else key) for key in sorted({**a, **b}, key=lambda key: (key not in a, key))]
        return next(filter(None, (first_difference(a[key], b[key], at) if key in a and key in b else at for key, at in keys)), "")
    if isinstance(a, list) and isinstance(b, list):
        inner = (first_difference(*pair, f"{place}[{i}]") for i, pair in enumerate(zip(a, b)))
        return next(filter(None, inner), "" if len(a) == len(b) else f"{place}[{min(len(a), len(b))}]")
    return "" if a == b and isinstance(a, bool) == isinstance(b, bool) else place


def rules_of(written: dict) -> dict:
    """The part of a specification that all entries have in common."""
    rules = {key: value for key, value in written.items() if key not in FREE_KEYS}
    if isinstance(rules.get("settings"), dict):
        rules["settings"] = {key: value for key, value in rules["settings"].items() if key != "plugin"}
    return rules


@functools.cache
def fixed_options() -> frozenset[str]:
    """The options that the rules fix, as the program declares them: all of a run and of models but METHOD_OPTIONS."""
    flags = re.findall(r"^(?:  -\w, | {6})--([a-z0-9-]+)", _program.ask("train", "--algorithm=sgd", "--help-all"), re.MULTILINE)
    models = json.loads(_program.ask("models", "--format", "json"))
    names = {"config", *flags, *(option["flag"].removeprefix("--") for model in models for option in model["options"])}
    return frozenset(name.replace("-", "_") for name in names) - METHOD_OPTIONS


def why_no_entry(rules: Rules, entry: dict) -> str:
    """Why a specification is no entry to the benchmark, or "" if it is one: the first difference outside of its methods, or what a
    case has that the rules fix."""
    if difference := first_difference(rules_of(rules.written), rules_of(entry)):
        return f"{difference} differs from {rules.path}"
    cases = entry.get("cases")
    if not isinstance(cases, list) or not cases:
        return "cases: expected at least one method"
    for i, method in enumerate(cases):
        place = f"cases[{i}]"
        if not isinstance(method, dict) or not isinstance(method.get("name"), str) or not isinstance(method.get("settings", {}), dict):
            return f"{place}: expected a method with a name"
        for key in method:
            if key not in ("name", "about", "settings"):
                return f"{place}.{key}: the benchmark tunes all methods by one protocol"
        for key in method.get("settings", {}):
            if key in fixed_options():
                return f"{place}.settings.{key}: the benchmark fixes this option for all methods"
    return ""


# --- reading the runs ---


def relaxed(target: Target, by: float) -> Target:
    """The target, easier by this share."""
    return _results.make_target(target.metric, target.at_least, target.value + (-by if target.at_least else by) * abs(target.value))


def time_to(result: dict, target: Target) -> float:
    """The seconds to a target; infinity if it is missed."""
    points, values = _results.evaluations(result, target.metric)
    _, held = _results.crossings([target.reached(value) for value in values])
    return math.inf if held is None else points[held]["time_s"]


def add_method(benchmark: Benchmark, method: Method, files: dict[tuple[str, str, int], str]) -> None:
    """Adds a method with its runs, or a note of those that are missing. `files`: by setup, case and seed."""
    rules = benchmark.rules
    results = []  # by problem
    for setup, _ in rules.problems:
        paths = (files.get((setup, method.name, seed), "") for seed in rules.seeds)
        documents = ((path, _results.read_json(path)) for path in paths if os.path.exists(path))
        results.append([(path, each) for path, each in documents
                        if isinstance(each, dict) and "curve" in each and each.get("status") in _results.DONE])
    missing = len(rules.problems) * len(rules.seeds) - sum(map(len, results))
    if missing:
        count = len(rules.seeds) * len(rules.problems)
        benchmark.notes.append(f"{method.name} is left out: {missing} of its {count} runs are missing")
    for p, runs in enumerate(results):
        for path, result in runs:
            _results.check_result(result, path)
            benchmark.data[p].add((result["dataset"]["train"] or {}).get("content_hash", "?"))
            benchmark.revisions.add(str(result.get("tool", {}).get("git_revision", "?")))
            method.algorithm = result["config"]["algorithm"]
    if missing:
        return
    for i in range(1 + len(RELAXED)):
        targets = (target if i == 0 else relaxed(target, RELAXED[i - 1]) for _, target in rules.problems)
        method.times_s.append([[time_to(result, target) for _, result in runs] for target, runs in zip(targets, results)])
    for tuning in filter(None, (runs[0][1].get("tuning") for runs in results)):  # all results of a problem repeat it
        cost = {**{key: tuning[key] for key in ("trials", "samples_count", "train_s")}, "edges_of_grid": int(tuning["edge_of_grid"])}
        method.tuning = {key: value + cost[key] for key, value in method.tuning.items()}
    benchmark.methods.append(method)


def read_benchmark(rules: Rules, folder: str) -> Benchmark:
    """Reads all methods that sweeps in this folder have run by the rules. Raises data errors (no folder, a broken result), and a
    usage error if no method has all its runs."""
    try:
        sweeps = [name.removesuffix(".sweep.json") for name in os.listdir(folder) if name.endswith(".sweep.json")]
    except OSError as error:
        raise _errors.Error(f"{folder}: cannot read the folder: {error.strerror}", _errors.DATA) from error
    benchmark, names = Benchmark(rules, data=[set() for _ in rules.problems]), set()
    # The methods of record come first, so that no entry takes their names.
    for sweep in sorted(sweeps, key=lambda name: (name != rules.name, name)):
        document, index = _results.read_json(os.path.join(folder, f"{sweep}.sweep.json")), os.path.join(folder, sweep + _results.INDEX)
        is_sweep = isinstance(document, dict) and document.get("kind") == "sweep" and isinstance(document.get("specification"), dict)
        reason = why_no_entry(rules, document["specification"]) if is_sweep else "not the specification of a sweep"
        if reason:
            benchmark.notes.append(f"the sweep {sweep} is left out: {reason}")
            continue
        lines = _results.read_index(index) if os.path.exists(index) else []
        files = {(line["setup"], line["case"], line["seed"]): line["file"] for line in lines if line["stage"] == "final"}
        for name in (case["name"] for case in document["specification"]["cases"]):
            if name in names:
                benchmark.notes.append(f"{name} of the sweep {sweep} is left out: its name is taken")
            else:
                add_method(benchmark, Method(name, sweep, sweep != rules.name), files)
            names.add(name)
    if not benchmark.methods:
        raise usage_error(f"{folder}: found no method with all its runs",
                          f"hetsgd sweep {rules.path} -o {folder} runs what is missing")
    rank_methods(benchmark)
    return benchmark


def rank_methods(benchmark: Benchmark) -> None:
    """Scores the methods and sorts them, and notes unequal conditions."""
    for i in range(1 + len(RELAXED)):
        for method, score in zip(benchmark.methods, _stats.score_methods([method.times_s[i] for method in benchmark.methods])):
            method.scores.append(score)
    benchmark.methods.sort(key=lambda method: (method.score.rank, method.name))
    for (name, _), data in zip(benchmark.rules.problems, benchmark.data):
        if len(data) > 1:
            benchmark.notes.append(f"{name}: runs have different training data, {', '.join(sorted(data))}")
    if len(benchmark.revisions) > 1:
        benchmark.notes.append(f"runs were made by different revisions of the program: {', '.join(sorted(benchmark.revisions))}")


# --- the standing as a document and as a table ---


def standing_json(benchmark: Benchmark, tool: dict) -> dict:
    """The document (standing_schema.json). `tool`: that of the program."""
    rules = benchmark.rules
    problems = [{"name": name, "target": target.text, "train_content_hash": sorted(data), "best_time_s": benchmark.best_time_s(p)}
                for p, ((name, target), data) in enumerate(zip(rules.problems, benchmark.data))]

    def place_of(score: _stats.MethodScore) -> dict:
        return {"rank": score.rank, "score": score.score, "score_low": score.low, "score_high": score.high}

    methods = [{
        "name": method.name, "algorithm": method.algorithm, "sweep": method.sweep, "is_entry": method.is_entry, **place_of(method.score),
        "rank_low": method.score.rank_low, "rank_high": method.score.rank_high,
        "relaxed": [{"by": by, **place_of(score)} for by, score in zip(RELAXED, method.scores[1:])], "solved": method.score.solved,
        "time_s": method.score.median_s, "ratio": method.score.ratios, "reached": method.reached, "tuning": method.tuning}
        for method in benchmark.methods]
    return {"schema_version": "1.0", "kind": "standing", "name": rules.name, "tool": tool, "run_revisions": sorted(benchmark.revisions),
            "seeds": len(rules.seeds), "profile_end": _stats.PROFILE_END, "resamples": _stats.RESAMPLES, "problems": problems,
            "methods": methods, "notes": benchmark.notes}


def standing_table(benchmark: Benchmark, kind: str) -> str:
    """A row per method: rank, score, scores at relaxed targets, problems solved, ratio to the best on each problem, edges. `kind`: as of
    _text.table()."""
    problems, rows = range(len(benchmark.rules.problems)), []
    for method in benchmark.methods:
        score = method.score
        rows.append([method.name + " *" * method.is_entry, f"{score.rank} [{score.rank_low}, {score.rank_high}]",
                     f"{score.score:.3f} [{score.low:.3f}, {score.high:.3f}]", *(f"{each.score:.3f}" for each in method.scores[1:]),
                     f"{score.solved}/{len(problems)}", *(f"{ratio:.2f}" for ratio in score.ratios), str(method.tuning["edges_of_grid"])])
    header = ["method", "rank", "score", *(f"-{100 * by:g} %" for by in RELAXED), "solved", *(f"({p + 1})" for p in problems), "edges"]
    return _text.table(header, rows, kind)


def standing_report(benchmark: Benchmark, kind: str) -> str:
    """The table with an explanation of its columns. `kind`: text or markdown."""
    rules, mark = benchmark.rules, "- " if kind == "markdown" else ""
    text = standing_table(benchmark, kind) + "\n" + NOTES.format(
        end=_stats.PROFILE_END, seeds=len(rules.seeds), problems=len(rules.problems)) + ("\n" if mark else "")
    for p, (name, target) in enumerate(rules.problems):
        best = [method.name for method in benchmark.methods if method.score.ratios[p] == 1]
        names = ", ".join(best) if len(best) <= MOST_NAMES else f"{len(best)} methods"
        said = f"best {benchmark.best_time_s(p):.4g} s, {names}" if best else "no method reached it"
        text += f"{mark}({p + 1}) {name}, {target.text}: {said}\n"
    return text


def command(options, operands: list[str]) -> int:
    """hetsgd score."""
    if options.schema:
        _text.say(_validate.schema("standing"))
        return 0
    if not operands:
        raise _errors.refusal("score", "no operand", "SPEC or --schema")
    rules = read_rules(operands[0])
    if options.check:
        if reason := why_no_entry(rules, read_specification(options.check)):
            raise usage_error(f"{options.check}: not an entry to {rules.name}: {reason}")
        _validate.check_options(options.check)
        _text.say(f"{options.check}: an entry to {rules.name}\n")
        return 0
    benchmark = read_benchmark(rules, options.runs)
    if options.format == "json":
        _results.print_json(standing_json(benchmark, _output.tool()))
    else:
        _text.say(standing_table(benchmark, "csv") if options.format == "csv" else standing_report(benchmark, options.format))
    for note in benchmark.notes:
        _text.warn(note)
    return 0
