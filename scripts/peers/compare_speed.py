#!/usr/bin/env python3
"""Compares the speed of hetsgd's `step` with PyTorch's, alternately in one run on one pinned core.

    scripts/peers/compare_speed.py build/release/tests/bench/model_bench --data-dir DIR --json speed.json

Each round runs every way to compute (peer_rates.py) once per shape, model_bench and pytorch_mlp.py one after the
other, so that a change of the machine's load or clock hits all. The table shows medians over the rounds. `floor` is
hetsgd's share in FP32 of the rate that the output layer's dense products alone would allow at the core's measured
peak. Rates count CPU time; on an idle machine wall time agrees, and the JSON file has both.

PyTorch runs at its best: first trials find, for each of its ways, the fastest of the forms of the loss that
pytorch_mlp.py knows and of the kernels that OpenBLAS has for this CPU (left alone, an OpenBLAS older than
the CPU takes generic ones). Exit code 7 if a ratio is below its goal and --require is given.
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


def run_hetsgd(shape, words, options):
    name = f"step/{shape['name']}{'_bf16' if 'bf16' in words else ''}/{shape['batch_size']}"
    output = peer_rates.run_on_cores([options.model_bench, f"--benchmark_filter=^{name}$", "--benchmark_format=json",
                                      f"--benchmark_min_time={options.seconds}"], 1, HETSGD_DATA_DIR=options.data_dir)
    row = json.loads(output)["benchmarks"][0]
    if row["time_unit"] != "ns" or row.get("error_occurred"):
        sys.exit(f"{name}: unexpected output: {row}")
    return {"samples_per_s": shape["batch_size"] / row["real_time"] * 1e9,
            "samples_per_cpu_s": shape["batch_size"] / row["cpu_time"] * 1e9, "floor_ratio": row["floor_ratio"]}


def run_pytorch(shape, loss, coretype, words, options):
    words = words + [word for key in ("batch_size", "features", "labels", "nonzeros", "labels_per_row")
                     for word in (f"--{key.replace('_', '-')}", str(shape[key]))]
    path = os.path.join(options.data_dir or "", "delicious_train.txt")
    if shape["name"] == "delicious" and options.data_dir and os.path.exists(path):
        words += ["--data", path]
    # An empty variable is not the same to OpenBLAS as none.
    found = peer_rates.pytorch(options.python, "pytorch_mlp.py", 1, options.seconds, "--json", "--loss", loss, *words,
                               OPENBLAS_CORETYPE=coretype or None)
    if "--compile" not in words:
        return found
    return found["compiled"] if "problem" not in found["compiled"] else sys.exit(f"torch.compile: {found['compiled']['problem']}")


def best_pytorch(shape, words, options):
    """The fastest (loss, kernels)."""
    trials = {kernels: run_pytorch(shape, "auto", kernels, words, options) for kernels in openblas_kernels()}
    best = max(trials, key=lambda kernels: trials[kernels]["samples_per_cpu_s"])
    return trials[best]["loss"], best


def main():
    options = parse_arguments()
    os.sched_setaffinity(0, [options.core])
    shapes = peer_rates.chosen(SHAPES, options.only, name_of)
    best = {(name_of(shape), way): best_pytorch(shape, words, options) for shape in shapes for way, words in peer_rates.PYTORCH.items()}

    def run_best(shape, words, options):
        way = next(way for way, its_words in peer_rates.PYTORCH.items() if its_words == words)
        return run_pytorch(shape, *best[name_of(shape), way], words, options)

    unit, rows = "samples_per_cpu_s", []
    print(peer_rates.head(f"{'floor':>6}", "samples/s of CPU time"))
    for shape, both in zip(shapes, peer_rates.race(shapes, options, run_hetsgd, run_best)):
        floor = statistics.median(run["floor_ratio"] for run in both[0]["fp32"])
        rows.append({**shape, **peer_rates.rates_of(name_of(shape), shape["goal"], *both, unit), "floor_ratio": floor,
                     "choices": {way: best[name_of(shape), way] for way in peer_rates.PYTORCH}})
        print(peer_rates.line(rows[-1], f"{floor:6.2f}", unit))
    return peer_rates.finish(rows, options)


if __name__ == "__main__":
    sys.exit(main())
