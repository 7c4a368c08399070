#!/usr/bin/env python3
"""Compares predicted with measured stages of sven: `sim` with this machine's calibrated profile, and threads on one core each.

    experiments/sven_stages.py [--repeat 5] [--samples 40960] [--workers 1,2] [--clock wall|processor]

`hetsgd calibrate --model deepfm` fits a profile of one core to steps of a click-through model, and `hetsgd calibrate network` a
model of the threads' messages. `sim` then predicts the seconds of each stage (workers[].stages of the result) with
`--pipeline none`, in which the stages follow each other, and `threads` measures them. The models have the size of the public
benchmarks on synthetic Criteo data, with 1,024 samples per worker. It needs an idle machine with two cores. On a busy machine
`--clock processor` measures one worker by the processor time of its process, as calibrate does; other processes can lengthen it
only by taking its caches. The page reports the load. Existing calibrations and runs are kept. It writes the table of
results/sim_against_stages.md.
"""
import argparse
import json
import os
import statistics
import subprocess

import common

HIDDEN = {"deepfm": "400,400,400", "wide_deep": "1024,1024", "dcn": "1024,1024"}
CLICKS = "generate:criteo?scale=0.001"
# In the order in which an iteration has them.
STAGES = ["ids", "sfp", "f_exchange", "fp", "bp", "all_reduce", "opt", "b_exchange", "sbp"]
WITHIN = 0.15  # of what was measured: the goal
LEAST_SHARE = 0.01  # of an iteration: below it a stage is shown, and no matter


def options_of(model, workers, samples):
    return ["--train", CLICKS, "--test", CLICKS, "--min-frequency", 1, "--tables", "sharded", "--embedding-dim", 16,
            "--algorithm", "sven", "--pipeline", "none", "--exchange", "blocking", "--model", model, "--hidden", HIDDEN[model],
            "--batch-size", 1024, "--mega-batch", 10000, "--learning-rate", 0.01, "--max-samples", samples * workers,
            "--evaluate-samples", 1024, "--workers", workers, "--host-threads", 1]


def stages_ms(result):
    """{stage: mean milliseconds of an iteration}, mean over the workers."""
    workers = result["workers"]
    updates = result["summary"]["updates"]
    return {stage: sum(1e3 * worker["stages"][f"{stage}_s"] for worker in workers) / len(workers) / updates for stage in STAGES}


def clocked(clock, runs):
    """The command that starts hetsgd under a clock."""
    if clock == "wall":
        return [common.HETSGD]
    library = runs / "processor_clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", common.ROOT / "experiments" / "processor_clock.c", "-o", library], check=True)
    return ["env", f"LD_PRELOAD={library}", common.HETSGD]


class Machine:
    """This machine's profile and network, fitted once."""

    def __init__(self, runs, clock, alone):
        runs.mkdir(parents=True, exist_ok=True)
        self.runs, self.clock, self.launch = runs, clock, clocked(clock, runs)
        self.profile = common.calibrated(["--device", "cpu:1", "--model", "deepfm", "--hidden", "400,1024", "--batch-size", "256,1024",
                                          "--point-time", "1s"], runs / "profile.json")
        # One worker alone exchanges nothing.
        self.network = None if alone else common.calibrated(["network", "--cluster", "threads", "--workers", 2], runs / "network.json")

    def predicted(self, options, name):
        network = ["--network", self.network] if self.network else []
        run = common.train([*options, "--cluster", "sim", "--profile", self.profile, *network], self.runs / f"sim-{name}.json")
        return stages_ms(run)

    def measured(self, options, name, repeat):
        return [stages_ms(common.train([*options, "--cluster", "threads", "--devices", "cpu:1"],
                                       self.runs / f"{self.clock}-{name}-{number}.json", launch=self.launch))
                for number in range(repeat)]


def row(model, workers, stage, predicted, measured):
    """A line of the table, whether the stage matters, and whether it is within the goal."""
    times = [sum(run[each] for each in ([stage] if stage in STAGES else STAGES)) for run in measured]
    whole = statistics.median([sum(run.values()) for run in measured])
    ours, middle = sum(predicted.values()) if stage not in STAGES else predicted[stage], statistics.median(times)
    if middle == 0 and ours == 0:
        return None, False, True
    error = ours / middle - 1 if middle else float("inf")
    matters, good = middle >= LEAST_SHARE * whole, abs(error) <= WITHIN
    return (f"| {model} | {workers} | {stage} | {ours:.3f} | {common.spread(times, '{:.3f}'.format)} | "
            f"{100 * middle / whole:.1f} % | {100 * error:+.0f} % | {'yes' if good else 'no' if matters else '-'} |", matters, good)


def table(machine, arguments):
    lines = ["| model | workers | stage | predicted ms | measured ms (median, min..max) | of the iteration | error | within 15 % |",
             "|---|--:|---|--:|--:|--:|--:|---|"]
    good_stages = all_stages = 0
    for model in HIDDEN:
        for workers in map(int, arguments.workers.split(",")):
            options, name = options_of(model, workers, arguments.samples), f"{model}-{workers}"
            predicted = machine.predicted(options, name)
            measured = machine.measured(options, name, arguments.repeat)
            for stage in [*STAGES, "whole"]:
                line, matters, good = row(model, workers, stage, predicted, measured)
                if line is None:
                    continue
                lines.append(line)
                print(line, flush=True)
                if stage != "whole" and matters:
                    all_stages, good_stages = all_stages + 1, good_stages + good
    return [*lines, "", f"Within 15 %: {good_stages} of the {all_stages} stages that take at least 1 % of an iteration."]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5, help="number of measurements of each run (default: 5)")
    parser.add_argument("--samples", type=int, default=40960, help="training samples of each worker (default: 40960)")
    parser.add_argument("--workers", default="1,2", help="numbers of workers, separated by commas (default: 1,2)")
    parser.add_argument("--clock", choices=["wall", "processor"], default="wall",
                        help="clock of the measurements; processor needs --workers 1 (default: wall)")
    arguments = parser.parse_args()
    if arguments.clock == "processor" and arguments.workers != "1":
        parser.error(f"--workers: found {arguments.workers}, expected 1 with --clock processor, because several workers share that clock")
    load = os.getloadavg()
    machine = Machine(common.ROOT / "runs" / "sven_stages", arguments.clock, arguments.workers == "1")
    lines = table(machine, arguments)
    fitted = [json.loads(path.read_text()) for path in (machine.profile, machine.network) if path]
    lines += ["", f"Measured by the {'host' if arguments.clock == 'wall' else 'processor'}'s clock. Processes that the machine was "
              f"running, mean of the last minute, before and after: {load[0]:.1f}, {os.getloadavg()[0]:.1f}."]
    lines += [line for model in fitted for line in ("", f"Calibrated: `{json.dumps(model)}`")]
    common.write_tables("sim_against_stages.md", lines)


if __name__ == "__main__":
    main()
