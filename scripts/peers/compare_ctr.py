#!/usr/bin/env python3
"""Compares the speed of hetsgd's click-through models with PyTorch's, alternately in one run.

    scripts/peers/compare_ctr.py build/release/tests/bench/ctr_bench --json ctr.json

Whole steps of wide_deep, deepfm and dcn, and lookups (gather and update of the table alone), for batches of
1,024 and 8,192 on one and two cores. Each round runs ctr_bench and pytorch_ctr.py once per case, one after
the other, so that a change of the machine's load hits both; in the first PyTorch runs its trials. The table
shows medians over the rounds of samples per second of wall time; the ratio is hetsgd over PyTorch, the median
of the rounds' ratios. `floor` is hetsgd's share of what the cores' measured peak allows: operations of a step,
bytes of a lookup.

PyTorch runs at its best: the first trial finds the fastest of three forms of the table (pytorch_ctr.py) and
of the kernels that OpenBLAS has for this CPU, where it has OpenBLAS. A PyTorch of PyPI, outside of the tree:

    python3 -m venv ~/torch && ~/torch/bin/pip install torch
    scripts/peers/compare_ctr.py build/release/tests/bench/ctr_bench --python ~/torch/bin/python

Exit code 7 if a ratio is below its goal and --require is given.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

import peer_rates
from compare_speed import openblas_kernels
from peer_rates import HERE, run_on_cores

GOALS = {"step": 1.2, "lookup": 3.0}
CASES = [{"part": part, "model": model, "batch_size": size, "cores": cores}
         for part, models in (("step", ["wide_deep", "deepfm", "dcn"]), ("lookup", ["deepfm"]))
         for model in models for size in (1024, 8192) for cores in (1, 2)]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ctr_bench", help="benchmark program ctr_bench, in tests/bench of the build folder")
    parser.add_argument("--form", default="auto", help="form of PyTorch's table; auto takes the fastest (default: auto)")
    peer_rates.add_options(parser, "run only cases whose name contains this text (default: all)")
    return parser.parse_args()


def name_of(case):
    part = "lookup" if case["part"] == "lookup" else f"step/{case['model']}"
    return f"{part}/{case['batch_size']}/{case['cores']}"


def run_hetsgd(case, options):
    output = run_on_cores([options.ctr_bench, f"--benchmark_filter=^{name_of(case)}/real_time$",
                           "--benchmark_format=json", f"--benchmark_min_time={options.seconds}"], case["cores"])
    row = json.loads(output)["benchmarks"][0]
    return {"samples_per_s": row["samples_per_s"], "floor_ratio": row["floor_ratio"]}


def run_pytorch(case, form, coretype, options):
    command = [options.python, os.path.join(HERE, "pytorch_ctr.py"), "--part", case["part"], "--model", case["model"],
               "--form", form, "--batch-size", str(case["batch_size"]), "--threads", str(case["cores"]), "--seconds",
               str(options.seconds)]
    return json.loads(run_on_cores(command, case["cores"], OPENBLAS_CORETYPE=coretype or None))


def blas_kernels(python):
    """The values of OPENBLAS_CORETYPE that are worth a trial: Debian's PyTorch multiplies by OpenBLAS, those of PyPI by MKL."""
    config = subprocess.run([python, "-W", "ignore", "-c", "import torch; print(torch.__config__.show())"],
                            stdout=subprocess.PIPE, text=True, check=True).stdout
    return [""] if "BLAS_INFO=mkl" in config else openblas_kernels()


def best_pytorch(case, all_kernels, options):
    """The fastest candidate and its measurement."""
    trials = {kernels: run_pytorch(case, options.form, kernels, options) for kernels in all_kernels}
    kernels = max(trials, key=lambda each: trials[each]["samples_per_s"])
    fastest = trials[kernels]
    return {"form": fastest["form"], "coretype": kernels, "version": fastest["version"]}, fastest


def summarise(case, best, hetsgd, pytorch):
    rates = peer_rates.rates_of(name_of(case), GOALS[case["part"]], [run["samples_per_s"] for run in hetsgd],
                                [run["samples_per_s"] for run in pytorch])
    return {**case, **rates, "floor_ratio": statistics.median(run["floor_ratio"] for run in hetsgd), "pytorch": best}


def line(row):
    best = row["pytorch"]
    return peer_rates.line(row, f"{row['floor_ratio']:6.2f}  {best['form']} {best['coretype']} {best['version']}")


def main():
    options = parse_arguments()
    cases = [case for case in CASES if not options.only or options.only in name_of(case)]
    if not cases:
        sys.exit(f"--only: found {options.only}, expected a part of one of " + ", ".join(map(name_of, CASES)))
    all_kernels = blas_kernels(options.python)
    best, runs = [], []
    for case in cases:  # the trial that was fastest is PyTorch's first round
        choice, first = best_pytorch(case, all_kernels, options)
        best.append(choice)
        runs.append(([run_hetsgd(case, options)], [first]))
        print(line(summarise(case, choice, *runs[-1])), file=sys.stderr, flush=True)
    print(f"round 1 of {options.rounds} done", file=sys.stderr)
    for number in range(1, options.rounds):
        for case, choice, (hetsgd, pytorch) in zip(cases, best, runs):
            hetsgd.append(run_hetsgd(case, options))
            pytorch.append(run_pytorch(case, choice["form"], choice["coretype"], options))
        print(f"round {number + 1} of {options.rounds} done", file=sys.stderr)
    rows = [summarise(case, choice, *both) for case, choice, both in zip(cases, best, runs)]
    print(peer_rates.head(f"{'floor':>6}  PyTorch's best"))
    for row in rows:
        print(line(row))
    return peer_rates.finish(rows, options)


if __name__ == "__main__":
    sys.exit(main())
