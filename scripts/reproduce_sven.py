"""The rows of Sven (chapter 6 of Yang's dissertation) in one table, with causes and pictures, from the verdicts of its figures
(results/ID/verdicts.json), as they stand between the markers of results/sven.md.

`kind` in [figure] of a specification says what its numbers are: one of KINDS; F also where a charge was fitted. A row of one
kind stands beside no row of another.
"""
import math

import reproduce_verdicts

PAPER = "Sven"
KINDS = {
    "F": "**F**, fitted simulation: the stages take the seconds that four numbers of the paper for each model fix, and little else "
         "(`lib/training/charges`, `experiments/charges`); the mathematics is small. A row that was fitted tests the simulator alone, "
         "and says so.",
    "D": "**D**, derived simulation: models in the size of the public benchmarks, charged by their operations and bytes on an A100; "
         "nothing is fitted but the servers' 5 GB/s of v-t3d (to table 6.3), and the paper's ratios are not expected.",
    "real": "**real**: what is learnt from generated Criteo, in real mathematics; `sim` orders what workers do. Of v-6r and v-7r the "
            "seconds are real as well: two ranks on two cores, where the paper has 64 and 128 GPUs.",
    "counts": "**counts**: of ids and lookups of generated Criteo; nothing is modelled."}


def fitted(figure):
    """Whether a setup's charge is one of those that were fitted."""
    settings = [figure.spec.get("settings", {}), *(setup.get("settings", {}) for setup in figure.spec.get("setups", []))]
    return any("sven-" in each.get("charge", "") for each in settings)


def kind_of(figure):
    return figure.figure.get("kind", "F" if fitted(figure) else None)


def number(value):
    if value is None or not math.isfinite(float(value)):
        return "never"
    return f"{float(value):,.0f}" if abs(float(value)) >= 1000 else f"{float(value):.4g}"


def found(record):
    node = record["found"]
    if not node:
        return "-"
    ends = "" if node["low"] == node["high"] else f" [{number(node['low'])}, {number(node['high'])}]"
    tail = "" if record["p_value"] is None else f", p {record['p_value']:.2g}"
    return f"{number(node['median'])}{ends}{tail}"


def row(figure, record):
    what = record["claim"] if record["figure"] == "-" else f"{record['figure']}: {record['claim']}"
    return f"| [{figure.id}]({figure.id}/README.md) | {kind_of(figure) or '-'} | {what} | {record['expected']} " \
           f"| {found(record)} | {record['asked']} | {record['verdict']} |"


def tally(kind, pairs):
    counts = reproduce_verdicts.counts([record for figure, record in pairs if kind_of(figure) == kind])
    return f" Rows: {', '.join(f'{name} {count}' for name, count in counts.items())}." if counts else ""


def causes(pairs):
    """One line for each text, however many claims have it; of what holds, nothing."""
    lines = {}
    for figure, record in pairs:
        if reproduce_verdicts.reason(record) and record["verdict"] != "holds":
            lines.setdefault(reproduce_verdicts.reason(record), []).append(f"{figure.id}, {record['claim']}")
    return [f"- **{'; '.join(names)}**: {text}" for text, names in lines.items()]


def page(figures, stored):
    """The text between the markers. stored: of a figure's id its records, or None."""
    ours = [figure for figure in figures if figure.spec["paper"] == PAPER and stored(figure.id) is not None]
    pairs = [(figure, record) for figure in ours for record in stored(figure.id)]
    text = [*(f"- {line}{tally(kind, pairs)}" for kind, line in KINDS.items()), "", "## Rows", "",
            "| id | kind | what | the paper | found | asked | verdict |", "|---" * 7 + "|",
            *(row(figure, record) for figure, record in pairs)]
    text += ["", "## Causes", "", *causes(pairs), "", "## Pictures"]
    for figure in ours:
        for plot in figure.figure.get("plots", []):
            text += ["", f"{figure.spec['about']}:", "", f"![{plot['name']}]({figure.id}/{plot['name']}.svg)"]
    return "\n".join(text)
