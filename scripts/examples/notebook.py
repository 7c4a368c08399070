"""An experiment in Python, cell by cell: it runs methods, compares them over seeds and draws them. A few seconds.

    PYTHONPATH=scripts python3 scripts/examples/notebook.py [DIR]      # or cell by cell in an editor that knows `# %%`

HETSGD_BINARY names the program where it is neither built here nor in PATH. DIR gets the results and, in DIR/plots, the pictures; by
default it is a new folder below the system's one for temporary files."""

# %% One run. Options are those of `hetsgd train`, the result is the document of its JSON file.
import os
import sys
import tempfile

import hetsgd

folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="hetsgd-notebook-")
os.makedirs(folder, exist_ok=True)
task = {"train": "generate:tiny", "test": "generate:tiny", "hidden": 16, "batch_size": 32, "epochs": 4, "evaluate_every": 320}
machine = {"cluster": "sim", "workers": 4, "speed": [1, 0.9, 0.8, 0.3]}  # one worker is slow
result = hetsgd.run(**task, **machine, algorithm="ssgd", learning_rate=2, target=["p1>=0.4"])
print(f"{result['status']} after {result['summary']['elapsed_s']:.3g} simulated s, P@1 {result['summary']['final']['p1']:.3f}")

# %% Two methods with six seeds each, kept as files. The rates are tuned: `hetsgd.sweep` does that, too (fair.toml).
for algorithm, rate in (("ssgd", 2), ("asgd", 0.5)):
    for seed in range(1, 7):
        hetsgd.run(os.path.join(folder, f"{algorithm}-{seed}.json"), **task, **machine, algorithm=algorithm, learning_rate=rate, seed=seed,
                   target=["p1>=0.4"])

# %% Frames: a row per run, evaluation, worker, target ... A missed target is infinite, so that medians count it.
data = hetsgd.load(folder)
print(hetsgd.summarise(data.targets, "time_s", ["group", "target"]))
print(data.workers.groupby(["group", "rank"]).wait_s.median().unstack())  # who waits

# %% The comparison of `hetsgd compare`: speed-ups with 95 % intervals and p-values of tests that pair the seeds.
groups = data.compare(reference="ssgd", target="p1>=0.4")
print(groups[["group", "reached", "n", "time_s", "speedup", "speedup_low", "speedup_high", "p_value"]])

# %% Pictures; without a folder, a notebook shows them.
print(*data.plot(os.path.join(folder, "plots"), formats=["svg"], x=["time"]))
