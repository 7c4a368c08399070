#!/usr/bin/env python3
"""Compares every algorithm with 1, 2, 3 and 4 MPI ranks with the same run in `sim`: does it learn the same?

    HETSGD_DATA_DIR=... experiments/mpi_ranks.py [--epochs 6] [--ranks 1,2,3,4]

Methods whose updates do not depend on timing must give the losses of `sim`. For them the table shows the largest relative
difference of a test loss over the curve. For all other methods it shows the difference, in points, of the P@1 that they reach:
the largest median of five evaluations in a row (as in CROSSBOW), because the momentum of a merge makes single evaluations of
adaptive swing by ten points. A second table shows what adaptive reaches in `sim` with three workers of unequal speed, like
processes on fewer cores. It works with more ranks than cores. Existing runs are kept. It writes the tables of results/mpi_ranks.md.
"""
import argparse
import json
import statistics

import common

# Their updates are the same whatever the timing.
SAME_UPDATES = {"sgd", "ssgd", "elastic", "local-sgd", "sma", "easgd"}
LEARNING_RATE = {"asgd": 0.316, "dc-asgd": 0.316, "ssp": 0.316, "rna": 0.316, "eager-solo": 0.316, "eager-majority": 0.316,
                 "adaptive": 0.316, "elastic": 0.316}
SAME_POINTS = 2.0
UNEQUAL = ["1,1,1", "1,0.8,0.6", "1,0.6,0.6", "0.6,1,0.7"]


def accuracy_reached(result):
    values = [100 * point["p1"] for point in result["curve"]]
    return max(statistics.median(values[end - 5:end]) for end in range(5, len(values) + 1))


def largest_difference(real, sim):
    """The largest relative difference of the test losses; the curves must have the same points."""
    pairs = list(zip(real["curve"], sim["curve"], strict=True))
    assert all(a["samples_count"] == b["samples_count"] for a, b in pairs), "the curves have other points"
    return max(abs(a["test_loss"] / b["test_loss"] - 1) for a, b in pairs)


def unequal_workers(base, runs):
    """A table of what adaptive reaches in sim by its three workers' speeds."""
    lines = ["| adaptive in sim, `--workers 3 --speed` | P@1 |", "|---|--:|"]
    for speed in UNEQUAL:
        run = common.train([*base, "--algorithm", "adaptive", "--workers", 3, "--learning-rate", LEARNING_RATE["adaptive"],
                            "--cluster", "sim", "--speed", speed], runs / f"sim-adaptive-speed-{speed}.json")
        lines.append(f"| {speed} | {accuracy_reached(run):.1f} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=6, help="epochs of each run (default: 6)")
    parser.add_argument("--ranks", default="1,2,3,4", help="numbers of ranks, separated by commas (default: 1,2,3,4)")
    arguments = parser.parse_args()
    ranks = [int(number) for number in arguments.ranks.split(",")]
    names = [each["name"] for each in json.loads(common.hetsgd("algorithms", ["--format", "json"]))]
    runs = common.ROOT / "runs" / "mpi_ranks"
    base = common.delicious() + ["--batch-size", "64", "--mega-batch", "50", "--epochs", arguments.epochs]
    lines = ["| algorithm | compared | " + " | ".join(f"{p} rank{'s' if p > 1 else ''}" for p in ranks) + " |",
             "|---|---|" + "--:|" * len(ranks)]
    far = []
    for name in names:
        cells = []
        for p in ranks:
            if name == "sgd" and p > 1:
                cells.append("")
                continue
            options = [*base, "--algorithm", name, "--workers", p, "--learning-rate", LEARNING_RATE.get(name, 1)]
            sim = common.train([*options, "--cluster", "sim"], runs / f"sim-{name}-{p}.json")
            real = common.train([*options, "--cluster", "mpi"], runs / f"mpi-{name}-{p}.json",
                                launch=["mpirun", "-n", str(p), common.HETSGD])
            if name in SAME_UPDATES:
                difference = largest_difference(real, sim)
                cells.append("same bits" if difference == 0 else f"{difference:.1e}")
                too_far = difference > 1e-5
            else:
                a, b = accuracy_reached(real), accuracy_reached(sim)
                cells.append(f"{a - b:+.1f} ({a:.1f})")
                too_far = abs(a - b) > SAME_POINTS
            if too_far:
                far.append(f"{name} with {p}: {cells[-1]}")
        lines.append(f"| {name} | {'test losses' if name in SAME_UPDATES else 'P@1, points (mpi)'} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    common.write_tables("mpi_ranks.md", [*lines, "", *unequal_workers(base, runs)])
    print("\n".join(["differ by more than 1e-5 or 2 points:", *far]) if far else "all differ by at most 1e-5 or 2 points")


if __name__ == "__main__":
    main()
