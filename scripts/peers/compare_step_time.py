#!/usr/bin/env python3
"""Compares the time per training step of hetsgd on one device with PyTorch's on the same device and with the floor.

    scripts/peers/compare_step_time.py build/release/apps/hetsgd/hetsgd --device cuda:0 --json step_time.json

One worker with sgd learns the Amazon-670k shape (135,909 features, 670,091 labels, 76 nonzeros, H = 128):
synthetic rows, written once and read by both. hetsgd's time per step is that of `hetsgd train` between the
evaluations after the first one: sampling, copying and updating are in it. PyTorch's (pytorch_mlp.py, the
fastest of three forms of the loss) begins with batches that lie on the device.

The floor is the larger of operations / peak and bytes / peak, the peaks being measured in the same run by
a large product and a large copy. Operations: three products of the output layer, 6 B H L, and 4 H per
nonzero. Bytes: the output layer's weights read twice and written once, and the rows of the first layer
that occur. The scores B L are not in it: a kernel could keep them on the chip.

Without PyTorch its columns and the floor are null. Exit code 77 if the device is a GPU that is not there.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SPEC = "generate:amazon670k?rows_train={rows}&rows_test=64"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("hetsgd", help="path of the program hetsgd")
    parser.add_argument("--device", default="cuda:0", help="cuda:N, or cpu:N for N cores (default: cuda:0)")
    parser.add_argument("--batch-size", type=int, nargs="+", default=[256, 1024], help="batch sizes (default: 256 1024)")
    parser.add_argument("--precision", nargs="+", choices=["fp32", "tf32"],
                        help="input precisions of matrix products (default: fp32 and, on GPUs, tf32)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the numbers of features and labels (default: 1)")
    parser.add_argument("--steps", type=int, default=60, help="steps of hetsgd between two evaluations (default: 60)")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of each measurement of PyTorch (default: 5)")
    parser.add_argument("--hidden", type=int, default=128, help="units of the hidden layer (default: 128)")
    parser.add_argument("--python", default=sys.executable, help="Python interpreter that can import torch (default: this one)")
    parser.add_argument("--json", help="JSON file for all measurements (default: none)")
    return parser.parse_args()


def run(command):
    """(standard output, "") or (None, why not)."""
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if result.returncode == 0:
        return result.stdout, ""
    lines = result.stderr.strip().splitlines() or result.stdout.strip().splitlines() or ["no message"]
    errors = [line for line in lines if "rror" in line]
    return None, f"exit code {result.returncode}: {(errors or lines)[-1]}"


def missing_gpu(options):
    """Why there is no GPU to measure on; "": there is one, or none is needed."""
    if not options.device.startswith("cuda"):
        return ""
    text, problem = run([options.hetsgd, "devices", "--json"])
    if text is None:
        return problem
    cuda = json.loads(text).get("cuda") or {}
    return "" if cuda.get("gpus") else cuda.get("problem") or "hetsgd devices lists no GPU"


def write_rows(options, folder):
    path = os.path.join(folder, "train.txt")
    spec = SPEC.format(rows=16 * max(options.batch_size))
    if options.scale != 1:
        spec += f"&features={round(135909 * options.scale)}&labels={round(670091 * options.scale)}"
    _, problem = run([options.hetsgd, "data", "convert", "--to", "xc", "--overwrite", spec, path])
    if problem:
        sys.exit(f"compare_step_time.py: hetsgd data convert: {problem}")
    return path


def shape_of(path, batch_size):
    """Counts of the file, and the mean over batches of nonzeros and of distinct features."""
    nonzeros, distinct, batches = 0, 0, 0
    with open(path, encoding="ascii") as lines:
        _, features, labels = map(int, lines.readline().split())
        seen = set()
        for number, line in enumerate(lines, 1):
            row = [pair.split(":")[0] for pair in line.split(" ")[1:]]
            nonzeros += len(row)
            seen.update(row)
            if number % batch_size == 0:
                distinct, batches, seen = distinct + len(seen), batches + 1, set()
    return {"features": features, "labels": labels, "nonzeros_per_batch": nonzeros / batches,
            "distinct_features_per_batch": distinct / batches}


def hetsgd_step(options, path, batch_size, precision, folder):
    every = options.steps * batch_size
    output = os.path.join(folder, "result.json")
    command = [options.hetsgd, "train", "--train", path, "--test", path, "--evaluate-samples", "64", "--quiet",
               "--cluster", "threads", "--devices", options.device, "--algorithm", "sgd", "--hidden", str(options.hidden),
               "--batch-size", str(batch_size), "--learning-rate", "0.1", "--evaluate-every", str(every),
               "--max-samples", str(4 * every), "--overwrite", "-o", output]
    if precision != "fp32":
        command += ["--precision", precision]
    _, problem = run(command)
    if problem:
        return {"step_s": None, "problem": problem, "command": " ".join(command)}
    with open(output, encoding="utf-8") as file:
        curve = json.load(file)["curve"]
    # The first stretch, after the initial model's point, warms up.
    times = [(b["time_s"] - a["time_s"]) / (b["updates"] - a["updates"]) for a, b in zip(curve[1:], curve[2:])]
    return {"step_s": statistics.median(times), "step_times_s": times, "train_loss": curve[-1]["train_loss"],
            "command": " ".join(command)}


def pytorch_step(options, path, batch_size, precision):
    on_cpu = options.device.startswith("cpu")
    threads = options.device.partition(":")[2] or "1"
    command = [options.python, os.path.join(HERE, "pytorch_mlp.py"), "--json", "--peaks", "--data", path,
               "--device", "cpu" if on_cpu else options.device, "--threads", threads if on_cpu else "4",
               "--precision", precision, "--batch-size", str(batch_size), "--hidden", str(options.hidden),
               "--seconds", str(options.seconds), "--batches", "16"]
    text, problem = run(command)
    if text is None:
        return {"step_s": None, "problem": problem, "command": " ".join(command)}
    result = json.loads(text)
    kept = ("step_s", "steps", "loss", "loss_trials_samples_per_s", "version", "peaks", "nonzeros_per_row")
    return {**{key: result[key] for key in kept}, "command": " ".join(command)}


def floor_of(shape, hidden, batch_size, peaks):
    operations = 6.0 * batch_size * hidden * shape["labels"] + 4.0 * hidden * shape["nonzeros_per_batch"]
    transferred = 4.0 * 3 * hidden * (shape["labels"] + shape["distinct_features_per_batch"])
    result = {"operations": operations, "bytes": transferred, "operations_s": None, "bytes_s": None, "floor_s": None}
    if peaks:
        result["operations_s"] = operations / peaks["operations_per_s"]
        result["bytes_s"] = transferred / peaks["bytes_per_s"]
        result["floor_s"] = max(result["operations_s"], result["bytes_s"])
    return result


def compare(options, path, batch_size, precision, folder):
    shape = shape_of(path, batch_size)
    ours = hetsgd_step(options, path, batch_size, precision, folder)
    theirs = pytorch_step(options, path, batch_size, precision)
    floor = floor_of(shape, options.hidden, batch_size, theirs.get("peaks"))
    both = ours["step_s"] and theirs["step_s"]
    return {"batch_size": batch_size, "precision": precision, "hidden": options.hidden, **shape,
            "hetsgd_step_s": ours["step_s"], "pytorch_step_s": theirs["step_s"], "floor_s": floor["floor_s"],
            "speedup_over_pytorch": theirs["step_s"] / ours["step_s"] if both else None,
            "floor_ratio": floor["floor_s"] / ours["step_s"] if ours["step_s"] and floor["floor_s"] else None,
            "hetsgd": ours, "pytorch": theirs, "floor": floor}


def shown(value, scale=1.0):
    return "-" if value is None else f"{value * scale:.3f}"


def main():
    options = parse_arguments()
    problem = missing_gpu(options)
    if problem:
        print(f"skipped: {problem}")
        return 77
    precisions = options.precision or (["fp32", "tf32"] if options.device.startswith("cuda") else ["fp32"])
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = write_rows(options, folder)
        for batch_size in options.batch_size:
            for precision in precisions:
                rows.append(compare(options, path, batch_size, precision, folder))
    print(f"{'batch':>6} {'':5} {'hetsgd ms':>10} {'PyTorch ms':>11} {'floor ms':>9} {'speed-up':>9} {'of floor':>9}")
    for row in rows:
        print(f"{row['batch_size']:6} {row['precision']:5} {shown(row['hetsgd_step_s'], 1e3):>10}"
              f" {shown(row['pytorch_step_s'], 1e3):>11} {shown(row['floor_s'], 1e3):>9}"
              f" {shown(row['speedup_over_pytorch']):>9} {shown(row['floor_ratio']):>9}")
        for who in ("hetsgd", "pytorch"):
            if "problem" in row[who]:
                print(f"       {who}: {row[who]['problem']}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"device": options.device, "scale": options.scale, "comparisons": rows}, file, indent=1)
            file.write("\n")
    return 0 if all(row["hetsgd_step_s"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
