#!/usr/bin/env python3
"""Compares the speed of hetsgd's networks of images with PyTorch's, alternately in one run.

    scripts/peers/compare_images.py build/release/apps/hetsgd/hetsgd --json images.json

lenet-5, lenet-002 and resnet-20, batches of 64, SGD with momentum, on one and two cores. hetsgd trains on images of its
generator (--cluster threads; samples per second of its training clock), PyTorch on random tensors in memory. Each
round runs every way to compute once per case (peer_rates.py), one after the other, so that a change of the machine's
load hits all. The table shows medians over the rounds. `GFLOP/s` is what hetsgd's better rate means in operations of a
step (6 per multiply-add, less the first layer's input gradient).
Exit code 7 if a ratio is below its goal and --require is given.
"""

import sys

import peer_rates

GOALS = {"lenet-5": 1.3, "lenet-002": 1.2, "resnet-20": 1.1}
OPERATIONS = {"lenet-5": 6 * 416_520 - 2 * 117_600, "lenet-002": 6 * 4_796_416 - 2 * 460_800,
              "resnet-20": 6 * 40_551_040 - 2 * 442_368}
SHAPES = {"resnet-20": "size=32&channels=3"}
CASES = [{"model": model, "cores": cores} for model in GOALS for cores in (1, 2)]


def name_of(case):
    return f"{case['model']}/{case['cores']}"


def run_hetsgd(case, words, options):
    training = f"generate:images?{SHAPES.get(case['model'], 'size=28&channels=1')}&rows_train=4000&rows_test=100"
    command = [options.hetsgd, "train", "--model", case["model"], "--train", training, "--test", training, "--algorithm", "sgd", *words,
               "--optimizer", "momentum", "--momentum", "0.9", "--learning-rate", "0.01", "--batch-size", str(options.batch_size),
               "--max-time", f"{options.seconds}s", "--evaluate-every", "1e12", "--evaluate-samples", "1"]
    curve, _ = peer_rates.curve_of(command, case["cores"])
    return {"samples_per_s": curve[-1]["samples_count"] / curve[-1]["time_s"]}


def run_pytorch(case, words, options):
    return peer_rates.pytorch(options.python, "pytorch_images.py", case["cores"], options.seconds, "--model", case["model"],
                              "--batch-size", str(options.batch_size), *words)


def main():
    parser = peer_rates.parser_of(__doc__, "hetsgd", "run only the cases of this model (default: all)")
    parser.add_argument("--batch-size", type=int, default=64, help="batch size (default: 64)")
    options = parser.parse_args()
    cases = peer_rates.chosen(CASES, options.only, name_of)
    runs = peer_rates.race(cases, options, run_hetsgd, run_pytorch)
    rows = []
    print(peer_rates.head(f"{'GFLOP/s':>8}"))
    for case, both in zip(cases, runs):
        rows.append({**case, **peer_rates.rates_of(name_of(case), GOALS[case["model"]], *both)})
        best = max(rows[-1]["hetsgd_samples_per_s"].values())
        print(peer_rates.line(rows[-1], f"{best * OPERATIONS[case['model']] / 1e9:8.1f}"))
    return peer_rates.finish(rows, options)


if __name__ == "__main__":
    sys.exit(main())
