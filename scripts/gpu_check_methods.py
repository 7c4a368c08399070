"""The parts of gpu_check.py that compare methods on a GPU and CPU cores, each beside the prediction of `sim` (see there)."""

import os
import statistics

from gpu_check_runs import simulate, steady, train

# Data of Delicious' shape.
DELICIOUS = "generate:tiny?features=500&labels=983&nonzeros=18&labels_per_sample=19&rows_train=12920&rows_test=1000"
IMAGES = "generate:images?size=32&channels=3&rows_train=2000&rows_test=64"
# Samples of a measured run, and of the run of sim, which computes each step on a core.
LARGE = {"data": f"--train {DELICIOUS} --test {DELICIOUS} ", "batch": 256, "hogbatch": (512000, 12800),
         "adaptive": (409600, 102400)}
SMALL = {"data": "--train generate:tiny --test generate:tiny --hidden 16 ", "batch": 16, "hogbatch": (640, 640),
         "adaptive": (1280, 640)}
EVALUATIONS = 10  # of a run
CORES = 16

# Models of several learners: data and model, samples of a run with a fixed number of learners and with the tuner, and the
# data of sim, which charges a network without computing it.
LARGE_LEARNERS = {
    "mlp": {"model": LARGE["data"] + "--batch-size 64", "samples": 256000, "tuned": 512000, "charge": None, "charged": 1},
    "resnet-32": {"model": f"--train {IMAGES} --test {IMAGES} --model resnet-32 --learning-rate 0.05 --batch-size 64",
                  "samples": 25600, "tuned": 102400, "charged": 16,
                  "charge": "--train generate:tiny --test generate:tiny --batch-size 4 --charge resnet-32 --charge-batch 64"}}
SMALL_LEARNERS = {
    "mlp": {"model": SMALL["data"] + "--batch-size 8", "samples": 640, "tuned": 1280, "charge": None, "charged": 1}}
MOST_LEARNERS = 4


def workers_of(result, elapsed_s):
    """{kind of device, cuda or cpu: the totals of its workers}."""
    kinds = {}
    for worker in result["workers"]:
        kind = kinds.setdefault(worker["device"].partition(":")[0],
                                {"workers": 0, "samples": 0, "updates": 0, "compute_s": 0.0, "communicate_s": 0.0,
                                 "wait_s": 0.0})
        kind["workers"] += 1
        for key in list(kind)[1:]:
            kind[key] += worker[key]
    for kind in kinds.values():
        kind.update(samples_per_s=kind["samples"] / elapsed_s, updates_per_s=kind["updates"] / elapsed_s)
    return kinds


def figures_of(result):
    """The summary, the steady rate, the kinds of workers, and batch sizes, by worker (merges) or by kind of device."""
    merged = [event["batch_size"] for event in result["events"] if event["type"] == "merge" and "batch_size" in event]
    by_kind = {event["kind"]: event["batch_size"] for event in result["events"] if event["type"] == "batch_size"}
    workers = [{key: worker[key] for key in ("device", "samples", "updates", "compute_s", "communicate_s", "wait_s")}
               for worker in result["workers"]]
    return {"summary": result["summary"], "step_s": steady(result), "samples_per_s": 1 / steady(result, "samples_count"),
            "kinds": workers_of(result, result["summary"]["elapsed_s"]), "workers": workers,
            "batch_sizes_at_merges": merged[:10] + merged[-1:] if len(merged) > 10 else merged,
            "last_batch_size_by_kind": by_kind}


def length(samples, evaluate):
    return f" --max-samples {samples} --evaluate-every {evaluate} --evaluate-samples 64"


def tuner_figures(rates):
    """Figures of a run with the tuner. rates: samples per second by fixed number of learners."""
    def figures(result):
        events = [event for event in result["events"] if event["type"] == "learners"]
        measured = {}
        for now, after in zip(events, events[1:]):
            measured.setdefault(now["learners"][0], []).append(after["throughput_per_s"][0])
        best = max(rates, key=rates.get) if rates else None
        chosen = events[-1]["learners"][0]
        return {"chosen_learners": chosen, "best_fixed_learners": best, "most_learners": max(measured, default=1),
                "changes": sum(a["learners"] != b["learners"] for a, b in zip(events, events[1:])),
                "median_batches_per_s": {str(m): statistics.median(values) for m, values in sorted(measured.items())},
                "measurements": len(events) - 1, "step_s": steady(result), "summary": result["summary"]}
    return figures


def run_learners_of(check, hetsgd, device, model, name, profiles):
    """One model with 1 to MOST_LEARNERS learners and with the tuner; then the same on sim, by the fitted profile and by
    the same with the measured throughput of several learners, which the profile cannot know."""
    method, results, rates = " --algorithm sma --learners-per-device {}", {}, {}
    for m in range(1, MOST_LEARNERS + 1):
        def figures(result):
            rate = 1 / steady(result, "samples_count")
            return {"samples_per_s": rate, "step_s": steady(result), "summary": result["summary"]}
        results[m] = train(check, f"learners/{name}_{m}", hetsgd, device,
                           model["model"] + method.format(m) + length(model["samples"], model["samples"] // 4), figures)
        if results[m]:
            rates[m] = 1 / steady(results[m], "samples_count")
    tuned = train(check, f"learners/{name}_auto", hetsgd, device,
                  model["model"] + method.format("auto") + length(model["tuned"], model["tuned"] // 4), tuner_figures(rates))
    profile = profiles.device("learners", device)
    if not profile or len(rates) < MOST_LEARNERS:
        return check.skip(f"learners/{name}_sim", "the calibration or a measured run failed")
    saturated = profiles.with_saturation(profile, [rates[m] / rates[1] for m in sorted(rates)])
    data = model["charge"] or model["model"]
    for m in rates:
        samples = model["samples"] // model["charged"] // 8
        options = data + method.format(m) + length(samples, samples // 4)
        simulate(check, f"learners/{name}_{m}_sim", hetsgd, options, [profile], results[m])
        simulate(check, f"learners/{name}_{m}_sim_saturation", hetsgd, options, [saturated], results[m])
    samples = model["tuned"] // model["charged"]
    options = data + method.format("auto") + length(samples // 2, samples // 8)
    if tuned and check.wanted("learners"):
        train(check, f"learners/{name}_auto_sim", hetsgd, None, options, tuner_figures(rates),
              ["--cluster", "sim", "--profile", saturated])


def run_learners(check, hetsgd, device, large, profiles):
    """CROSSBOW: throughput over learners of one device, and the choice of the tuner."""
    if check.wanted("learners"):
        for name, model in (LARGE_LEARNERS if large else SMALL_LEARNERS).items():
            run_learners_of(check, hetsgd, device, model, name, profiles)


def cores():
    return len(os.sched_getaffinity(0))


def spread(devices):
    """A device for each worker: ["cuda:0", "cpu:1*2"] makes three."""
    pairs = [device.partition("*") for device in devices]
    return [device for device, _, count in pairs for _ in range(int(count or 1))]


def compare_methods(check, hetsgd, part, size, profiles, runs):
    """runs: {name: (devices, options of the method)}. Each is measured, then predicted."""
    results = {}
    options = size["data"] + f"--batch-size {size['batch']} --mega-batch 20"
    measured, predicted = [length(samples, samples // EVALUATIONS) for samples in size[part]]
    for name, (devices, method) in runs.items():
        results[name] = train(check, f"{part}/{name}", hetsgd, ",".join(devices), f"{options}{measured} {method}", figures_of)
    network = profiles.network(part, max(len(spread(devices)) for devices, _ in runs.values()))
    for name, (devices, method) in runs.items():
        fitted = [profiles.device(part, device) for device in spread(devices)]
        simulate(check, f"{part}/{name}_sim", hetsgd, f"{options}{predicted} {method}", fitted, results[name], network)


def run_hogbatch(check, hetsgd, device, large, profiles):
    """Hogbatch on the device and the cores, beside each alone."""
    if not check.wanted("hogbatch"):
        return
    beside = [f"cpu:1*{min(CORES, cores()) if large else 1}"]
    runs = {"both": ([device] + beside, "--algorithm hogbatch"),
            "both_fixed": ([device] + beside, "--algorithm hogbatch --adapt fixed"),
            "device_alone": ([device], "--algorithm hogbatch"),
            "cores_alone": (beside, "--algorithm hogbatch")}
    compare_methods(check, hetsgd, "hogbatch", LARGE if large else SMALL, profiles, runs)


def run_adaptive(check, hetsgd, device, large, profiles):
    """Adaptive SGD on workers of very different speed, beside elastic averaging and synchronous SGD on the same ones."""
    if not check.wanted("adaptive"):
        return
    workers = [device, "cpu:8", "cpu:2"] if large and cores() >= 10 else [device, "cpu:1"]
    runs = {"adaptive": (workers, "--algorithm adaptive"), "adaptive_gamma_0": (workers, "--algorithm adaptive --gamma 0"),
            "elastic": (workers, "--algorithm elastic"), "ssgd": (workers, "--algorithm ssgd"),
            "device_alone": ([device], "--algorithm sgd")}
    compare_methods(check, hetsgd, "adaptive", LARGE if large else SMALL, profiles, runs)
