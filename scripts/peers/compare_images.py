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

import sys

import peer_rates

GOALS = {"lenet-5": 1.3, "lenet-002": 1.0}
OPERATIONS = {"lenet-5": 6 * 416_520 - 2 * 117_600, "lenet-002": 6 * 4_796_416 - 2 * 460_800}
CASES = [{"model": model, "cores": cores} for model in GOALS for cores in (1, 2)]
TRAINING = "generate:images?size=28&channels=1&rows_train=4000&rows_test=100"


def name_of(case):
    return f"{case['model']}/{case['cores']}"


def run_hetsgd(case, options):
    command = [options.hetsgd, "train", "--model", case["model"], "--train", TRAINING, "--test", TRAINING, "--algorithm", "sgd",
               "--optimizer", "momentum", "--momentum", "0.9", "--learning-rate", "0.01", "--batch-size", str(options.batch_size),
               "--max-time", f"{options.seconds}s", "--evaluate-every", "1e12", "--evaluate-samples", "1"]
    curve, _ = peer_rates.curve_of(command, case["cores"])
    return curve[-1]["samples_count"] / curve[-1]["time_s"]


def run_pytorch(case, options):
    return peer_rates.pytorch(options.python, "pytorch_images.py", case["cores"], options.seconds, "--model", case["model"],
                              "--batch-size", str(options.batch_size))


def main():
    parser = peer_rates.parser_of(__doc__, "hetsgd", "run only the cases of this model (default: all)")
    parser.add_argument("--batch-size", type=int, default=64, help="batch size (default: 64)")
    options = parser.parse_args()
    cases = peer_rates.chosen(CASES, options.only, name_of)
    runs = peer_rates.alternate(cases, options.rounds, lambda case: run_hetsgd(case, options), lambda case: run_pytorch(case, options))
    rows = []
    print(peer_rates.head(f"{'GFLOP/s':>8}"))
    for case, (ours, theirs) in zip(cases, runs):
        rates = peer_rates.rates_of(name_of(case), GOALS[case["model"]], ours, [run["samples_per_s"] for run in theirs])
        rows.append({**case, **rates, "hetsgd": ours, "pytorch": theirs})
        print(peer_rates.line(rows[-1], f"{rates['hetsgd_samples_per_s'] * OPERATIONS[case['model']] / 1e9:8.1f}"))
    return peer_rates.finish(rows, options)


if __name__ == "__main__":
    sys.exit(main())
