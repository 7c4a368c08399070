#!/usr/bin/env python3
"""Compares the time per step of click-through models on a GPU with PyTorch in eager mode.

    scripts/peers/compare_ctr_step_time.py build/release/apps/hetsgd/hetsgd --json steps.json

hetsgd trains with plain SGD on synthetic Criteo data whose tables have the 4 million rows of pytorch_ctr.py, with
replicated tables and with sharded ones of one worker; what counts is the training clock between two evaluations,
the median of those after the first. PyTorch runs at its best of three forms of the table, its batches on the GPU
before the clock starts; hetsgd's come from host memory in each step.

Exit code 0; 1 if a run of hetsgd failed; 77 if there is no GPU. Without PyTorch its columns are empty.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile

from compare_step_time import missing_gpu, run, shown

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS_OF_A_FIELD = 4_000_000 // 26


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("hetsgd", help="path of the program hetsgd")
    parser.add_argument("--device", default="cuda:0", help="cuda:N, or cpu:N for N cores (default: cuda:0)")
    parser.add_argument("--model", nargs="+", default=["wide_deep", "deepfm", "dcn"], help="models (default: wide_deep deepfm dcn)")
    parser.add_argument("--batch-size", type=int, nargs="+", default=[8192, 65536], help="batch sizes (default: 8192 65536)")
    parser.add_argument("--data", default="generate:criteo?scale=0.02",
                        help="training data of hetsgd (default: generate:criteo?scale=0.02)")
    parser.add_argument("--hidden", help="hidden layers of hetsgd's models (default: each model's own)")
    parser.add_argument("--steps", type=int, default=40, help="steps of hetsgd between two evaluations (default: 40)")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of each measurement of PyTorch (default: 5)")
    parser.add_argument("--python", default=sys.executable, help="Python interpreter that can import torch (default: this one)")
    parser.add_argument("--json", help="JSON file for all measurements (default: none)")
    return parser.parse_args()


def hetsgd_step(options, model, tables, batch_size, folder):
    every, output = options.steps * batch_size, os.path.join(folder, "result.json")
    command = [options.hetsgd, "train", "--train", options.data, "--test", options.data,
               "--hash-size", str(ROWS_OF_A_FIELD), "--evaluate-samples", "64", "--quiet", "--cluster", "threads",
               "--devices", options.device, "--algorithm", "sgd", "--model", model, "--tables", tables,
               "--batch-size", str(batch_size), "--learning-rate", "0.01", "--evaluate-every", str(every),
               "--max-samples", str(4 * every), "--overwrite", "-o", output]
    command += ["--hidden", options.hidden] if options.hidden else []
    _, problem = run(command)
    if problem:
        return {"step_s": None, "problem": problem, "command": " ".join(command)}
    with open(output, encoding="utf-8") as file:
        curve = json.load(file)["curve"]
    times = [(b["time_s"] - a["time_s"]) / (b["updates"] - a["updates"]) for a, b in zip(curve[1:], curve[2:])]
    return {"step_s": statistics.median(times), "step_times_s": times, "command": " ".join(command)}


def pytorch_step(options, model, batch_size):
    device, _, cores = options.device.partition(":")
    command = [options.python, os.path.join(HERE, "pytorch_ctr.py"), "--model", model, "--batch-size", str(batch_size),
               "--device", "cpu" if device == "cpu" else options.device, "--threads", cores if device == "cpu" else "4",
               "--seconds", str(options.seconds)]
    text, problem = run(command)
    if text is None:
        return {"step_s": None, "problem": problem, "command": " ".join(command)}
    return {"step_s": batch_size / json.loads(text)["samples_per_s"], **json.loads(text), "command": " ".join(command)}


def compare(options, model, batch_size, folder):
    theirs = pytorch_step(options, model, batch_size)
    for tables in ("replicated", "sharded"):
        ours = hetsgd_step(options, model, tables, batch_size, folder)
        both = ours["step_s"] and theirs["step_s"]
        yield {"model": model, "tables": tables, "batch_size": batch_size, "hetsgd_step_s": ours["step_s"],
               "pytorch_step_s": theirs["step_s"],
               "speedup_over_pytorch": theirs["step_s"] / ours["step_s"] if both else None,
               "hetsgd": ours, "pytorch": theirs}


def main():
    options = parse_arguments()
    problem = missing_gpu(options)
    if problem:
        print(f"skipped: {problem}")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        rows = [row for model in options.model for batch_size in options.batch_size
                for row in compare(options, model, batch_size, folder)]
    print(f"{'model':10} {'tables':10} {'batch':>6} {'hetsgd ms':>10} {'PyTorch ms':>11} {'speed-up':>9}")
    for row in rows:
        print(f"{row['model']:10} {row['tables']:10} {row['batch_size']:6} {shown(row['hetsgd_step_s'], 1e3):>10}"
              f" {shown(row['pytorch_step_s'], 1e3):>11} {shown(row['speedup_over_pytorch']):>9}")
        for who in ("hetsgd", "pytorch"):
            if "problem" in row[who]:
                print(f"       {who}: {row[who]['problem']}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"device": options.device, "comparisons": rows}, file, indent=1)
            file.write("\n")
    return 0 if all(row["hetsgd_step_s"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
