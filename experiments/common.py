"""What the experiment scripts share: running hetsgd many times, reading results, statistics over seeds."""
import concurrent.futures
import json
import math
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HETSGD = os.environ.get("HETSGD", str(ROOT / "build" / "release" / "apps" / "hetsgd" / "hetsgd"))
# The learning-rate grid of every comparison: powers of sqrt(10).
GRID = [10 ** (k / 2) for k in range(-2, 3)]


def data_dir():
    folder = os.environ.get("HETSGD_DATA_DIR")
    if not folder:
        sys.exit("HETSGD_DATA_DIR is not set: name the folder with delicious_train.txt and delicious_test.txt")
    return pathlib.Path(folder)


def delicious():
    return ["--train", str(data_dir() / "delicious_train.txt"), "--test", str(data_dir() / "delicious_test.txt")]


def train(options, output):
    """One run; an existing completed result of the same configuration is kept (--resume)."""
    output.parent.mkdir(parents=True, exist_ok=True)
    command = [HETSGD, "train", "--quiet", "--resume", "--redact", "-o", str(output), *map(str, options)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if done.returncode not in (0, 3):
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr}")
    return json.loads(output.read_text())


def train_all(runs, parallel):
    """runs: {key: (options, output)} -> {key: result}. Simulated runs may share the host: it changes no byte of them."""
    results = {}
    with concurrent.futures.ThreadPoolExecutor(parallel) as pool:
        futures = {pool.submit(train, options, output): key for key, (options, output) in runs.items()}
        for number, future in enumerate(concurrent.futures.as_completed(futures), 1):
            results[futures[future]] = future.result()
            print(f"\r{number}/{len(runs)} runs", end="", file=sys.stderr)
    print(file=sys.stderr)
    return results


def time_to(result, metric, value):
    """Training seconds until the metric first reaches the value; infinity if it never does."""
    for point in result["curve"]:
        if point.get(metric) is not None and point[metric] >= value:
            return point["time_s"]
    return math.inf


def median(values):
    """Median with missed targets as infinity."""
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def show(seconds):
    return "not reached" if math.isinf(seconds) else f"{seconds:.3g}"
