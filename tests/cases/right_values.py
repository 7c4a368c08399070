"""Computes right values of stored cases from their files, without the program. The keys are those of expect.json of the case."""

import itertools
import json
import statistics


def held_times(folder):
    """The time to p1>=0.5 of each result of makers.results(), by algorithm; infinity where it is missed."""
    times = {}
    for path in sorted(folder.glob("result-*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        reached = [point["time_s"] for point in result["curve"] if point["p1"] >= 0.5]
        times.setdefault(result["config"]["algorithm"], []).append(min(reached, default=float("inf")))
    return times


def share_of_orders(x, y):
    """Two-sided p-value of the Mann-Whitney test: twice the smaller share of all ways to choose the values of x whose U is as small, or as large."""
    def u(chosen, others):
        return sum((a > b) + 0.5 * (a == b) for a in chosen for b in others)
    values, found = x + y, u(x, y)
    all_u = [u([values[i] for i in chosen], [values[i] for i in range(len(values)) if i not in chosen])
             for chosen in map(set, itertools.combinations(range(len(values)), len(x)))]
    return min(1, 2 * min(sum(each <= found for each in all_u), sum(each >= found for each in all_u)) / len(all_u))


def mann_whitney(folder):
    times = held_times(folder)
    return {"/groups/1/targets/0/p_value": share_of_orders(times["ssgd"], times["asgd"])}


def steps_of(folder):
    """The seconds of the steps in steps.csv, by worker."""
    times = {}
    for line in (folder / "steps.csv").read_text(encoding="utf-8").splitlines()[1:]:
        worker, _, seconds = line.split(",")
        times.setdefault(int(worker), []).append(float(seconds))
    return times


def slow_phases(folder):
    """Worker 1 of makers.slow_phases(): the mean length of a slow phase, and how much slower its steps are. Slow is what takes 1.6 times worker 0's median."""
    times = steps_of(folder)
    usual = statistics.median(times[0])
    phases = [list(steps) for slow, steps in itertools.groupby(times[1], lambda seconds: seconds > 1.6 * usual) if slow]
    return {"/1/parameters/on/value": statistics.mean(map(sum, phases)),
            "/1/parameters/factor/value": statistics.mean(sum(phases, [])) / usual}


def lock_step(folder):
    """The time of all steps of steps.csv, each as long as the slowest worker's."""
    return {"/time_s": sum(map(max, zip(*steps_of(folder).values())))}
