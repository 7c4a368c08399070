"""Checks of whole files: the JSON Schemas, and what a schema cannot say."""

import itertools
import json
import math
import pathlib
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from . import _errors, _program, _results, _stats, _text
from ._results import dump

TYPES = {"integer": "a whole number", "number": "a number", "string": "a text", "object": "an object", "array": "a list",
         "boolean": "true or false", "null": "null"}
LIMITS = {"minimum": "at least {}", "maximum": "at most {}", "exclusiveMinimum": "more than {}", "minItems": "a list of at least {}",
          "minLength": "a text of at least {}", "pattern": "a text like {}"}
NEVER_LESS = ("time_s", "samples_count", "epoch_num", "updates", "bytes_sent", "prepare_s", "wall_s")
PHASES = ("load_s", "init_s", "train_s", "prepare_s", "eval_s", "record_s")
COST = ("trials", "samples_count", "train_s", "wall_s")
LONGEST = 60  # characters of a value in a message
DEVICE = 5  # exit code: this program lacks a device


class Finding(NamedTuple):
    """A mistake: its place as a JSON pointer (RFC 6901; "": the document) and a sentence."""
    pointer: str
    text: str

    def line(self) -> str:
        """Both as one line."""
        return f"{self.pointer or '/'}: {self.text}"


def schema(name: str) -> str:
    """The text of a JSON Schema: "result", "tuning", "sweep" or "standing"."""
    return pathlib.Path(__file__).with_name("schemas").joinpath(f"{name}.json").read_text(encoding="utf-8")


# --- by schema ---


def shortened(value: Any) -> str:
    """A value in a message."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST else text[:LONGEST] + " ..."


def expectation(error) -> str:
    """The text of what an error of jsonschema expected."""
    rule, limit = error.validator, error.validator_value
    if rule in LIMITS:
        return LIMITS[rule].format(limit)
    if rule == "type":
        return " or ".join(TYPES[each] for each in ([limit] if isinstance(limit, str) else limit))
    if rule == "enum":
        return " or ".join(map(dump, limit))
    if rule == "uniqueItems":
        return "each entry once"
    return " or ".join(dict.fromkeys(map(expectation, error.context or ()))) or f"{rule} {shortened(limit)}"


def findings_of(error) -> Iterator[Finding]:
    """The findings of an error of jsonschema."""
    place = "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in error.absolute_path)
    if error.validator == "required":
        missing = [key for key in error.validator_value if key not in error.instance]
        yield from (Finding(place, f"found no {_errors.quote(key)}, expected it") for key in missing)
    elif error.validator == "additionalProperties":
        unknown = [key for key in error.instance if key not in error.schema.get("properties", {})]
        yield from (Finding(place, f"found key {_errors.quote(key)}, expected a key of the schema") for key in unknown)
    else:
        yield Finding(place, f"found {shortened(error.instance)}, expected {expectation(error)}")


def check_schema(name: str, document: Any) -> list[Finding]:
    """The violations of a schema, the innermost first, because it is the most specific one."""
    import jsonschema  # pylint: disable=import-outside-toplevel  # takes 0.1 s, and validate alone needs it

    # A count has no decimal point: 3.0 is no integer of ours.
    strict = jsonschema.validators.extend(jsonschema.Draft7Validator, type_checker=jsonschema.Draft4Validator.TYPE_CHECKER)
    errors = strict(json.loads(schema(name))).iter_errors(document)
    found = dict.fromkeys(itertools.chain.from_iterable(map(findings_of, errors)))
    return sorted(found, key=lambda finding: -finding.pointer.count("/"))


# --- results beyond their schema; each check yields its findings ---


def check_curve(result: dict) -> Iterator[Finding]:
    """Whether nothing of the curve decreases."""
    for i, (before, now) in enumerate(itertools.pairwise(result["curve"]), 1):
        for key in NEVER_LESS:
            if key in before and key in now and now[key] < before[key]:
                yield Finding(f"/curve/{i}/{key}", f"found {shortened(now[key])} after {shortened(before[key])}, expected no decrease")


def check_workers(result: dict) -> Iterator[Finding]:
    """Ranks, waits and sums of bytes."""
    workers = result["workers"]
    for i, worker in enumerate(workers):
        place = f"/workers/{i}"
        if worker["rank"] != i:
            yield Finding(f"{place}/rank", f"found {worker['rank']}, expected {i}")
        for whom in worker.get("waited_for", ()):
            rank = whom["rank"]
            if not ("service" in whom if rank is None else rank < len(workers) and rank != i):
                yield Finding(f"{place}/waited_for", f"found {dump(whom)}, expected another worker or a service")
        for key in ("bytes_sent", "bytes_received"):
            total = sum(worker[f"{key}_by_kind"].values())
            if worker[key] != total:
                yield Finding(f"{place}/{key}", f"found {worker[key]}, expected {total}, the sum over its kinds")


def check_machine(result: dict) -> Iterator[Finding]:
    """Whether the ranks of all hosts are 0, 1, ..., and a worker is on its rank's host."""
    machine = result["cluster"].get("machine")
    if machine is None:
        return
    hosts: dict[int, str] = {}
    for n, node in enumerate(machine["nodes"]):
        for rank in (each["rank"] for each in node["ranks"]):
            if rank in hosts:
                yield Finding(f"/cluster/machine/nodes/{n}", f"found rank {rank} twice, expected it once")
            hosts.setdefault(rank, node["host"])
    ranks, last = len(result["workers"]) + (machine["service_rank"] is not None), max(hosts)
    if len(hosts) != ranks or last + 1 != ranks:
        yield Finding("/cluster/machine/nodes", f"found {len(hosts)} ranks up to {last}, expected 0 to {ranks - 1}")
    for i, worker in enumerate(result["workers"]):
        if i in hosts and worker.get("host") != hosts[i]:
            yield Finding(f"/workers/{i}/host", f"found {dump(worker.get('host'))}, but cluster/machine says {hosts[i]}")


def check_merges(result: dict) -> Iterator[Finding]:
    """Order and sizes of merges."""
    before = 0.0
    for i, event in enumerate(result["events"]):
        if event["type"] != "merge":
            continue
        if event["time_s"] < before:
            yield Finding(f"/events/{i}/time_s", f"found {event['time_s']} after {before}, expected merges in the order of time")
        before, size = event["time_s"], len(event.get("workers", result["workers"]))
        for key in ("batch_size", "learning_rate", "updates", "weight", "norm"):
            if size and len(event[key]) != size:
                yield Finding(f"/events/{i}/{key}", f"found {len(event[key])} entries, expected one per worker ({size})")


def clocks_of(point: dict, result: dict) -> dict:
    """The times of an evaluation on the clocks of public benchmarks, as a result has them."""
    clocks = {}
    for clock in _results.CLOCKS[1:]:
        clocks[f"{clock}_s"] = time = _results.time_on(clock, point, result)
        clocks |= {f"{clock}_s_reason": _results.no_time_reason(result)} if time is None else {}
    return clocks


def check_targets(result: dict) -> Iterator[Finding]:
    """Whether times and outcomes are those of the curve."""
    for i, entry in enumerate(result["time_to_accuracy"]):
        target = _results.make_target(entry["metric"], entry["at_least"], entry["value"])
        points, values = _results.evaluations(result, target.metric)
        first, held = (None if place is None else points[place] for place in _results.crossings(list(map(target.reached, values))))
        old = "first_crossing_s" not in entry  # in schema version 1.0 a target was reached at the first crossing
        counts = first if old else held
        expected = {"time_s": counts and counts["time_s"], "status": "reached" if counts else "crossed" if first else "not_reached"}
        if not old:
            expected["first_crossing_s"] = first and first["time_s"]
        for key, right in expected.items():
            if entry[key] != right:
                yield Finding(f"/time_to_accuracy/{i}/{key}", f"found {dump(entry[key])}, but by the curve it is {dump(right)}")
        if "clocks" in entry and entry["clocks"] != (clocks := counts and clocks_of(counts, result)):
            yield Finding(f"/time_to_accuracy/{i}/clocks", f"found {dump(entry['clocks'])}, but by curve and wall it is {dump(clocks)}")


def check_ledger(result: dict) -> Iterator[Finding]:
    """Whether the phases add up to the wall-clock time, within 1 % and 20 ms."""
    wall = result["wall"]
    if "prepare_s" not in wall:  # an older result: total_s was defined as their sum
        return
    total = sum(wall[key] for key in PHASES) + wall.get("checkpoint_s", 0.0)
    if abs(total - wall["total_s"]) > 0.01 * wall["total_s"] + 0.02:
        yield Finding("/wall/total_s", f"found {wall['total_s']}, but the phases add up to {total:g}")


def check_samples(result: dict) -> Iterator[Finding]:
    """Whether summary, curve and workers agree on samples."""
    summary, curve, train = result["summary"], result["curve"], result["dataset"]["train"]
    counted, failures = summary["samples_count"], result.get("failures", ())
    if summary["evaluations"] != len(curve):
        yield Finding("/summary/evaluations", f"found {summary['evaluations']}, but the curve has {len(curve)} points")
    if curve and counted != curve[-1]["samples_count"]:
        yield Finding("/summary/samples_count", f"found {counted}, but the curve ends at {curve[-1]['samples_count']}")
    if train and "targets" in train and "tokens" in summary:
        tokens = counted * train["targets"] / train["rows"]
        if abs(summary["tokens"] - tokens) > 1:
            yield Finding("/summary/tokens", f"found {summary['tokens']}, but the samples have {tokens:.0f}")
    if result["status"] != "completed":
        return
    # Samples that were lost with their worker, and those that others learnt from again.
    wasted = sum(failure["lost_samples"] + failure["redone_samples"] for failure in failures)
    samples = max(0, sum(worker["samples"] for worker in result["workers"]) - wasted)
    # After the last point, asynchronous workers complete or discard their current step. At the loss of a worker each has one that
    # may count or not.
    under_way = len(result["workers"]) * result["config"].get("batch_size", 0) * (1 + len(failures))
    if abs(samples - counted) > under_way:
        yield Finding("/summary/samples_count", f"found {counted}, but the workers' samples add up to {samples}")


def check_end(result: dict) -> Iterator[Finding]:
    """Status, time of the end, and the tuning's learning rate."""
    status, ended, tuning = result["status"], result["status"] != "running", result.get("tuning")
    if ended == (result["finished_at"] is None):
        expected = "a time" if ended else "null"
        yield Finding("/finished_at", f"found {dump(result['finished_at'])} with status {dump(status)}, expected {expected}")
    if status == "failed" and result["status_reason"] is None:
        yield Finding("/status_reason", "found null, expected the reason why the run failed")
    rate = result["config"].get("learning_rate")
    if tuning and tuning["learning_rate"] != rate:
        yield Finding("/tuning/learning_rate", f"found {tuning['learning_rate']}, but the run had {dump(rate)}")


def check_reasons(value: Any, place: str, explained: bool = False) -> Iterator[Finding]:
    """Whether a null in measurements, which replaces a number, has its reason beside it or beside its list."""
    if value is None and not explained:
        yield Finding(place, "found null without its reason (KEY_reason)")
    for i, each in enumerate(value) if isinstance(value, list) else ():
        yield from check_reasons(each, f"{place}/{i}", explained)
    for key, each in value.items() if isinstance(value, dict) else ():
        yield from check_reasons(each, f"{place}/{key}", f"{key}_reason" in value)


def validate_result(result: Any) -> list[Finding]:
    """All mistakes in a result."""
    if findings := check_schema("result", result):
        return findings  # the other checks rely on the shape
    checks = (check_curve, check_workers, check_machine, check_merges, check_targets, check_ledger, check_samples, check_end)
    reasons = (check_reasons(result[part], f"/{part}") for part in ("curve", "events"))
    return list(itertools.chain(*(check(result) for check in checks), *reasons))


# --- tunings ---


def cost_of(parts: Iterable[dict]) -> dict:
    """The sum of costs."""
    parts = list(parts)
    return {key: sum(part[key] for part in parts) for key in COST}


def sign_of(goal: str) -> int:
    """-1 if larger values of the goal's metric are better, else 1. Raises usage errors for a goal that is none."""
    target = _results.parse_target(goal if "<" in goal or ">" in goal else f"{goal}>=0", "goal")
    return -1 if (target.at_least if target.text == goal else target.metric in _results.HIGHER_IS_BETTER) else 1


def median_of(trials: list[dict], key: str, sign: int) -> float:
    """The median of sign * value. A trial that diverged or failed counts as worst, which is infinite."""
    return _stats.median([math.inf if trial[key] is None else sign * trial[key] for trial in trials])


def choice_of(goal: str, candidates: list[dict]) -> int | None:
    """The place of the best candidate: by the median time to the target, then by the median final value; the first of equal ones. None
    if no median of final values is finite. Raises usage errors for a goal that is none."""
    sign = sign_of(goal)
    scores = [(median_of(each["trials"], "time_to_target_s", 1), median_of(each["trials"], "value", sign)) for each in candidates]
    finite = [place for place, (_, value) in enumerate(scores) if math.isfinite(value)]
    return min(finite, key=lambda place: scores[place], default=None)


def note_of(cell: dict, chosen: dict) -> dict | None:
    """The part of the note on a learning rate that follows from the trials. None unless the learning rate alone was tuned."""
    rates = [each["parameters"].get("learning_rate") if len(each["parameters"]) == 1 else None for each in cell["candidates"]]
    if not all(isinstance(rate, (int, float)) for rate in rates):
        return None
    return {"grid": sorted(rates), "learning_rate": chosen["learning_rate"], "edge_of_grid": chosen["learning_rate"] in (min(rates), max(rates)),
            "seeds": cell["seeds"], "goal": cell["goal"], "trials": cell["cost"]["trials"], "samples_count": cell["cost"]["samples_count"]}


def compared(found: dict, right: dict, place: str) -> Iterator[Finding]:
    """A finding for each value that does not follow from the trials."""
    for key, value in right.items():
        if found[key] != value:
            yield Finding(f"{place}/{key}", f"found {dump(found[key])}, but by the trials it is {dump(value)}")


def check_cell(cell: dict, place: str) -> Iterator[Finding]:
    """Whether a tuning's medians, choice, note and cost follow from its trials."""
    candidates = cell["candidates"]
    for i, each in enumerate(candidates):
        if (seeds := [trial["seed"] for trial in each["trials"]]) != cell["seeds"]:
            yield Finding(f"{place}/candidates/{i}/trials", f"found the seeds {dump(seeds)}, expected {dump(cell['seeds'])}")
            return
    try:
        best = choice_of(cell["goal"], candidates)
    except _errors.Error as error:
        yield Finding(f"{place}/goal", str(error))
        return
    for i, each in enumerate(candidates):
        for key, sign in (("value", sign_of(cell["goal"])), ("time_to_target_s", 1)):
            median = sign * median_of(each["trials"], key, sign)
            yield from compared(each, {key: median if math.isfinite(median) else None}, f"{place}/candidates/{i}")
    chosen = None if best is None else candidates[best]["parameters"]
    costs = cost_of({"trials": 1, **trial} for each in candidates for trial in each["trials"])
    yield from compared(cell, {"chosen": chosen, "cost": costs}, place)
    note = None if chosen is None else note_of(cell, chosen)
    if note and cell["note"]:
        yield from compared(cell["note"], note, f"{place}/note")
    else:
        yield from compared(cell, {"note": note}, place)


def check_tuning(tuning: dict) -> Iterator[Finding]:
    """Whether a file of tunings follows from their trials."""
    for i, cell in enumerate(tuning["cells"]):
        yield from check_cell(cell, f"/cells/{i}")
    yield from compared(tuning, {"cost": cost_of(cell["cost"] for cell in tuning["cells"])}, "")


def validate_tuning(tuning: Any) -> list[Finding]:
    """All mistakes in a tuning."""
    version = tuning.get("schema_version")
    if isinstance(version, str) and not version.startswith("2."):
        return [Finding("/schema_version", f"found {_errors.quote(version)}, expected 2.0; the same hetsgd tune with --resume, or the same "
                        "hetsgd sweep, makes the file again from its trials")]
    return check_schema("tuning", tuning) or list(check_tuning(tuning))


# --- the command ---


def check_options(path: str) -> None:
    """Asks the program for the mistakes in the options of a sweep's specification. Raises Error with file and line."""
    with tempfile.TemporaryDirectory(prefix="hetsgd-") as folder:
        try:
            _program.ask("sweep", path, "--print-commands", "--yes", f"--output={folder}")
        except _errors.Error as error:
            if error.code != DEVICE:  # it may be run on another machine
                raise


def check_file(path: str) -> tuple[list[Finding], str]:
    """The mistakes in a file, and what it is where "valid" alone would be taken for a result."""
    if path.endswith(".toml"):
        check_options(path)
        return check_schema("sweep", tomllib.loads(_results.read_text(path, "specification"))), ""
    document = _results.read_json(path)
    kind = _results.other_kind(document)
    if kind == "tuning":
        return validate_tuning(document), ""
    if kind == "network":
        nodes = json.loads(_program.ask("memory", "--print-network", path))["nodes"]
        return [], f" network of {len(nodes)} nodes"
    if kind:
        return [Finding("", f"found a {kind}, expected a result, a tuning, a network, or a sweep's specification (TOML)")], ""
    return validate_result(document), ""


def command(options, operands: list[str]) -> int:
    """hetsgd validate."""
    if options.schema:
        _text.say(schema("result"))
        return 0
    if not operands:
        raise _errors.refusal("validate", "no operand", "FILE... or --schema")
    bad = 0
    for path in operands:
        findings, what = check_file(path)
        for finding in findings:
            _text.say(f"{path}: {finding.line()}\n")
        if not findings:
            _text.say(f"{path}: valid{what}\n")
        bad += bool(findings)
    if bad:
        raise _errors.Error(f"{bad} of {len(operands)} files {'is' if bad == 1 else 'are'} not valid", _errors.DATA)
    return 0
