"""Small results in the shape of `hetsgd train`'s JSON, computed from closed forms."""

import math


def result(algorithm="adaptive", seed=1, workers=4, points=30, step_s=1.0, reach=0.65, batch_sizes=True):
    """A run that approaches `reach` exponentially; slower workers get smaller batches."""
    speeds = [1 - 0.08 * rank for rank in range(workers)]
    curve = []
    for i in range(points + 1):
        p1 = reach * (1 - math.exp(-i / 6)) + 0.004 * math.sin(7 * i + seed)
        curve.append({"time_s": i * step_s * (1 + 0.02 * seed), "samples_count": 25600 * i, "epoch_num": 2.0 * i,
                      "updates": 100 * i, "train_loss": None if i == 0 else 6 - 0.1 * i, "test_loss": 6 - 0.09 * i,
                      "p1": max(p1, 0), "p3": max(0.9 * p1, 0), "p5": max(0.8 * p1, 0)})
    events = []
    for merge in range(points):
        sizes = [256 if not batch_sizes else max(32, 256 - 8 * merge * rank // 3) for rank in range(workers)]
        events.append({"type": "merge", "time_s": merge * step_s, "batch_size": sizes,
                       "learning_rate": [s / 256 for s in sizes], "updates": [25] * workers,
                       "weight": [1 / workers] * workers, "norm": [1.0] * workers, "perturbed": False})
    elapsed = curve[-1]["time_s"]
    rows = []
    for rank, speed in enumerate(speeds):
        compute = elapsed * (0.9 if batch_sizes else 0.7 / speed)
        rows.append({"rank": rank, "device": f"sim:{rank}", "compute_s": compute, "communicate_s": 0.05 * elapsed,
                     "wait_s": 0.94 * elapsed - compute, "samples": 1000, "updates": 10, "bytes_sent": 1,
                     "bytes_received": 1})
    return {"schema_version": "1.0", "config": {"algorithm": algorithm, "seed": seed}, "curve": curve, "events": events,
            "workers": rows, "cluster": {"name": "sim", "virtual_time": True}, "dataset": {"train": None, "test": None}, "environment": {},
            "summary": {"elapsed_s": elapsed, "samples_per_s": None, "final": None}, "wall": {"load_s": 0, "init_s": 0},
            "time_to_accuracy": [time_to(curve, 0.6)], "status": "completed"}


def time_to(curve, value):
    """A result's entry of the target p1>=value; the curve rises, so that it holds the target from its first crossing on."""
    point = next((point for point in curve if point["p1"] >= value), {})
    return {"target": f"p1>={value}", "metric": "p1", "at_least": True, "value": value, "time_s": point.get("time_s"),
            "samples_count": point.get("samples_count"), "updates": point.get("updates"), "first_crossing_s": point.get("time_s"),
            "status": "reached" if point else "not_reached"}
