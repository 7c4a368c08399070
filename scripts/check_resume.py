#!/usr/bin/env python3
"""Kills runs and resumes them: check_resume.py [BINARY] [--runs N] [--seed S] [--jobs J] [--only REGEX] [--devices LIST]

Each of N runs has a random algorithm, optimizer, partition, model and scenario of stragglers, on small synthetic
data with --cluster sim. It is made twice: once to its end, and once killed by SIGKILL at random moments, each time
resumed from its last checkpoint, until it has ended. Both results must be the same bytes but for "args",
"environment", "wall", "started_at" and "finished_at", and so must the final parameters.

With --devices LIST, as that of hetsgd train, the runs are those of synchronous algorithms on these devices in real time,
whose parameters alone are compared: their times differ.

Prints each run that differs with its command. Exit code 0: all are equal; 1: one differs or failed.
"""

import argparse
import concurrent.futures
import functools
import json
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

HOST_PARTS = ("args", "environment", "wall", "started_at", "finished_at")
MOST_KILLS = 20

MLP = "--train generate:tiny --test generate:tiny --hidden 16 --batch-size 32 --learning-rate 0.1"
CLICKS = ("--train generate:ctr-tiny --test generate:ctr-tiny --min-frequency 5 --embedding-dim 8 --hidden 16,8 "
          "--batch-size 48 --learning-rate 0.1")
IMAGES = ("--train generate:images?size=28&channels=1&rows_train=200&rows_test=50 "
          "--test generate:images?size=28&channels=1&rows_train=200&rows_test=50 --model lenet-5 --batch-size 16 "
          "--learning-rate 0.05")

# Variants of each algorithm, chosen at random.
ALGORITHMS = {
    "sgd": ["--workers 1"],
    "ssgd": ["", "--per-worker-batch split --overlap", "--storage central", "--reduce adasum",
             "--reduce adasum --node-size 2 --optimizer-state partitioned --adasum-scope layer"],
    "elastic": ["", "--gamma 0"],
    "adaptive": ["--speed 1,0.9,0.7,0.5", "--adaptive-warmup-epochs 0.5", "--whole-rounds"],
    "local-sgd": ["--local-steps 5", "--outer-optimizer nesterov --local-steps 4"],
    "sma": ["", "--learners-per-device 2", "--learners-per-device auto --profile titan-x-pascal --tuner-every 3",
            "--sma hierarchical --learners-per-device 2"],
    "easgd": ["--tau 3", ""],
    "esync": ["--speed 1,0.5,0.3,0.2", "--ack delayed --speed 1,0.5,0.3,0.2", "--aggregate server"],
    "asgd": [""],
    "dc-asgd": ["", "--dc adaptive", "--dc-backup server"],
    "ssp": ["--staleness 1 --speed 1,0.5,0.3,0.2", "--staleness 0"],
    "adpsgd": [""],
    "eager-solo": ["", "--late drop"],
    "eager-majority": [""],
    "rna": ["", "--speed 1,0.5,0.3,0.2 --local-training --ahead 2 --trigger any", "--hierarchical --groups 0-1:2-3",
            "--hierarchical --group-after 3 --speed 1,0.3"],
    "hogwild": ["", "--models 0-1:2-3 --tau 5"],
    "hogbatch": ["--profile v100,cpu", ""],
    "slide": ["--rehash 10 --hash-tables 8"],
    "sven": ["", "--pipeline none", "--join data --lookahead 2"],
}
OPTIMIZERS = ["", "", "--optimizer momentum", "--optimizer nesterov --weight-decay 1e-4",
              "--optimizer adam --learning-rate 0.01", "--optimizer adagrad", "--optimizer lars --learning-rate 5",
              "--optimizer lamb --learning-rate 0.01"]
PARTITIONS = ["", "", "--partition iid", "--partition label_sorted", "--partition dirichlet"]
SCENARIOS = ["", "--straggler kind=uniform,min=0ms,max=2ms", "--straggler kind=burst,on=5ms,off=20ms,factor=4",
             "--straggler kind=constant,worker=0,factor=3", "--straggler kind=pause,at=5ms,duration=10ms,workers=0"]
SYNCHRONOUS = ("sgd", "ssgd", "elastic", "sma", "easgd")  # the same parameters whatever the times
PLAIN_SGD = {"dc-asgd", "hogwild", "hogbatch"}
ONE_POOL = {"adaptive", "hogbatch"}
OWN_MODEL = {"sven", "slide"}
SHARED_MODEL = {"hogwild", "hogbatch", "slide"}
NO_TABLES = SHARED_MODEL | {"sma", "easgd", "sven"}


def random_run_on(rng, devices):
    """The options of a random run of a synchronous algorithm on devices, as a list of words."""
    algorithm = rng.choice(SYNCHRONOUS)
    variant = rng.choice([variant for variant in ALGORITHMS[algorithm] if not re.search("auto|adasum|workers", variant)] or [""])
    model = rng.choice([MLP, MLP + " --hidden 16,16", CLICKS + " --model dcn --learning-rate 0.0005", IMAGES, CLICKS + " --model deepfm --tables sharded"])
    if "sharded" in model:
        algorithm, variant = "ssgd", ""
    optimizer = rng.choice(["", "--optimizer momentum", "--optimizer adam --learning-rate 0.01"])
    if "generate:ctr" in model:
        optimizer = "" if "sharded" in model else re.sub(".*momentum", "", optimizer)
    every = 30 * int(re.search(r"--batch-size (\d+)", model).group(1))
    used = devices.split(",")[0] if algorithm == "sgd" else devices
    return (f"{model} --algorithm {algorithm} {variant} {optimizer} --cluster threads --devices {used} --max-samples {10 * every} "
            f"--evaluate-every {every} --mega-batch 20 --seed {rng.randrange(1000)} --checkpoint-every 1").split()


def random_run(rng):
    """The options of a random run of sim, as a list of words."""
    algorithm = rng.choice(sorted(ALGORITHMS))
    variant = rng.choice(ALGORITHMS[algorithm])
    optimizer = "" if algorithm in PLAIN_SGD else rng.choice(OPTIMIZERS)
    if algorithm == "slide":
        optimizer = rng.choice(["", "--optimizer sgd --learning-rate 0.1"])
    model = MLP
    if algorithm not in OWN_MODEL:
        model = rng.choice([MLP, MLP, MLP + " --hidden 16,16", MLP + " --objective hashed --rehash 10 --hash-tables 8",
                            MLP + " --objective sampled --negatives 20", CLICKS + " --model dcn --learning-rate 0.0005", IMAGES])
    if algorithm in SHARED_MODEL:
        model = MLP
    if algorithm not in NO_TABLES and not optimizer and rng.random() < 0.15:
        model = CLICKS + " --model deepfm --tables sharded"
    if algorithm == "sven":
        optimizer = rng.choice(["", "--optimizer adam --learning-rate 0.01", "--optimizer adagrad"])
        model = CLICKS + " --model deepfm --tables sharded"
    if "sharded" in model:
        variant = variant if algorithm in ("sven", "sgd") else ""
    partition = "" if algorithm in ONE_POOL or "generate:ctr" in model else rng.choice(PARTITIONS)
    steps = rng.choice([12, 20])
    batch = int(re.search(r"--batch-size (\d+)", model).group(1))
    workers = "" if "--workers" in variant else f"--workers {rng.choice([2, 4])}"
    if any(word in variant for word in ("groups", "models", "node-size", "speed")):
        workers = "--workers 4"
    if "generate:ctr" in model and not re.search("sgd|adam|adagrad|^$", optimizer):
        optimizer = ""
    every = steps * batch
    text = (f"{model} --algorithm {algorithm} {variant} {optimizer} {partition} {rng.choice(SCENARIOS)} {workers} "
            f"--max-samples {10 * every} --evaluate-every {every} --mega-batch {steps} --seed {rng.randrange(1000)} "
            f"--checkpoint-every {rng.choice([1, 2, 3])} {rng.choice(['', '', '--precision bf16'])}")
    return text.split()


def without_host(path):
    result = json.loads(path.read_text())
    for part in HOST_PARTS:
        result.pop(part, None)
    return result


def train(binary, options, folder, name, extra=()):
    return [binary, "train", *options, "--quiet", "--overwrite", "--host-threads", "1", "-o",
            str(folder / f"{name}.json"), "--dump-parameters", str(folder / f"{name}.f32"), "--checkpoint",
            str(folder / f"{name}.checkpoint"), *extra]


def last_checkpoint(folder, name):
    path = folder / f"{name}.checkpoint"
    return ("--resume-from", str(path)) if path.exists() else ()


def check(binary, number, seed, only, devices):
    """Makes run `number`. Returns (its options, the number of kills, what is wrong or None)."""
    rng = random.Random(f"{seed} {number}")
    choose = functools.partial(random_run_on, devices=devices) if devices else random_run
    options = choose(rng)
    while only and not re.search(only, " ".join(options)):
        options = choose(rng)
    with tempfile.TemporaryDirectory(prefix="hetsgd-resume-") as name:
        folder = pathlib.Path(name)
        begin = time.monotonic()
        whole = subprocess.run(train(binary, options, folder, "whole"), capture_output=True, text=True)
        took = time.monotonic() - begin
        if whole.returncode != 0:
            return options, 0, f"exit code {whole.returncode}: {whole.stderr.strip()[-300:]}"
        kills = 0
        while True:
            process = subprocess.Popen(train(binary, options, folder, "cut", last_checkpoint(folder, "cut")),
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            try:
                if kills == MOST_KILLS:
                    process.wait()
                else:
                    process.wait(timeout=took * rng.uniform(0.3, 1.3))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                kills += 1
                continue
            if process.returncode != 0:
                return options, kills, f"exit code {process.returncode}: {process.stderr.read().strip()[-300:]}"
            break
        if not devices and without_host(folder / "whole.json") != without_host(folder / "cut.json"):
            a, b = without_host(folder / "whole.json"), without_host(folder / "cut.json")
            return options, kills, "differs in " + ", ".join(sorted(key for key in a if a[key] != b.get(key)))
        if (folder / "whole.f32").read_bytes() != (folder / "cut.f32").read_bytes():
            return options, kills, "differs in the parameters"
        return options, kills, None


def make_runs(parser, check, *own_options):
    """Makes --runs runs by `check(binary, number, seed, only, own options...)`, some at a time, and prints what is wrong with them.
    check returns the options of a run, a count, and what is wrong or None. Returns (how many runs there are, how many are wrong, the counts)."""
    parser.add_argument("binary", nargs="?", default="build/release/apps/hetsgd/hetsgd")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    own = [getattr(arguments, name) for name in own_options]
    failed, counts = 0, []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        tasks = [pool.submit(check, arguments.binary, number, arguments.seed, arguments.only, *own) for number in range(arguments.runs)]
        for number, task in enumerate(tasks):
            options, count, wrong = task.result()
            counts.append(count)
            if wrong:
                failed += 1
                print(f"run {number}: {wrong}\n  hetsgd train {' '.join(options)}", flush=True)
    return arguments.runs, failed, counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", default="")
    runs, failed, kills = make_runs(parser, check, "devices")
    print(f"{runs} runs, {sum(map(bool, kills))} of them killed, {sum(kills)} kills in all: {failed} differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
