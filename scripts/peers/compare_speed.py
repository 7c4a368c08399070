#!/usr/bin/env python3
"""Compares the speed of hetsgd's `step` with PyTorch's, alternately in one run on one pinned core.

    scripts/peers/compare_speed.py build/release/tests/bench/model_bench --data-dir DIR --json speed.json

Each round runs model_bench and pytorch_mlp.py once per shape, one after the other, so that a change of
the machine's load or clock hits both. The table shows medians over the rounds; the ratio is hetsgd over
PyTorch, the median of the ratios of the rounds. `floor` is hetsgd's share of the rate that the output
layer's dense products alone would allow at the core's measured peak. Rates count wall time and CPU time;
on an idle machine the two agree, on a busy one CPU time is the one to trust.

PyTorch runs at its best: a first trial finds the fastest of the three forms of the loss that
pytorch_mlp.py knows and of the kernels that OpenBLAS has for this CPU (left alone, an OpenBLAS older than
the CPU takes generic ones); the trial's rates with OpenBLAS left alone are in the column `default`. Exit
code 7 if a ratio (CPU time) is below its goal and --require is given.
"""

import json
import os
import statistics
import sys

import peer_rates

# benchmark, batch size, PyTorch's synthetic shape, goal
SHAPES = [
    {"name": "delicious", "batch_size": 64, "features": 500, "labels": 983, "nonzeros": 18,
     "labels_per_row": 19, "goal": 1.4},
    {"name": "delicious", "batch_size": 256, "features": 500, "labels": 983, "nonzeros": 18,
     "labels_per_row": 19, "goal": 1.3},
    {"name": "amazon", "batch_size": 256, "features": 13591, "labels": 67009, "nonzeros": 76,
     "labels_per_row": 5, "goal": 1.3},
]


def parse_arguments():
    parser = peer_rates.parser_of(__doc__, "model_bench", "run only shapes whose name/batch contains this text (default: all)")
    parser.add_argument("--data-dir", default=os.environ.get("HETSGD_DATA_DIR"),
                        help="folder with delicious_train.txt (default: HETSGD_DATA_DIR; without it, synthetic rows of the same shape)")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)),
                        help="number of the core that both programs run on (default: the last one)")
    return parser.parse_args()


def name_of(shape):
    return f"{shape['name']}/{shape['batch_size']}"


def openblas_kernels():
    """Values of OPENBLAS_CORETYPE to try: OpenBLAS's own choice (empty), and what the CPU can run."""
    with open("/proc/cpuinfo", encoding="ascii") as file:
        flags = next((line.split() for line in file if line.startswith("flags")), [])
    kernels = [""]
    if "avx512f" in flags:
        kernels.append("SkylakeX")
    if "avx2" in flags:
        kernels.append("Haswell")
    return kernels


def run_hetsgd(shape, options):
    name = f"step/{name_of(shape)}"
    output = peer_rates.run_on_cores([options.model_bench, f"--benchmark_filter=^{name}$", "--benchmark_format=json",
                                      f"--benchmark_min_time={options.seconds}"], 1, HETSGD_DATA_DIR=options.data_dir)
    row = json.loads(output)["benchmarks"][0]
    if row["time_unit"] != "ns" or row.get("error_occurred"):
        sys.exit(f"{name}: unexpected output: {row}")
    return {"samples_per_s": shape["batch_size"] / row["real_time"] * 1e9,
            "samples_per_cpu_s": shape["batch_size"] / row["cpu_time"] * 1e9,
            "floor_ratio": row["floor_ratio"], "floor_samples_per_s": row["floor_samples_per_s"]}


def run_pytorch(shape, loss, coretype, options):
    words = [word for key in ("batch_size", "features", "labels", "nonzeros", "labels_per_row")
             for word in (f"--{key.replace('_', '-')}", str(shape[key]))]
    path = os.path.join(options.data_dir or "", "delicious_train.txt")
    if shape["name"] == "delicious" and options.data_dir and os.path.exists(path):
        words += ["--data", path]
    # An empty variable is not the same to OpenBLAS as none.
    return peer_rates.pytorch(options.python, "pytorch_mlp.py", 1, options.seconds, "--json", "--loss", loss, *words,
                              OPENBLAS_CORETYPE=coretype or None)


def best_pytorch(shape, options):
    """The fastest (loss, kernels) and the rate with OpenBLAS's own choice of kernels."""
    trials = {kernels: run_pytorch(shape, "auto", kernels, options) for kernels in openblas_kernels()}
    best = max(trials, key=lambda kernels: trials[kernels]["samples_per_cpu_s"])
    return {"loss": trials[best]["loss"], "coretype": best,
            "default_samples_per_cpu_s": trials[""]["samples_per_cpu_s"]}


def summarise(shape, best, hetsgd, pytorch):
    row = {"shape": shape["name"], "batch_size": shape["batch_size"], "goal": shape["goal"],
           "rounds": len(hetsgd), "pytorch_loss": best["loss"],
           "pytorch_openblas_coretype": best["coretype"],
           "pytorch_default_samples_per_cpu_s": best["default_samples_per_cpu_s"],
           "floor_ratio": statistics.median(run["floor_ratio"] for run in hetsgd)}
    for key in ("samples_per_s", "samples_per_cpu_s"):
        row["hetsgd_" + key] = statistics.median(run[key] for run in hetsgd)
        row["pytorch_" + key] = statistics.median(run[key] for run in pytorch)
        ratios = [ours[key] / theirs[key] for ours, theirs in zip(hetsgd, pytorch)]
        row["ratio_" + key] = statistics.median(ratios)
        row["ratios_" + key] = ratios
    row["runs"] = {"hetsgd": hetsgd, "pytorch": pytorch}
    return row


def table(rows):
    lines = [f"{'':14} {'samples per second of CPU time':^45} {'of wall time':^30}",
             f"{'shape/batch':14} {'hetsgd':>10} {'PyTorch':>10} {'ratio':>6} {'goal':>5} {'default':>10}"
             f" {'hetsgd':>12} {'PyTorch':>10} {'ratio':>6}  {'floor':>5}  PyTorch's best"]
    for row in rows:
        lines.append(
            f"{row['shape'] + '/' + str(row['batch_size']):14}"
            f" {row['hetsgd_samples_per_cpu_s']:10,.0f} {row['pytorch_samples_per_cpu_s']:10,.0f}"
            f" {row['ratio_samples_per_cpu_s']:6.2f} {row['goal']:5.2f}"
            f" {row['pytorch_default_samples_per_cpu_s']:10,.0f}"
            f" {row['hetsgd_samples_per_s']:12,.0f} {row['pytorch_samples_per_s']:10,.0f}"
            f" {row['ratio_samples_per_s']:6.2f}  {row['floor_ratio']:5.2f}"
            f"  {row['pytorch_loss']} {row['pytorch_openblas_coretype']}")
    return "\n".join(lines)


def main():
    options = parse_arguments()
    os.sched_setaffinity(0, [options.core])
    shapes = peer_rates.chosen(SHAPES, options.only, name_of)
    best = {name_of(shape): best_pytorch(shape, options) for shape in shapes}

    def run_best(shape):
        return run_pytorch(shape, best[name_of(shape)]["loss"], best[name_of(shape)]["coretype"], options)

    runs = peer_rates.alternate(shapes, options.rounds, lambda shape: run_hetsgd(shape, options), run_best)
    rows = [summarise(shape, best[name_of(shape)], *both) for shape, both in zip(shapes, runs)]
    print(table(rows), file=sys.stderr if options.json == "-" else sys.stdout)
    if options.json:
        text = json.dumps({"core": options.core, "seconds": options.seconds,
                           "load_average": os.getloadavg(), "shapes": rows}, indent=2)
        if options.json == "-":
            print(text)
        else:
            with open(options.json, "w", encoding="utf-8") as file:
                file.write(text + "\n")
    missed = [row for row in rows if row["ratio_samples_per_cpu_s"] < row["goal"]]
    return 7 if missed and options.require else 0


if __name__ == "__main__":
    sys.exit(main())
