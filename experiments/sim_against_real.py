#!/usr/bin/env python3
"""Compares predicted with measured times: nine methods under five scenarios in `sim` and in a real cluster of one host.

    HETSGD_DATA_DIR=... experiments/sim_against_real.py --cluster threads|mpi [--epochs 12] [--seeds 5]

Two workers share two cores with services and background tasks. `hetsgd calibrate` fits a profile of one core, and `hetsgd
calibrate network` a model of the cluster's messages and waits. The run of ssgd (of sven, for its model) without delays sets
the level of that profile: its rates are scaled until the predicted time of a sample is the measured one, so the level also holds
what the model does not know, such as waits for a core. It does so anew for each seed, whose runs take place within two minutes of
each other, since the speed of a host's cores drifts. All other runs are held out. `sim --host-cores 2` predicts each run, and the
cluster measures it with the same seed: the time of a sample, the time to a target that is held, and the share of waiting. An error
is the median over the seeds of predicted over measured, less 1. It writes the tables of results/sim_against_CLUSTER.md.

It needs an idle machine with two cores. 225 measured runs of a cluster take about 12 minutes (2 to 5 s each), and their 225
predictions about 6 (1 to 3 s each). Runs that exist are kept, so it goes on where it was interrupted.
"""
import argparse
import itertools
import json
import math
import statistics
import time

import common

CORES = 2
SCENARIOS = {
    "none": [],
    "uniform 0-5 ms": ["kind=uniform,min=0ms,max=5ms"],
    "worker 1 twice as slow": ["kind=constant,worker=1,factor=2"],
    "bursts, 3 times": ["kind=burst,on=50ms,off=150ms,factor=3"],
    "worker 1 paused": ["kind=pause,worker=1,at=200ms,duration=200ms"],
}
# Learning rates at which each method holds P@1 0.60 in sim within the epochs, from the grid of the other experiments.
METHODS = {
    "ssgd": ["--learning-rate", "3.16", "--per-worker-batch", "split"],
    "local-sgd": ["--learning-rate", "3.16"],
    "elastic": ["--learning-rate", "1"],
    "adaptive": ["--learning-rate", "1.78"],
    "esync": ["--learning-rate", "3.16"],
    "adpsgd": ["--learning-rate", "3.16"],
    "rna": ["--learning-rate", "3.16"],
    "asgd": ["--learning-rate", "1"],
    "sven": ["--learning-rate", "0.1"],
}
CLICKS = "generate:criteo?scale=0.0002"
# Sven shards the tables of a click-through model. It has a profile of its own, and no place in the ranking.
CLICK_MODEL = ["--model", "deepfm", "--hidden", "128,128"]
TARGETS = {"sven": ("auc", 0.61)}
TARGET = ("p1", 0.60)
LEVEL = {"sven": "sven"}  # the method whose run without delays sets the level; ssgd for all others


def target_of(method):
    return TARGETS.get(method, TARGET)


def workload(method, epochs):
    """The options of a run that its scenario and its cluster do not change."""
    metric, value = target_of(method)
    base = ["--workers", 2, "--batch-size", 256, "--mega-batch", 20, "--target", f"{metric}>={value}", "--algorithm", method, *METHODS[method]]
    if method != "sven":
        return [*common.delicious(), *base, "--epochs", epochs]
    return ["--train", CLICKS, "--test", CLICKS, "--min-frequency", 1, "--tables", "sharded", "--embedding-dim", 16, *CLICK_MODEL, *base,
            "--max-samples", int(163840 * epochs / 12), "--evaluate-samples", 4096]


def level(method):
    return LEVEL.get(method, "ssgd")


class Host:
    """This machine: how runs start on one of its clusters, and the models that were fitted to it."""

    def __init__(self, cluster, runs):
        self.cluster, self.runs = cluster, runs
        self.launch = ["mpirun", "-n", "2", common.HETSGD] if cluster == "mpi" else [common.HETSGD]
        self.network = common.calibrated(["network", "--cluster", cluster, "--sizes", "64,64K,768K"], runs / "network.json", self.launch)
        dense = common.calibrated(["--device", "cpu:1"], runs / "profile-ssgd.json")
        clicks = common.calibrated(["--device", "cpu:1", "--model", "deepfm", "--hidden", "64,128", "--batch-size", "128,256"],
                                   runs / "profile-sven.json")
        self.profiles = {"ssgd": dense, "sven": clicks}
        self.levels = {}  # {(method, seed): profile}
        self.factors = {}

    def measured(self, options, name):
        return common.train([*options, "--cluster", self.cluster, "--devices", "cpu:1"], self.runs / f"real-{name}.json", launch=self.launch)

    def predicted(self, options, profile, name):
        return common.train([*options, "--cluster", "sim", "--host-cores", CORES, "--profile", profile, "--server-profile", profile,
                             "--network", self.network], self.runs / f"sim-{name}.json")

    def set_level(self, method, seed, options, real):
        """Scales the profile of a model until the predicted time of a sample is the measured one, for the runs of a seed. That time is nearly
        a straight line over the factor, as messages and waits stay, so each new factor lies on the line through the last two points."""
        factor, before = 1.0, (0.0, 0.0)
        for number in range(4):
            predicted = sample_us(self.predicted(options, self.scaled(method, seed, factor), f"level-{method}-{seed}-{number}"))
            if predicted == before[1]:
                break
            slope = (factor - before[0]) / (predicted - before[1])
            before = factor, predicted
            factor += (sample_us(real) - predicted) * slope
        self.levels[method, seed], self.factors[method, seed] = self.scaled(method, seed, factor), factor

    def scaled(self, method, seed, factor):
        """File of the profile with all times so many times as long."""
        profile = json.loads(self.profiles[method].read_text())
        for key, value in profile.items():
            if key.endswith("_per_s"):
                profile[key] = value / factor
            if key == "launch_overhead_s":
                profile[key] = value * factor
        profile["source"] += f"; all times {factor:.3f} times as long, by the time of a sample of {method} without delays"
        path = self.runs / f"profile-{method}-{seed}.json"
        path.write_text(json.dumps(profile, indent=2))
        return path


def sample_us(run):
    last = run["curve"][-1]
    return 1e6 * last["time_s"] / last["samples_count"]


def waiting(run):
    """Share of the workers' time in which they wait for each other, in percent."""
    return 100 * statistics.mean(worker["wait_s"] for worker in run["workers"]) / run["curve"][-1]["time_s"]


class Cell:
    """A method under a scenario: what was predicted and what was measured, by seed."""

    def __init__(self, method, scenario, sim, real):
        self.method, self.scenario = method, scenario
        self.held_out = scenario != "none" or method != level(method)
        metric = target_of(method)
        self.times = [[sample_us(run) for run in runs] for runs in (sim, real)]
        self.targets = [[common.time_to(run, *metric) for run in runs] for runs in (sim, real)]
        self.waits = [statistics.median([waiting(run) for run in runs]) for runs in (sim, real)]

    def error(self, values):
        """None: in most seeds a target is missed."""
        pairs = [(predicted, measured) for predicted, measured in zip(*values) if math.isfinite(predicted) and math.isfinite(measured)]
        if 2 * len(pairs) <= len(values[0]):
            return None
        return statistics.median([predicted / measured - 1 for predicted, measured in pairs])

    def row(self):
        def error(values):
            value = self.error(values)
            return "-" if value is None else f"{100 * value:+.1f} %"
        return (f"| {self.scenario} | {self.method}{'' if self.held_out else ' (calibration)'} | {statistics.median(self.times[0]):.2f} | "
                f"{common.spread(self.times[1], '{:.2f}'.format)} | {error(self.times)} | {common.spread(self.targets[0], common.show)} | "
                f"{common.spread(self.targets[1], common.show)} | {error(self.targets)} | {self.waits[0]:.1f} % | {self.waits[1]:.1f} % |")


def summary(cells):
    """Lines that the page shows first: errors of the runs that calibration has not used."""
    held_out = [cell for cell in cells if cell.held_out]
    lines = ["| held-out error (absolute, median) | time per sample | time to the target | waiting, points |", "|---|--:|--:|--:|"]

    def line(name, some):
        errors = [[abs(value) for value in map(of, some) if value is not None] for of in (lambda c: c.error(c.times), lambda c: c.error(c.targets))]
        shown = [f"{100 * statistics.median(each):.1f} %" if each else "-" for each in errors]
        return f"| {name} | {shown[0]} | {shown[1]} | {statistics.median([abs(c.waits[0] - c.waits[1]) for c in some]):.1f} |"
    lines.append(line(f"all {len(held_out)}", held_out))
    lines += [line(method, [cell for cell in held_out if cell.method == method]) for method in METHODS if
              any(cell.method == method for cell in held_out)]
    for what, values in (("time per sample", lambda c: c.times), ("time to the target", lambda c: c.targets)):
        tau, pairs = common.kendall([values(cell) for cell in cells if cell.scenario == scenario and cell.method != "sven"]
                                    for scenario in SCENARIOS)
        found = "no two methods are apart" if tau is None else f"Kendall's tau {tau:.2f} over the {pairs} pairs whose measured ranges are apart"
        lines += ["", f"Ranking of the methods by {what}, within a scenario: {found}."]
    return lines


def run_all(host, arguments):
    """All cells. Measured runs come first, one after the other, as predictions would disturb them."""
    real, total, begun = {}, len(METHODS) * len(SCENARIOS) * arguments.seeds, time.monotonic()
    keys = [(seed, scenario, method) for seed in range(1, arguments.seeds + 1) for scenario in SCENARIOS for method in METHODS]

    def options_of(seed, scenario, method):
        stragglers = [text for each in SCENARIOS[scenario] for text in ("--straggler", each)]
        return [*workload(method, arguments.epochs), *stragglers, "--seed", seed]

    def name_of(seed, scenario, method):
        return f"{method}-{list(SCENARIOS).index(scenario)}-{seed}"

    for number, key in enumerate(keys, 1):
        real[key] = host.measured(options_of(*key), name_of(*key))
        print(f"measured {number} of {total}, {time.monotonic() - begun:.0f} s: {key[2]}, {key[1]}, seed {key[0]}: {sample_us(real[key]):.2f} us a sample",
              flush=True)
    for method, seed in itertools.product(host.profiles, range(1, arguments.seeds + 1)):
        key = (seed, "none", method)
        host.set_level(method, seed, options_of(*key), real[key])
    sim = {}
    for number, key in enumerate(keys, 1):
        sim[key] = host.predicted(options_of(*key), host.levels[level(key[2]), key[0]], name_of(*key))
        print(f"predicted {number} of {total}, {time.monotonic() - begun:.0f} s", flush=True)
    return [Cell(method, scenario, *([runs[key] for key in keys if key[1:] == (scenario, method)] for runs in (sim, real)))
            for scenario in SCENARIOS for method in METHODS]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", choices=["threads", "mpi"], required=True, help="cluster to compare with sim")
    parser.add_argument("--epochs", type=int, default=12, help="epochs of each run (default: 12)")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds of each run (default: 5)")
    parser.add_argument("--runs", default="runs", help="folder of the runs; another one than the default changes no page (default: runs)")
    arguments = parser.parse_args()
    runs = common.ROOT / arguments.runs / f"sim_against_{arguments.cluster}"
    host = Host(arguments.cluster, runs)
    cells = run_all(host, arguments)
    lines = [*summary(cells), "",
             "| scenario | method | predicted us per sample | measured us per sample | error | predicted s to the target | measured s to the target | error | "
             "predicted waiting | measured waiting |", "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|", *(cell.row() for cell in cells)]
    for method in host.profiles:
        factors = [f"{host.factors[method, seed]:.2f}" for seed in range(1, arguments.seeds + 1)]
        lines += ["", f"Level of {method}, by seed: all times are {', '.join(factors)} times as long as in its calibration below."]
    models = [*host.profiles.values(), host.network]
    lines += [text for path in models for text in ("", f"Calibrated: `{json.dumps(json.loads(path.read_text()))}`")]
    if arguments.runs == "runs":
        common.write_tables(f"sim_against_{arguments.cluster}.md", lines)
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
