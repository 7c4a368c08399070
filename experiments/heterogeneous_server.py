#!/usr/bin/python3
"""Time to accuracy on a server of four unequal GPUs: ssgd, elastic and adaptive (paper 000, figure 6).

    HETSGD_DATA_DIR=... experiments/heterogeneous_server.py [--seeds 5] [--epochs 40]

Four simulated V100 with speeds 1, 0.92, 0.84, 0.76 (the 32 % gap of paper 000) on PCIe 3, Delicious, MLP with H = 128,
b_max = 256, mega-batch 100 batches. Every algorithm tries the same learning rates, the powers of sqrt(10) from 0.1 to 10,
with the same seeds; the one with the shortest median time to P@1 0.60 is shown (ties: the higher final P@1). Two clocks:
the real, small model, and --charge amazon670k, where compute and communication have the ratio of the paper's model.

Writes results/heterogeneous_server/: table.md, tuning.md, summary.json and the plots; the runs themselves into runs/.
"""
import argparse
import json
import subprocess

import common

ALGORITHMS = ["ssgd", "elastic", "adaptive"]
METRIC, TARGET = "p1", 0.60
CLOCKS = {"small": [], "amazon670k": ["--charge", "amazon670k"]}
SERVER = ["--cluster", "sim", "--workers", "4", "--profile", "v100", "--network", "pcie3", "--speed",
          "1,0.92,0.84,0.76", "--model", "mlp", "--hidden", "128", "--batch-size", "256", "--mega-batch", "100",
          "--target", f"{METRIC}>={TARGET}", "--host-threads", "1"]


def run_path(clock, algorithm, rate, seed):
    return common.ROOT / "runs" / "heterogeneous_server" / clock / f"{algorithm}-lr{rate:.3g}-seed{seed}.json"


def all_runs(arguments):
    return {(clock, algorithm, rate, seed):
            (common.delicious() + SERVER + extra + ["--algorithm", algorithm, "--learning-rate", f"{rate:.6g}",
                                                    "--epochs", arguments.epochs, "--seed", seed],
             run_path(clock, algorithm, rate, seed))
            for clock, extra in CLOCKS.items() for algorithm in ALGORITHMS for rate in common.GRID
            for seed in range(1, arguments.seeds + 1)}


def best_rate(results, clock, algorithm, seeds):
    def score(rate):
        runs = [results[clock, algorithm, rate, seed] for seed in seeds]
        final = common.median([run["curve"][-1][METRIC] for run in runs])
        return common.median([common.time_to(run, METRIC, TARGET) for run in runs]), -final
    return min(common.GRID, key=score)


def tuning_table(results, seeds):
    lines = ["| clock | algorithm | " + " | ".join(f"lr {rate:.3g}" for rate in common.GRID) + " |",
             "|---" * (2 + len(common.GRID)) + "|"]
    for clock in CLOCKS:
        for algorithm in ALGORITHMS:
            cells = []
            for rate in common.GRID:
                runs = [results[clock, algorithm, rate, seed] for seed in seeds]
                time = common.median([common.time_to(run, METRIC, TARGET) for run in runs])
                best = common.median([max(point[METRIC] for point in run["curve"]) for run in runs])
                cells.append(f"{common.show(time)} ({100 * best:.1f} %)")
            lines.append(f"| {clock} | {algorithm} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=40)
    arguments = parser.parse_args()
    results = common.train_all(all_runs(arguments), parallel=2)
    seeds = range(1, arguments.seeds + 1)
    out = common.ROOT / "results" / "heterogeneous_server"
    out.mkdir(parents=True, exist_ok=True)
    (out / "tuning.md").write_text(tuning_table(results, seeds))
    summary, tables = {}, []
    for clock in CLOCKS:
        files = []
        for algorithm in ALGORITHMS:
            rate = best_rate(results, clock, algorithm, seeds)
            files += [str(run_path(clock, algorithm, rate, seed)) for seed in seeds]
            summary.setdefault(clock, {})[algorithm] = {
                "learning_rate": rate,
                "time_to_target_s": [common.time_to(results[clock, algorithm, rate, seed], METRIC, TARGET)
                                     for seed in seeds],
                "final_p1": [results[clock, algorithm, rate, seed]["curve"][-1][METRIC] for seed in seeds]}
        compare = [common.HETSGD, "compare", *files, "--target", f"{METRIC}>={TARGET}"]
        table = subprocess.run([*compare, "--format", "markdown"], check=True, capture_output=True, text=True).stdout
        tables.append(f"## Clock: {clock}\n\n{table}")
        subprocess.run(["/usr/bin/python3", str(common.ROOT / "scripts" / "plot.py"), *files, "-o", str(out / clock)],
                       check=True)
    (out / "table.md").write_text("\n".join(tables))
    (out / "summary.json").write_text(json.dumps(summary, indent=1).replace("Infinity", "null") + "\n")
    print((out / "table.md").read_text())


if __name__ == "__main__":
    main()
