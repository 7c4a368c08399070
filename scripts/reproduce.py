#!/usr/bin/python3
"""Makes verdicts, tables and plots of the papers' figures from the runs of `hetsgd sweep`. scripts/reproduce.sh calls it.

    scripts/reproduce.py list                       # prints the IDs with their running times and titles
    scripts/reproduce.py show a6 r3 [--runs DIR]    # writes results/ID/ and the pages, and prints the verdicts
    scripts/reproduce.py pages                      # writes results/fidelity.md, results/sven.md and the index in results/README.md
    scripts/reproduce.py bench d1                   # runs the benchmark of a specification that has one in place of runs
    scripts/reproduce.py smoke OUT                  # writes every specification with tiny data as OUT/ID.json

`show` writes results/ID/README.md (claims, plots, tables), verdicts.json and the plots. It uses the runs that exist; claims
without runs are "not run". A claim that does not hold changes no exit code.
"""
import argparse
import json
import math
import pathlib
import re
import shutil
import sys

import reproduce_plots
import reproduce_runs
import reproduce_sven
import reproduce_verdicts

PAPERS = {"000": "Adaptive SGD (000)", "001": "Adasum (001)", "002": "CROSSBOW (002)", "003": "ESync (003)",
          "004": "RNA (004, chapter 5)", "004-6": "Sven (004, chapter 6)", "all": "All papers"}
RELATIONS = ("first_crossing", "samples", "updates", "samples_per_s", "updates_per_s")
TINY_VIDEO = "generate:video?clips=128&clips_test=16&classes=3&size=2&median=6&shortest=2&longest=20"
TINY_NETWORK = "lstm-video?size=2&units=4&dense=4&classes=3"
INDEX = ("<!-- figures: written by scripts/reproduce.py -->", "<!-- end of figures -->")

LEGEND = """Medians over the seeds [95 % bootstrap interval]. speed-up: the time of the reference, which the column names, over
the row's; the columns from "first crossing, p" to "iterations/s": the row's over the reference's. A target is reached when it is
held: at the first evaluation that reaches it and whose median with the next four does, too; first crossing: held or not. p: two-sided Mann-Whitney U test
against the reference. A missed target is infinity ("never"). A star: the rate is at the edge of the grid. Readings: median
[smallest, largest]."""

HEAD = """# The methods against their papers

Made by `scripts/reproduce.sh` (simulated, the same on any machine, but for v-6r and v-7r) from the specifications in `experiments/`,
which say how rates are tuned, what runs where, and what the papers claim with the places in their texts. Medians over the seeds [95 % bootstrap
interval]; p of a two-sided Mann-Whitney U test. A ratio holds if it lies on the paper's side of 1 with p at most 0.05 (between
setups, where there is no p: with its whole interval) and its interval reaches the paper's figure, where there is one; it holds in
direction if it does not reach it. A claim of equality holds if the interval lies within 5 % of 1, one of an upper limit if the
interval stays below it (in direction if the median does). Where no difference is shown a claim does not hold, and neither is its
opposite shown. Readings are medians [smallest, largest]. A time to a target is that of the evaluation from which on it is held
([README.md](README.md#when-a-target-counts-as-reached)); the page of a figure whose runs were judged by first crossings says so.
"""


def writable(node):
    """The document with infinities as strings, which JSON lacks, and six digits of every number."""
    if isinstance(node, dict):
        return {key: writable(value) for key, value in node.items()}
    if isinstance(node, list):
        return [writable(each) for each in node]
    if not isinstance(node, float):
        return node
    return float(f"{node:.6g}") if math.isfinite(node) else str(node)


def show(value, digits=3):
    if value is None:
        return "-"
    value = float(value)
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "never" if value > 0 else "-inf"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"


def interval(node):
    return f"{show(node['median'])} [{show(node['low'])}, {show(node['high'])}]" if node else "-"


def probability(p):
    if p is None:
        return "-"
    return "< 0.0001" if p < 0.0001 else f"{p:.2g}"


def related(relation):
    return f"{interval(relation['ratio'])}, {probability(relation['p_value'])}"


def found_text(record):
    if not record["found"]:
        return "-"
    tail = "" if record["p_value"] is None else f", p {probability(record['p_value'])}"
    return f"{interval(record['found'])}{tail} ({record['of']})"


def tally(records):
    return ", ".join(f"{count} {name}" for name, count in reproduce_verdicts.counts(records).items()) or "no claims"


def claims_table(records, linked):
    """linked: the last column names the figure that has the runs."""
    head = ["figure", "claim", "the paper", "ours", "verdict", "cause, evidence"] + (["runs"] if linked else [])
    rows = [[record["figure"], record["claim"], record["expected"], found_text(record), record["verdict"],
             record.get("cause", "")] + ([f"[{record['id']}]({record['id']}/README.md)"] if linked else []) for record in records]
    return ["| " + " | ".join(head) + " |", "|---" * len(head) + "|", *("| " + " | ".join(row) + " |" for row in rows)]


def case_row(figure, setup, case, row):
    rate = figure.setting(setup, case, "learning_rate")
    star = "*" if row["tuning"] and row["tuning"]["edge_of_grid"] else ""
    readings = [f"{name} {interval(figure.value(setup, case, name))}" for name in figure.figure.get("readings", [])
                if figure.value(setup, case, name)]
    cells = [case, f"{rate:.3g}{star}", f"{row['reached']}/{row['n']}", interval(row["time_s"]), interval(row["first_crossing_s"]),
             f"{interval(row['speedup'])}, {probability(row['p_value'])}",
             *(related(row[f"{name}_relation"]) for name in RELATIONS),
             interval(row["final"]), probability(row["final_relation"]["p_value"]), "; ".join(readings) or "-"]
    return "| " + " | ".join(cells) + " |"


def setup_table(figure, setup):
    cases = figure.there(setup)
    reference = figure.figure["reference"] if figure.figure["reference"] in cases else cases[0]
    rows = figure.rows(setup, reference)
    head = ["case", "rate", "reached", f"time to {next(iter(rows.values()))['target']}, s", "first crossing, s",
            f"speed-up over {reference}, p", "first crossing, p", "samples, p", "iterations, p", "samples/s, p", "iterations/s, p",
            "final", "p", "readings"]
    return ["", f"### {setup}", "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|",
            *(case_row(figure, setup, case, row) for case, row in rows.items())]


def bench_table(figure, setup, measure):
    rows = figure.bench(setup, measure)
    if not rows:
        return []
    sizes = list(next(iter(rows.values())))
    title = ["", f"{setup}, {reproduce_verdicts.MEASURES[measure]}:"] if setup else []
    return [*title, "", "| bytes | " + " | ".join(f"{name}, ms" for name in rows) + " |", "|--:" * (1 + len(rows)) + "|",
            *(f"| {size:,} | " + " | ".join(f"{1000 * row[size]:.4g}" for row in rows.values()) + " |" for size in sizes)]


def bench_tables(figure):
    """Of what the claims are about, latency in any case."""
    measures = ["latency"] + ["in_call"] * any(claim.get("measure") == "in_call" for claim in figure.claims)
    return [line for setup in figure.benches for measure in measures for line in bench_table(figure, setup, measure)]


def heading(spec):
    if spec["paper"] == "all":
        return PAPERS["all"]
    if spec["figure"]["number"] == "-":
        return f"Beyond the figures of {PAPERS[spec['paper']]}"
    return f"Figures and tables {spec['figure']['number']} of {PAPERS[spec['paper']]}"


def page(figure, records, plots):
    spec = figure.spec
    text = [f"# {figure.id}: {spec['about']}", "", f"{heading(spec)}. `scripts/reproduce.sh {figure.id}` runs",
            f"[`experiments/{figure.id}.toml`](../../experiments/{figure.id}.toml) and writes this page.", "",
            f"- Expected: {spec['expectation']}", f"- Machine: {figure.figure['machine']}", f"- Found: {tally(records)}"]
    if figure.missing():
        text.append(f"- Not run: {', '.join(figure.missing())}")
    if records:
        text += ["", "## Claims", "", *claims_table(records, linked=False)]
    if plots:
        text += ["", "## Plots"]
        text += [line for name in plots for line in ("", f"[![{name.replace('_', ' ')}]({name}.png)]({name}.svg)")]
    if bench_tables(figure):
        text += ["", "## Numbers", *bench_tables(figure)]
    elif figure.files:
        text += ["", "## Numbers", "", LEGEND]
        text += [line for setup in figure.pairs if figure.there(setup) for line in setup_table(figure, setup)]
    return "\n".join(text) + "\n"


def print_records(figure, records):
    print(f"\n{figure.id}: {figure.spec['about']}\n  expected: {figure.spec['expectation']}")
    for record in records:
        print(f"  [{record['verdict']}] {record['claim']}\n      paper: {record['expected']}   found: {found_text(record)}")


def write(figure, results):
    folder = results / figure.id
    folder.mkdir(parents=True, exist_ok=True)
    records = reproduce_verdicts.decide_all(figure)
    plots = reproduce_plots.draw(figure, folder)
    (folder / "verdicts.json").write_text(json.dumps(writable(records), indent=1, allow_nan=False) + "\n")
    (folder / "README.md").write_text(page(figure, records, plots))
    print_records(figure, records)


def specifications(folder):
    """{id: path}, in the order of the papers."""
    paths = {path.stem: path for path in sorted(folder.glob("*.toml")) + sorted(folder.glob("*.json"))}
    return dict(sorted(paths.items(), key=lambda item: order_of(item[0])))


def order_of(name):
    """a6 before a10; what is no figure after those that are."""
    number = "".join(filter(str.isdigit, name))
    return (name[0], not name[1:].isdigit(), int(number) if name[1:].isdigit() else 0, name)


def stored(results, name):
    path = results / name / "verdicts.json"
    return json.loads(path.read_text()) if path.exists() else None


def index_table(figures, results):
    rows = ["| id | paper, figure | what | verdicts |", "|---" * 4 + "|"]
    for figure in figures:
        spec, records = figure.spec, stored(results, figure.id)
        name = figure.id if records is None else f"[{figure.id}]({figure.id}/README.md)"
        place = ", ".join(part for part in (spec["paper"], spec["figure"]["number"]) if part != "-")
        rows.append(f"| {name} | {place} | {spec['about']} | {'not run' if records is None else tally(records)} |")
    return "\n".join(rows)


def write_pages(figures, results):
    """results/fidelity.md; and the index in results/README.md, where its markers stand."""
    records = [record for figure in figures for record in stored(results, figure.id) or reproduce_verdicts.decide_all(figure)]
    text = [HEAD, f"Of {len(records)} claims: {tally(records)}.\n"]
    for paper, title in PAPERS.items():
        of_paper = [record for record in records if record["paper"] == paper]
        if of_paper:
            text += [f"## {title}\n", *claims_table(of_paper, linked=True), ""]
    results.mkdir(parents=True, exist_ok=True)
    (results / "fidelity.md").write_text("\n".join(text))
    sven = reproduce_sven.page(figures, lambda name: stored(results, name))
    if sven is not None:
        (results / "sven.md").write_text(sven)
    readme = results / "README.md"
    if readme.exists():
        before, _, rest = readme.read_text().partition(INDEX[0])
        after = rest.partition(INDEX[1])[2]
        readme.write_text(f"{before}{INDEX[0]}\n{index_table(figures, results)}\n{INDEX[1]}{after}")


def flags(settings):
    """Options as a command line has them; a list repeats its option."""
    return [text for key, value in settings.items() for each in (value if isinstance(value, list) else [value])
            for text in (f"--{key.replace('_', '-')}", each)]


def run_bench(figure):
    if not figure.benches:
        sys.exit(f"{figure.path}: found no table [bench], expected one")
    figure.folder.mkdir(parents=True, exist_ok=True)
    for setup, settings in figure.benches.items():
        options = {key: value for key, value in settings.items() if key not in ("collective", "launch")}
        reproduce_runs.hetsgd("bench", settings["collective"], *flags(options), "--format", "json", "-o", figure.bench_file(setup),
                              "--overwrite", launch=settings.get("launch", ""))


def absolute(value, folder):
    """Texts that name a file beside the specification, as paths from anywhere."""
    if isinstance(value, dict):
        return {key: absolute(each, folder) for key, each in value.items()}
    if isinstance(value, list):
        return [absolute(each, folder) for each in value]
    if isinstance(value, str) and "/" in value and (folder / value).exists():
        return str((folder / value).resolve())
    return value


def tiny(figure):
    """The specification with made-up data of few rows, one seed, and a fraction of an epoch: all that it says is run, and no
    number of it means anything."""
    spec = absolute(figure.spec, figure.path.parent)
    if "bench" in spec:
        few = {"workers": 4} if spec["bench"].get("cluster") == "sim" else {}
        return {**spec, "bench": {**spec["bench"], **few, "min_bytes": "4K", "max_bytes": "16K", "iterations": 1}}
    if "launch" in spec:
        spec["launch"] = "mpirun --oversubscribe -n {ranks}"  # whatever machine that was to be
    trains = [each.get("settings", {}).get("train", "") for each in (spec, *spec["setups"])]
    clicks = any(name in train for train in trains for name in ("ctr-", "criteo"))
    video = any("video" in train for train in trains)
    made_up = "generate:ctr-tiny" if clicks else TINY_VIDEO if video else "generate:tiny"
    data = {"train": made_up, "test": made_up, **({"model": TINY_NETWORK} if video else {})}
    budget = {"epochs": 0.5, "evaluate_every": 500, "mega_batch": 8, **({"batch_size": 16, "hidden": 8} if clicks else {})}
    for table in (spec, *spec["setups"]):
        table["settings"] = {**table.get("settings", {}), **data, **budget}
        table["settings"].pop("max_samples", None)  # it excludes epochs
    spec["seeds"] = [1]
    if "tuning" in spec:
        parameters = {"learning_rate": {"values": [0.01 if clicks else 1]}}
        spec["tuning"] = {**spec["tuning"], "epochs": 0.25, "seeds": [101], "parameters": parameters}
        for setup in spec["setups"]:
            setup.pop("tuning", None)
    return spec


def needs_ranks(spec):
    return "launch" in spec or any("launch" in each.get("settings", {}) for each in spec.get("setups", []))


def write_tiny(figures, folder):
    """Of all but those that need ranks where there are none."""
    folder.mkdir(parents=True, exist_ok=True)
    ranks = shutil.which("mpirun") and re.search("feature mpi +on", reproduce_runs.hetsgd("--version"))
    for figure in figures:
        if needs_ranks(figure.spec) and not ranks:
            continue
        (folder / f"{figure.id}.json").write_text(json.dumps(tiny(figure), indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["list", "show", "pages", "bench", "smoke"])
    parser.add_argument("names", nargs="*", metavar="ID", help="IDs for list, show and bench (default: all); for smoke, the folder to write to")
    parser.add_argument("--experiments", type=pathlib.Path, default=reproduce_runs.EXPERIMENTS,
                        help="folder of the specifications (default: experiments)")
    parser.add_argument("--runs", type=pathlib.Path, default=reproduce_runs.ROOT / "runs" / "figures",
                        help="folder of the runs of hetsgd sweep (default: runs/figures)")
    parser.add_argument("--results", type=pathlib.Path, default=reproduce_runs.ROOT / "results",
                        help="folder for the pages (default: results)")
    arguments = parser.parse_args()
    paths = specifications(arguments.experiments)
    asked = list(paths) if arguments.command == "smoke" else arguments.names or list(paths)
    unknown = [name for name in asked if name not in paths]
    if unknown:
        sys.exit(f"reproduce.py: found {', '.join(unknown)}, expected IDs among {', '.join(paths)}")
    figures = {name: reproduce_runs.Figure(path, arguments.runs) for name, path in paths.items()
               if name in asked or arguments.command in ("show", "pages")}
    if arguments.command == "list":
        for name, figure in figures.items():
            print(f"{name:22}{figure.figure['takes']:8}{figure.spec['about']}")
    elif arguments.command == "smoke":
        write_tiny(figures.values(), pathlib.Path(arguments.names[0]))
    elif arguments.command == "bench":
        for name in asked:
            run_bench(figures[name])
    else:
        for name in asked if arguments.command == "show" else []:
            write(figures[name], arguments.results)
        write_pages(figures.values(), arguments.results)


if __name__ == "__main__":
    main()
