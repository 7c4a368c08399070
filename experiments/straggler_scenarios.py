#!/usr/bin/python3
"""Every algorithm under four straggler scenarios, with equal tuning budgets.

    HETSGD_DATA_DIR=... experiments/straggler_scenarios.py [--seeds 5] [--epochs 20] [--scenarios a,b,c,d]

Eight simulated RTX 2080 Ti on EDR InfiniBand (the machines of paper 004), Delicious, MLP with H = 128, batches of 64. The
clock is charged for amazon670k's model (103 million parameters, the size of paper 004's VGG16), so that computing,
communicating and the injected delays have proportions like the paper's:

  a  no stragglers
  b  every iteration is 0 to 50 ms longer (paper 004, section 5.5)
  c  workers 0-3: 0 to 50 ms, workers 4-7: 50 to 100 ms (mixed heterogeneity, the "M" of figure 5.3)
  d  worker 7 computes 70 times slower

Per scenario and algorithm `hetsgd tune` tries the same six learning rates (powers of sqrt(10) from 0.1 to 31.6) with the
same three seeds for half the epochs, measured on a held-out tenth of the training rows; the best, by median time to P@1
0.60, then trains with the seeds 1..5 and is measured on the test rows. (One seed is too few: see results/README.md.)

Writes results/straggler_scenarios/: table.md, summary.json, time_to_target.{png,svg}; choices and runs into
runs/. What is there already is kept: a second call goes on where the first was cut off.
"""
import argparse
import functools
import json
import math
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

import common  # noqa: E402

METRIC, TARGET = "p1", 0.60
GOAL = f"{METRIC}>={TARGET}"
SERVER = [*common.EIGHT_GPUS, "--mega-batch", "100"]
SCENARIOS = common.STRAGGLERS
# Name in the tables -> options. Synchronous gradient averaging takes a batch of 64 per worker, as the others do.
ALGORITHMS = {
    "ssgd": ["ssgd", "--per-worker-batch", "full"],
    "ssgd adasum": ["ssgd", "--per-worker-batch", "full", "--reduce", "adasum"],
    "elastic": ["elastic"],
    "adaptive": ["adaptive"],
    "sma": ["sma"],
    "easgd": ["easgd"],
    "local-sgd": ["local-sgd"],
    "esync": ["esync"],
    "asgd": ["asgd"],
    "dc-asgd": ["dc-asgd"],
    "ssp": ["ssp"],
    "adpsgd": ["adpsgd"],
    "eager-solo": ["eager-solo"],
    "eager-majority": ["eager-majority"],
    "rna": ["rna"],
    "rna hierarchical": ["rna", "--hierarchical"],
}


def folder(scenario, name):
    return common.ROOT / "runs" / "straggler_scenarios" / scenario / name.replace(" ", "-")


def run_path(scenario, name, seed):
    return common.run_path(folder(scenario, name), seed)


def run_all(scenarios, seeds, epochs):
    common.in_parallel([
        functools.partial(common.tune_and_train, folder(scenario, name), SERVER + SCENARIOS[scenario][1], ALGORITHMS[name],
                          grid="0.1:31.6:6", goal=GOAL, tune_seeds="1,2,3", tune_epochs=epochs // 2, seeds=seeds, epochs=epochs)
        for scenario in scenarios for name in ALGORITHMS])


def rows_of(scenario, seeds):
    """{name: what the tables and the plot show of it}: the runs, and what `hetsgd compare` says of them."""
    files = [run_path(scenario, name, seed) for name in ALGORITHMS for seed in seeds]
    groups = common.compare(files, GOAL, run_path(scenario, "ssgd", seeds[0]))["groups"]
    if len(groups) != len(ALGORITHMS):
        sys.exit(f"{scenario}: found {len(groups)} groups of runs, expected {len(ALGORITHMS)}")
    rows = {}
    for name, group in zip(ALGORITHMS, groups):
        runs = [json.loads(run_path(scenario, name, seed).read_text()) for seed in seeds]
        summary = [run["summary"] for run in runs]
        rows[name] = {
            "learning_rate": runs[0]["config"]["learning_rate"],
            "edge_of_grid": runs[0]["tuning"]["edge_of_grid"],
            "time_s": [common.time_to(run, METRIC, TARGET) for run in runs],
            "group": group["targets"][0],
            "final": common.median([each["final"][METRIC] or 0 for each in summary]),
            "samples_per_s": common.median([each["samples_per_s"] for each in summary]),
            "bytes_per_s": common.median([each["bytes_sent"] / each["elapsed_s"] for each in summary]),
            "computing_ratio": common.median([each["computing_ratio"] for each in summary]),
            "status": [run["status"] for run in runs]}
    return rows


def order(rows):
    """Names by median time to the target; who did not reach it by the final value."""
    return sorted(rows, key=lambda name: (common.median(rows[name]["time_s"]), -rows[name]["final"]))


def number(value, form):
    return "-" if value is None else format(value, form)


def table(scenario, rows, seeds):
    lines = [f"## ({scenario}) {SCENARIOS[scenario][0]}", "",
             "| algorithm | lr | time to P@1 0.60, s (min .. max) | reached | speed-up | statistical | hardware | p "
             "| final P@1 | samples/s | GB/s | computing ratio |", "|---" + "|--:" * 11 + "|"]
    for name in order(rows):
        r, group = rows[name], rows[name]["group"]
        reached = sum(map(math.isfinite, r["time_s"]))
        lines.append(
            f"| {name} | {r['learning_rate']:.3g}{'*' if r['edge_of_grid'] else ''} | "
            f"{common.show(common.median(r['time_s']))} ({common.show(min(r['time_s']))} .. "
            f"{common.show(max(r['time_s']))}) | {reached}/{len(seeds)} | {number(group['speedup']['median'], '.2f')} | "
            f"{number(group['statistical_efficiency_ratio'], '.2f')} | {number(group['hardware_efficiency_ratio'], '.2f')} | "
            f"{number(group['p_value'], '.3f')} | {r['final']:.4f} | {r['samples_per_s']:,.0f} | "
            f"{r['bytes_per_s'] / 1e9:.2f} | {r['computing_ratio']:.2f} |")
    return "\n".join(lines) + "\n"


def plot(all_rows, out):
    figure, axes = plt.subplots(1, len(all_rows), figsize=(3.4 * len(all_rows), 4.6), sharex=True, squeeze=False)
    finite = [t for rows in all_rows.values() for r in rows.values() for t in r["time_s"] if math.isfinite(t)]
    missed = 2 * max(finite, default=1)
    for axis, (scenario, rows) in zip(axes[0], all_rows.items()):
        names = order(rows)[::-1]
        for y, name in enumerate(names):
            times = [t if math.isfinite(t) else missed for t in rows[name]["time_s"]]
            middle = common.median(times)
            color = "#D55E00" if name == "ssgd" else "#0072B2"
            axis.plot([min(times), max(times)], [y, y], color=color, linewidth=1.2, alpha=0.6)
            axis.plot(middle, y, "x" if middle == missed else "o", color=color, markersize=5)
        axis.set_yticks(range(len(names)), names, fontsize=8)
        axis.set_xscale("log")
        axis.axvline(missed, color="#999999", linewidth=0.8, linestyle=":")
        axis.text(missed, len(names) - 0.45, "not reached", fontsize=7, ha="right", va="bottom", color="#666666")
        axis.set_title(f"({scenario}) {SCENARIOS[scenario][0]}", fontsize=10, pad=12)
        axis.set_xlabel("time to P@1 0.60, simulated s")
        axis.grid(axis="x", color="#DDDDDD", linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    for kind in ("png", "svg"):
        figure.savefig(out / f"time_to_target.{kind}", dpi=200)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--scenarios", default="a,b,c,d")
    arguments = parser.parse_args()
    scenarios, seeds = arguments.scenarios.split(","), range(1, arguments.seeds + 1)
    run_all(scenarios, seeds, arguments.epochs)
    rows = {scenario: rows_of(scenario, seeds) for scenario in scenarios}
    out = common.ROOT / "results" / "straggler_scenarios"
    out.mkdir(parents=True, exist_ok=True)
    (out / "table.md").write_text("\n".join(table(scenario, rows[scenario], seeds) for scenario in scenarios))
    (out / "summary.json").write_text(json.dumps(rows, indent=1).replace("Infinity", "null") + "\n")
    plot(rows, out)
    print((out / "table.md").read_text())


if __name__ == "__main__":
    main()
