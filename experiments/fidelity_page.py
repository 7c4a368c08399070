"""What fidelity.py writes: a JSON file and a table per part, and the page of claims that is assembled from them.

A claim of fidelity_claims.toml has `paper`, `figure`, `claim` and `number` (what the paper says), and one of

  untestable                                       why nothing here can tell
  part, setup, method, reference, measure, side    a ratio of the method's figure over the reference's
  part, setup, method, reading, side, bound        a figure of the method alone
  part, setup, method, reference, reading, side    the ratio of two such figures; its ends are those of the readings

measure: speedup (the reference's time to the target over the method's), or smoothed_time, samples, updates (to the target),
samples_per_s, updates_per_s, final, each the method's over the reference's. side: where the ratio lies from 1, or the reading from
the bound, if the claim holds: above, below, equal (within 5 %), or at_most (no more than that key says, 1 or not). at_least,
at_most: what the paper's figures ask of the ratio beyond the side. cause: why ours differs, with the evidence; added when there
are numbers.
"""
import json
import math
import sys
import tomllib

P_LIMIT = 0.05        # of a difference that may be claimed
EQUAL_WITHIN = 0.05   # of 1, both ends of the interval

PAPERS = {"000": "Adaptive SGD (000)", "001": "Adasum (001)", "002": "CROSSBOW (002)", "003": "ESync (003)",
          "004": "RNA (004, chapter 5)"}
MEASURES = {
    "speedup": "speed-up to the target", "smoothed_time": "smoothed time", "samples": "samples to the target",
    "updates": "iterations to the target", "samples_per_s": "samples/s", "updates_per_s": "iterations/s", "final": "final P@1"}
VERDICTS = ("holds", "holds in direction", "does not hold", "not testable")


def read_claims(path, parts):
    """The claims, checked against the parts that they name."""
    claims = tomllib.loads(path.read_text())["claim"]
    for claim in claims:
        if "untestable" in claim:
            continue
        part = parts[claim["part"]]
        asked = {claim["method"], claim.get("reference", claim["method"])}
        if claim["setup"] not in part.setups or not asked <= set(part.methods):
            sys.exit(f"{path}: {claim['claim']}: {claim['part']} has no {claim['setup']} with {', '.join(sorted(asked))}")
        if "reading" in claim and claim["reading"] not in part.readings:
            sys.exit(f"{path}: {claim['claim']}: {claim['part']} has no reading {claim['reading']}")
    return claims


def writable(node):
    """The document with infinities as strings, which JSON lacks, and six digits of every number."""
    if isinstance(node, dict):
        return {key: writable(value) for key, value in node.items()}
    if isinstance(node, list):
        return [writable(each) for each in node]
    if not isinstance(node, float):
        return node
    return float(f"{node:.6g}") if math.isfinite(node) else str(node)


def number(value):
    """A number of a part's file; None if there is none."""
    return float(value) if value is not None else None


def show(value, digits=3):
    value = number(value)
    if value is None:
        return "-"
    if math.isinf(value):
        return "never" if value > 0 else "-inf"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"


def interval(node):
    return f"{show(node['median'])} [{show(node['low'])}, {show(node['high'])}]"


def probability(p):
    if p is None:
        return "-"
    return "< 0.0001" if p < 0.0001 else f"{p:.2g}"


def related(relation):
    return f"{interval(relation['ratio'])}, {probability(relation['p_value'])}"


def method_row(method, row):
    star = "*" if row["edge_of_grid"] else ""
    cells = [method, f"{row['learning_rate']:.3g}{star}", f"{row['reached']}/{row['n']}", interval(row["time_s"]),
             interval(row["smoothed_time_s"]), f"{interval(row['speedup'])}, {probability(row['p_value'])}",
             related(row["smoothed_time_relation"]), related(row["samples_relation"]), related(row["updates_relation"]),
             related(row["samples_per_s_relation"]), related(row["updates_per_s_relation"]), interval(row["final"]),
             probability(row["final_relation"]["p_value"]),
             "; ".join(f"{name} {interval(value)}" for name, value in row["readings"].items()) or "-"]
    return "| " + " | ".join(cells) + " |"


def setup_table(setup, reference, rows):
    target = next(iter(rows.values()))["target"]
    head = ["method", "rate", "reached", f"time to {target}, s", "smoothed, s", f"speed-up over {reference}, p",
            "smoothed time, p", "samples, p", "iterations, p", "samples/s, p", "iterations/s, p", "final", "p", "readings"]
    return "\n".join([f"## {setup}", "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|",
                      *(method_row(method, row) for method, row in rows.items()), ""])


LEGEND = """Medians over the seeds [95 % bootstrap interval]. speed-up: {0}'s time over the row's; the columns from "smoothed
time" to "iterations/s": the row's over {0}'s. p: two-sided Mann-Whitney U test against {0}. A missed target is infinity
("never"). A star: the rate is at the edge of the grid. Readings: median [smallest, largest].
"""


def write_part(folder, name, part, results):
    folder.mkdir(parents=True, exist_ok=True)
    document = {"about": part.about, "reference": part.reference, "setups": results}
    (folder / f"{name}.json").write_text(json.dumps(writable(document), indent=1, allow_nan=False) + "\n")
    tables = [setup_table(setup, part.reference, by_reference[part.reference])
              for setup, by_reference in writable(results).items()]
    (folder / f"{name}.md").write_text("\n".join([f"# {name}", "", part.about, "", LEGEND.format(part.reference), *tables]))


def found(claim, document):
    """(the ratio or reading as {median, low, high}, its p-value or None)."""
    rows = document["setups"][claim["setup"]]
    if "reading" in claim:
        value, base = (rows[document["reference"]][claim[who]]["readings"].get(claim["reading"]) if who in claim else None
                       for who in ("method", "reference"))
        return quotient(value, base) if value and base else value, None
    row = rows[claim["reference"]][claim["method"]]
    if claim["measure"] == "speedup":
        return row["speedup"], row["p_value"]
    relation = row[claim["measure"] + "_relation"]
    return relation["ratio"], relation["p_value"]


def quotient(value, base):
    a, b = ({key: number(each[key]) for key in ("median", "low", "high")} for each in (value, base))
    return {"median": a["median"] / b["median"], "low": a["low"] / b["high"], "high": a["high"] / b["low"]}


def beyond(value, side, bound):
    return value > bound if side == "above" else value < bound


def reaches_paper(claim, low, high):
    """Whether what the paper's figures ask lies within the interval, or is exceeded by all of it."""
    return high >= claim.get("at_least", -math.inf) and low <= claim.get("at_most", math.inf)


def verdict(claim, value, p):
    """One of VERDICTS and, in brackets, what decided it."""
    median, low, high = (number(value[key]) for key in ("median", "low", "high"))
    if median is None:
        return "does not hold (neither reaches the target)"
    if claim["side"] == "equal":
        if 1 - EQUAL_WITHIN <= low and high <= 1 + EQUAL_WITHIN:
            return "holds"
        if p is not None and p <= P_LIMIT:
            return "does not hold (they differ)"
        return "does not hold (not shown to be equal)"
    if claim["side"] == "at_most":
        if high <= claim["at_most"]:
            return "holds"
        return "holds in direction" if median <= claim["at_most"] else "does not hold"
    if "bound" in claim:
        return "holds" if beyond(median, claim["side"], claim["bound"]) else "does not hold"
    if p is not None and p > P_LIMIT:
        return "does not hold (no difference shown)"
    if not beyond(median, claim["side"], 1):
        return "does not hold (the opposite)"
    return "holds" if reaches_paper(claim, low, high) else "holds in direction"


def ours(claim, value, p):
    what = claim["reading"].replace("_", " ") if "reading" in claim else MEASURES[claim["measure"]]
    who = claim["method"] + (f" over {claim['reference']}" if "reference" in claim else "")
    tail = "" if p is None else f", p {probability(p)}"
    return f"{interval(value)}{tail} ({what}, {who}; [{claim['part']}](fidelity/{claim['part']}.md), {claim['setup']})"


def claim_row(claim, documents):
    """(verdict, one row of a paper's table)"""
    if "untestable" in claim:
        result, figures, cause = "not testable", "-", claim["untestable"]
    else:
        value, p = found(claim, documents[claim["part"]])
        figures = ours(claim, value, p) if value else "-"
        result = verdict(claim, value, p) if value else "does not hold (it never happened)"
        cause = claim.get("cause", "")
        if not cause and result != "holds":
            print(f"no cause yet: {claim['paper']} {claim['figure']}, {claim['claim']}: {result}", file=sys.stderr)
    return result, f"| {claim['figure']} | {claim['claim']} | {claim['number']} | {figures} | {result} | {cause} |"


HEAD = """# The methods against their papers

Made by `experiments/fidelity.py` (simulated, the same on any machine), which says how rates are tuned and what runs where; the
claims, with their places in the papers, are in `experiments/fidelity_claims.toml`. Medians over the seeds [95 % bootstrap
interval]; p of a two-sided Mann-Whitney U test. A ratio holds if it lies on the paper's side of 1 with p at most 0.05 and its
interval reaches the paper's figure, where there is one; it holds in direction if it does not reach it. A claim of equality holds
if the interval lies within 5 % of 1, one of an upper limit if the interval stays below it (in direction if the median does).
Where no difference is shown a claim does not hold, and neither is its opposite shown. Readings are medians [smallest, largest].
"""


def write_page(results, parts, claims):
    """results/fidelity.md, if every part that a claim needs is there; the page has no empty figures."""
    files = {name: results / "fidelity" / f"{name}.json" for name in parts}
    missing = sorted({claim["part"] for claim in claims if "part" in claim and not files[claim["part"]].exists()})
    if missing:
        print(f"{results / 'fidelity.md'} is not written: it waits for the parts {', '.join(missing)}", file=sys.stderr)
        return
    documents = {name: json.loads(path.read_text()) for name, path in files.items() if path.exists()}
    rows = {paper: [] for paper in PAPERS}
    counts = dict.fromkeys(VERDICTS, 0)
    for claim in claims:
        result, row = claim_row(claim, documents)
        counts[result.split(" (")[0]] += 1
        rows[claim["paper"]].append(row)
    text = [HEAD, "Of {} claims: {}.\n".format(len(claims), ", ".join(f"{count} {name}" for name, count in counts.items()))]
    for paper, title in PAPERS.items():
        text += [f"## {title}\n", "| figure | claim | the paper | ours | verdict | cause, evidence |", "|---" * 6 + "|",
                 *rows[paper], ""]
    text += ["## Parts\n", *(f"- [{name}](fidelity/{name}.md): {document['about']}" for name, document in documents.items()), ""]
    (results / "fidelity.md").write_text("\n".join(text))
    print(results / "fidelity.md")
