#!/usr/bin/env python3
"""Compares the speed of hetsgd's click-through models with PyTorch's, alternately in one run.

    scripts/peers/compare_ctr.py build/release/tests/bench/ctr_bench --json ctr.json

Whole steps of wide_deep, deepfm and dcn, and lookups (gather and update of the table alone), for batches of
1,024 and 8,192 on one and two cores. Each round runs every way to compute once per case (peer_rates.py), one
after the other, so that a change of the machine's load hits all; before them PyTorch runs its trials. The table
shows medians over the rounds of samples per second of wall time. `floor` is hetsgd's share in FP32 of what the
cores' measured peak allows: operations of a step, bytes of a lookup.

PyTorch runs at its best: the first trial finds the fastest of three forms of the table (pytorch_ctr.py) and
of the kernels that OpenBLAS has for this CPU, where it has OpenBLAS. A PyTorch of PyPI, outside of the tree:

    python3 -m venv ~/torch && ~/torch/bin/pip install torch
    scripts/peers/compare_ctr.py build/release/tests/bench/ctr_bench --python ~/torch/bin/python

Exit code 7 if a ratio is below its goal and --require is given.
"""

import json
import statistics
import subprocess
import sys

import peer_rates
from compare_speed import openblas_kernels

GOALS = {"step": 1.2, "lookup": 3.0}
CASES = [{"part": part, "model": model, "batch_size": size, "cores": cores}
         for part, models in (("step", ["wide_deep", "deepfm", "dcn"]), ("lookup", ["deepfm"]))
         for model in models for size in (1024, 8192) for cores in (1, 2)]


def name_of(case, words=()):
    part = "lookup" if case["part"] == "lookup" else f"step/{case['model']}" + ("_bf16" if "bf16" in words else "")
    return f"{part}/{case['batch_size']}/{case['cores']}"


def run_hetsgd(case, words, options):
    output = peer_rates.run_on_cores([options.ctr_bench, f"--benchmark_filter=^{name_of(case, words)}/real_time$", "--benchmark_format=json",
                                      f"--benchmark_min_time={options.seconds}"], case["cores"])
    row = json.loads(output)["benchmarks"][0]
    return {"samples_per_s": row["samples_per_s"], "floor_ratio": row["floor_ratio"]}


def run_pytorch(case, form, coretype, words, options):
    return peer_rates.pytorch(options.python, "pytorch_ctr.py", case["cores"], options.seconds, "--part", case["part"],
                              "--model", case["model"], "--form", form, "--batch-size", str(case["batch_size"]), *words,
                              OPENBLAS_CORETYPE=coretype or None)


def blas_kernels(python):
    """The values of OPENBLAS_CORETYPE that are worth a trial: Debian's PyTorch multiplies by OpenBLAS, those of PyPI by MKL."""
    config = subprocess.run([python, "-W", "ignore", "-c", "import torch; print(torch.__config__.show())"],
                            stdout=subprocess.PIPE, text=True, check=True).stdout
    return [""] if "BLAS_INFO=mkl" in config else openblas_kernels()


def best_pytorch(case, all_kernels, options):
    """The fastest form and kernels."""
    trials = {kernels: run_pytorch(case, options.form, kernels, [], options) for kernels in all_kernels}
    kernels = max(trials, key=lambda each: trials[each]["samples_per_s"])
    return {"form": trials[kernels]["form"], "coretype": kernels, "version": trials[kernels]["version"]}


def main():
    parser = peer_rates.parser_of(__doc__, "ctr_bench", "run only cases whose name contains this text (default: all)")
    parser.add_argument("--form", default="auto", help="form of PyTorch's table; auto takes the fastest (default: auto)")
    options = parser.parse_args()
    cases = peer_rates.chosen(CASES, options.only, name_of)
    all_kernels = blas_kernels(options.python)
    best = {name_of(case): best_pytorch(case, all_kernels, options) for case in cases}

    def run_best(case, words, options):
        return run_pytorch(case, best[name_of(case)]["form"], best[name_of(case)]["coretype"], words, options)

    rows = []
    print(peer_rates.head(f"{'floor':>6}  PyTorch's best"))
    for part in GOALS:
        some = [case for case in cases if case["part"] == part]
        ways = (peer_rates.HETSGD, peer_rates.PYTORCH) if part == "step" else ({"fp32": []}, {"fp32": []})  # lookups have no products
        for case, both in zip(some, peer_rates.race(some, options, run_hetsgd, run_best, ways)):
            choice, floor = best[name_of(case)], statistics.median(run["floor_ratio"] for run in both[0]["fp32"])
            rows.append({**case, **peer_rates.rates_of(name_of(case), GOALS[part], *both), "floor_ratio": floor, "choice": choice})
            print(peer_rates.line(rows[-1], f"{floor:6.2f}  {choice['form']} {choice['coretype']} {choice['version']}"))
    return peer_rates.finish(rows, options)


if __name__ == "__main__":
    sys.exit(main())
