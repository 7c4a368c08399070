#!/usr/bin/env python3
"""Makes verdicts, tables and plots of the papers' figures from the runs of `hetsgd sweep`. scripts/reproduce.sh calls it.

    scripts/reproduce.py list                       # prints the IDs with their running times and titles
    scripts/reproduce.py show a6 r3 [--runs DIR]    # writes results/ID/ and the pages, and prints the verdicts
    scripts/reproduce.py pages                      # writes the tables of results/fidelity.md, results/sven.md and
                                                    # results/README.md, and results/findings.md
    scripts/reproduce.py bench d1                   # runs the benchmark of a specification that has one in place of runs
    scripts/reproduce.py smoke OUT                  # writes every specification with tiny data as OUT/ID.json

`show` writes results/ID/README.md, verdicts.json and the plots. It uses the runs that exist; claims without runs are "not run". A page
opens with the finding of the specification and its first plot, then says how it was made, then has all claims, plots and tables, and
ends with the exceptions. A claim that does not hold changes no exit code.
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
from hetsgd import ResultError

PAPERS = {"Adaptive SGD": "Adaptive SGD (Ma et al. 2021)", "Adasum": "Adasum (Maleki et al. 2021)",
          "CROSSBOW": "CROSSBOW (Koliousis et al. 2019)", "ESync": "ESync (Li et al.)", "RNA": "RNA (Yang 2022, chapter 5)",
          "Dymem": "Dymem (Yang 2022, chapter 4)", "Sven": "Sven (Yang 2022, chapter 6)",
          "DiLoCo": "DiLoCo (Douillard et al. 2023, with figures of ft-diloco)", "all": "several papers"}
RELATIONS = ("first_crossing", "samples", "updates", "samples_per_s", "updates_per_s")
TINY_VIDEO = "generate:video?clips=128&clips_test=16&classes=3&size=2&median=6&shortest=2&longest=20"
TINY_NETWORK = "lstm-video?size=2&units=4&dense=4&classes=3"
TINY_IMAGES = "generate:images?size=28&channels=1&rows_train=128&rows_test=16"
TINY_LANGUAGE = "generate:language?rows_train=128&rows_test=16&lengths=lognormal&median=5"
INDEX, HEADLINES, COUNTS, CLAIMS, ROWS = ((f"<!-- {name}: written by scripts/reproduce.py -->", f"<!-- end of {name} -->")
                                          for name in ("figures", "headlines", "counts", "claims", "rows"))
PLANS = "dymem"  # plans of memory, which experiments/dymem.py decides: they have no runs and no specification
FIDELITY = "\n".join(["# The methods against their papers", "", *HEADLINES, "", *COUNTS, "", *CLAIMS, ""])
FINDINGS = """# Findings of our own

No paper makes these claims: they are what our runs show beside the papers' figures, decided by the same
[rule](fidelity.md#how-a-claim-is-decided). They count among no paper's claims.
"""
# Rows of the second counts in results/fidelity.md: how what a claim measures begins, the first that fits.
QUANTITIES = {"time to the target": ("speed-up", "time to", "first crossing"),
              "samples or iterations to the target": ("samples to", "iterations to"),
              "samples or iterations per second": ("samples/s", "iterations/s"), "final accuracy": ("final",),
              "other quantities, and what is not testable": ("",)}

# Columns of the counts in results/fidelity.md: how their verdicts begin, the first that fits counts.
COUNTED = {"hold": "holds", "in direction": "in direction", "beyond": "beyond", "opposite shown": "does not hold (the opposite",
           "do not hold otherwise": "does not hold", "no difference shown": "no difference shown", "not testable": "not testable",
           "not run": "not run", "fitted (not counted)": "fitted"}

LEGEND = """Each cell has the median over the seeds and its 95 % bootstrap interval in brackets. The speed-up is the time of the reference case,
which the column names, divided by the time of the row. The columns from "first crossing, p" to "iterations/s, p" divide the value of
the row by that of the reference. A target is reached when it is held: at the first evaluation that reaches it and whose median with
the next four does, too. The first crossing is the first evaluation that reaches it, held or not. p is two-sided, against the
reference: of {tests}. A missed target counts as infinity ("never"). A star
marks a learning rate at the edge of the grid. A reading is a median with the smallest and the largest value in brackets."""
TESTS = {"signed_rank": "Wilcoxon's signed-rank test of runs that are paired by seed, whose intervals resample seeds",
         "mann_whitney": "the Mann-Whitney U test of runs that are not paired, since the seeds or the data differ"}


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
    if not record.get("found"):
        return record.get("found_text", "-")
    tail = "" if record["p_value"] is None else f", p {probability(record['p_value'])}"
    return f"{interval(record['found'])}{tail} ({record['of']})"


def of_papers(records):
    return [record for record in records if not record.get("finding")]


def own_findings(records):
    return [record for record in records if record.get("finding")]


def tally(records):
    """How many claims of papers have which verdict, and how many findings are our own."""
    several = {"holds": "hold", "does not hold": "do not hold"}
    parts = [f"{count} {name if count == 1 else several.get(name, name)}"
             for name, count in reproduce_verdicts.counts(of_papers(records)).items()]
    findings = len(own_findings(records))
    parts += [f"{findings} finding{'s' * (findings > 1)} of our own"] * bool(findings)
    return ", ".join(parts) or "no claims"


def options_text(record):
    """The options that differ between the two cases; those that one of them alone has, at the end."""
    def text(value):
        return value if isinstance(value, str) else json.dumps(value)
    options = record.get("options", {})
    parts = [f"{key} {text(own)} : {text(base)}" for key, (own, base) in options.items() if None not in (own, base)]
    for side, who in enumerate(("the case", "the reference")):
        alone = [f"{key} {text(pair[side])}" for key, pair in options.items() if pair[1 - side] is None]
        parts += [f"of {who} alone: {', '.join(alone)}"] * bool(alone)
    return "; ".join(parts) or "-"


def runs_link(record):
    return f"[{record['id']}]({record.get('page', record['id'] + '/README.md')})"


def claims_table(records, linked):
    """linked: the last column names the figure that has the runs; else it says which options differ."""
    head = ["figure", "claim", "the paper", "asked", "ours", "verdict", "cause, evidence", "runs" if linked else "options that differ"]
    rows = [[record["figure"], record["claim"], record["expected"], record["asked"], found_text(record), record["verdict"],
             reproduce_verdicts.reason(record), runs_link(record) if linked else options_text(record)]
            for record in records]
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
    reference = reference_of(figure, setup)
    rows = figure.rows(setup, reference)
    head = ["case", "rate", "reached", f"time to {next(iter(rows.values()))['target']}, s", "first crossing, s",
            f"speed-up over {reference}, p", "first crossing, p", "samples, p", "iterations, p", "samples/s, p", "iterations/s, p",
            "final", "p", "readings"]
    return ["", f"### {setup}", "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|",
            *(case_row(figure, setup, case, row) for case, row in rows.items())]


def legend(figure):
    rows = [figure.rows(setup, reference_of(figure, setup)) for setup in figure.pairs if figure.there(setup)]
    tests = {row["test"] for each in rows for row in each.values()}
    return LEGEND.format(tests="; of ".join(text for test, text in TESTS.items() if test in tests) or "no test, as there is one case")


def reference_of(figure, setup):
    cases = figure.there(setup)
    return figure.figure["reference"] if figure.figure["reference"] in cases else cases[0]


def bench_table(figure, setup, measure):
    rows = figure.bench(setup, measure)
    if not rows:
        return []
    sizes = list(next(iter(rows.values())))
    title = ["", f"{setup}, {reproduce_verdicts.MEASURES[measure]}:"] if setup else []
    return [*title, "", "| bytes | " + " | ".join(f"{name}, ms" for name in rows) + " |", "|--:" * (1 + len(rows)) + "|",
            *(f"| {size:,} | " + " | ".join(f"{1000 * row[size]:.4g}" for row in rows.values()) + " |" for size in sizes)]


def bench_tables(figure):
    """The tables of the measures that the claims are about, and of latency in any case."""
    measures = ["latency"] + ["in_call"] * any(claim.get("measure") == "in_call" for claim in figure.claims)
    return [line for setup in figure.benches for measure in measures for line in bench_table(figure, setup, measure)]


def subject(spec):
    paper, number = PAPERS[spec["paper"]], spec["figure"]["number"]
    if spec["paper"] == "all":
        return f"methods of {paper}"
    return f"an experiment beyond the figures of {paper}" if number == "-" else f"{number} of {paper}"


def verdicts_line(records):
    return f"- Verdicts: {tally(records)}"


def earlier_line(figure, records):
    """Says of a page that its runs are not those that its specification asks for today; empty if they are."""
    earlier = any(reproduce_verdicts.is_earlier(record, figure) for record in records)
    return f"- Runs: of an earlier specification or program; `scripts/reproduce.sh {figure.id}` makes them again\n" * earlier


def claims_sections(records):
    return [line for title, own in (("Claims", of_papers(records)), ("Findings of our own", own_findings(records))) if own
            for line in (f"## {title}", "", *claims_table(own, linked=False), "")]


def renew_claims(figure, path, records):
    """Puts the verdicts as they are stored into a page whose runs may be elsewhere: rules change, and runs are not kept. The page
    also says so where its specification asks for other runs by now."""
    text = re.sub(r"^- Runs: .*\n", "", path.read_text(), flags=re.MULTILINE)
    text = re.sub(r"^- Verdicts: .*\n", lambda _: f"{verdicts_line(records)}\n{earlier_line(figure, records)}", text, flags=re.MULTILINE)
    own = r"## (?:Claims|Findings of our own)\n"
    text = re.sub(rf"^{own}.*?(?=^(?!{own})## )", lambda _: "\n".join(claims_sections(records)) + "\n", text, count=1,
                  flags=re.MULTILINE | re.DOTALL)
    path.write_text(text)


def page(figure, records, plots):
    spec = figure.spec
    pictures = [text for name in plots for text in (f"![{name.replace('_', ' ')}]({name}.svg)", "")]
    text = [f"# {figure.id}: {spec['about']}", "", figure.figure["finding"].strip(), "", *pictures[:2],
            "## How", "", f"`scripts/reproduce.sh {figure.id}` runs [`experiments/{figure.id}.toml`](../../experiments/{figure.id}.toml)",
            "and writes this page.", "", f"- Subject: {subject(spec)}", f"- Expected: {spec['expectation']}",
            f"- Machine: {figure.figure['machine']}", verdicts_line(records), "", *claims_sections(records)]
    if len(plots) > 1:
        text += ["## More plots", "", *pictures[2:]]
    if bench_tables(figure):
        text += ["## Numbers", *bench_tables(figure), ""]
    elif figure.files:
        text += ["## Numbers", "", legend(figure)]
        text += [line for setup in figure.pairs if figure.there(setup) for line in setup_table(figure, setup)] + [""]
    exceptions = figure.figure.get("exceptions", []) + [f"Not run: {', '.join(figure.missing())}"] * bool(figure.missing())
    if exceptions:
        text += ["## Exceptions", "", *(f"- {line}" for line in exceptions), ""]
    return "\n".join(text)


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
        verdicts = "not run" if records is None else tally(records) + "; earlier runs" * bool(earlier_line(figure, records))
        rows.append(f"| {name} | {place} | {spec['about']} | {verdicts} |")
    return "\n".join(rows)


def fill(path, markers, text):
    """Puts `text` between the two markers of a page. What stands around them is written by hand."""
    before, _, rest = path.read_text().partition(markers[0])
    path.write_text(f"{before}{markers[0]}\n{text}\n{markers[1]}{rest.partition(markers[1])[2]}")


def by_paper(records):
    """{paper: its records}, of the papers that have some."""
    papers = {paper: [record for record in records if record["paper"] == paper] for paper in PAPERS}
    return {paper: own for paper, own in papers.items() if own}


def column_of(record):
    return next(name for name, start in COUNTED.items() if record["verdict"].startswith(start))


def by_quantity(records):
    """{what is compared: its claims}"""
    groups = {name: [] for name in QUANTITIES}
    for record in records:
        of = record.get("of") or ""
        groups[next(name for name, starts in QUANTITIES.items() if of.startswith(starts))].append(record)
    return groups


def counts_table(heading, groups, records, earlier):
    """How many claims of each group and of all have which verdict; without a column that counts none. What was fitted is no claim
    decided. earlier: whether a record's runs are of an earlier specification; the last column counts such claims, which the others
    count, too."""
    places = [column_of(record) for record in records]
    columns = [name for name in COUNTED if name in places]
    last = ["of these on earlier runs"] * any(map(earlier, records))
    rows = [(heading, "claims", *columns, *last), ("---", *["--:"] * (1 + len(columns) + len(last)))]
    for title, own in [*groups.items(), ("all", records)]:
        decided = [record for record in own if not column_of(record).startswith("fitted")]
        rows.append((title, len(decided), *map([column_of(record) for record in own].count, columns),
                     *[sum(map(earlier, decided))] * len(last)))
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def both_counts(records, earlier):
    """The counts by paper, and by what is compared."""
    papers = {PAPERS[paper]: own for paper, own in by_paper(records).items()}
    return "\n\n".join(counts_table(heading, groups, records, earlier)
                       for heading, groups in (("paper", papers), ("what is compared", by_quantity(records))))


def headlines_table(records):
    """The claims by which the papers stand, with the least ratio that their seeds show with a probability of 45 to 75 %."""
    rows = [("paper", "claim", "the paper", "ours", "verdict", "seeds could show", "runs"), ("---",) * 7]
    for paper, own in by_paper([record for record in records if record.get("headline")]).items():
        for record in own:
            effect = record.get("least_effect")  # infinite, or in words if it was stored: the seeds show no ratio
            is_known = isinstance(effect, (int, float)) and math.isfinite(effect)
            rows.append((PAPERS[paper], record["claim"], record["expected"], found_text(record), record["verdict"].split(" (")[0],
                         f"{max(effect, 1.01):.3g} times" if is_known else "-", runs_link(record)))
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def tables_by_paper(records):
    return "\n".join(line for paper, own in by_paper(records).items()
                     for line in ("", f"### {PAPERS[paper]}", "", *claims_table(own, linked=True)))


def write_pages(figures, results):
    """results/findings.md; what results/fidelity.md, results/sven.md and results/README.md have between their markers; and the claims of
    every page."""
    records = [record for figure in figures for record in stored(results, figure.id) or reproduce_verdicts.decide_all(figure)]
    records += stored(results, PLANS) or []
    results.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        if stored(results, figure.id):
            renew_claims(figure, results / figure.id / "README.md", stored(results, figure.id))
    fidelity = results / "fidelity.md"
    if not fidelity.exists():
        fidelity.write_text(FIDELITY)
    by_id = {figure.id: figure for figure in figures}
    fill(fidelity, HEADLINES, headlines_table(records))
    fill(fidelity, COUNTS, both_counts(of_papers(records), lambda record: reproduce_verdicts.is_earlier(record, by_id.get(record["id"]))))
    fill(fidelity, CLAIMS, tables_by_paper(of_papers(records)))
    (results / "findings.md").write_text(FINDINGS + tables_by_paper(own_findings(records)) + "\n")
    if (results / "sven.md").exists():
        fill(results / "sven.md", ROWS, reproduce_sven.page(figures, lambda name: stored(results, name)))
    if (results / "README.md").exists():
        fill(results / "README.md", INDEX, index_table(figures, results))


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
    if isinstance(value, str) and "/" in value and "\n" not in value and (folder / value).exists():
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
    video, language, text, pictures = (any(name in train for train in trains) for name in ("video", "language", "kjv", "images"))
    language = language or text
    made_up = ("generate:ctr-tiny" if clicks else TINY_VIDEO if video else
               TINY_LANGUAGE if language else "generate:tiny")
    data = {"train": made_up, "test": made_up, **({"model": TINY_NETWORK} if video else {})}
    budget = {"epochs": 0.5, "evaluate_every": 500, "mega_batch": 8, **({"batch_size": 16, "hidden": 8} if clicks else {})}
    shared = spec.get("settings", {}).get("train", "")
    for table in (spec, *spec["setups"]):
        settings = table.get("settings", {})
        images = {}
        if "generate:images" in settings.get("train", shared):  # small batches: a round of esync on unequal workers has hundreds
            images = {"train": TINY_IMAGES, "test": TINY_IMAGES, "batch_size": 4}
        table["settings"] = {**settings, **data, **images, **budget}
        for name in ["max_samples"] + ["format", "tokens", "rows", "block"] * text:  # it excludes epochs, they are of files
            table["settings"].pop(name, None)
    spec["seeds"] = [1]
    if "tuning" in spec:
        parameters = {"learning_rate": {"values": [0.01 if clicks or language or pictures else 1]}}
        spec["tuning"] = {**spec["tuning"], "epochs": 0.25, "seeds": [101], "parameters": parameters}
        for setup in spec["setups"]:
            setup.pop("tuning", None)
    return spec


def minutes_of(takes):
    """`takes` of a specification: a number and min or s."""
    number, unit = takes.split()
    return float(number) * {"min": 1, "s": 1 / 60}[unit]


def needs_ranks(spec):
    return "launch" in spec or any("launch" in each.get("settings", {}) for each in spec.get("setups", []))


def write_tiny(figures, folder):
    """Writes all specifications but those that need ranks where there are none."""
    folder.mkdir(parents=True, exist_ok=True)
    ranks = shutil.which("mpirun") and re.search("feature mpi +on", reproduce_runs.hetsgd("--version"))
    for figure in figures:
        if needs_ranks(figure.spec) and not ranks:
            continue
        (folder / f"{figure.id}.json").write_text(json.dumps(tiny(figure), indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["list", "show", "pages", "bench", "smoke"])
    parser.add_argument("names", nargs="*", metavar="ID",
                        help="IDs for list, show and bench (default: all); for smoke, the folder to write to")
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
        minutes = sum(minutes_of(figure.figure["takes"]) for figure in figures.values())
        # Not on stdout: scripts/reproduce.sh takes the IDs from there.
        print(f"{len(figures)} specifications, {minutes / 60:.1f} h on two idle cores, less what they share", file=sys.stderr)
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
    try:
        main()
    except ResultError as error:
        sys.exit(f"reproduce.py: {error}")
