#!/usr/bin/env python3
"""mpi_stress.py [--runs N] [--seed S]: random short `mpirun hetsgd train` runs, one after the other; each must end
in time with a valid result. HETSGD_BINARY names the program."""

import json
import os
import random
import shlex
import signal
import subprocess
import tempfile

from mpi_program import MPI, own_sessions, search_main

LIMIT_S = 60
DIVERGED = 8  # exit code of a run whose loss is no longer a number; its result is valid
STRAGGLERS = ["kind=constant,factor=3", "kind=uniform,max=4ms", "kind=lognormal,median=1ms", "kind=pareto,scale=1ms",
              "kind=periodic,period=20ms,duration=10ms,factor=4", "kind=burst,on=10ms,off=20ms,factor=3",
              "kind=pause,at=10ms,duration=50ms"]


def algorithms(binary):
    listed = subprocess.run([binary, "algorithms", "--format", "json"], stdout=subprocess.PIPE, check=True).stdout
    return [each for each in json.loads(listed) if not each["one_process_only"]]


def random_run(draw, listed):
    """(ranks, arguments) of a run that is over within seconds."""
    ranks = draw.randint(1, 4)
    services = ranks > 1 and draw.random() < 0.25
    workers = ranks - services
    name = draw.choice([each["name"] for each in listed if workers <= each["max_workers"]])
    partitions = ["shared"] if name == "adaptive" else ["shared", "shared", "iid", "label_sorted", "dirichlet"]
    kind = next(each for each in listed if each["name"] == name)
    pipeline = bool(kind["sharded_tables_only"])
    served = not pipeline and not kind["replicated_tables_only"] and draw.random() < 0.3
    data = "generate:ctr-tiny" if pipeline or served else "generate:tiny"
    arguments = ["--algorithm", name, "--train", data, "--test", data,
                 "--hidden", str(draw.choice([1, 8, 64, 300])), "--batch-size", str(draw.choice([8, 32, 100])),
                 "--mega-batch", str(draw.choice([1, 7, 40])), "--max-samples", str(draw.randint(1, 4000)),
                 "--partition", draw.choice(partitions),
                 "--learning-rate", "0.1", "--seed", str(draw.randrange(1000))]
    if pipeline or served:
        arguments += ["--model", draw.choice(["deepfm", "wide_deep", "dcn"]), "--tables", "sharded", "--evaluate-samples", "200",
                      "--sharding", "row" if workers % 2 else "column:2"]
    if served:
        arguments += ["--table-exchange", "served"]
    if pipeline:
        arguments += ["--exchange", draw.choice(["scatter", "blocking"]),
                      "--pipeline", draw.choice(["full", "input", "none"]), "--join", draw.choice(["stages", "data"])]
    if services:
        arguments.append("--service-rank")
    if draw.random() < 0.3:
        arguments += ["--evaluate-every", str(draw.randint(50, 2000))]
    if draw.random() < 0.2:
        arguments += ["--max-time", f"{draw.uniform(0.01, 0.5):.2f}s"]
    if draw.random() < 0.3:
        arguments.append("--record-steps")
    for text in draw.sample(STRAGGLERS, draw.choice([0, 0, 1, 2])):
        arguments += ["--straggler", f"{text},worker={draw.randrange(workers)}"]
    if name == "rna" and workers > 1 and draw.random() < 0.5:
        arguments += ["--hierarchical", "--group-after", "2", "--group-by", draw.choice(["spread", "gap"])]
    if name == "rna" and draw.random() < 0.5:
        arguments += ["--trigger", "any", *draw.choice([[], ["--local-training"], ["--bound", "age", "--eta", "0"]])]
    if name == "ssgd" and draw.random() < 0.5:
        arguments += ["--storage", "central"]
    return ranks, arguments


def failure(binary, ranks, arguments, folder):
    """The fault of a run; "" is none."""
    output = os.path.join(folder, "result.json")
    command = ["mpirun", "-n", str(ranks), binary, "train", *arguments, "--quiet", "--overwrite", "-o", output]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HETSGD_")}
    process = subprocess.Popen(command, env={**environment, **MPI, **own_sessions(folder), "HETSGD_CACHE_DIR": folder}, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        text, _ = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)  # the launcher ends its ranks
        text, _ = process.communicate()
        return f"no end within {LIMIT_S} s\n{text}"
    if process.returncode not in (0, DIVERGED):
        return f"exit code {process.returncode}\n{text}"
    valid = subprocess.run([binary, "validate", output], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if valid.returncode != 0:
        return valid.stdout
    with open(output) as file:
        status = json.load(file)["status"]
    expected = "diverged" if process.returncode == DIVERGED else "completed"
    return "" if status == expected else f"status {status} with exit code {process.returncode}, expected {expected}\n{text}"


def stress(binary, runs, seed):
    """The failed runs, as texts."""
    listed = algorithms(binary)
    failed = []
    with tempfile.TemporaryDirectory(prefix="hetsgd-stress-") as folder:
        for number in range(runs):
            ranks, arguments = random_run(random.Random(f"{seed}/{number}"), listed)
            what = failure(binary, ranks, arguments, folder)
            if what:
                failed.append(f"seed {seed}, run {number}: mpirun -n {ranks} {binary} train {shlex.join(arguments)}\n{what}")
    return failed


if __name__ == "__main__":
    search_main(__doc__, stress)
