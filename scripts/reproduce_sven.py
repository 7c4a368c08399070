"""results/sven.md: the rows of Sven (chapter 6 of Yang's dissertation) in one table, from the verdicts of its figures
(results/ID/verdicts.json).

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

HEAD = """# Sven (Yang 2022, chapter 6), row by row

Sven (Yang 2022, chapter 6) does in simulations what the chapter says, and of what was measured in real learning or real time no row
shows the opposite. A row that was fitted has the paper's numbers by construction and is no evidence.

![Throughput with and without the pipeline, two hosts](v-7r/throughput.png)

## How

`scripts/reproduce.sh ID` runs a row's experiment and writes its page; this page is made of the pages' verdicts. Ratios are medians over
the seeds [95 % bootstrap interval, of readings the smallest and the largest]. "Asked" is what the verdict wants; the words of the
verdicts are those of [`fidelity.md`](fidelity.md).

"""

NOTES = """## What else the pages show

- v-5: rates are tuned for the AUC alone, so that a case with a high AUC may end at a high test loss.
- v-q: adaptive, esync and rna reach the AUC with fewer samples than they need with replicas: on served tables each worker's update of
  a row counts in full, where replicas are averaged. Of the parameters, served tables let only rows travel.
- v-e: where any row may go, the AUC stays the same whatever the room, though hits grow with it. Not explained.
- v-e-tiers: hot rows that are chosen anew too often are worse than those of the first day, since counts are halved each time.
- v-7d, v-t4d: nothing fitted, the pipeline and hot rows gain little: these models move too little for more.
- v-t3d: no stage fitted but the servers' rate, 5 GB/s: Sven gains more over asynchronous servers than in the paper: its GPUs move few rows, and
  the servers the whole dense part with every worker's step.
- v-6r: small calls gain by not meeting, those of 4 MB lose; of two ranks only the one that comes last can gain.
- v-7r: seeds of one case differ by up to a factor of two, since ranks, companions and the relay that delays the cable share two cores.
- Stages of `sim` beside those of `threads`: [`sim_against_stages.md`](sim_against_stages.md).

## Exceptions

- Absolute rates: the fitted rows have the paper's by construction, the derived ones are not the paper's models.
- Avazu and MovieLens (table 6.1): no generator of their shapes. Table 6.2 is the machine, figures 6.1 to 6.3 are designs.
- Figure 6.4, its bars of TensorFlow: v-t3 has them on 128 GPUs alone.
- A real machine for table 6.4, one GPU.
- The size of the quality rows: Criteo at scale .005 (196,000 training rows; v-8: .02, 786,000), D 8, hidden 64,32, one epoch, where
  scale .05, D 16 and hidden 256,128 were meant. A run of that size takes some 30 s of one core (14.5 s at scale .02, measured), and
  v-5 and v-q have some 280 runs: 2.3 hours. `scale` and shapes in `experiments/v-*.toml` say it.
"""


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
    """stored: of a figure's id its records, or None. None: no figure of the chapter has been shown."""
    ours = [figure for figure in figures if figure.spec["paper"] == PAPER and stored(figure.id) is not None]
    if not ours:
        return None
    pairs = [(figure, record) for figure in ours for record in stored(figure.id)]
    text = [HEAD + "\n".join(f"- {line}{tally(kind, pairs)}" for kind, line in KINDS.items()), "", "## Rows", "",
            "| id | kind | what | the paper | found | asked | verdict |", "|---" * 7 + "|",
            *(row(figure, record) for figure, record in pairs)]
    text += ["", "## Causes", "", *causes(pairs), "", "## Pictures"]
    for figure in ours:
        for plot in figure.figure.get("plots", []):
            text += ["", f"{figure.spec['about']}:", "", f"![{plot['name']}]({figure.id}/{plot['name']}.png)"]
    return "\n".join([*text, "", NOTES])
