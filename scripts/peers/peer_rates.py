"""Shared by the comparisons of hetsgd's rates (samples or tokens per second) with PyTorch's: options, runs on some cores, the
table and the JSON file. A ratio is hetsgd over PyTorch, the median of the ratios of the rounds."""

import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def add_options(parser, only):
    parser.add_argument("--python", default="/usr/bin/python3",
                        help="Python interpreter that can import torch (default: /usr/bin/python3)")
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds (default: 5)")
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds of each measurement (default: 3)")
    parser.add_argument("--only", help=only)
    parser.add_argument("--json", help="JSON file for all measurements (default: none)")
    parser.add_argument("--require", action="store_true", help="exit with code 7 if a ratio is below its goal")


def run_on_cores(command, cores, **variables):
    """The command's standard output. Variables that are None are not set."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(cores), **variables)
    environment = {name: value for name, value in environment.items() if value is not None}
    mask = ",".join(map(str, sorted(os.sched_getaffinity(0))[-cores:]))
    result = subprocess.run(["taskset", "-c", mask] + command, env=environment, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {result.returncode}\n{result.stderr}")
    return result.stdout


def rates_of(name, goal, hetsgd, pytorch, unit="samples_per_s"):
    """The row of a case: samples per second of the rounds, or those of another unit, ours and theirs."""
    ratios = [ours / theirs for ours, theirs in zip(hetsgd, pytorch)]
    return {"name": name, "goal": goal, "rounds": len(ratios), f"hetsgd_{unit}": statistics.median(hetsgd),
            f"pytorch_{unit}": statistics.median(pytorch), "ratio": statistics.median(ratios),
            "ratios": ratios}


def head(more, what="samples/s"):
    return f"{what:22} {'hetsgd':>10} {'PyTorch':>10} {'ratio':>6} {'goal':>5} {more}"


def line(row, more, unit="samples_per_s"):
    return (f"{row['name']:22} {row[f'hetsgd_{unit}']:10,.0f} {row[f'pytorch_{unit}']:10,.0f}"
            f" {row['ratio']:6.2f} {row['goal']:5.2f} {more}")


def finish(rows, options):
    """Writes the JSON file that was asked for; the exit code."""
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"load_average": os.getloadavg(), "cases": rows}, file, indent=2)
    return 7 if options.require and any(row["ratio"] < row["goal"] for row in rows) else 0
