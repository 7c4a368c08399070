"""Claims of the papers beside what was found. A claim of a specification ([[claims]]) has `figure`, `claim`, `expected` (what the
paper says), and one of

  untestable                                   why nothing here can tell
  setup, case, reference, measure, side        a ratio of the case's figure over the reference's
  setup, case, reading, side, bound            a figure of the case alone
  setup, case, reading, side, of               the ratio of such a figure over the number `of`, the paper's
  setup, case, reference, reading, side        the ratio of two such figures; its ends are those that both ends allow
  case, reference, measure, side               of a benchmark, measure latency or in_call (from a worker's own arrival, mean over
                                               the workers): the ratio over all sizes, its median, smallest and largest; setup
                                               where the benchmark has some

reference_setup: the reference runs there; such a ratio has no p, so its whole interval must lie on the side. measure: speedup
(the reference's time to the target over the case's), or time_s, first_crossing, samples, updates (to the target), samples_per_s,
updates_per_s, final, each the case's over the reference's; with reference_setup one of reproduce_runs.VALUES, such as time_s, and
`of` may divide the ratio, too. side: where the ratio lies from 1, or the reading from the bound, if the claim holds: above, below,
equal (within 5 %, or the share that the key within says), or at_most (no more than that key says, 1 or not). at_least, at_most: what
the paper's figures ask of the ratio beyond the side. cause: why ours differs, with the evidence; added when there are numbers.
"""
import math
import statistics
import sys

import reproduce_runs

P_LIMIT = 0.05        # of a difference that may be claimed
EQUAL_WITHIN = 0.05   # of 1, both ends of the interval, unless the claim says another
SIDES = ("above", "below", "equal", "at_most")
MEASURES = {
    "speedup": "speed-up to the target", "time_s": "time to the target", "first_crossing": "first crossing",
    "samples": "samples to the target", "updates": "iterations to the target", "samples_per_s": "samples/s",
    "updates_per_s": "iterations/s", "final": "final metric", "latency": "latency, all sizes",
    "in_call": "time in the call, all sizes"}
VERDICTS = ("holds", "holds in direction", "does not hold", "not testable", "not run")


def check(figure):
    """Ends the script where a claim names what the specification lacks, or lacks what decides it."""
    def refuse(claim, what):
        sys.exit(f"{figure.path}: claim \"{claim.get('claim')}\": {what}")
    for claim in figure.claims:
        ways = [key for key in ("untestable", "measure", "reading") if key in claim]
        if len(ways) != 1:
            refuse(claim, f"found {', '.join(ways) or 'nothing'}, expected one of untestable, measure, reading")
        if "untestable" in claim or "bench" in figure.spec:
            continue
        for setup, case in ((claim["setup"], claim["case"]),
                            (claim.get("reference_setup", claim["setup"]), claim.get("reference", claim["case"]))):
            if case not in figure.pairs.get(setup, []):
                refuse(claim, f"found no case {case} under a setup {setup}, expected one of the specification")
        if claim.get("measure", "final") not in MEASURES or claim.get("reading", "contributors") not in reproduce_runs.READINGS:
            refuse(claim, f"found {claim.get('measure', claim.get('reading'))}, expected a known measure or reading")
        if claim["side"] not in SIDES or (claim["side"] == "at_most" and "at_most" not in claim):
            refuse(claim, f"found the side {claim['side']}, expected one of {', '.join(SIDES)}, and for at_most its number")


def bench_ratio(figure, claim):
    rows = figure.bench(claim.get("setup", ""), claim["measure"])
    ratios = [rows[claim["case"]][size] / rows[claim["reference"]][size] for size in rows[claim["reference"]]]
    return reproduce_runs.as_ends((statistics.median(ratios), min(ratios), max(ratios)))


def is_there(figure, claim):
    if "bench" in figure.spec:
        return figure.bench_file(claim.get("setup", "")).exists()
    return ((claim["setup"], claim["case"]) in figure.files and
            (claim.get("reference_setup", claim["setup"]), claim.get("reference", claim["case"])) in figure.files)


def found(figure, claim):
    """(the ratio or reading as {median, low, high} or None, its p-value or None)."""
    if "bench" in figure.spec:
        return bench_ratio(figure, claim), None
    name = claim.get("reading", claim.get("measure"))
    if "reading" in claim or "reference_setup" in claim:
        value = figure.value(claim["setup"], claim["case"], name)
        if "reference" in claim:
            base = figure.value(claim.get("reference_setup", claim["setup"]), claim["reference"], name)
            value = reproduce_runs.quotient(value, base) if value and base and base["low"] else None
        own = value and "of" in claim
        return reproduce_runs.quotient(value, reproduce_runs.as_ends([claim["of"]] * 3)) if own else value, None
    row = figure.rows(claim["setup"], claim["reference"])[claim["case"]]
    if name in ("speedup", "time_s"):
        return row["speedup"] if name == "speedup" else inverse(row["speedup"]), row["p_value"]
    relation = row[name + "_relation"]
    return relation["ratio"], relation["p_value"]


def inverse(value):
    """One over a ratio and its interval; the inverse of 0, never, is infinity, and no ratio stays none."""
    over = {key: each and 1 / each if each != 0 else math.inf for key, each in value.items()}
    return {"median": over["median"], "low": over["high"], "high": over["low"]}


def beyond(value, side, bound):
    return value > bound if side == "above" else value < bound


def reaches_paper(claim, low, high):
    """Whether what the paper's figures ask lies within the interval, or is exceeded by all of it."""
    return high >= claim.get("at_least", -math.inf) and low <= claim.get("at_most", math.inf)


def differs(claim, low, high, p):
    """Whether a difference from 1 is shown: by p, or without one by the whole interval."""
    return p <= P_LIMIT if p is not None else low > 1 or high < 1


def verdict(claim, value, p):
    """One of VERDICTS and, in brackets, what decided it."""
    median, low, high = (value[key] for key in ("median", "low", "high"))
    if median is None or math.isnan(median):
        return "does not hold (neither reaches the target)"
    if claim["side"] == "equal":
        within = claim.get("within", EQUAL_WITHIN)
        if 1 - within <= low and high <= 1 + within:
            return "holds"
        if differs(claim, low, high, p):
            return "does not hold (they differ)"
        return "does not hold (not shown to be equal)"
    if claim["side"] == "at_most":
        if high <= claim["at_most"]:
            return "holds"
        return "holds in direction" if median <= claim["at_most"] else "does not hold"
    if "bound" in claim:
        return "holds" if beyond(median, claim["side"], claim["bound"]) else "does not hold"
    if not differs(claim, low, high, p) and "reading" not in claim:
        return "does not hold (no difference shown)"
    if not beyond(median, claim["side"], 1):
        return "does not hold (the opposite)"
    return "holds" if reaches_paper(claim, low, high) else "holds in direction"


def told(figure, claim):
    """The quantity that the number of a claim measures, in words."""
    what = claim["reading"].replace("_", " ") if "reading" in claim else MEASURES[claim["measure"]]
    if claim.get("measure") == "final":
        name = figure.spec.get("metric", {}).get("name", "metric")
        what = f"final {({'p1': 'P@1', 'auc': 'AUC'}).get(name, name)}"
    what += f" over {claim['of']}" if "of" in claim else ""
    who = claim["case"] + (f" over {claim['reference']}" if "reference" in claim else "")
    where = claim.get("setup", "")
    if "reference_setup" in claim:
        where += f" over {claim['reference_setup']}"
    return f"{what}, {who}" + (f"; {where}" if where else "")


def decide(figure, claim):
    """The claim with what was found: what verdicts.json and the pages say of it."""
    record = {"paper": figure.spec["paper"], "id": figure.id,
              **{key: claim[key] for key in ("figure", "claim", "expected", "cause") if key in claim},
              "found": None, "p_value": None, "of": None}
    if "untestable" in claim:
        return {**record, "verdict": "not testable", "cause": claim["untestable"]}
    record["of"] = told(figure, claim)
    if not is_there(figure, claim):
        return {**record, "verdict": "not run"}
    value, p = found(figure, claim)
    return {**record, "found": value, "p_value": p,
            "verdict": verdict(claim, value, p) if value else "does not hold (it never happened)"}


def decide_all(figure):
    check(figure)
    return [decide(figure, claim) for claim in figure.claims]


def kind(record):
    """The verdict as in VERDICTS, without what decided it."""
    return record["verdict"].split(" (")[0]


def counts(records):
    """{verdict: how many}, of those that occur."""
    kinds = [kind(record) for record in records]
    return {name: kinds.count(name) for name in VERDICTS if name in kinds}
