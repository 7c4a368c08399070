"""The measurements of gpu_check.py of embedding tables and networks on a GPU, each a command or a few (see there)."""

import os
import sys
import tempfile

from gpu_check_runs import read_json, simulate, train

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "peers"))
from gpu_memory import GpuMemory  # noqa: E402

CLICKS = "--model deepfm --tables sharded --train {0} --test {0} "
MANY_CLICKS, FEW_CLICKS = "--hidden 256,128 --batch-size 8192 ", "--hidden 8 --batch-size 64 "
# The length of a run, with evaluations between which steps are timed. Runs of sim are short: all their steps are alike.
MANY_SAMPLES = {"trained": "--max-samples 400000",
                "measured": "--max-samples 400000 --evaluate-every 98304 --evaluate-samples 1024",
                "predicted": "--max-samples 24576 --evaluate-every 8192 --evaluate-samples 1024"}
FEW_SAMPLES = {"trained": "--max-samples 640", "measured": "--max-samples 640 --evaluate-every 128 --evaluate-samples 64",
               "predicted": "--max-samples 192 --evaluate-every 64 --evaluate-samples 64"}
IMAGES = "--train generate:images?{0} --test generate:images?{0} --algorithm sgd "
MANY_DIGITS = (IMAGES.format("size=28&channels=1&rows_train=20000&rows_test=2000")
               + "--batch-size 256 --max-samples 100000")
FEW_DIGITS = IMAGES.format("size=28&channels=1&rows_train=64&rows_test=32") + "--batch-size 16 --max-samples 64"
# A network whose memory is planned below its liveness peak: its data, the batch, and the steps that are timed.
LARGE_NETWORK = {"network": "resnet-50", "data": "size=224&channels=3&classes=1000&rows_train=1024&rows_test=64",
                 "batch": 64, "steps": 16, "calibrate": []}
SMALL_NETWORK = {"network": "lenet-5", "data": "size=28&channels=1&rows_train=64&rows_test=16", "batch": 16, "steps": 4,
                 "calibrate": ["--batch-size", "16", "--hidden", "16,32", "--point-time", "10ms"]}
SHARES, DRIFTS = (0.05, 0.14, 0.5), (0, 14)  # rows on the device, and days in which places get new ids
MANY_CLICK_STEPS = ["--model", "deepfm", "--hidden", "128,256", "--batch-size", "2048,8192", "--point-time", "100ms"]
FEW_CLICK_STEPS = ["--model", "deepfm", "--hidden", "8", "--batch-size", "32,64", "--point-time", "5ms"]


def clicks(large, drift=None, length="trained"):
    data = "generate:criteo?scale=0.02" if large else "generate:ctr-tiny"
    if drift is not None:
        data += ("&" if "?" in data else "?") + f"drift_days={drift}"
    return CLICKS.format(data) + (MANY_CLICKS if large else FEW_CLICKS) + (MANY_SAMPLES if large else FEW_SAMPLES)[length]


def run_training(check, hetsgd, device, large):
    """Tables in all tiers, with the pipeline; networks with and without a plan of their memory."""
    shards, images = clicks(large), "--model lenet-5 --learning-rate 0.05 " + (MANY_DIGITS if large else FEW_DIGITS)
    runs = {"sharded_sgd": shards + " --algorithm sgd",
            "sharded_sven": shards + " --algorithm sven --workers 2",
            "sharded_sven_blocking": shards + " --algorithm sven --workers 2 --exchange blocking",
            "sharded_hybrid": shards + " --algorithm sgd --table-storage hybrid",
            "sharded_host": shards + " --algorithm sgd --table-storage host",
            "lenet": images + " --memory-policy none",
            "lenet_dymem": images + " --memory-policy dymem"}
    for name, options in runs.items():
        train(check, f"training/{name}", hetsgd, device, options)


def run_placement(check, hetsgd, device, large, profiles):
    """Hot rows on the device against any rows there, over their share and the drift: table 6.4 of Sven. Without drift
    sim predicts the steps."""
    profile = profiles.device("placement", device, MANY_CLICK_STEPS if large else FEW_CLICK_STEPS)
    for drift, share in [(drift, share) for drift in DRIFTS for share in SHARES]:
        def options(rows, length, drift=drift, share=share):
            return (f"{clicks(large, drift, length)} --algorithm sgd --table-storage hybrid --hot-fraction {share}"
                    f" --hot-profile 20 --hot {rows}")
        name = f"placement/share_{share}_drift_{drift}"
        hot = train(check, name + "_hot", hetsgd, device, options("frequency", "measured"))

        def beside(result, hot=hot):
            rate = hot["summary"]["samples_per_s"] if hot else None
            gain = rate / result["summary"]["samples_per_s"] if rate else None
            return {**result["summary"], "hot_over_random_samples_per_s": gain}
        cold = train(check, name + "_random", hetsgd, device, options("random", "measured"), beside)
        if drift == 0:
            for kind, rows, measured in (("hot", "frequency", hot), ("random", "random", cold)):
                simulate(check, f"{name}_{kind}_sim", hetsgd, options(rows, "predicted"), [profile], measured)


def run_ctr_step(check, hetsgd, device, large):
    """Time per step of the click-through models beside PyTorch in eager mode."""
    command = [sys.executable, "-B", os.path.join(HERE, "peers", "compare_ctr_step_time.py"), hetsgd, "--device", device]
    command += ["--python", check.options.python or sys.executable]
    if not large:
        command += ["--model", "deepfm", "--batch-size", "64", "--data", "generate:ctr-tiny", "--hidden", "8",
                    "--steps", "2", "--seconds", "0.1"]
    check.run_json("ctr_step", command, option="--json")


def plan(check, hetsgd, name, network, profile, policy, memory):
    """The plan of a policy as a part of its own, or None."""
    def plan_in(document):
        return document["networks"][0]["policies"][0]

    command = [hetsgd, "memory", network["network"], "--batch", str(network["batch"]), "--policy", policy,
               "--backward-needs", "minimal", "--profile", profile, "--memory", memory]
    document = check.run_json(name, command, lambda document: {key: value for key, value in plan_in(document).items()
                                                               if not isinstance(value, (list, dict))})
    return plan_in(document) if document else None


def run_network(check, hetsgd, device, large):
    """A network in less memory than its liveness peak: seconds of an iteration, measured over planned by the rates that
    calibrate finds here."""
    if not check.wanted("network/plan"):
        return
    network = LARGE_NETWORK if large else SMALL_NETWORK
    with tempfile.TemporaryDirectory() as folder:
        profile = os.path.join(folder, "device.json")
        command = [hetsgd, "calibrate", "--device", device, "--name", "device", "-o", profile] + network["calibrate"]
        check.run("network/calibrate", command, lambda _: read_json(profile))
        if not os.path.exists(profile):
            return
        liveness = plan(check, hetsgd, "network/liveness", network, profile, "liveness", "device")
        least = plan(check, hetsgd, "network/least", network, profile, "dymem", "minimum")
        if not liveness or not least:
            return
        peak, minimum = liveness["peak_bytes"], least["minimum_bytes"]
        capacity = (peak + minimum) // 2
        planned = plan(check, hetsgd, "network/plan", network, profile, "dymem", str(capacity))
        every = network["steps"] * network["batch"]

        def options(length):
            return (f"--model {network['network']} --memory-policy dymem --activation-memory {capacity} "
                    f"{IMAGES.format(network['data'])} --batch-size {network['batch']} --learning-rate 0.001 {length}")

        def figures(result):
            points = [(b["time_s"] - a["time_s"]) / (b["updates"] - a["updates"])
                      for a, b in zip(result["curve"][1:], result["curve"][2:])]
            measured = min(points)
            seconds = planned["iteration_s"] if planned else None
            return {"capacity_bytes": capacity, "liveness_peak_bytes": peak, "minimum_bytes": minimum,
                    "planned_iteration_s": seconds, "measured_iteration_s": measured,
                    "measured_over_planned": measured / seconds if seconds else None, "gpu_memory": memory.figures()}
        with GpuMemory(device) as memory:
            run = train(check, "network/train", hetsgd, device,
                        options(f"--profile {profile} --evaluate-every {every} --max-samples {3 * every}"
                                " --evaluate-samples 16"), figures)
        # A step of sim computes on a core what it charges for, so that a single one has to do.
        short = options(f"--max-samples {network['batch']} --evaluate-samples 1")
        simulate(check, "network/sim", hetsgd, short, [profile], run)
