"""Results made by hand that are valid as a whole: two workers, and one second, 100 samples and 10 updates from evaluation to evaluation."""

import json

from hetsgd import _results

COUNTS = ("bytes_received", "bytes_sent")


def _data(name):
    return {"name": "hand", "path": f"/data/{name}.txt", "format": "xc", "index_base": "zero", "task": "multilabel", "rows": 1000,
            "features": 3, "labels": 2, "nonzeros": 1, "content_hash": "xxh3:0000000000001234", "file_bytes": 10, "rows_without_labels": 0,
            "rows_without_features": 0}


def _worker(rank, samples):
    kinds = {"parameters": 100, "gradients": 10, "control": 1}
    return {"rank": rank, "device": "v100", "compute_s": 1.5, "communicate_s": 0.0, "wait_s": 0.0, "delay_requested_s": 0.0,
            "delay_achieved_s": 0.0, "steps": 10, "samples": samples, "updates": 10,
            **dict.fromkeys(COUNTS, 111), **{f"{key}_by_kind": dict(kinds) for key in COUNTS}}


def _target(curve):
    """The entry of p1>=0.5."""
    first, held = _results.crossings([point["p1"] >= 0.5 for point in curve])
    time_s = None if held is None else curve[held]["time_s"]
    clocks = None if held is None else {"algoperf_s": None, "mlperf_s": None, "dawnbench_s": None, **{
        f"{clock}_s_reason": "simulated: its time is not the host's" for clock in _results.CLOCKS[1:]}}
    return {"target": "p1>=0.5", "metric": "p1", "at_least": True, "value": 0.5, "time_s": time_s,
            "samples_count": None if held is None else 100 * held, "updates": None if held is None else 10 * held,
            "first_crossing_s": None if first is None else curve[first]["time_s"],
            "judged_by": 0 if held is None else min(5, len(curve) - held),
            "evaluation": held, "resolution_s": None if held is None else 1.0, "clocks": clocks,
            "status": "reached" if held is not None else "crossed" if first is not None else "not_reached"}


def document(p1, algorithm="adaptive", seed=1, stragglers=()):
    """A finished simulated run with these values of P@1."""
    curve = [{"time_s": float(i), "samples_count": 100 * i, "epoch_num": 0.1 * i, "updates": 10 * i, "train_loss": 1.0, "test_loss": 2.0,
              "p1": value} for i, value in enumerate(p1)]
    if curve:
        curve[0].update(train_loss=None, train_loss_reason="no batch yet")
    last = curve[-1] if curve else {"time_s": 0.0, "samples_count": 0, "epoch_num": 0.0, "updates": 0}
    merge = {"type": "merge", "time_s": 1.0, "batch_size": [32, 16], "learning_rate": [0.5, 0.25], "updates": [5, 5], "weight": [0.6, 0.4],
             "norm": [0.1, 0.1], "perturbed": False}
    tool = {"version": "0.1.0", "git_revision": "0123", "git_dirty": False}
    loading = {"load_s": 0.0, "from_cache": False, "cache_note": None}
    result = {
        "schema_version": "1.1", "tool": {"name": "hetsgd", **tool}, "args": ["train"],
        "config": {"algorithm": algorithm, "seed": seed, "train": "/data/train.txt", "test": "/data/test.txt", "workers": 2,
                   "cluster": "sim", "learning_rate": 0.5},
        "environment": {"hostname": "red", "os": "Linux", "kernel": "6", "cpu_model": "cpu", "cores": 2, "cores_available": 2,
                        "memory_bytes": 1, "build": {**tool, "compiler": "c", "features": {}}, "variables": {}},
        "dataset": {"train": _data("train"), "test": _data("test")}, "model": {"layer_sizes": [3, 2], "parameters": 8},
        "cluster": {"name": "sim", "virtual_time": True, "device_profile": {"name": "v100"}, "network": None, "charge": None},
        "stragglers": list(stragglers), "workers": [_worker(rank, last["samples_count"] // 2) for rank in range(2)], "curve": curve,
        "events": [merge], "histograms": {}, "time_to_accuracy": [_target(curve)],
        "summary": {"elapsed_s": last["time_s"], "evaluations": len(curve), "samples_count": last["samples_count"], "epoch_num": 0.0,
                    "updates": last["updates"], "samples_per_s": 100.0 if last["time_s"] else None, "computing_ratio": None,
                    "bytes_sent": 222, "bytes_received": 222, "final": {"p1": p1[-1], "test_loss": 2.0} if p1 else None, "best": {}},
        "wall": {"load_s": 0.0, "init_s": 0.0, "train_s": 0.0, "eval_s": 0.0, "record_s": 0.0, "prepare_s": 0.0, "total_s": 0.0,
                 "loading": {"train": loading, "test": loading}},
        "warnings": [], "status": "completed", "status_reason": None, "started_at": "2026-01-01T00:00:00Z",
        "finished_at": "2026-01-01T00:00:09Z", "tuning": None}
    return json.loads(json.dumps(result))


def tuning(**more):
    """The note of a result on its tuning."""
    return {"grid": [1.0], "seeds": [1], "trials": 1, "goal": "p1", "validation": 0.1, "validation_rows": 5, "samples_count": 9,
            "train_s": 1.0, "learning_rate": 1.0, "differs": [], "edge_of_grid": True, "file_hash": "xxh3:0000000000000001", **more}
