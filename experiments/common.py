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


def delicious_train():
    return ["--train", str(data_dir() / "delicious_train.txt")]


def delicious():
    return delicious_train() + ["--test", str(data_dir() / "delicious_test.txt")]


def mpi_environment():
    """For mpirun on this machine, as root and with more ranks than cores too."""
    return {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def hetsgd(command, options, good=(0,), launch=(HETSGD,)):
    """Calls hetsgd and returns its stdout; ends the script with its message if it fails. launch: as in
    ["mpirun", "-n", "2", HETSGD]."""
    call = [*launch, command, *map(str, options)]
    done = subprocess.run(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=mpi_environment())
    if done.returncode not in good:
        sys.exit(f"{' '.join(call)}\nended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def resumed(command, options, output, launch=(HETSGD,)):
    """What `output` holds after the command; finished work of the same configuration is kept (--resume)."""
    output.parent.mkdir(parents=True, exist_ok=True)
    hetsgd(command, ["--quiet", "--resume", "-o", output, *options], good=(0, 3), launch=launch)
    return json.loads(output.read_text())


def train(options, output, launch=(HETSGD,)):
    return resumed("train", ["--redact", *options], output, launch)


def tune(options, output):
    return resumed("tune", options, output)


def compare(files, target, reference):
    """`hetsgd compare` as JSON: one group per family of seeds, in the order of the files."""
    return json.loads(hetsgd("compare", [*files, "--target", target, "--reference", reference, "--format", "json"]))


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
