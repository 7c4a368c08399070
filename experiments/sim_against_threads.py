#!/usr/bin/python3
"""Predicted against measured time: the same scenario in `threads` (two workers on two cores) and in `sim`.

    HETSGD_DATA_DIR=... experiments/sim_against_threads.py [--epochs 10] [--repeat 5]

`hetsgd calibrate` fits a profile of one core; `sim` then predicts each run under that profile and a shared-memory network,
`threads` measures it. Also reported: how exactly the injected delays were achieved. Needs an idle machine with two cores.
Writes results/sim_against_threads.md.
"""
import argparse
import json
import subprocess

import common

SCENARIOS = {"none": [], "uniform 0-5 ms": ["--straggler", "kind=uniform,min=0ms,max=5ms"],
             "worker 1 twice as slow": ["--straggler", "kind=constant,worker=1,factor=2"]}
ALGORITHMS = ["ssgd", "elastic", "adaptive"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    runs = common.ROOT / "runs" / "sim_against_threads"
    runs.mkdir(parents=True, exist_ok=True)
    profile = runs / "profile.json"
    subprocess.run([common.HETSGD, "calibrate", "--device", "cpu:1", "-o", str(profile), "--overwrite"], check=True)
    base = common.delicious() + ["--workers", "2", "--batch-size", "256", "--learning-rate", "1", "--mega-batch", "20",
                                 "--epochs", arguments.epochs, "--overwrite"]
    lines = ["| scenario | algorithm | predicted s | measured s (median, min..max) | error | delays achieved / requested |",
             "|---|---|---|---|---|---|"]
    for scenario, straggler in SCENARIOS.items():
        for algorithm in ALGORITHMS:
            options = base + straggler + ["--algorithm", algorithm]
            sim = common.train(options + ["--cluster", "sim", "--profile", profile, "--network", "shared-memory"],
                               runs / f"sim-{algorithm}.json")
            measured, achieved, requested = [], 0.0, 0.0
            for _ in range(arguments.repeat):
                real = common.train(options + ["--cluster", "threads", "--devices", "cpu:1"],
                                    runs / f"threads-{algorithm}.json")
                measured.append(real["curve"][-1]["time_s"])
                achieved += sum(worker["delay_achieved_s"] for worker in real["workers"])
                requested += sum(worker["delay_requested_s"] for worker in real["workers"])
            predicted, middle = sim["curve"][-1]["time_s"], common.median(measured)
            delays = f"{achieved / requested:.4f}" if requested else "no delay"
            lines.append(f"| {scenario} | {algorithm} | {predicted:.3f} | {middle:.3f} ({min(measured):.3f}.."
                         f"{max(measured):.3f}) | {100 * (predicted / middle - 1):+.1f} % | {delays} |")
    fitted = json.loads(profile.read_text())
    text = "\n".join(lines) + f"\n\nCalibrated profile: `{json.dumps(fitted)}`\n"
    (common.ROOT / "results" / "sim_against_threads.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
