#!/usr/bin/env python3
"""Tests whether one build is slower than another. It runs their benchmarks alternately and needs an idle machine.

    scripts/same_speed.py OLD NEW [--rounds 9] [--filter REGEX] [--min-time 0.3] [--bound 0.02]

OLD and NEW are build folders (build/release). Every benchmark that both have runs --rounds times in
each of them. The order of the two changes from round to round, so that a drift of the host's clock
affects both alike. For each benchmark it prints the median times, new/old of the best times (those
of an undisturbed host), and the median of new/old over the rounds with its 95 % interval by the sign
test. A benchmark is `slower` if the whole interval lies above 1 + bound. mpi_bench runs under mpirun
with two ranks and reports its best times, as those of comm_bench are.

Exit code: 7 if a benchmark is slower, else 0.
"""
import argparse
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys

BENCHMARKS = ["sim_bench", "comm_bench", "model_bench", "data_bench"]


def listed(program, pattern):
    found = subprocess.run([program, "--benchmark_list_tests", f"--benchmark_filter={pattern}"],
                           capture_output=True, text=True, check=True)
    return found.stdout.split()


def google_benchmark(program, name, min_time):
    """Seconds of one benchmark: its best where it says so (best_us), as a thread that sleeps is woken late at random."""
    out = subprocess.run([program, f"--benchmark_filter=^{re.escape(name)}$", "--benchmark_format=json",
                          f"--benchmark_min_time={min_time}"], capture_output=True, text=True, check=True)
    run = json.loads(out.stdout)["benchmarks"][0]
    if "best_us" in run:
        return run["best_us"] * 1e-6
    return run["real_time"] * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[run["time_unit"]]


def mpi_bench(program):
    """Seconds by name, of the lines `NAME BYTES B raw X us ours Y us`."""
    out = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", program],
                         capture_output=True, text=True, check=True)
    line = re.compile(r"^(\S+)\s+(\d+) B.*ours\s+([\d.]+) us", re.M)
    return {f"mpi {m[1]}/{m[2]}": float(m[3]) * 1e-6 for m in line.finditer(out.stdout)}


def interval(ratios):
    """The 95 % interval of the median: order statistics k and n-1-k with P(Binomial(n, 1/2) <= k-1) <= 2.5 %."""
    n, tail, k = len(ratios), 0.0, 0
    while True:
        tail += math.comb(n, k) / 2**n
        if tail > 0.025 or k >= (n - 1) // 2:
            break
        k += 1
    ordered = sorted(ratios)
    return ordered[max(k - 1, 0)], ordered[min(n - k, n - 1)]


def report(name, old, new, bound):
    ratios = [b / a for a, b in zip(old, new)]
    low, high = interval(ratios)
    slower = low > 1 + bound
    print(f"{name:44} {statistics.median(old)*1e6:12.2f} {statistics.median(new)*1e6:12.2f} {min(new)/min(old):7.3f}"
          f" {statistics.median(ratios):7.3f}  [{low:.3f}, {high:.3f}]{'  slower' if slower else ''}", flush=True)
    return slower


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path, help="build folder of the old build")
    parser.add_argument("new", type=pathlib.Path, help="build folder of the new build")
    parser.add_argument("--rounds", type=int, default=9, help="number of rounds (default: 9)")
    parser.add_argument("--filter", default=".", help="regular expression for the names of benchmarks (default: all)")
    parser.add_argument("--min-time", type=float, default=0.3, help="least seconds of one benchmark in a round (default: 0.3)")
    parser.add_argument("--bound", type=float, default=0.02, help="slowdown that is allowed (default: 0.02, which is 2 %%)")
    args = parser.parse_args()
    builds = [folder / "tests" / "bench" for folder in (args.old, args.new)]
    for program in [build / name for build in builds for name in [*BENCHMARKS, "mpi_bench"]]:
        if not program.is_file():
            parser.error(f"found no {program}, expected OLD and NEW to be folders of builds with HETSGD_BENCHMARKS=ON and "
                         "HETSGD_MPI=ON, such as build/release")
    print(f"{'benchmark':44} {'old us':>12} {'new us':>12}    best  median  95 % interval of {args.rounds} rounds")
    slower = False
    for bench in BENCHMARKS:
        both = [listed(build / bench, args.filter) for build in builds]
        for name in [each for each in both[0] if each in both[1]]:
            times = [[], []]
            for k in range(args.rounds):
                for which in ((0, 1) if k % 2 == 0 else (1, 0)):
                    times[which].append(google_benchmark(builds[which] / bench, name, args.min_time))
            slower |= report(name, *times, args.bound)
    if re.search(args.filter, "mpi") or args.filter == ".":
        rounds = []
        for k in range(args.rounds):
            first, second = (0, 1) if k % 2 == 0 else (1, 0)
            times = {which: mpi_bench(builds[which] / "mpi_bench") for which in (first, second)}
            rounds.append([times[0], times[1]])
        for name in rounds[0][0]:
            slower |= report(name, [r[0][name] for r in rounds], [r[1][name] for r in rounds], args.bound)
    return 7 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
