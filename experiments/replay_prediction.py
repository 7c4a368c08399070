#!/usr/bin/env python3
"""Compares predicted with real times: method A is recorded, method B is predicted from the record, and B really runs.

    HETSGD_DATA_DIR=... experiments/replay_prediction.py [--cluster sim|threads] [--seeds 5] [--epochs 6] [--jobs 2]

Each method runs with `--record-timeline` under the same conditions. Then `hetsgd train --cluster sim --replay` predicts each method from the
record of each, without being told the conditions. The tables show the errors of two predictions, the time of all samples and the time to
P@1 0.50, and Kendall's tau between the predicted and the real order of the methods. Existing runs are kept.
It writes the section of the cluster in results/replay_prediction.md.
"""
import argparse
import concurrent.futures
import itertools
import math
import statistics

import common

METHODS = {"ssgd": "3.16", "elastic": "1", "adaptive": "1", "esync": "3.16", "asgd": "1"}  # their learning rates
TARGET = 0.50
# Four simulated workers; the steps of a simulated worker take about 0.5 ms without delays.
SIM = {"one worker twice as slow, delays of 0 to 5 ms": ["kind=constant,worker=1,factor=2", "kind=uniform,min=0ms,max=5ms"],
       "heavy-tailed delays": ["kind=pareto,scale=1ms,shape=2"]}
# Two real workers; the delays are large beside the noise of the host.
THREADS = {"delays of 40 to 120 ms, worker 1 with 60 ms more": ["kind=uniform,min=40ms,max=120ms", "kind=uniform,worker=1,min=60ms,max=60ms"]}


class Runs:
    """All runs of one cluster. `records[scenario, A, seed]` and `predictions[scenario, A, B, seed]` are results."""

    def __init__(self, arguments):
        self.cluster, self.seeds, self.epochs = arguments.cluster, range(1, arguments.seeds + 1), arguments.epochs
        self.scenarios = SIM if self.cluster == "sim" else THREADS
        self.folder = common.ROOT / "runs" / "replay_prediction" / self.cluster
        # Real runs are measured one at a time.
        jobs = arguments.jobs if self.cluster == "sim" else 1
        self.folder.mkdir(parents=True, exist_ok=True)
        self.records = self.all_of(self.record, itertools.product(self.scenarios, METHODS, self.seeds), jobs)
        self.predictions = self.all_of(self.predict, itertools.product(self.scenarios, METHODS, METHODS, self.seeds), arguments.jobs)

    @staticmethod
    def all_of(make, keys, jobs):
        keys = list(keys)
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            return dict(zip(keys, pool.map(lambda key: make(*key), keys)))

    def path(self, scenario, *parts):
        return self.folder / "-".join([str(list(self.scenarios).index(scenario)), *map(str, parts)])

    def options(self, method, seed):
        return [*common.delicious(), "--batch-size", "256", "--mega-batch", "20", "--epochs", self.epochs, "--target", f"p1>={TARGET}",
                "--workers", "4" if self.cluster == "sim" else "2", "--seed", seed, "--algorithm", method, "--learning-rate", METHODS[method]]

    def record(self, scenario, method, seed):
        path = self.path(scenario, method, seed)
        cluster = ["--cluster", "sim"] if self.cluster == "sim" else ["--cluster", "threads", "--devices", "cpu:1"]
        stragglers = [text for each in self.scenarios[scenario] for text in ("--straggler", each)]
        timeline = ["--record-timeline", path.with_suffix(".jsonl.zst")]
        return common.train(self.options(method, seed) + cluster + stragglers + timeline, path.with_suffix(".json"))

    def predict(self, scenario, recorded, method, seed):
        record = self.path(scenario, recorded, seed).with_suffix(".jsonl.zst")
        return common.train(self.options(method, seed) + ["--cluster", "sim", "--replay", record],
                            self.path(scenario, recorded, method, seed).with_suffix(".json"))


def total(result):
    return result["curve"][-1]["time_s"]


def to_target(result):
    return common.time_to(result, "p1", TARGET)


def errors(runs, scenario, pairs, time_of):
    """Relative errors over the pairs and seeds; a target that one side alone reaches is an infinite one."""
    found = []
    for (recorded, method), seed in itertools.product(pairs, runs.seeds):
        predicted, real = (time_of(runs.predictions[scenario, recorded, method, seed]), time_of(runs.records[scenario, method, seed]))
        if math.isinf(predicted) and math.isinf(real):
            continue
        found.append(math.inf if math.isinf(predicted) or math.isinf(real) else predicted / real - 1)
    return found


def size(value):
    return f"{100 * value:.1f} %" if math.isfinite(value) else "one only"


def percent(values):
    """Median with the range of the seeds."""
    return common.spread(values, lambda value: f"{100 * value:+.1f}" if math.isfinite(value) else "one only") if values else "not reached"


def kendall(runs, scenario, recorded, time_of):
    """Kendall's tau between predicted and real order, without pairs that are ties in reality."""
    ranking = []
    for method in METHODS:
        predicted = [time_of(runs.predictions[scenario, recorded, method, seed]) for seed in runs.seeds]
        ranking.append((predicted, [time_of(runs.records[scenario, method, seed]) for seed in runs.seeds]))
    tau, pairs = common.kendall([ranking])
    return f"{tau:.2f} ({pairs} of 10 pairs)" if pairs else "all are ties"


def summary(runs):
    lines = ["| scenario | time | pairs | median error, A to B | 90 % of the errors below | median error, A to A | Kendall's tau, least over A |",
             "|---|---|--:|--:|--:|--:|--:|"]
    across = [pair for pair in itertools.product(METHODS, repeat=2) if pair[0] != pair[1]]
    for scenario in runs.scenarios:
        for name, time_of in (("all samples", total), (f"to P@1 {TARGET:.2f}", to_target)):
            sizes = sorted(map(abs, errors(runs, scenario, across, time_of)))
            own = sorted(map(abs, errors(runs, scenario, [(method, method) for method in METHODS], time_of)))
            taus = [kendall(runs, scenario, recorded, time_of) for recorded in METHODS]
            lines.append(f"| {scenario} | {name} | {len(sizes)} | {size(statistics.median(sizes))} | {size(sizes[int(0.9 * len(sizes))])} | "
                         f"{size(statistics.median(own))} | {min(taus, key=lambda tau: float(tau.split()[0]) if tau[0] in '-01' else 2)} |")
    return lines


def matrix(runs, scenario, time_of):
    """Median error in percent with the range of the seeds, by record and predicted method."""
    lines = ["| recorded | " + " | ".join(METHODS) + " | Kendall's tau |", "|---|" + "--:|" * (len(METHODS) + 1)]
    for recorded in METHODS:
        cells = [percent(errors(runs, scenario, [(recorded, method)], time_of)) for method in METHODS]
        lines.append(f"| {recorded} | " + " | ".join(cells) + f" | {kendall(runs, scenario, recorded, time_of)} |")
    cells = [common.spread([time_of(runs.records[scenario, method, seed]) for seed in runs.seeds], common.show) for method in METHODS]
    return [*lines, "| real time in s | " + " | ".join(cells) + " | |"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", choices=["sim", "threads"], default="sim", help="cluster of the recorded and real runs (default: sim)")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds (default: 5)")
    parser.add_argument("--epochs", type=int, default=6, help="epochs of each run (default: 6)")
    parser.add_argument("--jobs", type=int, default=2, help="simulated runs at a time (default: 2)")
    runs = Runs(parser.parse_args())
    common.write_section("replay_prediction.md", f"Summary: {runs.cluster}", summary(runs))
    for scenario in runs.scenarios:
        for name, time_of in (("time of all samples", total), (f"time to P@1 {TARGET:.2f}", to_target)):
            common.write_section("replay_prediction.md", f"{runs.cluster}: {scenario}, {name}", matrix(runs, scenario, time_of))


if __name__ == "__main__":
    main()
