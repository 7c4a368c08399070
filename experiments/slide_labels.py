#!/usr/bin/env python3
"""Finds from how many labels on slide pays: samples per second, accuracy and memory compared with dense sgd.

    experiments/slide_labels.py goals [--devices cpu:2]
    experiments/slide_labels.py speed [--labels 1000,4000,...] [--devices cpu:2]
    experiments/slide_labels.py delicious [--seeds 1,2,3]
    experiments/slide_labels.py accuracy [--labels ...] [--samples 32768]
    experiments/slide_labels.py memory

One worker trains an MLP with H = 128 and batches of 128 on synthetic data of Amazon-670k's shape (`generate:amazon670k`) with
the number of labels of --labels. slide has K 6, L 50, Adam, and fills up to 1,000 active labels. sgd has the whole softmax.

goals      samples per second of five shapes and the rates that they must reach, by the wall clock and by the processor
           seconds of all cores, with rehashes
speed      samples per processor second of one core, with rehashes and without set-up, so that the machine may be busy
delicious  P@1 on Delicious's test set after eight epochs, over the seeds
accuracy   P@1 after the same number of samples, at the best of three learning rates; its seconds need an idle machine
memory     the largest resident set of a run of few batches with two rehashes at Amazon-670k's full shape (135,909
           features, 670,091 labels), including the data and the initial model

Each part writes its section of results/slide.md.
"""
import argparse
import statistics
import sys

import common

RESULTS = "slide.md"
OUTPUT = common.ROOT / "runs" / "slide" / "run.json"
LABELS = "1000,4000,16000,67009,200000"
METHODS = {
    "slide": ["slide", "--learning-rate", "1e-3"],
    "sgd": ["sgd", "--batch-size", "128", "--learning-rate", "1"],
}
RATES = {"slide": ("3e-4", "1e-3", "3e-3"), "sgd": ("1", "3", "10")}
DELICIOUS = {"all labels": ["--active", "all", "--lazy", "dense"],
             "K 3, filled to 352": ["--hash-codes", "3", "--active-min", "352"],
             "K 4, filled to 137": ["--hash-codes", "4", "--active-min", "137"],
             "K 3, filled to 382": ["--hash-codes", "3", "--active-min", "382"],
             "the same, each sample at random": ["--hash-codes", "3", "--active-min", "382", "--fill", "sample"],
             "dense sgd": None}
LEARNT = [name for name in DELICIOUS if not name.endswith(("352", "137"))]
# The runs: labels (for synthetic data), least and aim in samples/s, samples of the shorter run.
GOALS = {
    "Delicious, 983 labels, all active": ("all labels", 13e3, 60e3, 64_000),
    "Delicious, K 3, filled to 352": ("K 3, filled to 352", 40e3, 100e3, 128_000),
    "Delicious, K 4, filled to 137": ("K 4, filled to 137", 86e3, 150e3, 256_000),
    "67,009 labels, K 6, filled to 1,000": (67_009, 8.3e3, 20e3, 25_600),
    "670,091 labels, Amazon-670k's shape": (670_091, 2e3, 2.5e3, 12_800),
}


def data(labels, rows, test, features=20000):
    spec = f"generate:amazon670k?rows_train={rows}&rows_test={test}&labels={labels}&features={features}&noise=0.05"
    return ["--train", spec, "--test", spec, "--hidden", "128"]


def run(options):
    return common.measured(["--cluster", "threads", *options], OUTPUT)


def speed(arguments):
    """By the processor's time of one core, the difference of a run and one half as long: others may use the machine."""
    lines = ["| labels | slide, samples/s | active labels of a sample | dense sgd, samples/s | slide / sgd |",
             "|--:|--:|--:|--:|--:|"]
    for labels in arguments.labels:
        rates, active = {}, 0
        for name, options in METHODS.items():
            samples = 128 * (200 if name == "slide" else max(4, min(50, 1_000_000 // labels)))
            runs = [run([*data(labels, 16384, 8), "--no-cache", "--devices", "cpu:1", "--host-threads", "1",
                         "--max-samples", n * samples, "--evaluate-every", n * samples, "--algorithm", *options]) for n in (1, 2)]
            rates[name] = samples / (runs[1].user_s - runs[0].user_s)
            if name == "slide":
                active = mean_of(runs[1].result["histograms"]["active"])
        lines.append(f"| {labels:,} | {rates['slide']:,.0f} | {active:,.0f} | {rates['sgd']:,.0f} | "
                     f"{rates['slide'] / rates['sgd']:.2g} |")
        print(lines[-1], file=sys.stderr)
    common.write_section(RESULTS, "Samples per second of one core over the number of labels", lines)


def on_delicious():
    return [*common.delicious(), "--hidden", "128"]


def mean_of(counts):
    return sum(int(value) * count for value, count in counts.items()) / sum(counts.values())


def goals(arguments):
    """The second half of a run by the training clock; and by the processor's seconds, less those of a run of the first half."""
    lines = ["| run | active labels | at least | aim | found, by the clock | by the cores' seconds | of the aim |",
             "|---|--:|--:|--:|--:|--:|--:|"]
    cores = int(arguments.devices.partition(":")[2] or 1)
    for name, (what, least, aim, samples) in GOALS.items():
        labels = what if isinstance(what, int) else None
        features = 135_909 if labels == 670_091 else 20_000
        where = [*data(labels, 16384, 8, features), "--no-cache"] if labels else [*on_delicious(), "--evaluate-samples", "64"]
        options = [*where, "--devices", arguments.devices, "--host-threads", "1", "--algorithm", "slide", "--probe", "8",
                   "--learning-rate", "1e-3", *(DELICIOUS[what] if what in DELICIOUS else [])]
        runs = [run([*options, "--max-samples", n * samples, "--evaluate-every", samples]) for n in (1, 2)]
        curve = runs[1].result["curve"]
        clock = samples / (curve[-1]["time_s"] - curve[-2]["time_s"])
        processor = samples * cores / (runs[1].user_s - runs[0].user_s)
        active = mean_of(runs[1].result["histograms"]["active"])
        lines.append(f"| {name} | {active:,.0f} | {least:,.0f} | {aim:,.0f} | {clock:,.0f} | {processor:,.0f} | "
                     f"{clock / aim:.2f} |")
        print(lines[-1], file=sys.stderr)
    common.write_section(RESULTS, "Goals", lines)


def p1_on_delicious(arguments):
    lines = ["| run | active labels | P@1 after eight epochs, median [all seeds] | best of the eight | seconds |",
             "|---|--:|---|--:|--:|"]
    for name in LEARNT:
        more = DELICIOUS[name]
        method = METHODS["sgd"] if more is None else [*METHODS["slide"], *more]
        options = [*on_delicious(), "--devices", arguments.devices, "--epochs", 8, "--evaluate-every", 13_000]
        results = [run([*options, "--seed", seed, "--algorithm", *method]).result for seed in arguments.seeds]
        last = sorted(100 * result["curve"][-1]["p1"] for result in results)
        best = statistics.median(100 * max(point["p1"] for point in result["curve"]) for result in results)
        active = f"{mean_of(results[0]['histograms']['active']):,.0f}" if more else "983"
        seeds = ", ".join(f"{p1:.1f}" for p1 in last)
        lines.append(f"| {name} | {active} | {statistics.median(last):.1f} [{seeds}] | {best:.1f} | "
                     f"{results[0]['summary']['elapsed_s']:.1f} |")
        print(lines[-1], file=sys.stderr)
    common.write_section(RESULTS, "Accuracy on Delicious", lines)


def accuracy(arguments):
    samples = arguments.samples
    lines = [f"| labels | slide: P@1 after {samples:,} samples (rate) | seconds | recall of the best label, at random | "
             "dense sgd: P@1 (rate) | seconds |", "|--:|---|--:|---|---|--:|"]
    for labels in arguments.labels:
        best = {}
        for name, options in METHODS.items():
            for rate in RATES[name]:
                result = run([*data(labels, 16384, 1000), "--devices", arguments.devices, "--max-samples", samples,
                              "--evaluate-every", samples, "--algorithm", *options, "--learning-rate", rate]).result
                p1 = result["curve"][-1]["p1"]
                if name not in best or p1 > best[name][0]:
                    best[name] = (p1, rate, result)
        recall = [event for event in best["slide"][2]["events"] if event["type"] == "recall"][-1]
        seconds = {name: one[2]["summary"]["elapsed_s"] for name, one in best.items()}
        lines.append(f"| {labels:,} | {best['slide'][0]:.3f} ({best['slide'][1]}) | {seconds['slide']:.1f} | "
                     f"{recall['recall'][0]:.2f}, {recall['random']:.2g} | {best['sgd'][0]:.3f} ({best['sgd'][1]}) | "
                     f"{seconds['sgd']:.1f} |")
        print(lines[-1], file=sys.stderr)
    common.write_section(RESULTS, "Accuracy over the number of labels", lines)


def memory(arguments):
    lines = ["| what | MB |", "|---|--:|"]
    for name, samples, more in (("slide", 1024, ["--probe", "16", "--rehash", "4"]), ("sgd", 256, [])):
        peak = run([*data(670091, 4096, 16, features=135909), "--devices", arguments.devices, "--max-samples", samples,
                    "--evaluate-every", samples, "--algorithm", *METHODS[name], *more]).peak_bytes
        lines.append(f"| {name}, {samples} samples | {peak / 1e6:,.0f} |")
        print(lines[-1], file=sys.stderr)
    common.write_section(RESULTS, "Memory at Amazon-670k's shape", lines)


def main():
    parts = {"goals": goals, "speed": speed, "delicious": p1_on_delicious, "accuracy": accuracy, "memory": memory}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=parts, help="part to run (see above)")
    parser.add_argument("--labels", type=lambda text: [int(each) for each in text.split(",")], default=LABELS,
                        help="numbers of labels for speed and accuracy, separated by commas")
    parser.add_argument("--devices", default="cpu:2", help="device of the worker, except for speed (default: cpu:2)")
    parser.add_argument("--samples", type=int, default=32768, help="training samples for accuracy (default: 32768)")
    parser.add_argument("--seeds", type=lambda text: [int(each) for each in text.split(",")], default="1,2,3,4,5",
                        help="seeds for delicious, separated by commas (default: 1,2,3,4,5)")
    arguments = parser.parse_args()
    parts[arguments.part](arguments)


if __name__ == "__main__":
    main()
