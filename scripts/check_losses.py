#!/usr/bin/env python3
"""Loses workers at random: check_losses.py [BINARY] [--runs N] [--seed S] [--jobs J] [--only REGEX] [--cluster sim|threads|mpi]

Makes N random runs as check_resume.py does, each with random failures and returns of its workers (--on-loss continue or
restart). Every run must end within five minutes with exit code 0, a result that hetsgd validate finds valid, and a finite
loss at its whole budget, or say that workers are lost too often to get any further. Every sample counts once: as learnt, lost
or redone, up to the batches that are under way at each loss.
On threads and mpi (under mpirun) the runs are longer ones, as set-up takes real time.
Prints each run that does not, with its command. Exit code 0: all did; 1: one did not.
"""

import argparse
import json
import math
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import check_resume

LONGEST_S = 300
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
# Options of random runs that runs in real time, and those of processes, cannot have.
ONLY_SIM = re.compile("--profile|learners-per-device auto")
NOT_MPI = re.compile("hogwild|hogbatch|slide|--workers 1")


def random_losses(rng, workers, cluster, restarts):
    """The options of random failures. restarts: the others cannot go on alone."""
    options = ["--detect", f"{rng.choice([0.1, 1, 5])}ms"]
    mode = rng.choice(["killed", "stopped", "cut_off"])
    if rng.random() < 0.6:
        # A segment of processes takes some 20 ms of real time to begin, on a busy host more.
        lives = rng.choice({"sim": [5, 20, 60], "threads": [20, 60, 200], "mpi": [100, 300, 1000]}[cluster])
        options += ["--straggler", f"kind=churn,mtbf={lives}ms,mttr={rng.choice([2, 8, 30])}ms,mode={mode}"]
    else:
        for worker in rng.sample(range(workers), rng.randrange(1, workers + 1)):
            fails = rng.uniform(0, 60)
            options += ["--straggler", f"kind=fail,worker={worker},at={fails:.3f}ms,mode={mode}", "--straggler",
                        f"kind=return,worker={worker},at={fails + rng.uniform(0.1, 60):.3f}ms"]
    if restarts or rng.random() < 0.3:
        options += ["--on-loss", "restart", "--restart-time", "1ms"]
    return options


def suits(options, only, cluster):
    text = " ".join(options)
    if only and not re.search(only, text):
        return False
    return cluster == "sim" or not (ONLY_SIM.search(text) or (cluster == "mpi" and NOT_MPI.search(text)))


def in_real_time(options, workers, cluster):
    """The launcher and the options of the same run, twice as long, on this cluster."""
    at = options.index("--max-samples") + 1
    options[at] = str(2 * int(options[at]))
    return ["mpirun", "-n", str(workers)] if cluster == "mpi" else [], [*options, "--cluster", cluster, "--devices", "cpu:1"]


def wrong_in(result):
    """A text on the first number of a finished run that is wrong, or None; `hetsgd validate` has counted its samples."""
    if result["status"] != "completed":
        return f"{result['status']}: {result['status_reason']}"
    last, config = result["curve"][-1], result["config"]
    if not math.isfinite(last["test_loss"] or math.nan):
        return "has no finite loss"
    if last["samples_count"] < config["max_samples"]:
        return f"ends at {last['samples_count']} of {config['max_samples']} samples"
    return None


def check(binary, number, seed, only, cluster):
    """Makes run `number`. Returns (its options, the number of losses, what is wrong or None)."""
    rng = random.Random(f"{seed} {number}")
    options = check_resume.random_run(rng)
    while not suits(options, only, cluster):
        options = check_resume.random_run(rng)
    at = options.index("--checkpoint-every")
    options = options[:at]
    every = int(options[options.index("--evaluate-every") + 1])
    if rng.random() < 0.5:
        options += ["--checkpoint-at", ",".join(str(k * every) for k in range(1, 10, rng.choice([1, 3])))]
    workers = int(options[options.index("--workers") + 1])
    options += random_losses(rng, workers, cluster, "sharded" in options or "--node-size" in options)
    launcher = []
    if cluster != "sim":
        launcher, options = in_real_time(options, workers, cluster)
    with tempfile.TemporaryDirectory(prefix="hetsgd-losses-") as name:
        output = pathlib.Path(name) / "run.json"
        command = [*launcher, binary, "train", *options, "--quiet", "--host-threads", "1", "-o", str(output)]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, env={**os.environ, **MPI})
        except subprocess.TimeoutExpired:
            return options, 0, f"has not ended after {LONGEST_S} s"
        if run.returncode == 1 and "losses in a row the run still stands at" in run.stderr:
            return options, 0, None
        if run.returncode != 0:
            return options, 0, f"exit code {run.returncode}: {run.stderr.strip()[-300:]}"
        valid = subprocess.run([binary, "validate", str(output)], capture_output=True, text=True,
                               env={"HETSGD_PYTHON": sys.executable, **os.environ})
        if valid.returncode != 0:
            return options, 0, valid.stdout.strip()
        result = json.loads(output.read_text())
        return options, len(result.get("failures", [])), wrong_in(result)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", choices=("sim", "threads", "mpi"), default="sim")
    runs, failed, losses = check_resume.make_runs(parser, check, "cluster")
    print(f"{runs} runs with {sum(losses)} losses: {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
