#!/usr/bin/python3
"""The methods against their papers: the experiments behind results/fidelity.md, and the page.

    HETSGD_DATA_DIR=... experiments/fidelity.py [--only PART...] [--plan] [--page]
    HETSGD_DATA_DIR=... experiments/fidelity.py --only rna-probes --seeds 2 --shrink 0.1     # a trial of the plumbing

Two regimes: Delicious, and made-up data of Amazon-670k's shape with 64,000 rows, 20,000 labels and a mega-batch of a tenth of
an epoch. All simulated. Every method tries the same learning rates (a grid of factor 1.78) with two or three seeds on a
held-out tenth of the training rows, by `hetsgd tune`; the chosen rate trains with the seeds 1 to 10 and is measured on the test
rows. fidelity_settings.py says which methods run where and what for, fidelity_claims.toml what the papers claim and which figure
here answers.

A run that is there is not repeated: a call goes on where another was cut off, and parts share runs. Writes per part
results/fidelity/PART.{json,md}, and results/fidelity.md once every part that a claim needs is there (--page: that alone).
Statistics are those of `hetsgd compare`. A trial (--seeds, --shrink) writes into runs/fidelity_trial_* alone.
"""
import argparse
import functools
import json
import math
import pathlib
import sys

import common
import fidelity_page
from fidelity_settings import CARRIED_RATES, METHODS, PARTS, SETUPS


FULL_SEEDS = 10


class Budget:
    """How much is trained, and where the results go. shrink: factor on all epochs."""

    def __init__(self, seeds, shrink):
        self.seeds, self.shrink = range(1, seeds + 1), shrink
        full = seeds == FULL_SEEDS and shrink == 1
        self.runs = common.ROOT / "runs" / ("fidelity" if full else f"fidelity_trial_{shrink:g}")
        self.results = common.ROOT / "results" if full else self.runs / "results"

    def epochs(self, epochs):
        return epochs * self.shrink

    def folder(self, setup, method):
        return self.runs / setup / method.replace(" ", "-")

    def files(self, setup, method):
        return [common.run_path(self.folder(setup, method), seed) for seed in self.seeds]

    def data(self, setup):
        specification = SETUPS[setup].data
        name = "".join(c if c.isalnum() else "_" for c in specification)
        return common.generated_files(specification, self.runs / "data" / name) if specification else common.delicious_files()


def tuned_rate(budget, setup, method):
    choice = json.loads(common.choice_path(budget.folder(setup, method)).read_text())
    return next(each["learning_rate"] for each in choice["algorithms"] if each["algorithm"] == METHODS[method][0])


def workers(setup):
    options = SETUPS[setup].options
    return options[options.index("--workers") + 1]


def is_tuned(setup, method):
    return not SETUPS[setup].rate and method not in CARRIED_RATES and "--learning-rate" not in METHODS[method]


def fixed_rate(budget, setup, method):
    """Options of a learning rate that is not tuned here; None: it is."""
    if is_tuned(setup, method):
        return None
    if "--learning-rate" in METHODS[method]:
        return []
    if method in CARRIED_RATES:
        base_setup, base_method, factor = CARRIED_RATES[method]
        factor = workers(setup) if factor is None else factor
        return ["--learning-rate", tuned_rate(budget, base_setup, base_method) * factor]
    return ["--learning-rate", SETUPS[setup].rate]


def run(budget, setup, method):
    """One method under one setup: its tuning and all its seeds."""
    s, rate, files = SETUPS[setup], fixed_rate(budget, setup, method), budget.data(setup)
    common_options = {"seeds": budget.seeds, "epochs": budget.epochs(s.epochs), "target": s.target, "files": files}
    if rate is not None:
        common.train_seeds(budget.folder(setup, method), s.options, METHODS[method], rate=rate, **common_options)
    else:
        common.tune_and_train(budget.folder(setup, method), s.options, METHODS[method], grid=s.grid, goal=s.goal,
                              tune_seeds=s.tune_seeds, tune_epochs=budget.epochs(s.tune_epochs), **common_options)


def pairs(names):
    """The (setup, method) of the parts, each once; second those whose rate comes from the first."""
    all_pairs = dict.fromkeys((setup, method) for name in names for setup in PARTS[name].setups for method in PARTS[name].methods)
    carried = [pair for pair in all_pairs if pair[1] in CARRIED_RATES]
    base = [CARRIED_RATES[method][:2] for _, method in carried]
    first = dict.fromkeys([pair for pair in all_pairs if pair not in carried] + base)
    return list(first), carried


def run_each(call, budget, lists):
    """call(setup, method) of every pair, one list after the other, two processes at a time."""
    for each in lists:
        for setup in dict.fromkeys(setup for setup, _ in each):
            budget.data(setup)  # written before two processes want to write it
        common.in_parallel([functools.partial(call, setup, method) for setup, method in each])


def estimate(budget, setup, method, hours, refused):
    """Adds the host hours of a pair, by the program's own estimate of one run, or what the program has against it."""
    s, files = SETUPS[setup], budget.data(setup)
    options = ["--train", files[0], "--test", files[1], *s.options, "--algorithm", *METHODS[method]]
    try:
        plan = json.loads(common.hetsgd("train", [*options, "--target", s.target, "--epochs", s.epochs, "--dry-run"]))
    except SystemExit as error:
        refused.append(f"{setup}, {method}: {error}")
        return
    trials = int(s.grid.split(":")[2]) * len(s.tune_seeds.split(",")) if is_tuned(setup, method) else 0
    runs = len(budget.seeds) + trials * s.tune_epochs / s.epochs
    hours[setup, method] = budget.shrink * runs * plan["estimate"]["host_s"] / 3600


def show_plan(budget, names):
    """What the parts take on two cores, those later in the list without what earlier ones share with them."""
    hours, refused, seen = {}, [], set()
    run_each(lambda setup, method: estimate(budget, setup, method, hours, refused), budget, pairs(names))
    for name in names:
        new = [pair for each in pairs([name]) for pair in each if pair not in seen]
        seen.update(new)
        print(f"{name:20} {len(new):3} methods under setups, {60 * sum(hours.get(pair, 0) for pair in new) / 2:5.1f} min")
    print(f"{'all':20} {len(seen):3} methods under setups, {60 * sum(hours.values()) / 2:5.1f} min")
    if refused:
        sys.exit("refused:\n" + "\n".join(refused))


def share(histogram, meant):
    total = sum(histogram.values())
    return sum(count for value, count in histogram.items() if meant(int(value))) / total if total else None


def mean_of(histogram):
    total = sum(histogram.values())
    return sum(int(value) * count for value, count in histogram.items()) / total if total else None


def histogram(result, name):
    return result["histograms"].get(name, {})


def events(result, kind):
    return [event for event in result["events"] if event["type"] == kind]


def batch_size(result, pick):
    merges = events(result, "merge")
    return pick(merges[-1]["batch_size"]) if merges and merges[-1].get("batch_size") else None


def perturbed_share(result):
    merges = events(result, "merge")
    return sum(merge["perturbed"] for merge in merges) / len(merges) if merges else None


def orthogonality_rise(result):
    """From the first record of a run to the last, each the mean over the tensors; a record of updates that are zero has none."""
    means = [sum(event["value"]) / len(event["value"]) for event in events(result, "orthogonality") if None not in event["value"]]
    return means[-1] - means[0] if means else None


def dropped_share(result):
    dropped, kept = (sum(histogram(result, name).values()) for name in ("dropped", "staleness"))
    return dropped / (dropped + kept) if kept else None


# What a result tells beside what `compare` compares: name -> number or None.
READINGS = {
    "computing_ratio": lambda result: result["summary"]["computing_ratio"],
    "bytes_per_s": lambda result: result["summary"]["bytes_sent"] / result["summary"]["elapsed_s"],
    "contributors": lambda result: mean_of(histogram(result, "contributors")),
    "stale_share": lambda result: share(histogram(result, "staleness"), lambda rounds: rounds > 0),
    "dropped_share": dropped_share,
    "perturbed_share": perturbed_share,
    "smallest_batch": functools.partial(batch_size, pick=min),
    "largest_batch": functools.partial(batch_size, pick=max),
    "orthogonality_rise": orthogonality_rise,
}


def readings(results, names):
    rows = {}
    for name in names:
        values = [value for value in map(READINGS[name], results) if value is not None]
        if values:
            rows[name] = {"median": common.median(values), "low": min(values), "high": max(values)}
    return rows


def with_infinities(node):
    """The document with null, explained as an infinity beside it, read as that number."""
    if isinstance(node, list):
        return [with_infinities(each) for each in node]
    if not isinstance(node, dict):
        return node
    read = {key: with_infinities(value) for key, value in node.items() if not key.endswith("_reason")}
    for key, value in read.items():
        if value is None:
            read[key] = {"inf": math.inf, "-inf": -math.inf}.get(node.get(key + "_reason"))
    return read


def configuration(result):
    return json.dumps({**result["config"], "seed": None}, sort_keys=True)


def measure(budget, setup, methods, reference, reading_names=()):
    """{method: its group of `hetsgd compare` against the reference}. Two methods of one configuration, as two rates that
    happen to be equal, are one group."""
    runs, first_with, same_as = {}, {}, {}
    for method in methods:
        runs[method] = [json.loads(path.read_text()) for path in budget.files(setup, method)]
        same_as[method] = first_with.setdefault(configuration(runs[method][0]), method)
    apart = list(first_with.values())
    files = [path for method in apart for path in budget.files(setup, method)]
    comparison = with_infinities(common.compare(files, SETUPS[setup].target, budget.files(setup, same_as[reference])[0]))
    groups = dict(zip(apart, comparison["groups"], strict=True))
    rows = {}
    for method in methods:
        group = groups[same_as[method]]
        tuning = group["tuning"]
        rows[method] = {
            "learning_rate": runs[method][0]["config"]["learning_rate"],
            "edge_of_grid": tuning["edge_of_grid"] if tuning else None,
            **{key: group[key] for key in ("n", "diverged", "samples_per_s", "final", "samples_per_s_relation",
                                           "updates_per_s_relation", "final_relation")},
            **group["targets"][0], "readings": readings(runs[method], reading_names)}
    return rows


def part_results(budget, name, claims):
    """{setup: {reference: {method: row}}}: the part's own reference, and those of the claims that it answers."""
    part, results = PARTS[name], {}
    for setup in part.setups:
        asked = {claim["reference"] for claim in claims if claim.get("part") == name and "reference" in claim}
        results[setup] = {reference: measure(budget, setup, part.methods, reference, part.readings)
                          for reference in dict.fromkeys([part.reference, *sorted(asked)])}
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="PART", choices=PARTS, default=list(PARTS), help=", ".join(PARTS))
    parser.add_argument("--plan", action="store_true", help="estimate the time with --dry-run, and end")
    parser.add_argument("--page", action="store_true", help="write the page from the parts that are there, and end")
    parser.add_argument("--seeds", type=int, default=FULL_SEEDS, help="of the final runs (default 10)")
    parser.add_argument("--shrink", type=float, default=1, help="factor on all epochs (default 1)")
    arguments = parser.parse_args()
    budget = Budget(arguments.seeds, arguments.shrink)
    if arguments.plan:
        return show_plan(budget, arguments.only)
    claims = fidelity_page.read_claims(pathlib.Path(__file__).with_name("fidelity_claims.toml"), PARTS)
    if not arguments.page:
        run_each(functools.partial(run, budget), budget, pairs(arguments.only))
        for name in arguments.only:
            fidelity_page.write_part(budget.results / "fidelity", name, PARTS[name], part_results(budget, name, claims))
    fidelity_page.write_page(budget.results, PARTS, claims)


if __name__ == "__main__":
    main()
