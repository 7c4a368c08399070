#!/usr/bin/python3
"""How far a simulation scales: every algorithm with 256 simulated workers, its memory and its host time.

    HETSGD_DATA_DIR=... experiments/many_workers.py [--workers 256] [--iterations 40]

Delicious, MLP with H = 128, batches of 16 on simulated V100 with 0-50 ms of extra delay per iteration. Every worker makes
about `iterations` steps. Needs an idle machine for the times. Writes results/many_workers.md.
"""
import argparse
import json
import os
import subprocess
import sys
import time

import common
from straggler_scenarios import ALGORITHMS

SERVER = ["--cluster", "sim", "--profile", "v100", "--network", "infiniband-edr", "--straggler",
          "kind=uniform,min=0ms,max=50ms", "--batch-size", "16", "--learning-rate", "0.1"]


def measure(command):
    """(peak resident bytes, host seconds) of a command that must succeed."""
    start = time.monotonic()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    talk = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)}\nended with {os.waitstatus_to_exitcode(status)}:\n{talk}")
    return 1024 * usage.ru_maxrss, time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=256)
    parser.add_argument("--iterations", type=int, default=40)
    arguments = parser.parse_args()
    samples = arguments.workers * 16 * arguments.iterations
    output = common.ROOT / "runs" / "many_workers" / "run.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    lines = ["| algorithm | steps | simulated s | host s | host s per simulated s | host us per step | peak memory, MiB |",
             "|---|---|---|---|---|---|---|"]
    for name, options in ALGORITHMS.items():
        command = [common.HETSGD, "train", "--quiet", "--overwrite", "-o", output, *common.delicious(), *SERVER,
                   "--workers", arguments.workers, "--max-samples", samples, "--evaluate-every", samples,
                   "--algorithm", *options]
        peak, host = measure([str(word) for word in command])
        result = json.loads(output.read_text())
        train = result["wall"]["train_s"]
        steps = sum(worker["steps"] for worker in result["workers"])
        elapsed = result["summary"]["elapsed_s"]
        lines.append(f"| {name} | {steps} | {elapsed:.3g} | {train:.2f} | {train / elapsed:.2f} | "
                     f"{1e6 * train / steps:.0f} | {peak / 2**20:.0f} |")
        print(lines[-1], f"(whole program {host:.1f} s)", file=sys.stderr)
    (common.ROOT / "results" / "many_workers.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
