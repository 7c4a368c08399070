"""Where the time of a recorded run went, and how long it would have taken otherwise (`hetsgd replay`).

The ideal run has no stragglers. A computation takes the mean seconds per unit of work, over all workers and iterations, times its
work. Another call takes the median of its kind, bytes and number of members. Source of the idea: Lin et al. 2025, "Understanding
Stragglers in Large Model Training Using What-if Analysis"."""

import numpy as np

from . import _errors, _results, _text, _timeline

# Methods that make the same calls whatever the times.
FIXED_DECISIONS = ("", "sgd", "ssgd", "elastic", "local-sgd", "sma", "easgd")
# Above this share the gaps between calls may hide the cause of a slowdown.
LARGE_GAP_SHARE = 0.05


def kind_of(signature: dict) -> str:
    """The kind of calls by which time is attributed: the name of a computation, "communicate" or "service". "" for calls without an
    ideal time: a wait for a monitor, an evaluation, a sleep."""
    if signature["category"] == "compute":
        return "" if signature["name"] == "sleep" else signature["name"]
    return signature["category"] if signature["category"] in ("communicate", "service") else ""


class WhatIf:
    """Durations of the calls of a record, as arrays of seconds by call: `recorded`, and `ideal` without stragglers. `kinds` are the
    kinds of calls in the order in which they first come."""

    def __init__(self, record: _timeline.Record):
        self.record = record
        self.rank, self.delay, unit = (np.array(record.calls[key]) for key in ("rank", "delay_s", "unit_s"))
        self.signature = np.array(record.calls["signature"], dtype=int)
        self.recorded = np.array(record.calls["own_s"], dtype=float)
        of_signature = [kind_of(each) for each in record.signatures]
        self.kinds = [kind for kind in dict.fromkeys(of_signature) if kind]
        self.kind = np.array(of_signature)[self.signature]
        self.computes = np.array([each["category"] == "compute" for each in record.signatures])[self.signature]
        self.ideal = self.recorded.copy()
        for kind in self.kinds:
            of_kind = self.computes & (self.kind == kind)
            if of_kind.any():
                self.ideal[of_kind] = self.recorded[of_kind].sum() / unit[of_kind].sum() * unit[of_kind]
        self._make_ideal_calls()

    def _make_ideal_calls(self) -> None:
        alike: dict[tuple, int] = {}
        keys = [alike.setdefault((each["name"].removeprefix("wait for "), each["relation"], each["bytes"], each["members"]), len(alike))
                for each in self.record.signatures]
        others = np.flatnonzero(~self.computes & (self.kind != ""))
        key = np.array(keys)[self.signature[others]]
        order = np.argsort(key, kind="stable")
        borders = np.flatnonzero(np.diff(key[order])) + 1
        for calls in np.split(others[order], borders) if others.size else ():
            self.ideal[calls] = np.median(self.recorded[calls])

    def of_kind(self, kind: str) -> np.ndarray:
        """Whether each call is of this kind; "compute" are all computations."""
        return (self.kind == kind) | (self.computes if kind == "compute" else False)

    def leave_out(self, what: str, times: np.ndarray) -> None:
        """Applies one --without to `times`. Raises Error (usage)."""
        name, _, value = what.partition("=")
        if what == "stragglers":
            times[:] = self.ideal
        elif what == "injected":
            times[self.computes] -= self.delay[self.computes]
        elif name == "worker" and "=" in what:
            last = self.record.facts["workers"] - 1
            if not value.isdecimal() or int(value) > last:
                raise _errors.refusal("--without worker", _errors.quote(value), f"a whole number from 0 to {last}")
            times[:] = np.where(self.rank == int(value), self.ideal, times)
        elif name == "kind" and "=" in what:
            if value != "compute" and value not in self.kinds:
                known = " or ".join(filter(None, (", ".join(self.kinds[:-1]), self.kinds[-1])))
                raise _errors.refusal("--without", _errors.quote(what), f"kind= and one of {known}", _errors.did_you_mean(value, self.kinds))
            times[:] = np.where(self.of_kind(value), self.ideal, times)
        else:
            raise _errors.refusal("--without", _errors.quote(what), "injected, stragglers, worker=N or kind=K",
                                  _errors.did_you_mean(what, ["injected", "stragglers"]))

    def change_speed(self, speed: list[float], times: np.ndarray) -> None:
        """Divides the computations of each worker by its speed, relative to the record; the last one repeats. Delays stay."""
        if speed:
            calls = self.computes & (self.kind != "")
            delay = np.minimum(self.delay, times)[calls]
            times[calls] = (times[calls] - delay) / np.array(speed)[np.minimum(self.rank[calls], len(speed) - 1)] + delay

    def change_network(self, times: np.ndarray) -> None:
        """Scales each collective and message by its cost on the network that the record was opened with over that on its own."""
        before, after = (np.array([each.get(key, np.nan) for each in self.record.signatures])[self.signature]
                         for key in ("cost_s", "other_cost_s"))
        costs, free = before > 0, before == 0
        times[costs] *= after[costs] / before[costs]
        times[free] = after[free]


def attribute(what_if: WhatIf) -> dict:
    """Blames workers and kinds of calls for the time that the run has lost, compared with the run without stragglers. Returns this part
    of the document: time_s, ideal_time_s, their ratio `slowdown` (1 if there is no time at all), gap_share, `workers` and `kinds`, those
    with the largest slowdown first. slowdown of one of them: the time of the ideal run with this part as recorded, over the ideal time.
    share: how much of the lost time comes back if only this part becomes ideal; 0 if no time is lost."""
    record = what_if.record
    run = record.run()
    total = run["total_s"]
    ideal = record.run(calls=list(range(len(what_if.ideal))), own_s=what_if.ideal.tolist(), name="ideal")["total_s"]
    workers = [{"rank": rank, "slowdown": 1.0, "share": 0.0} for rank in range(record.facts["workers"])]
    kinds = [{"kind": kind, "slowdown": 1.0, "share": 0.0} for kind in what_if.kinds]
    calls = [{"rank": each["rank"]} for each in workers]
    calls += [{"signatures": [number for number, each in enumerate(record.signatures) if kind_of(each) == kind]} for kind in what_if.kinds]

    def totals(base: str, other: str) -> list[float]:
        return [each["total_s"] for each in record.runs([{"base": base, "from": other, **which} for which in calls])]

    parts, lost = [*workers, *kinds], total - ideal
    if ideal > 0:
        for part, alone in zip(parts, totals("ideal", "recorded")):
            part["slowdown"] = alone / ideal
    if lost > 1e-9 * total:  # less than rounding is no loss
        for part, without in zip(parts, totals("recorded", "ideal")):
            part["share"] = (total - without) / lost
    for some in (workers, kinds):
        some.sort(key=lambda each: -each["slowdown"])
    return {"time_s": total, "ideal_time_s": ideal, "slowdown": total / ideal if ideal > 0 else 1.0, "gap_share": run["gap_share"],
            "workers": workers, "kinds": kinds}


def replay(path: str, without: list[str] = (), speed: list[float] = (), network: str = "", columns: str = "") -> dict:
    """The document of `hetsgd replay --json`: time_s, ideal_time_s, slowdown, workers, kinds, ... `without`, `speed` and `network` are
    its options; they give changed_time_s. Raises Error."""
    with _timeline.Record(path, columns, network) as record:
        what_if = WhatIf(record)
        times = what_if.recorded.copy()
        for what in without:
            what_if.leave_out(what, times)
        if network:
            what_if.change_network(times)
        what_if.change_speed(list(speed), times)
        facts = record.facts
        result = {**attribute(what_if), "algorithm": facts["algorithm"], "decisions_frozen": facts["algorithm"] not in FIXED_DECISIONS,
                  "negative_gaps": facts["negative_gaps"], "cut": facts["cut"]}
        if without or len(speed) or network:
            changed = np.flatnonzero(times != what_if.recorded)
            result["changed_time_s"] = record.run(calls=changed.tolist(), own_s=times[changed].tolist())["total_s"]
        for warning in warnings_of(result, facts):
            _text.warn(warning)
        return result


def warnings_of(result: dict, facts: dict) -> list[str]:
    """Sentences to keep in mind about a replay."""
    gaps, frozen, negative = result["gap_share"], result["decisions_frozen"], result["negative_gaps"]
    return [*([f"{facts['path']} is cut off: replayed up to the end of its last whole round, {_text.format_seconds(facts['elapsed_s'])}"]
              if facts["cut"] else []),
            *([f"{100 * gaps:.1f} % of the longest path lies between calls, where the record says nothing: the cause of a slowdown may be "
               "there"] if gaps > LARGE_GAP_SHARE else []),
            *([f"{facts['algorithm']} decides by times, and a replay keeps the recorded decisions: `hetsgd train --replay` lets it decide "
               "anew"] if frozen else []),
            *([f"{negative} calls begin before what they depend on, because clocks differ"] if negative else [])]


def text_of(result: dict) -> str:
    """A replay as tables for people."""
    times = (("time", "time_s"), ("time with the changes", "changed_time_s"), ("time without stragglers", "ideal_time_s"))
    facts = [[heading, _text.format_seconds(result[key])] for heading, key in times if key in result]
    facts += [["slowdown S", f"{result['slowdown']:.4f}"], ["gaps on the longest path", f"{100 * result['gap_share']:.1f} %"]]
    tables = [_text.table(["property", "value"], facts, "text")]
    for heading, key, parts in (("worker", "rank", result["workers"]), ("kind", "kind", result["kinds"])):
        rows = [[str(each[key]), f"{each['slowdown']:.4f}", f"{100 * each['share']:.1f} %"] for each in parts]
        tables += [_text.table([heading, "slowdown alone", "share of the lost time"], rows, "text")] if rows else []
    return "\n".join(tables)


def command(options: object, operands: list[str]) -> int:
    """hetsgd replay"""
    result = replay(operands[0], options.without, options.speed, options.network, options.columns)
    if options.json:
        _results.print_json(result)
    else:
        _text.say(text_of(result))
    return 0
