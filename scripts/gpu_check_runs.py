"""Runs of hetsgd train for the parts of gpu_check.py: measured on this machine, and predicted by `sim`.

A prediction repeats a measured run with --cluster sim and the profiles that `hetsgd calibrate` fits to the devices here.
Its figures: simulated_step_s and measured_step_s, the seconds of an update; simulated_over_measured, their ratio; and
simulated_over_measured_per_sample, that of the seconds of a sample, which differs where batch sizes do.
"""

import json
import os

# Steps that `calibrate` measures for the methods: the units and the batch sizes of their runs.
LARGE_STEPS = ["--hidden", "128", "--batch-size", "1,16,64,256", "--point-time", "100ms"]
SMALL_STEPS = ["--hidden", "16", "--batch-size", "8,16", "--point-time", "5ms"]
LARGE_MESSAGES, SMALL_MESSAGES = ["--sizes", "64,64K,1M", "--point-time", "100ms"], ["--sizes", "64,64K", "--point-time", "5ms"]


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def train(check, name, hetsgd, device, options, figures=lambda result: result["summary"], cluster=None):
    """A part that trains on devices of this machine, or on another cluster. Returns the result, or None."""
    return check.run_json(name, [hetsgd, "train", *(cluster or ["--cluster", "threads", "--devices", device]), *options.split()], figures)


def steady(result, key="updates"):
    """Seconds for each update, or for another count of the curve, in a run's second half: batch sizes have settled."""
    curve = [point for point, after in zip(result["curve"], result["curve"][1:] + [{}]) if point[key] != after.get(key)]
    if len(curve) < 2:
        raise ValueError(f"expected evaluations at different numbers of {key}, found {len(curve)}")
    first = curve[len(curve) // 2 if len(curve) > 2 else 0]
    return (curve[-1]["time_s"] - first["time_s"]) / (curve[-1][key] - first[key])


def simulate(check, name, hetsgd, options, profiles, measured, network=None):
    """A part that predicts the seconds of an update. profiles: a path for each worker; measured: the result to predict."""
    if not check.wanted(name):
        return None
    if not measured or not all(profiles):
        check.skip(name, "the run that it predicts failed" if not measured else "the calibration failed")
        return None
    cluster = ["--cluster", "sim", "--profile", ",".join(profiles), "--server-profile", profiles[-1], "--workers",
               str(len(profiles))] + (["--network", network] if network else [])

    def compared(result):
        simulated, real = steady(result), steady(measured)
        figures = {"simulated_step_s": simulated, "measured_step_s": real, "simulated_over_measured": simulated / real,
                   "simulated_over_measured_per_sample": None}
        if not result["cluster"]["charge"]:  # else its batches are not those of the measured run
            per_sample = steady(result, "samples_count") / steady(measured, "samples_count")
            figures["simulated_over_measured_per_sample"] = per_sample
        return figures
    return train(check, name, hetsgd, None, options, compared, cluster)


class Profiles:
    """Profiles and network models of this machine, each fitted when a part first asks for it and kept in the folder."""

    def __init__(self, check, hetsgd, folder, large):
        self.check, self.hetsgd, self.folder, self.large = check, hetsgd, folder, large
        self.paths = {}

    def device(self, part, device, steps=None):
        """The path of the profile of a device, or None. The calibration is a part NAME/calibrate of the part that asks."""
        steps = steps or (LARGE_STEPS if self.large else SMALL_STEPS)
        # sharded tables of sim would lie on the GPU of this machine if the profile had its name
        name = device.replace(":", "-")
        return self._fit(f"{part}/calibrate_{device}", ["calibrate", "--device", device, "--name", name] + steps)

    def network(self, part, workers):
        """The path of the network model of workers in this process, or None."""
        sizes = LARGE_MESSAGES if self.large else SMALL_MESSAGES
        return self._fit(f"{part}/calibrate_network_{workers}", ["calibrate", "network", "--workers", str(workers)] + sizes)

    def with_saturation(self, path, rates):
        """A copy of a profile which says the throughput of several learners relative to that of one."""
        copy = f"{path[:-len('.json')]}_saturation_{len(self.paths)}.json"
        with open(copy, "w", encoding="utf-8") as file:
            json.dump({**read_json(path), "saturation": rates}, file)
        self.paths[copy] = copy
        return copy

    def _fit(self, name, arguments):
        key = " ".join(arguments)
        if key not in self.paths and self.check.wanted(name):
            path = os.path.join(self.folder, f"profile_{len(self.paths)}.json")
            self.check.run(name, [self.hetsgd] + arguments + ["-o", path], lambda _: read_json(path))
            self.paths[key] = path if os.path.exists(path) else None
        return self.paths.get(key)
