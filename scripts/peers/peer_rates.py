"""Shared by the comparisons of hetsgd's rates (samples or tokens per second) with PyTorch's: options, runs on some cores in turn,
the table and the JSON file. hetsgd runs with products in FP32 and in BF16, PyTorch so in eager mode and compiled; its BF16 is autocast.
A ratio is hetsgd's best over PyTorch's best, the median of the ratios of the rounds; `fp32` is the same of FP32 alone."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# The ways to compute the same training, and the options of each.
HETSGD = {"fp32": [], "bf16": ["--precision", "bf16"]}
PYTORCH = {"fp32": [], "fp32 compiled": ["--compile"], "bf16": ["--precision", "bf16"],
           "bf16 compiled": ["--precision", "bf16", "--compile"]}


def parser_of(text, program, only):
    """The parser of a comparison. text: what it does; program: the name of hetsgd's; only: the help of --only."""
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument(program, help=f"path of the program {program}")
    parser.add_argument("--python", default="/usr/bin/python3",
                        help="Python interpreter that can import torch (default: /usr/bin/python3)")
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds (default: 5)")
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds of each measurement (default: 3)")
    parser.add_argument("--only", help=only)
    parser.add_argument("--json", help="JSON file for all measurements (default: none)")
    parser.add_argument("--require", action="store_true", help="exit with code 7 if a ratio is below its goal")
    return parser


def chosen(cases, only, name_of):
    """The cases whose name contains the text of --only; ends the script if there is none."""
    found = [case for case in cases if not only or only in name_of(case)]
    if not found:
        sys.exit(f"--only: found {only}, expected a part of one of " + ", ".join(map(name_of, cases)))
    return found


def run_on_cores(command, cores, **variables):
    """The command's standard output on the last of the cores. Variables that are None are not set."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(cores), **variables)
    environment = {name: value for name, value in environment.items() if value is not None}
    mask = ",".join(map(str, sorted(os.sched_getaffinity(0))[-cores:]))
    result = subprocess.run(["taskset", "-c", mask] + command, env=environment, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {result.returncode}\n{result.stderr}")
    return result.stdout


def curve_of(command, cores):
    """The curve of a run of hetsgd train on cores, of which all options are given but --cluster, --devices and --output; and what
    the command printed. The training clock stands still while the model is measured."""
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "out.json")
        printed = run_on_cores([*command, "--cluster", "threads", "--devices", f"cpu:{cores}", "--quiet", "-o", output], cores)
        with open(output, encoding="utf-8") as file:
            return json.load(file)["curve"], printed


def pytorch(python, script, cores, seconds, *words, **variables):
    """The figures of PyTorch that a script of this folder measures on cores in so many seconds."""
    command = [python, os.path.join(HERE, script), "--threads", str(cores), "--seconds", str(seconds), *words]
    return json.loads(run_on_cores(command, cores, **variables))


def alternate(cases, rounds, *measures):
    """[a list for each of `measures`] of every case: what measure(case) returned in each round. All measure one after the other,
    so that a change of the machine's load hits all."""
    runs = [[[] for _ in measures] for _ in cases]
    for number in range(rounds):
        for case, of_case in zip(cases, runs):
            for measure, found in zip(measures, of_case):
                found.append(measure(case))
        print(f"round {number + 1} of {rounds} done", file=sys.stderr)
    return runs


def race(cases, options, run_hetsgd, run_pytorch, ways=(HETSGD, PYTORCH)):
    """({way: [the figures of each round]} of hetsgd, those of PyTorch) of every case. Both functions get a case, a way's words and
    the options."""
    measures = [(lambda case, run=run, words=words: run(case, words, options))
                for run, its_ways in zip((run_hetsgd, run_pytorch), ways) for words in its_ways.values()]
    for found in alternate(cases, options.rounds, *measures):
        yield dict(zip(ways[0], found)), dict(zip(ways[1], found[len(ways[0]):]))


def rates_of(name, goal, hetsgd, pytorch, unit="samples_per_s"):
    """The row of a case, from the figures of the rounds by way. The unit is the figures' key of the rate."""
    def ratios_of(chosen_of):
        """The ratio of each round, with the ways that chosen_of takes."""
        best = [[max(run[unit] for run in runs) for runs in zip(*(runs for way, runs in ways.items() if chosen_of(way)))]
                for ways in (hetsgd, pytorch)]
        return [ours / theirs for ours, theirs in zip(*best)]

    medians = [{way: statistics.median(run[unit] for run in runs) for way, runs in ways.items()} for ways in (hetsgd, pytorch)]
    ratios = ratios_of(lambda way: True)
    return {"name": name, "goal": goal, "rounds": len(ratios), f"hetsgd_{unit}": medians[0], f"pytorch_{unit}": medians[1],
            "ratio": statistics.median(ratios), "ratios": ratios,
            "fp32_ratio": statistics.median(ratios_of(lambda way: way.startswith("fp32"))),
            "hetsgd": hetsgd, "pytorch": pytorch}


def head(more, what="samples/s"):
    ways = [*(f"hetsgd {way}" for way in HETSGD), *(f"torch {way.replace('compiled', 'comp.')}" for way in PYTORCH)]
    return f"{what:22} {' '.join(f'{way:>16}' for way in ways)} {'ratio':>6} {'fp32':>5} {'goal':>5} {more}"


def line(row, more, unit="samples_per_s"):
    rates = [row[f"{who}_{unit}"].get(way) for who, ways in (("hetsgd", HETSGD), ("pytorch", PYTORCH)) for way in ways]
    shown = " ".join(f"{'-' if rate is None else f'{rate:,.0f}':>16}" for rate in rates)
    return f"{row['name']:22} {shown} {row['ratio']:6.2f} {row['fp32_ratio']:5.2f} {row['goal']:5.2f} {more}"


def finish(rows, options):
    """Writes the JSON file that was asked for; the exit code."""
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"load_average": os.getloadavg(), "cases": rows}, file, indent=2)
    return 7 if options.require and any(row["ratio"] < row["goal"] for row in rows) else 0
