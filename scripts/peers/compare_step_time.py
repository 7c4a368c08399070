#!/usr/bin/env python3
"""Compares the time per training step of hetsgd on one device with PyTorch's on the same device and with the floor.

    scripts/peers/compare_step_time.py build/release/apps/hetsgd/hetsgd --device cuda:0 --json step_time.json

One worker with sgd learns the Amazon-670k shape (135,909 features, 670,091 labels, 76 nonzeros, H = 128):
synthetic rows, written once and read by both. hetsgd's time per step is that of `hetsgd train` between the
evaluations after the first one: sampling, copying and updating are in it. PyTorch's (pytorch_mlp.py, the
fastest of three forms of the loss in eager mode, and the faster of two under torch.compile) begins with batches that
lie on the device.

The floor of a plan is the larger of operations / peak and bytes / peak. The peaks are measured in the same run by a
large product in this precision and by a large copy. There are two plans, and the lower floor counts (floor.plan):
  stored        the scores are written once and read once: three products of the output layer, 6 B H L operations;
                a score takes 4 bytes, or 2 with bf16
  never_stored  the scores stay on the chip and are computed twice: four products, 8 B H L operations
Both read the output layer's weights twice and write them once, 12 H L bytes. Both have 4 H operations for each
nonzero, and the rows of the first layer that occur.

Memory: hetsgd_memory_bytes is the used memory of the GPU at most, by NVML, beyond that of a run on small data, which
is the context of CUDA and its libraries. PyTorch's memory is what its allocator held at most. They are null on CPUs.

Without PyTorch its columns and the floor are null. Exit code 77 if the device is a GPU that is not there.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from gpu_memory import GpuMemory

HERE = os.path.dirname(os.path.abspath(__file__))
SPEC = "generate:amazon670k?rows_train={rows}&rows_test=64"


def parser_of(text, batch_sizes, steps):
    """The parser of a comparison. text: what it does; batch_sizes, steps: defaults."""
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument("hetsgd", help="path of the program hetsgd")
    parser.add_argument("--device", default="cuda:0", help="cuda:N, or cpu:N for N cores (default: cuda:0)")
    parser.add_argument("--batch-size", type=int, nargs="+", default=batch_sizes,
                        help=f"batch sizes (default: {' '.join(map(str, batch_sizes))})")
    parser.add_argument("--steps", type=int, default=steps, help=f"steps of hetsgd between two evaluations (default: {steps})")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of each measurement of PyTorch (default: 5)")
    parser.add_argument("--python", default=sys.executable, help="Python interpreter that can import torch (default: this one)")
    parser.add_argument("--json", help="JSON file for all measurements (default: none)")
    return parser


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


def hetsgd_steps(options, words, batch_size):
    """Figures of a run of hetsgd train: seconds of its steps between evaluations, but for the first stretch, which warms up; and the
    last point of its curve. words: options that differ."""
    every = options.steps * batch_size
    command = [options.hetsgd, "train", "--evaluate-samples", "64", "--quiet", "--cluster", "threads", "--devices", options.device,
               "--algorithm", "sgd", "--batch-size", str(batch_size), "--evaluate-every", str(every), "--max-samples", str(4 * every), *words]
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "result.json")
        with GpuMemory(options.device) as memory:
            _, problem = run([*command, "-o", output])
        found = {"step_s": None, "gpu_memory": memory.figures(), "command": " ".join(command)}
        if problem:
            return {**found, "problem": problem}, None
        with open(output, encoding="utf-8") as file:
            curve = json.load(file)["curve"]
    times = [(b["time_s"] - a["time_s"]) / (b["updates"] - a["updates"]) for a, b in zip(curve[1:], curve[2:])]
    return {**found, "step_s": statistics.median(times), "step_times_s": times}, curve[-1]


def pytorch_figures(options, script, batch_size, words):
    """The figures of PyTorch that a script of this folder measures, with its `command`. If it fails: `problem` and a `step_s` of None."""
    device, _, cores = options.device.partition(":")
    where = ["--device", "cpu", "--threads", cores or "1"] if device == "cpu" else ["--device", options.device, "--threads", "4"]
    command = [options.python, os.path.join(HERE, script), *where, "--batch-size", str(batch_size), "--seconds", str(options.seconds), *words]
    text, problem = run(command)
    found = {"step_s": None, "problem": problem} if text is None else json.loads(text)
    return {**found, "command": " ".join(command)}


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


def context_bytes(options):
    """The GPU's memory that a run on small data uses: that of CUDA and its libraries. None: not known."""
    tiny = argparse.Namespace(hetsgd=options.hetsgd, device=options.device, steps=1)
    figures, _ = hetsgd_steps(tiny, ["--train", "generate:tiny", "--test", "generate:tiny"], 32)
    return None if "problem" in figures else figures["gpu_memory"]["used_bytes"]


def hetsgd_step(options, path, batch_size, precision):
    words = ["--train", path, "--test", path, "--hidden", str(options.hidden), "--learning-rate", "0.1"]
    figures, last = hetsgd_steps(options, words + (["--precision", precision] if precision != "fp32" else []), batch_size)
    return figures | ({"train_loss": last["train_loss"]} if last else {})


def pytorch_step(options, path, batch_size, precision, peaks):
    """PyTorch's figures. peaks: those of an earlier run in this precision, or None to measure them."""
    words = ["--json", "--data", path, "--precision", precision, "--hidden", str(options.hidden), "--batches", "16"]
    words += ([] if peaks else ["--peaks"]) + ([] if options.no_compile else ["--compile"])
    result = pytorch_figures(options, "pytorch_mlp.py", batch_size, words)
    kept = ("step_s", "steps", "loss", "loss_trials_samples_per_s", "version", "compiled", "peak_memory_bytes",
            "nonzeros_per_row", "problem", "command")
    return {**{key: result[key] for key in kept if key in result}, "peaks": peaks or result.get("peaks")}


def floor_of(shape, hidden, batch_size, precision, peaks):
    """The floors of both plans; plan is the one of the lower floor, floor_s."""
    product = 2.0 * batch_size * hidden * shape["labels"]
    sparse = 4.0 * hidden * shape["nonzeros_per_batch"]
    weights = 4.0 * 3 * hidden * (shape["labels"] + shape["distinct_features_per_batch"])
    scores = 2.0 * batch_size * shape["labels"] * (2 if precision == "bf16" else 4)
    result = {"plan": None, "floor_s": None}
    for plan, operations, transferred in (("stored", 3 * product + sparse, weights + scores),
                                          ("never_stored", 4 * product + sparse, weights)):
        result[plan] = {"operations": operations, "bytes": transferred, "operations_s": None, "bytes_s": None, "floor_s": None}
        if peaks:
            seconds = operations / peaks["operations_per_s"], transferred / peaks["bytes_per_s"]
            result[plan].update(operations_s=seconds[0], bytes_s=seconds[1], floor_s=max(seconds))
    if peaks:
        result["plan"] = min(("stored", "never_stored"), key=lambda plan: result[plan]["floor_s"])
        result["floor_s"] = result[result["plan"]]["floor_s"]
    return result


def ratio(a, b):
    return a / b if a and b else None


def compare(options, path, batch_size, precision, context, peaks):
    shape = shape_of(path, batch_size)
    ours = hetsgd_step(options, path, batch_size, precision)
    theirs = pytorch_step(options, path, batch_size, precision, peaks)
    compiled = theirs.get("compiled") or {"step_s": None}
    floor = floor_of(shape, options.hidden, batch_size, precision, theirs.get("peaks"))
    used = ours["gpu_memory"]["used_bytes"]
    return {"batch_size": batch_size, "precision": precision, "hidden": options.hidden, **shape,
            "hetsgd_step_s": ours["step_s"], "pytorch_step_s": theirs["step_s"],
            "pytorch_compiled_step_s": compiled["step_s"], "floor_s": floor["floor_s"],
            "speedup_over_pytorch": ratio(theirs["step_s"], ours["step_s"]),
            "speedup_over_pytorch_compiled": ratio(compiled["step_s"], ours["step_s"]),
            "floor_ratio": ratio(floor["floor_s"], ours["step_s"]),
            "hetsgd_memory_bytes": None if used is None or context is None else used - context,
            "pytorch_memory_bytes": theirs.get("peak_memory_bytes"),
            "pytorch_compiled_memory_bytes": compiled.get("peak_memory_bytes"),
            "hetsgd": ours, "pytorch": theirs, "floor": floor}


def shown(value, scale=1.0):
    return "-" if value is None else f"{value * scale:.3f}"


def show(row, first):
    """Prints a row as soon as it is measured, the first one with the names of the columns."""
    if first:
        print(f"{'batch':>6} {'':5} {'hetsgd ms':>10} {'PyTorch ms':>11} {'compiled ms':>12} {'floor ms':>9} {'speed-up':>9}"
              f" {'of floor':>9} {'GB':>7} {'PyTorch GB':>11}")
    print(f"{row['batch_size']:6} {row['precision']:5} {shown(row['hetsgd_step_s'], 1e3):>10}"
          f" {shown(row['pytorch_step_s'], 1e3):>11} {shown(row['pytorch_compiled_step_s'], 1e3):>12}"
          f" {shown(row['floor_s'], 1e3):>9} {shown(row['speedup_over_pytorch']):>9} {shown(row['floor_ratio']):>9}"
          f" {shown(row['hetsgd_memory_bytes'], 1e-9):>7} {shown(row['pytorch_memory_bytes'], 1e-9):>11}", flush=True)
    for who, run_of in (("hetsgd", row["hetsgd"]), ("PyTorch", row["pytorch"]),
                        ("torch.compile", row["pytorch"].get("compiled") or {})):
        if "problem" in run_of:
            print(f"       {who}: {run_of['problem']}", flush=True)


def finish(rows, options, **facts):
    """Writes the JSON file that was asked for; the exit code."""
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"device": options.device, **facts, "comparisons": rows}, file, indent=1)
            file.write("\n")
    return 0 if all(row["hetsgd_step_s"] for row in rows) else 1


def main():
    parser = parser_of(__doc__, [256, 1024], 60)
    parser.add_argument("--precision", nargs="+", choices=["fp32", "tf32", "bf16"],
                        help="input precisions of matrix products (default: fp32, bf16 and, on GPUs, tf32)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the numbers of features and labels (default: 1)")
    parser.add_argument("--hidden", type=int, default=128, help="units of the hidden layer (default: 128)")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    options = parser.parse_args()
    problem = missing_gpu(options)
    if problem:
        print(f"skipped: {problem}")
        return 77
    precisions = options.precision or (["fp32", "tf32", "bf16"] if options.device.startswith("cuda") else ["fp32", "bf16"])
    rows, peaks = [], {}
    with tempfile.TemporaryDirectory() as folder:
        path = write_rows(options, folder)
        context = context_bytes(options)
        for batch_size in options.batch_size:
            for precision in precisions:
                row = compare(options, path, batch_size, precision, context, peaks.get(precision))
                peaks[precision] = row["pytorch"].get("peaks")
                rows.append(row)
                show(row, first=len(rows) == 1)
    return finish(rows, options, scale=options.scale, context_bytes=context)


if __name__ == "__main__":
    sys.exit(main())
