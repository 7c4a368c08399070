#!/usr/bin/env python3
"""Measures how far a simulation scales: memory and wall-clock time of every algorithm with many simulated workers.

    HETSGD_DATA_DIR=... experiments/many_workers.py delicious [--workers 256] [--iterations 40]
    experiments/many_workers.py growth [--few 1000] [--many 8000] [--most 10000] [ALGORITHM...]

delicious trains an MLP with H = 128 and batches of 16 on simulated V100, with a delay of 0 to 50 ms per iteration. Every worker
makes about --iterations steps. The times need an idle machine.

growth compares the cost of a merge (elastic, adaptive), of a round (rna, eager) or of a step of every worker (all others) with
--many workers and with --few workers, on a tiny model. The cost is in processor seconds of one host thread: the difference of a
run and one half as long, which removes the cost of set-up. It also makes a run of ten merges or rounds with --most workers.

Each part writes the table of its section of results/many_workers.md.
"""
import argparse
import sys

import common

RESULTS = "many_workers.md"
OUTPUT = common.ROOT / "runs" / "many_workers" / "run.json"
SERVER = ["--cluster", "sim", "--profile", "v100", "--network", "infiniband-edr", "--straggler",
          "kind=uniform,min=0ms,max=50ms", "--batch-size", "16", "--learning-rate", "0.1"]


# Name in the tables -> options. Synchronous gradient averaging takes a whole batch per worker, as the others do.
ALGORITHMS = {
    "ssgd": ["ssgd", "--per-worker-batch", "full"],
    "ssgd adasum": ["ssgd", "--per-worker-batch", "full", "--reduce", "adasum"],
    **{name: [name] for name in ("elastic", "adaptive", "sma", "easgd", "local-sgd", "esync", "asgd", "dc-asgd", "ssp", "adpsgd",
                                 "eager-solo", "eager-majority", "rna")},
    "rna hierarchical": ["rna", "--hierarchical"],
}
# Options under which workers tell each other more, beside ALGORITHMS.
CHATTY = {
    "ssgd central": ["ssgd", "--per-worker-batch", "full", "--storage", "central"],
    "sma auto": ["sma", "--learners-per-device", "auto", "--tuner-every", "1"],
    "local-sgd": ["local-sgd", "--local-steps", "1"],
    "esync steps": ["esync", "--weight", "steps"],
    "esync delayed": ["esync", "--ack", "delayed"],
    "ssp 0": ["ssp", "--staleness", "0"],
}
TINY = ["--train", "generate:tiny", "--test", "generate:tiny", "--hidden", "4", "--cluster", "sim", "--profile", "v100",
        "--network", "infiniband-edr", "--straggler", "kind=uniform,min=0ms,max=50ms", "--batch-size", "1",
        "--learning-rate", "0.01", "--evaluate-samples", "1", "--evaluate-every", 10**9, "--host-threads", "1"]


ROUNDS = 10


def steps(run):
    return sum(worker["steps"] for worker in run.result["workers"])


def rounds(run):
    """Merges, rounds of the partial methods, or steps of every worker."""
    merges = sum(event["type"] == "merge" for event in run.result["events"])
    if merges:
        return merges
    partial = run.result["config"]["algorithm"] in ("rna", "eager-solo", "eager-majority")
    if partial:
        return sum(run.result["histograms"]["contributors"].values())
    return steps(run) / len(run.result["workers"])


def delicious(arguments):
    samples = arguments.workers * 16 * arguments.iterations
    lines = ["| algorithm | steps | simulated s | host s | host s per simulated s | host us per step | peak memory, MiB |",
             "|---|---|---|---|---|---|---|"]
    for name, options in ALGORITHMS.items():
        run = common.measured([*common.delicious(), *SERVER, "--workers", arguments.workers, "--max-samples", samples,
                               "--evaluate-every", samples, "--algorithm", *options], OUTPUT)
        train = run.result["wall"]["train_s"]
        elapsed = run.result["summary"]["elapsed_s"]
        lines.append(f"| {name} | {steps(run)} | {elapsed:.3g} | {train:.2f} | {train / elapsed:.2f} | "
                     f"{1e6 * train / steps(run):.0f} | {run.peak_bytes / 2**20:.0f} |")
        print(lines[-1], f"(whole program {run.host_s:.1f} s)", file=sys.stderr)
    common.write_section(RESULTS, "256 workers on Delicious", lines)


def tiny(options, workers, count):
    return common.measured([*TINY, "--workers", workers, "--mega-batch", workers, "--max-samples", workers * count, "--algorithm",
                            *options], OUTPUT)


def per_round(options, workers, count):
    """Processor seconds of one merge or round."""
    half, whole = (min((tiny(options, workers, n) for _ in range(3)), key=lambda run: run.processor_s)
                   for n in (count, 2 * count))
    return (whole.processor_s - half.processor_s) / (rounds(whole) - rounds(half))


def growth(arguments):
    few, many, most = arguments.few, arguments.many, arguments.most
    lines = [f"| algorithm | ms per round, {few} workers | {many} workers | ratio | {most} workers, {ROUNDS} rounds: host s | "
             "rounds | peak memory, MiB |", "|---|---|---|---|---|---|---|"]
    for name, options in {**ALGORITHMS, **CHATTY}.items():
        if arguments.algorithm and name not in arguments.algorithm:
            continue
        small, large = per_round(options, few, 3 * many // few), per_round(options, many, 3)
        run = tiny(options, most, ROUNDS)
        lines.append(f"| {name} | {1e3 * small:.1f} | {1e3 * large:.0f} | {large / small:.1f} | {run.host_s:.1f} | "
                     f"{rounds(run):.1f} | {run.peak_bytes / 2**20:.0f} |")
        print(lines[-1], file=sys.stderr)
    if not arguments.algorithm:
        common.write_section(RESULTS, f"From {few} to {many} workers", lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True)
    part = parts.add_parser("delicious")
    part.set_defaults(run=delicious)
    part.add_argument("--workers", type=int, default=256, help="number of workers (default: 256)")
    part.add_argument("--iterations", type=int, default=40, help="steps of each worker (default: 40)")
    part = parts.add_parser("growth")
    part.set_defaults(run=growth)
    part.add_argument("--few", type=int, default=1000, help="smaller number of workers (default: 1000)")
    part.add_argument("--many", type=int, default=8000, help="larger number of workers (default: 8000)")
    part.add_argument("--most", type=int, default=10000, help="number of workers of the run of ten rounds (default: 10000)")
    part.add_argument("algorithm", nargs="*", help="measure only these algorithms and write no section (default: all)")
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
