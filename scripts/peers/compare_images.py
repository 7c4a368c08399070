#!/usr/bin/env python3
"""Compares the speed of hetsgd's networks of images with PyTorch's, alternately in one run.

    scripts/peers/compare_images.py build/release/apps/hetsgd/hetsgd --json images.json

lenet-5 and lenet-002, batches of 64, SGD with momentum, on one and two cores. hetsgd trains on images of its
generator (--cluster threads; samples per second of its training clock), PyTorch on random tensors in memory. Each
round runs both once per case, one after the other, so that a change of the machine's load hits both. The table
shows medians over the rounds; the ratio is the median of the rounds' ratios, hetsgd over PyTorch. `GFLOP/s` is what
hetsgd's rate means in operations of a step (6 per multiply-add, less the first layer's input gradient).
Exit code 7 if a ratio is below its goal and --require is given.
"""

import argparse
import json
import os
import sys
import tempfile

import peer_rates
from peer_rates import HERE, run_on_cores

GOALS = {"lenet-5": 1.3, "lenet-002": 1.0}
OPERATIONS = {"lenet-5": 6 * 416_520 - 2 * 117_600, "lenet-002": 6 * 4_796_416 - 2 * 460_800}
CASES = [{"model": model, "cores": cores} for model in GOALS for cores in (1, 2)]
TRAINING = "generate:images?size=28&channels=1&rows_train=4000&rows_test=100"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("hetsgd", help="path of the program hetsgd")
    parser.add_argument("--batch-size", type=int, default=64, help="batch size (default: 64)")
    peer_rates.add_options(parser, "run only the cases of this model (default: all)")
    return parser.parse_args()


def run_hetsgd(case, options):
    """Measured by the training clock, which stands still while the model is measured at the ends."""
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "out.json")
        run_on_cores([options.hetsgd, "train", "--model", case["model"], "--train", TRAINING, "--test", TRAINING,
                      "--cluster", "threads", "--devices", f"cpu:{case['cores']}", "--algorithm", "sgd", "--optimizer",
                      "momentum", "--momentum", "0.9", "--learning-rate", "0.01", "--batch-size", str(options.batch_size),
                      "--max-time", f"{options.seconds}s", "--evaluate-every", "1e12", "--evaluate-samples", "1",
                      "--quiet", "-o", output], case["cores"])
        with open(output, encoding="utf-8") as file:
            last = json.load(file)["curve"][-1]
    return last["samples_count"] / last["time_s"]


def run_pytorch(case, options):
    return json.loads(run_on_cores([options.python, os.path.join(HERE, "pytorch_images.py"), "--model", case["model"],
                                    "--batch-size", str(options.batch_size), "--threads", str(case["cores"]),
                                    "--seconds", str(options.seconds)], case["cores"]))


def main():
    options = parse_arguments()
    cases = [case for case in CASES if options.only in (None, case["model"])]
    runs = [([], []) for _ in cases]
    for number in range(options.rounds):
        for case, (ours, theirs) in zip(cases, runs):
            ours.append(run_hetsgd(case, options))
            theirs.append(run_pytorch(case, options))
        print(f"round {number + 1} of {options.rounds} done", file=sys.stderr)
    rows = []
    print(peer_rates.head(f"{'GFLOP/s':>8}"))
    for case, (ours, theirs) in zip(cases, runs):
        rates = peer_rates.rates_of(f"{case['model']}/{case['cores']}", GOALS[case["model"]], ours,
                                    [run["samples_per_s"] for run in theirs])
        rows.append({**case, **rates, "hetsgd": ours, "pytorch": theirs})
        print(peer_rates.line(rows[-1], f"{rates['hetsgd_samples_per_s'] * OPERATIONS[case['model']] / 1e9:8.1f}"))
    return peer_rates.finish(rows, options)


if __name__ == "__main__":
    sys.exit(main())
