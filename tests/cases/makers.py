"""Makes the inputs of stored cases that are too long to be written down."""

import json
import random


def slow_phases(folder, name, phases, seed=None, factor=2.2, noise=0.02, steps=200, step_s=0.12):
    """Times of the steps of two workers. Worker 1 is `factor` times slower in the steps of `phases`, a list of [from, to).
    Both have Gaussian noise of this share. Without a seed there is none."""
    draw = random.Random(seed)
    lines = ["worker,step,seconds"]
    for step in range(steps):
        for worker in (0, 1):
            slow = worker == 1 and any(begin <= step < end for begin, end in phases)
            seconds = step_s * (1 if seed is None else 1 + noise * draw.gauss(0, 1)) * (factor if slow else 1)
            lines.append(f"{worker},{step},{seconds:.6f}")
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def constant_and_late(folder, name, factor=2.2, late_s=0.015, steps=200, step_s=0.12):
    """Times of the steps of three workers. Worker 1 is `factor` times slower, steps of worker 2 take up to late_s longer, all values equally often."""
    lines = ["worker,step,seconds"]
    for step in range(steps):
        for worker, seconds in enumerate((step_s, step_s * factor, step_s + late_s * (step * 79 % 100) / 100)):
            lines.append(f"{worker},{step},{seconds:.6f}")
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def one_step_each(folder, name, workers):
    lines = [f"{worker},0,{1 + worker % 3}\n" for worker in range(workers)]
    (folder / name).write_text("worker,step,seconds\n" + "".join(lines), encoding="utf-8")


def copies(folder, source, name, count):
    """The same result under several names, NAME-1.json and so on."""
    for number in range(1, count + 1):
        (folder / f"{name}-{number}.json").write_text((folder / source).read_text(encoding="utf-8"), encoding="utf-8")


def results(folder, source, times):
    """Copies of a result: times has, for each algorithm, the time of each seed at which the target p1>=0.5 is reached and held.
    Seeds count on over all algorithms, so that no two results are a pair. null: the target is missed."""
    base = json.loads((folder / source).read_text(encoding="utf-8"))
    point = base["curve"][-1]
    seed = 0
    for algorithm, reached in times.items():
        for time_s in reached:
            seed += 1
            base["config"].update(algorithm=algorithm, seed=seed)
            base["curve"] = [{**point, "time_s": 0.5 * (time_s or 1), "p1": 0.1}]
            base["curve"] += [{**point, "time_s": (time_s or 1) + later, "p1": 0.1 if time_s is None else 0.6} for later in range(5)]
            base["summary"]["evaluations"] = len(base["curve"])
            (folder / f"result-{seed}.json").write_text(json.dumps(base), encoding="utf-8")
