"""Results made by hand, as compare reads them: one second, 100 samples and 10 updates from evaluation to evaluation."""

from hetsgd import _results

TARGET = {"target": "p1>=0.5", "metric": "p1", "at_least": True, "value": 0.5}
TRAIN, TEST = ({"name": name, "rows": 1000, "content_hash": f"xxh3:{number:016x}"} for number, name in enumerate(("train", "test"), 1))


def document(p1, algorithm="ssgd", seed=1):
    """A result with these values of P@1."""
    curve = [{"time_s": float(i), "samples_count": 100 * i, "updates": 10 * i, "epoch_num": 0.1 * i, "p1": value, "test_loss": 1 - value,
              "train_loss": None if i == 0 else 1 - value} for i, value in enumerate(p1)]
    return {"schema_version": "1.3", "status": "completed", "curve": curve, "time_to_accuracy": [dict(TARGET)],
            "config": {"algorithm": algorithm, "seed": seed, "train": "train.txt", "test": "test.txt", "workers": 2, "batch_size": 10,
                       "learning_rate": 0.5},
            "dataset": {"train": dict(TRAIN), "test": dict(TEST)}, "model": {"layer_sizes": [10, 8, 4]}, "stragglers": [], "events": [],
            "cluster": {"name": "sim", "virtual_time": True, "device_profile": None, "network": {"name": "pcie3"}, "charge": None},
            "workers": [{"rank": rank, "samples": 500, "steps": 50} for rank in range(2)], "environment": {}, "tuning": None,
            "wall": {"load_s": 1.0, "init_s": 0.0},
            "summary": {"samples_per_s": 100.0, "final": {"p1": p1[-1], "test_loss": 1 - p1[-1]} if p1 else None, "best": {}}}


def result(path, algorithm, seed, reached):
    """A Loaded whose P@1 passes 0.5 at second `reached` and stays there; 0: never."""
    return _results.Loaded(path, document([0.6 if 0 < reached <= i else 0.1 for i in range(11)], algorithm, seed))


def results(*reached, seed=1):
    """One Loaded each, "a", "b", ..., of (an algorithm, where it reached the target)."""
    return [result("abcdefgh"[i], algorithm, seed, second) for i, (algorithm, second) in enumerate(reached)]


def families(*reached):
    """The same with the seeds 1 to 6 each, the least number of pairs that can show a difference."""
    return [each for seed in range(1, 7) for each in results(*reached, seed=seed)]


def seeds(algorithm, times, first=1):
    """A Loaded per seed, of which `times` are the seconds to the target."""
    found = [result(f"{algorithm}{i}", algorithm, first + i, 4) for i in range(len(times))]
    for each, time_s in zip(found, times):
        for point in each.document["curve"]:
            point["time_s"] *= time_s / 4
    return found


def tuning(trials):
    """The "tuning" of a result whose learning rate is the best of so many trials."""
    return {"grid": [0.5 * (i + 1) for i in range(trials)], "seeds": [1], "trials": trials, "goal": "p1", "validation": 0.1,
            "validation_rows": 200, "learning_rate": 1.0, "edge_of_grid": False, "samples_count": 1000, "train_s": 12.5, "differs": [],
            "file_hash": "xxh3:0000000000000001"}
