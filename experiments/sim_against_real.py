#!/usr/bin/python3
"""Compares predicted with measured times: the same scenarios in `sim` and in a real cluster (two workers on two cores).

    HETSGD_DATA_DIR=... experiments/sim_against_real.py --cluster mpi [--epochs 12] [--repeat 5]

`hetsgd calibrate` fits a profile of one core, and `hetsgd calibrate network` a model of the cluster's messages. With both, `sim`
predicts each run, and `threads` or `mpi` measures it: the time of all epochs, and the time to P@1 0.60. The table also shows
how exactly the injected delays were achieved. It needs an idle machine with two cores. Existing runs are kept.
It writes the table of results/sim_against_CLUSTER.md.
"""
import argparse
import json
import math
import subprocess

import common

SCENARIOS = {"none": [], "uniform 0-5 ms": ["--straggler", "kind=uniform,min=0ms,max=5ms"],
             "worker 1 twice as slow": ["--straggler", "kind=constant,worker=1,factor=2"]}
# Learning rates at which each reaches P@1 0.60 in sim within the epochs, from the grid of the other experiments.
ALGORITHMS = {"ssgd": ["--learning-rate", "3.16", "--per-worker-batch", "split"], "elastic": ["--learning-rate", "1"], "adaptive": ["--learning-rate", "1"],
              "esync": ["--learning-rate", "3.16"], "rna": ["--learning-rate", "3.16"]}
TARGET = 0.60


def relative(predicted, measured):
    if math.isinf(predicted) or math.isinf(measured):
        return "both" if predicted == measured else "one only"
    return f"{100 * (predicted / measured - 1):+.1f} %"


class Real:
    """One of the real clusters: how its runs start, and the models that were fitted to it."""

    def __init__(self, cluster, runs):
        self.launch = ["mpirun", "-n", "2", common.HETSGD] if cluster == "mpi" else [common.HETSGD]
        self.options = ["--cluster", cluster, "--devices", "cpu:1"]
        self.runs = runs
        self.profile = self.calibrate([common.HETSGD, "calibrate", "--device", "cpu:1"], "profile.json")
        self.network = self.calibrate([*self.launch, "calibrate", "network", "--cluster", cluster], "network.json")

    def calibrate(self, call, name):
        path = self.runs / name
        if not path.exists():
            subprocess.run([*call, "-o", str(path)], check=True, env=common.mpi_environment())
        return path

    def measured(self, options, name, repeat):
        outputs = [self.runs / f"{name}-{number}.json" for number in range(repeat)]
        return [common.train(options + self.options, output, launch=self.launch) for output in outputs]


def row(scenario, algorithm, sim, real):
    ends = [run["curve"][-1]["time_s"] for run in real]
    targets = [common.time_to(run, "p1", TARGET) for run in real]
    predicted, end, target = sim["curve"][-1]["time_s"], common.median(ends), common.median(targets)
    predicted_target = common.time_to(sim, "p1", TARGET)
    requested = sum(worker["delay_requested_s"] for run in real for worker in run["workers"])
    achieved = sum(worker["delay_achieved_s"] for run in real for worker in run["workers"])
    delays = f"{achieved / requested:.4f}" if requested else "no delay"
    return (f"| {scenario} | {algorithm} | {predicted:.3f} | {end:.3f} ({min(ends):.3f}..{max(ends):.3f}) | "
            f"{relative(predicted, end)} | {common.show(predicted_target)} | {common.show(target)} "
            f"({common.show(min(targets))}..{common.show(max(targets))}) | {relative(predicted_target, target)} | {delays} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", choices=["threads", "mpi"], required=True, help="cluster to compare with sim")
    parser.add_argument("--epochs", type=int, default=12, help="epochs of each run (default: 12)")
    parser.add_argument("--repeat", type=int, default=5, help="number of measurements of each run (default: 5)")
    arguments = parser.parse_args()
    runs = common.ROOT / "runs" / f"sim_against_{arguments.cluster}"
    runs.mkdir(parents=True, exist_ok=True)
    real = Real(arguments.cluster, runs)
    base = common.delicious() + ["--batch-size", "256", "--mega-batch", "20", "--epochs", arguments.epochs,
                                 "--target", f"p1>={TARGET}"]
    lines = ["| scenario | algorithm | predicted s | measured s (median, min..max) | error | predicted s to P@1 "
             f"{TARGET:.2f} | measured (median, min..max) | error | delays achieved / requested |",
             "|---|---|--:|--:|--:|--:|--:|--:|--:|"]
    for number, (scenario, straggler) in enumerate(SCENARIOS.items()):
        for algorithm, settings in ALGORITHMS.items():
            options = base + straggler + ["--algorithm", algorithm, "--workers", "2"] + settings
            # Services run on cores like the workers'.
            sim = common.train(options + ["--cluster", "sim", "--profile", real.profile, "--server-profile", real.profile,
                                          "--network", real.network],
                               runs / f"sim-{algorithm}-{number}.json")
            measured = real.measured(options, f"real-{algorithm}-{number}", arguments.repeat)
            lines.append(row(scenario, algorithm, sim, measured))
            print(lines[-1], flush=True)
    fitted = [json.loads(path.read_text()) for path in (real.profile, real.network)]
    models = [line for model in fitted for line in ("", f"Calibrated: `{json.dumps(model)}`")]
    common.write_tables(f"sim_against_{arguments.cluster}.md", [*lines, *models])


if __name__ == "__main__":
    main()
