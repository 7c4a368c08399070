#!/usr/bin/env python3
"""Compares the speed of hetsgd's GPT networks with PyTorch's, alternately in one run.

    scripts/peers/compare_transformer.py build/release/apps/hetsgd/hetsgd --python VENV/bin/python --json transformer.json

Forward, backward, a clipped gradient and AdamW in both, on one and two cores. hetsgd trains on made-up language (--cluster
threads; tokens per second of its training clock), PyTorch on random tokens in memory. The first three steps of each touch
their memory for the first time and do not count. Each round runs every way to compute once per case (peer_rates.py), one
after the other, so that a change of the machine's load hits all. The table shows medians over the rounds. `GFLOP/s` is
what hetsgd's better rate means in operations of a step (`hetsgd memory` has them), `MiB` are the peaks of resident memory
in FP32, ours and that of PyTorch in eager mode.
Exit code 7 if a ratio is below its goal and --require is given.
"""

import sys

import peer_rates

# Positions of a row, tokens, operations per row (forward and backward), least seconds of a measurement.
NETWORKS = {"gpt-tiny": (64, 62, 0.320e9, 1), "nanogpt-char": (256, 65, 17.4e9, 15), "gpt-micro": (64, 32, 0.0423e9, 1)}
CASES = [{"model": model, "rows": rows, "cores": cores}
         for model, rows in (("gpt-tiny", 12), ("gpt-tiny", 64), ("nanogpt-char", 12), ("gpt-micro", 32)) for cores in (1, 2)]
GOAL = 1.0
# Runs a command and prints the peak of its resident memory in KiB.
PEAK = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")


def name_of(case):
    return f"{case['model']} {case['rows']} rows/{case['cores']}"


def seconds(case, options):
    return max(options.seconds, NETWORKS[case["model"]][3])


def run_hetsgd(case, words, options):
    """Tokens per second of the training clock, and the peak of memory."""
    warm_up = 3 * case["rows"]
    steps, vocabulary, _, _ = NETWORKS[case["model"]]
    text = f"generate:language?vocabulary={vocabulary}&steps={steps}&rows_train=2000&rows_test=12"
    command = [sys.executable, "-c", PEAK, options.hetsgd, "train", "--model", case["model"], "--train", text, "--test", text,
               "--algorithm", "sgd", "--optimizer", "adam", "--decoupled-weight-decay", "--weight-decay", "0.1", "--beta2", "0.99",
               *words, "--clip-norm", "1", "--learning-rate", "0.001", "--batch-size", str(case["rows"]),
               "--max-time", f"{seconds(case, options)}s", "--evaluate-every", str(warm_up), "--evaluate-samples", "12"]
    curve, peak = peer_rates.curve_of(command, case["cores"])
    first = next(point for point in curve if point["samples_count"] >= warm_up)
    samples, time_s = (curve[-1][key] - first[key] for key in ("samples_count", "time_s"))
    return {"tokens_per_s": samples * steps / time_s, "peak_resident_bytes": 1024 * int(peak)}


def run_pytorch(case, words, options):
    return peer_rates.pytorch(options.python, "pytorch_transformer.py", case["cores"], seconds(case, options), "--model", case["model"],
                              "--rows", str(case["rows"]), *words)


def main():
    options = peer_rates.parser_of(__doc__, "hetsgd", "run only the cases of this model (default: all)").parse_args()
    cases = peer_rates.chosen(CASES, options.only, name_of)
    runs = peer_rates.race(cases, options, run_hetsgd, run_pytorch)
    rows = []
    print(peer_rates.head(f"{'GFLOP/s':>8} {'MiB':>12}", "tokens/s"))
    for case, both in zip(cases, runs):
        rows.append({**case, **peer_rates.rates_of(name_of(case), GOAL, *both, "tokens_per_s")})
        steps, _, operations, _ = NETWORKS[case["model"]]
        memory = [min(run["peak_resident_bytes"] for run in ways["fp32"]) >> 20 for ways in both]
        best = max(rows[-1]["hetsgd_tokens_per_s"].values())
        print(peer_rates.line(rows[-1], f"{best / steps * operations / 1e9:8.1f} {memory[0]:5} {memory[1]:6}", "tokens_per_s"))
    return peer_rates.finish(rows, options)


if __name__ == "__main__":
    sys.exit(main())
