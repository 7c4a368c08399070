"""Claims beside what was found. A claim of a specification ([[claims]]) has `figure`, `claim`, `expected` (what the paper says, in
words), and one of

  untestable                                   why nothing here can tell
  setup, case, reference, measure, side        a ratio of the case's figure over the reference's
  setup, case, reading, side                   a figure of the case alone
  setup, case, reference, reading, side        the ratio of two such figures; its ends are those that both ends allow
  case, reference, measure, side               of a benchmark, measure latency or in_call (from a worker's own arrival, mean over
                                               the workers): the ratio over all sizes, its median, smallest and largest; setup
                                               where the benchmark has some

measure: speedup (the reference's time to the target over the case's), or time_s, first_crossing, samples, updates (to the target),
samples_per_s, updates_per_s, final, each the case's over the reference's. reference_setup: the reference runs there; if the two
setups have different targets, the ratio has no p.

side: where the number lies if the claim holds: `above` or `below` 1, or another number that the key `bound` says; or `equal` to 1 or
to the paper's number, within 5 % or the share that the key `within` says. A claim with a bound, a reading, and a ratio without p are
judged by the whole interval.
paper: the paper's number, or its range as two numbers, in the unit of what is found. It has two sides: a number can be missed and
exceeded.

fitted: why this number could not come out otherwise (the clock or the data was made from it). It is no evidence, whatever it is.
headline: true of the claims by which a paper stands; results/fidelity.md begins with them.
finding: true of a claim that no paper makes. It is a finding of ours (results/findings.md) and counts among no paper's claims.
cause: why ours differs; added when there are numbers. tested: the page, row or command that tested the cause. Without it the pages
call the cause not tested.

Verdicts, in the words of VERDICTS, with what decided them in brackets:

  holds                 the difference is shown, has the sign, and its interval meets the paper's number if there is one
  in direction          as before, but the whole interval falls short of the paper's number
  beyond                as before, but the whole interval exceeds the paper's number by more than 1.25 times
  does not hold         the opposite is shown, or a difference where equality is claimed, or neither reaches the target, or the case
                        misses the target in the median where the paper has a number
  no difference shown   neither the claim nor its opposite; beside it the least ratio that the seeds would have shown
  fitted, not testable, not run

A difference from 1 is shown if p is at most 0.05 and the median differs by at least 1 % (half of the paper's effect, if that is less
than 2 %).
"""
import math
import statistics
import sys

import reproduce_runs
from hetsgd import _results

P_LIMIT = 0.05        # of a difference that may be claimed
EQUAL_WITHIN = 0.05   # of the number that is claimed, both ends of the interval, unless the claim says another
LEAST_EFFECT = 0.01   # a smaller difference is not claimed, whatever p is
BEYOND = 1.25         # times the paper's number
SIDES = ("above", "below", "equal")
KEYS = {"figure", "claim", "expected", "untestable", "setup", "case", "reference", "reference_setup", "measure", "reading", "side",
        "bound", "within", "paper", "fitted", "finding", "cause", "tested", "headline"}
MEASURES = {
    "speedup": "speed-up to the target", "time_s": "time to the target", "first_crossing": "first crossing",
    "samples": "samples to the target", "updates": "iterations to the target", "samples_per_s": "samples/s",
    "updates_per_s": "iterations/s", "final": "final metric", "latency": "latency, all sizes",
    "in_call": "time in the call, all sizes"}
VERDICTS = ("holds", "in direction", "beyond", "does not hold", "no difference shown", "fitted", "not testable", "not run")


def check(figure):
    """Ends the script where a claim names what the specification lacks, or lacks what decides it."""
    def refuse(claim, what):
        sys.exit(f"{figure.path}: claim \"{claim.get('claim')}\": {what}")
    for claim in figure.claims:
        if unknown := set(claim) - KEYS:
            refuse(claim, f"found the key {', '.join(sorted(unknown))}, expected one of {', '.join(sorted(KEYS))}")
        ways = [key for key in ("untestable", "measure", "reading") if key in claim]
        if len(ways) != 1:
            refuse(claim, f"found {', '.join(ways) or 'nothing'}, expected one of untestable, measure, reading")
        if "tested" in claim and "cause" not in claim:
            refuse(claim, "found tested without a cause, expected the cause that was tested")
        if "untestable" in claim:
            continue
        if claim["side"] not in SIDES or (claim["side"] == "equal" and "bound" in claim):
            refuse(claim, f"found the side {claim['side']}, expected one of {', '.join(SIDES)}, and a bound with above or below alone")
        if "bench" in figure.spec:
            continue
        for setup, case in sides_of(claim):
            if case not in figure.pairs.get(setup, []):
                refuse(claim, f"found no case {case} under a setup {setup}, expected one of the specification")
        if claim.get("measure", "final") not in MEASURES or claim.get("reading", "contributors") not in reproduce_runs.READINGS:
            refuse(claim, f"found {claim.get('measure', claim.get('reading'))}, expected a known measure or reading")


def sides_of(claim):
    """The (setup, case) of the claim's number and of its reference; both are the same if there is none."""
    return ((claim["setup"], claim["case"]),
            (claim.get("reference_setup", claim["setup"]), claim.get("reference", claim["case"])))


def bench_ratio(figure, claim):
    rows = figure.bench(claim.get("setup", ""), claim["measure"])
    ratios = [rows[claim["case"]][size] / rows[claim["reference"]][size] for size in rows[claim["reference"]]]
    return reproduce_runs.as_ends((statistics.median(ratios), min(ratios), max(ratios)))


def is_there(figure, claim):
    if "bench" in figure.spec:
        return figure.bench_file(claim.get("setup", "")).exists()
    return all(pair in figure.files for pair in sides_of(claim))


def found(figure, claim):
    """The number of a claim: `found`, the ratio or reading as {median, low, high} or None, and of a test `p_value`, `test` and
    `least_effect`, or None."""
    no_test = {"p_value": None, "test": None, "least_effect": None}
    if "bench" in figure.spec:
        return {"found": bench_ratio(figure, claim), **no_test}
    own, base = sides_of(claim)
    name = claim.get("reading", claim.get("measure"))
    row = figure.row(own, base) if "measure" in claim else None
    if row is None:
        value = figure.value(*own, name)
        if "reference" in claim:
            other = figure.value(*base, name)
            value = reproduce_runs.quotient(value, other) if value and other and other["low"] else None
        return {"found": value, **no_test}
    if name in ("speedup", "time_s"):
        ratio, relation = row["speedup"] if name == "speedup" else inverse(row["speedup"]), row
    else:
        relation = row[name + "_relation"]
        ratio = relation["ratio"]
    if "bound" in claim:  # the test is one of a difference from 1, which says nothing about a limit
        return {"found": ratio, **no_test}
    p = 1.0 if row["test"] and row["n"] == 1 else relation["p_value"]  # one seed shows no difference
    return {"found": ratio, "p_value": p, "test": row["test"], "least_effect": relation["least_effect"]}


def inverse(value):
    """One over a ratio and its interval; the inverse of 0, never, is infinity, and no ratio stays none."""
    over = {key: each and 1 / each if each != 0 else math.inf for key, each in value.items()}
    return {"median": over["median"], "low": over["high"], "high": over["low"]}


def paper_range(claim):
    """The paper's number as (low, high), or None."""
    paper = claim.get("paper")
    return paper if paper is None else tuple(paper) if isinstance(paper, list) else (paper, paper)


def least(claim, null):
    """The least share of `null` by which a median must differ from it. A limit has none: it is no difference that matters."""
    if "bound" in claim:
        return 0
    effects = [abs(each / null - 1) / 2 for each in paper_range(claim) or () if null and each != null]
    return min([LEAST_EFFECT, *effects])


def differs(claim, value, p, null):
    """Whether a difference from `null` is shown: by p if there is one for this null, else by the whole interval."""
    by_test = p is not None and null == 1 and "bound" not in claim
    apart = p <= P_LIMIT if by_test else value["low"] > null or value["high"] < null
    return apart and abs(value["median"] - null) >= least(claim, null) * abs(null)


def not_shown(what, effect):
    """The verdict, with the least ratio that the seeds would have shown."""
    if effect is not None and math.isinf(effect):
        could = "so few seeds can show none"
    else:
        could = "" if effect is None or math.isnan(effect) else f"the seeds would have shown {effect:.3g} times"
    words = "; ".join(text for text in (what, could) if text)
    return "no difference shown" + (f" ({words})" if words else "")


def equality(claim, value, p, effect):
    low, high = paper_range(claim) or (1, 1)
    within = claim.get("within", EQUAL_WITHIN)
    if low * (1 - within) <= value["low"] and value["high"] <= high * (1 + within):
        return "holds"
    null = low if value["median"] < low else high
    if not low <= value["median"] <= high and differs(claim, value, p, null):
        return "does not hold (they differ)"
    return not_shown(f"nor equality within {100 * within:g} %", effect)


def beside_paper(claim, low, high):
    """`holds`, or how the whole interval misses or exceeds the paper's number."""
    above = claim["side"] == "above"
    numbers = paper_range(claim)
    if numbers is None:
        return "holds"
    if high < numbers[0] if above else low > numbers[1]:
        return "in direction"
    return "beyond" if (low > BEYOND * numbers[1] if above else high < numbers[0] / BEYOND) else "holds"


def misses(claim, median):
    """Whether the case never holds the target, by the median: its speed-up is 0, and of time, samples and iterations it needs infinitely
    many."""
    return median == (0 if claim.get("measure") == "speedup" else math.inf)


def verdict(claim, value, p=None, effect=None):
    """One of VERDICTS and, in brackets, what decided it. effect: the least one that the seeds would have shown."""
    median, low, high = (value[key] for key in ("median", "low", "high"))
    if median is None or math.isnan(median):
        return "does not hold (neither reaches the target)"
    if claim["side"] == "equal":
        return equality(claim, value, p, effect)
    null = claim.get("bound", 1)
    if not differs(claim, value, p, null):
        small = abs(median - null) < least(claim, null) * abs(null)
        return not_shown(f"below {100 * least(claim, null):.2g} %" if small else "", effect)
    if not (median > null if claim["side"] == "above" else median < null):
        return "does not hold (the opposite)"
    if paper_range(claim) and misses(claim, median):
        return "does not hold (the case misses the target)"
    return beside_paper(claim, low, high)


def asked(claim):
    """The condition of the verdict, in words."""
    if "untestable" in claim:
        return "-"
    numbers = paper_range(claim)
    paper = None if numbers is None else f"{numbers[0]:g}" + (f" to {numbers[1]:g}" if numbers[1] != numbers[0] else "")
    if claim["side"] == "equal":
        return f"{paper or 1}, within {100 * claim.get('within', EQUAL_WITHIN):g} %"
    return f"{claim['side']} {claim.get('bound', 1):g}" + ("" if paper is None else f"; the paper's {paper}")


def told(figure, claim):
    """The quantity that the number of a claim measures, in words."""
    what = claim["reading"].replace("_", " ") if "reading" in claim else MEASURES[claim["measure"]]
    if claim.get("measure") == "final":
        name = figure.spec.get("metric", {}).get("name", "metric")
        what = f"final {({'p1': 'P@1', 'auc': 'AUC'}).get(name, name)}"
    who = claim["case"] + (f" over {claim['reference']}" if "reference" in claim else "")
    where = claim.get("setup", "")
    if "reference_setup" in claim:
        where += f" over {claim['reference_setup']}"
    return f"{what}, {who}" + (f"; {where}" if where else "")


def differing_options(figure, claim):
    """{option: [of the case, of the reference]} where they differ, defaults included; None: the method has no such option."""
    if "bench" in figure.spec or "reference" not in claim:
        return {}
    results = [figure.results[pair][0] for pair in sides_of(claim)]
    own, base = map(_results.telling_options, results)
    return {key: [result["config"].get(key) for result in results] for key in sorted({*own, *base} - {"algorithm"}) if
            own.get(key) != base.get(key)}


def decide(figure, claim):
    """The claim with what was found: what verdicts.json and the pages say of it."""
    kept = ("figure", "claim", "expected", "headline", "finding", "fitted", "cause", "tested")
    record = {"paper": figure.spec["paper"], "id": figure.id, **{key: claim[key] for key in kept if key in claim},
              "asked": asked(claim), "found": None, "p_value": None, "of": None}
    if "untestable" in claim:
        return {**record, "verdict": "not testable", "untestable": claim["untestable"]}
    record["of"] = told(figure, claim)
    if not is_there(figure, claim):
        return {**record, "verdict": "not run"}
    record |= found(figure, claim) | {"options": differing_options(figure, claim), "specification": figure.specification}
    said = verdict(claim, record["found"], record["p_value"], record["least_effect"]) if record["found"] \
        else "does not hold (it never happened)"
    return {**record, "verdict": f"fitted ({said.split(' (')[0]})" if "fitted" in claim else said}


def decide_all(figure):
    check(figure)
    return [decide(figure, claim) for claim in figure.claims]


def is_earlier(record, figure):
    """Whether the number of the claim comes from runs of an earlier specification, or of a program whose results have changed
    since (its hash was taken out of the record)."""
    return record.get("found") is not None and record.get("specification") != figure.specification


def kind(record):
    """The verdict as in VERDICTS, without what decided it."""
    return record["verdict"].split(" (")[0]


def counts(records):
    """{verdict: how many}, of those that occur."""
    kinds = [kind(record) for record in records]
    return {name: kinds.count(name) for name in VERDICTS if name in kinds}


def reason(record):
    """Why the number is what it is, and whether that was tested."""
    cause = record.get("cause", "")
    if cause:
        cause = f"{cause} (tested: {record['tested']})" if "tested" in record else f"not tested: {cause}"
    fitted = f"fitted: {record['fitted']}" if "fitted" in record else ""
    return "; ".join(text for text in (record.get("untestable", ""), fitted, cause) if text)
