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

# Eight RTX 2080 Ti on EDR InfiniBand, paper 004's machines, with a clock for a model of 103 million parameters.
EIGHT_GPUS = ["--cluster", "sim", "--workers", "8", "--profile", "rtx-2080ti", "--network", "infiniband-edr",
              "--charge", "amazon670k", "--model", "mlp", "--hidden", "128", "--batch-size", "64", "--host-threads", "1"]
# Name -> (title, options) of the straggler scenarios; straggler_scenarios.py says where they come from.
STRAGGLERS = {
    "a": ("none", []),
    "b": ("0-50 ms", ["--straggler", "kind=uniform,min=0ms,max=50ms"]),
    "c": ("0-50 / 50-100 ms", ["--straggler", "kind=uniform,workers=0-3,min=0ms,max=50ms",
                               "--straggler", "kind=uniform,workers=4-7,min=50ms,max=100ms"]),
    "d": ("worker 7 70x slower", ["--straggler", "kind=constant,worker=7,factor=70"]),
}


def data_dir():
    folder = os.environ.get("HETSGD_DATA_DIR")
    if not folder:
        sys.exit("HETSGD_DATA_DIR is not set: name the folder with delicious_train.txt and delicious_test.txt")
    return pathlib.Path(folder)


def delicious_files():
    """The training and the test file."""
    return [str(data_dir() / f"delicious_{part}.txt") for part in ("train", "test")]


def delicious():
    train_file, test_file = delicious_files()
    return ["--train", train_file, "--test", test_file]


def generated_files(specification, folder):
    """The training and the test file of a generate:... specification, written into the folder if they are not there."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for part in ("train", "test"):
        path = folder / f"{part}.hsgd"
        if not path.exists():
            hetsgd("data", ["convert", "--part", part, specification, path])
        files.append(str(path))
    return files


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


def choice_path(folder):
    return folder / "choice.json"


def run_path(folder, seed):
    return folder / f"seed{seed}.json"


def train_seeds(folder, setup, algorithm, *, rate, target, seeds, epochs, files):
    """One algorithm with every one of the seeds on all rows of the training file, measured on the test file. algorithm: its name
    and options; rate: options that give the learning rate. Writes run_path."""
    for seed in seeds:
        train(["--train", files[0], "--test", files[1]] + setup +
              ["--algorithm", *algorithm, *rate, "--target", target, "--epochs", epochs, "--seed", seed], run_path(folder, seed))


def tune_and_train(folder, setup, algorithm, *, grid, goal, tune_seeds, tune_epochs, seeds, epochs, target=None, files=None):
    """One algorithm, as every comparison treats it. `hetsgd tune` tries the rates of the grid with `tune_seeds` for `tune_epochs`
    on a held-out tenth of the training rows; the chosen rate trains by train_seeds. files: training and test file, those of
    Delicious unless given; target: what the runs are to reach, the goal unless given. Writes choice_path too."""
    files = files or delicious_files()
    tune(["--train", files[0]] + setup + ["--algorithm", *algorithm, "--grid", grid, "--tune-seeds", tune_seeds,
                                          "--validation", "0.1", "--goal", goal, "--epochs", tune_epochs], choice_path(folder))
    train_seeds(folder, setup, algorithm, rate=["--tuned", choice_path(folder)], target=target or goal, seeds=seeds,
                epochs=epochs, files=files)


def in_parallel(calls):
    """Makes the calls (functions without arguments) on all cores; an error of one ends the script. Simulated runs may share
    the host: it changes no byte of them."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(call) for call in calls]
        for number, job in enumerate(concurrent.futures.as_completed(jobs), 1):
            job.result()
            print(f"\r{number}/{len(jobs)} algorithms", end="", file=sys.stderr)
    print(file=sys.stderr)


def compare(files, target, reference):
    """`hetsgd compare` as JSON: one group per family of seeds, in the order of the files."""
    return json.loads(hetsgd("compare", [*files, "--target", target, "--reference", reference, "--format", "json"]))


def time_to(result, metric, value):
    """Training seconds until the metric first reaches the value, a --target of the run; infinity if it never does."""
    for target in result["time_to_accuracy"]:
        if target["metric"] == metric and target["value"] == value:
            return math.inf if target["time_s"] is None else target["time_s"]
    raise ValueError(f"the run had no target {metric}>={value}")


def median(values):
    """Median with missed targets as infinity."""
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def show(seconds):
    return "not reached" if math.isinf(seconds) else f"{seconds:.3g}"
