#!/usr/bin/env python3
"""mpi_cut.py [--runs N] [--seed S]: in N runs on two emulated hosts (scripts/netns-hosts.sh: root, network namespaces) the
cable of one is cut at a random moment. Both ranks must end within --peer-timeout and some seconds, name the other one, and
leave a valid result or none. HETSGD_BINARY names the program."""

import contextlib
import pathlib
import random
import shlex
import signal
import subprocess
import tempfile
import time

from mpi_program import search_main
from mpi_standstill import METHODS, is_over, wait_until

HOSTS = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "netns-hosts.sh"
PEER_TIMEOUT_S = 2
LATEST_END_S = PEER_TIMEOUT_S + 25  # the grace for a rank that does not come to the end any more, and a slow machine


def ranks_of(script):
    """(host, pid) of the ranks that run in the namespaces of this script."""
    found = []
    for host in range(2):
        listed = subprocess.run(["ip", "netns", "pids", f"hetsgd{script.pid}-{host}"], capture_output=True, text=True, check=False)
        for pid in listed.stdout.split():
            with contextlib.suppress(OSError):
                if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "hetsgd":
                    found.append((host, int(pid)))
    return found


def failure(binary, number, seed, folder):
    """The fault of a run; "" is none."""
    draw = random.Random(f"{seed}/{number}")
    output = folder / f"{number}.json"
    arguments = ["train", "--train", "generate:tiny", "--test", "generate:tiny", "--hidden", "16", "--batch-size", "16",
                 "--mega-batch", "8", "--checkpoint-every", "1", "--epochs", "1000", "--peer-timeout", f"{PEER_TIMEOUT_S}s",
                 "--quiet", "--checkpoint", f"{folder / str(number)}.ck", "-o", str(output), "--algorithm",
                 *draw.choice(METHODS).split()]
    moment = draw.uniform(0, 2.5)
    what = f"seed {seed}, run {number}: cut after {moment:.3f} s: {shlex.join(arguments)}"
    with open(folder / f"{number}.log", "w+") as log:
        script = subprocess.Popen([HOSTS, "--delay", "0ms", "--hetsgd", binary, "--", *arguments], stdout=log, stderr=log)
        started = wait_until(lambda: len(ranks_of(script)) == 2 or script.poll() is not None)
        if script.poll() is None:
            time.sleep(moment)
            subprocess.run(["ip", "netns", "exec", f"hetsgd{script.pid}-switch", "ip", "link", "set", "port1", "down"], check=False)
        cut = time.monotonic()
        wait_until(lambda: not ranks_of(script))
        took = time.monotonic() - cut
        with contextlib.suppress(ProcessLookupError):
            script.send_signal(signal.SIGTERM)  # mpirun waits for a host that it cannot reach
        if script.wait() == 77:  # not permitted here
            return ""
        log.seek(0)
        text = log.read()
    if not started or took > LATEST_END_S:
        return f"{what}\nthe ranks ended after {took:.1f} s\n{text}"
    # The output of the host that mpirun cannot reach any more is lost.
    is_named = "rank 1" in text or "look at the other hosts" in text
    if "this is a bug" in text or not (is_named or is_over(output)):
        return f"{what}\n{text}"
    valid = subprocess.run([binary, "validate", output], capture_output=True, text=True, check=False)
    return f"{what}\n{valid.stdout}{valid.stderr}" if output.exists() and valid.returncode != 0 else ""


def cuts(binary, moments, seed):
    """The faults, as texts."""
    with tempfile.TemporaryDirectory(prefix="hetsgd-cut-") as folder:
        found = [failure(binary, number, seed, pathlib.Path(folder)) for number in range(moments)]
    return [text for text in found if text]


if __name__ == "__main__":
    search_main(__doc__, cuts)
