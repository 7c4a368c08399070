#!/usr/bin/env python3
"""mpi_standstill.py [--runs N] [--seed S]: in N runs under mpirun, with checkpoints, a rank is stopped (SIGSTOP) or
killed (SIGKILL) at a random moment. The others must end, leave a valid result or none, and name that rank, unless the
launcher has ended them and says so. HETSGD_BINARY names the program."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import shlex
import signal
import subprocess
import tempfile
import time

from mpi_program import MPI, own_sessions, search_main

LIMIT_S = 300  # far more than --peer-timeout and what the ranks need to end
METHODS = ["ssgd", "elastic", "adaptive", "local-sgd", "asgd", "ssp", "esync --ack delayed", "esync --aggregate server", "adpsgd",
           "rna", "sma"]


def children(pid):
    try:
        return sorted(map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except OSError:
        return []


def runs_on(pid):
    """The process is neither stopped nor at its end."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] not in "TZX"
    except OSError:
        return False


def send(pid, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def wait_until(ready):
    end = time.monotonic() + LIMIT_S
    while not ready() and time.monotonic() < end:
        time.sleep(0.05)
    return ready()


def end_launcher(launcher):
    """Waits for mpirun, whose ranks are dead: Open MPI 4.1's may then wait for itself for ever (PMIx_server_finalize)."""
    try:
        launcher.wait(timeout=10)
    except subprocess.TimeoutExpired:
        launcher.kill()
        launcher.wait()


def random_run(draw):
    """(ranks, arguments, the rank that gets the signal, seconds from the start of the ranks to it, the signal)."""
    ranks = draw.randint(2, 3)
    arguments = ["--train", "generate:tiny", "--test", "generate:tiny", "--hidden", "16", "--batch-size", "16", "--mega-batch",
                 "8", "--checkpoint-every", "1", "--epochs", draw.choice(["5", "1000"]), "--peer-timeout", "2s", "--algorithm",
                 *draw.choice(METHODS).split()]
    if draw.random() < 0.2:
        arguments.append("--service-rank")
    return ranks, arguments, draw.randrange(ranks), draw.uniform(0, 2.5), draw.choice([signal.SIGSTOP, signal.SIGKILL])


def is_over(output):
    """The training was at its end when the signal came."""
    return output.exists() and json.loads(output.read_bytes())["status"] != "running"


def failure(binary, number, seed, folder):
    """The fault of a run; "" is none."""
    ranks, arguments, lost, moment, which = random_run(random.Random(f"{seed}/{number}"))
    output = folder / f"{number}.json"
    command = ["mpirun", "-n", str(ranks), binary, "train", *arguments, "--quiet", "--checkpoint", folder / f"{number}.ck",
               "-o", output]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HETSGD_")}
    what = f"seed {seed}, run {number}: rank {lost} of {ranks} got {which.name} after {moment:.3f} s: {shlex.join(arguments)}"
    with open(folder / f"{number}.log", "w+") as log:
        launcher = subprocess.Popen(command, env={**environment, **MPI, **own_sessions(folder), "HETSGD_CACHE_DIR": str(folder)}, stdout=log, stderr=log)
        if not wait_until(lambda: len(children(launcher.pid)) >= ranks or launcher.poll() is not None):
            return f"{what}\nthe ranks do not start"
        pids = children(launcher.pid)
        time.sleep(moment)
        others = [pid for pid in pids if pids.index(pid) != lost]
        is_sent = launcher.poll() is None and len(pids) == ranks and all(map(runs_on, pids))
        if is_sent:
            send(pids[lost], which)
        ended = wait_until(lambda: launcher.poll() is not None or not any(map(runs_on, others)))
        for pid in pids if launcher.poll() is None else []:
            send(pid, signal.SIGKILL)
        end_launcher(launcher)
        log.seek(0)
        text = log.read()
    if not ended or not wait_until(lambda: not any(map(runs_on, pids))):
        return f"{what}\nno end within {LIMIT_S} s\n{text}"
    # mpirun says less of a rank that is killed before it is known, and ranks may not have found each other by then.
    is_named = f"rank {lost}" in text or "not all ranks have joined" in text or (
        which == signal.SIGKILL and ("signal 9" in text or "Primary job" in text))
    if "this is a bug" in text or (is_sent and not is_named and not is_over(output)):
        return f"{what}\n{text}"
    valid = subprocess.run([binary, "validate", output], capture_output=True, text=True, check=False)
    return f"{what}\n{valid.stdout}{valid.stderr}" if output.exists() and valid.returncode != 0 else ""


def standstills(binary, moments, seed):
    """The faults, as texts. Two runs at a time, as most of a run is waiting."""
    with tempfile.TemporaryDirectory(prefix="hetsgd-standstill-") as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda number: failure(binary, number, seed, pathlib.Path(folder)), range(moments))
        return [text for text in found if text]


if __name__ == "__main__":
    search_main(__doc__, standstills)
