#!/usr/bin/env python3
"""Makes the corpus of corpus_test.py: results, sweeps and records of every kind, and what a program says of them.

  make_corpus.py --program PROGRAM FOLDER     FOLDER/results and FOLDER/expected; FOLDER must not exist
  make_corpus.py --program PROGRAM --pack     packs them into tests/judge/corpus as well

PROGRAM is the reference: it makes the runs and says what `compare`, `report`, `score`, `replay`, `fit` and `validate` say. All data
are generated, and time is simulated, but for one set of each. Every set is a folder below results, in which the commands run.
expected/cases.json lists the cases: name ("SET/COMMAND-VARIANT"), arguments, exit code, and kind of the output (json, csv, text);
expected/NAME.out and .err are the two streams.
"""

import argparse
import copy
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARCHIVES = pathlib.Path(__file__).resolve().parent / "corpus"
DATA = "generate:tiny?rows_train=600"
TINY = {"train": DATA, "test": DATA, "batch-size": 16, "hidden": 8, "mega-batch": 5, "workers": 2, "epochs": 4}
CLICKS = {"train": "generate:ctr-tiny?scale=0.2", "test": "generate:ctr-tiny?scale=0.2", "batch-size": 32, "workers": 2, "epochs": 1,
          "evaluate-every": 400, "learning-rate": 0.05}
IMAGES = {"train": "generate:images?classes=3&size=28&channels=1&rows_train=60&rows_test=20", "batch-size": 4, "workers": 2, "epochs": 3,
          "evaluate-every": 16, "hidden": None, "model": "lenet-5?classes=3", "learning-rate": 0.05}
LANGUAGE = {"train": "generate:language?vocabulary=8&steps=8&rows_train=100&rows_test=20", "model": "gpt-micro?layers=1&width=16",
            "batch-size": 4, "workers": 2, "epochs": 2, "evaluate-every": 20, "learning-rate": 0.1}
EVIL = "</script><script>document.title='taken'</script> \x1b[31m \u009b \u202e | $x_1$ & \\ \"quoted\", 'x'"
CLOCKS = ("training", "algoperf", "mlperf", "dawnbench")
BENCHMARK = """
name = "b0"
about = "two problems"
seeds = "1:3"
[metric]
name = "p1"
goal = "time_to_target"
target = 0.1627
[settings]
train = "generate:tiny?rows_train=600"
test = "generate:tiny?rows_train=600"
workers = 2
batch_size = 16
hidden = 8
mega_batch = 5
epochs = 4
[tuning]
seeds = [101]
validation = 0.2
[tuning.parameters.learning_rate]
values = [0.5, 2]
[[setups]]
name = "even"
[[setups]]
name = "uneven"
metric = {target = 0.12}
[setups.settings]
speed = [1, 0.2]
[[setups]]
name = "never"
metric = {target = 0.9}
[setups.settings]
speed = [1, 0.5]
"""
METHODS = """
[[cases]]
name = "ssgd"
settings = {algorithm = "ssgd"}
[[cases]]
name = "asgd"
settings = {algorithm = "asgd"}
"""
ENTRY = """
[[cases]]
name = "momentum"
settings = {algorithm = "ssgd", optimizer = "momentum", momentum = 0.5}
"""
SWEEP = """
name = "cases"
about = "Two machines and four cases, of which two have one algorithm"
seeds = [1, 2, 3]
setups = [{name = "heavy", settings = {straggler = "kind=constant,worker=0,factor=3"}}, {name = "calm", settings = {}}]
cases = [{name = "mean", settings = {algorithm = "ssgd"}}, {name = "central", settings = {algorithm = "ssgd", storage = "central"}},
         {name = "local", settings = {algorithm = "local-sgd"}}]
parameters.local_steps.values = [4, 16]
[settings]
train = "generate:tiny?rows_train=600"
test = "generate:tiny?rows_train=600"
batch_size = 16
hidden = 8
mega_batch = 5
epochs = 3
workers = 2
target = ["p1>=0.1", "test_loss<=3.8"]
"""
LONGEST_S = 40  # a sweep of a specification
# Targets of the smallest forms of experiments/, some of which are held.
EASY = {"p1": 0.1, "accuracy": 0.4, "auc": 0.5, "test_loss": 3.0}


class Corpus:
    """The folder that is made. program: the reference."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.results, self.expected = folder / "results", folder / "expected"
        self.cases = []
        self.skipped = {}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HETSGD_")}
        self.environment = {**kept, "HETSGD_CACHE_DIR": str(folder / "cache"), "OMPI_ALLOW_RUN_AS_ROOT": "1",
                            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def call(self, *arguments, limit_s=120, launch=()):
        return subprocess.run([*launch, self.program, *map(str, arguments)], cwd=self.results, env=self.environment, timeout=limit_s,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)

    def train(self, name, *more, codes=(0, 3, 8), **options):
        """A run whose result is results/NAME.json. more: flags; options: names of options with "_" for "-"; None removes one."""
        (self.results / name).parent.mkdir(parents=True, exist_ok=True)
        given = {**TINY, "host-threads": 1, **{key.replace("_", "-"): value for key, value in options.items()}}
        flags = [f"--{key}={value}" for key, value in given.items() if value is not None]
        done = self.call("train", *flags, *more, "--quiet", "--redact", "-o", f"{name}.json")
        if done.returncode not in codes:
            sys.exit(f"{name}: exit code {done.returncode}\n{done.stderr.decode()}")

    def read(self, name):
        return json.loads((self.results / f"{name}.json").read_text())

    def write(self, name, document, change=None):
        """Writes a document, or a text, after `change` of a copy."""
        path = self.results / (name if "." in pathlib.Path(name).name else f"{name}.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        if change is not None:
            document = copy.deepcopy(document)
            change(document)
        path.write_text(document if isinstance(document, str) else json.dumps(document))

    def case(self, name, *arguments):
        """Keeps what the program says."""
        done = self.call(*arguments)
        kind = ("json" if {"json", "--json"} & set(arguments) else "csv" if "csv" in arguments else "text")
        path = self.expected / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(path.name + ".out").write_bytes(done.stdout)
        path.with_name(path.name + ".err").write_bytes(done.stderr)
        self.cases.append({"name": name, "arguments": list(arguments), "code": done.returncode, "kind": kind})

    def compare(self, name, *operands, more=()):
        """compare in one format and on one clock each, and report."""
        self.case(f"{name}/compare-json", "compare", *operands, *more, "--format", "json")
        self.case(f"{name}/compare-text", "compare", *operands, *more)
        self.case(f"{name}/report", "report", *operands, *more, "--format", "json", "-o", "-")

    def compare_fully(self, name, *operands, target="", reference=""):
        """The same in all formats and on all clocks, and with a target, a reference and a limit."""
        self.compare(name, *operands)
        for form in ("markdown", "latex", "csv"):
            self.case(f"{name}/compare-{form}", "compare", *operands, "--format", form)
        for clock in CLOCKS[1:]:
            self.case(f"{name}/compare-{clock}", "compare", *operands, "--clock", clock, "--format", "json")
        for form in ("csv", "text"):
            self.case(f"{name}/compare-runs-{form}", "compare", *operands, "--runs", "--format", form)
        if target:
            self.case(f"{name}/compare-target", "compare", *operands, "--target", target, "--format", "json")
            self.case(f"{name}/report-target", "report", *operands, "--target", target, "--format", "json", "-o", "-")
        if reference:
            self.case(f"{name}/compare-reference", "compare", *operands, "--reference", reference, "--format", "json")
            self.case(f"{name}/report-reference", "report", *operands, "--reference", reference, "--format", "json", "-o", "-")
        for limit in ("0.5", "1.05", "1000"):
            self.case(f"{name}/compare-slower-{limit}", "compare", *operands, "--fail-if-slower", limit, "--format", "csv")


def held_and_missed(corpus):
    for seed in range(1, 8):
        for algorithm in ("ssgd", "asgd", "adaptive"):
            corpus.train(f"held/{algorithm}-{seed}", "--target=p1>=0.12", seed=seed, algorithm=algorithm, speed="1,0.6")
            corpus.train(f"missed/{algorithm}-{seed}", "--target=p1>=0.165", "--target=test_loss<=3.6", seed=seed, algorithm=algorithm,
                         learning_rate=2)
    corpus.compare_fully("held", "held", target="p1>=0.15", reference="adaptive")
    corpus.compare_fully("missed", "missed", target="p5>=0.1", reference="missed/asgd-2.json")
    corpus.case("held/compare-targets", "compare", "held", "--target", "p1>=0.1", "--target", "test_loss<=3.7", "--target", "p1>=0.9",
                "--format", "json")
    corpus.case("held/compare-targets-text", "compare", "held", "--target", "p1>=0.1", "--target", "test_loss<=3.7", "--target", "p1>=0.9")
    corpus.case("held/compare-unknown-metric", "compare", "held", "--target", "auc>=0.5")
    corpus.case("held/compare-bad-target", "compare", "held", "--target", "p1=0.5")
    corpus.case("held/compare-unknown-reference", "compare", "held", "--reference", "sgd")
    corpus.case("held/compare-some-files", "compare", "held/adaptive-3.json", "held/ssgd-1.json", "held/adaptive-1.json",
                "held/ssgd-2.json", "--format", "json")
    corpus.case("held/report-some-files", "report", "held/adaptive-3.json", "held/ssgd-1.json", "--title", "A <title>", "--format", "json",
                "-o", "-")
    for seed in (1, 2):
        for algorithm in ("ssgd", "asgd"):
            corpus.train(f"never/{algorithm}-{seed}", "--target=p1>=0.9", seed=seed, algorithm=algorithm, epochs=1)
            corpus.train(f"none/{algorithm}-{seed}", seed=seed, algorithm=algorithm, epochs=1)
    corpus.compare_fully("never", "never")
    corpus.compare_fully("none", "none", target="p1>=0.07")
    corpus.train("stopped/ssgd-1", "--target=p1>=0.1", "--stop-at-target", algorithm="ssgd")
    corpus.train("stopped/asgd-1", "--target=p1>=0.1", "--require-target", "--stop-at-target", algorithm="asgd")
    corpus.train("stopped/elastic-1", "--target=p1>=0.9", "--require-target", algorithm="elastic", epochs=1)
    corpus.compare("stopped", "stopped")


def few_and_many(corpus):
    for algorithm in ("sgd", "ssgd", "adaptive", "local-sgd", "sma", "rna", "ssp"):
        corpus.train(f"one-seed/{algorithm}", "--target=p1>=0.1", algorithm=algorithm, workers=1 if algorithm == "sgd" else 2, epochs=2)
    corpus.compare_fully("one-seed", "one-seed", reference="ssgd")
    corpus.compare_fully("alone", "one-seed/ssgd.json")
    for seed in range(1, 13):  # unpaired, since the seeds differ
        corpus.train(f"unpaired/ssgd-{seed}", "--target=p1>=0.1", seed=seed, algorithm="ssgd", epochs=2)
        corpus.train(f"unpaired/asgd-{seed}", "--target=p1>=0.1", seed=seed + (6 if seed > 9 else 3), algorithm="asgd", epochs=2)
    corpus.compare_fully("unpaired", "unpaired", reference="asgd")
    for algorithm in ("ssgd", "elastic"):  # paired, and more than exact tests enumerate
        for seed in range(1, 31):
            corpus.train(f"many/{algorithm}-{seed}", "--target=p1>=0.07", seed=seed, algorithm=algorithm, epochs=1, speed="1,0.9")
    corpus.compare("many", "many")
    some = [f"many/ssgd-{seed}.json" for seed in range(1, 30)] + [f"many/elastic-{seed}.json" for seed in range(3, 31)]
    corpus.case("many/compare-unpaired", "compare", *some, "--format", "json")


def ties_and_copies(corpus):
    def rounded(result):
        step = result["curve"][-1]["time_s"] / 6
        for point in result["curve"]:
            point["time_s"] = round(point["time_s"] / step) * step if point["time_s"] else 0.0
        result["time_to_accuracy"] = []

    for seed in range(1, 8):
        for algorithm in ("ssgd", "asgd"):
            corpus.write(f"tied/{algorithm}-{seed}", corpus.read(f"held/{algorithm}-{seed}"), rounded)
            corpus.write(f"equal/{algorithm}-{seed}", corpus.read(f"held/ssgd-{seed}"),
                         lambda result, name=algorithm: result["config"].update(algorithm=name))
    corpus.compare_fully("tied", "tied", "--target", "p1>=0.12")
    corpus.compare_fully("equal", "equal", reference="asgd")
    for number in range(6):  # one run under six names
        corpus.write(f"copies/ssgd-{number}", corpus.read("held/ssgd-1"))
        corpus.write(f"copies/asgd-{number}", corpus.read(f"held/asgd-{number % 3 + 1}"))
    corpus.compare_fully("copies", "copies")
    corpus.case("copies/compare-given-twice", "compare", "held/ssgd-1.json", "held/ssgd-1.json", "held/asgd-1.json", "--format", "json")


def ends(corpus):
    """Runs that did not end well."""
    for seed in (1, 2, 3):
        corpus.train(f"diverged/calm-{seed}", "--target=p1>=0.1", seed=seed, algorithm="ssgd", epochs=2)
        corpus.train(f"diverged/wild-{seed}", "--target=p1>=0.1", seed=seed, algorithm="ssgd", epochs=2,
                     learning_rate=1e9 if seed > 1 else 5)
    corpus.compare_fully("diverged", "diverged")
    corpus.train("aborted/limit", "--target=p1>=0.1", "--time-limit=0.05s", algorithm="ssgd", epochs=20000, codes=(6,))
    flags = [f"--{key}={value}" for key, value in {**TINY, "epochs": 100000, "algorithm": "ssgd", "seed": 2}.items()]
    started = subprocess.Popen([corpus.program, "train", *flags, "--target=p1>=0.1", "--quiet", "--redact", "-o", "aborted/killed.json"],
                               cwd=corpus.results, env=corpus.environment, stderr=subprocess.DEVNULL)
    time.sleep(0.6)
    started.send_signal(signal.SIGTERM)
    started.wait()
    for name in ("limit", "killed"):
        corpus.write(f"aborted/{name}", thinned(corpus.read(f"aborted/{name}"), 40))
    corpus.train("aborted/whole", "--target=p1>=0.1", algorithm="ssgd", epochs=2, seed=3)
    corpus.train("aborted/other", "--target=p1>=0.1", algorithm="asgd", epochs=2, seed=3)
    corpus.compare_fully("aborted", "aborted")
    for loss in ("continue", "restart"):
        for seed in (1, 2, 3):
            corpus.train(f"failures/{loss}-{seed}", "--target=p1>=0.1", "--straggler=kind=fail,worker=1,at=1ms",
                         "--straggler=kind=return,worker=1,at=2ms", seed=seed, algorithm="ssgd", workers=3, detect="0.1ms", on_loss=loss)
    corpus.train("failures/unharmed-1", "--target=p1>=0.1", algorithm="ssgd", workers=3)
    corpus.train("failures/lost", "--target=p1>=0.1", "--straggler=kind=fail,worker=0,at=1ms", algorithm="asgd", workers=3, detect="0.1ms")
    corpus.train("failures/churn", "--target=p1>=0.1", "--straggler=kind=churn,mtbf=3ms,mttr=1ms", algorithm="elastic", workers=3,
                 detect="0.1ms")
    corpus.train("failures/abort", "--target=p1>=0.1", "--straggler=kind=fail,worker=0,at=1ms", algorithm="ssgd", workers=3, detect="0.1ms",
                 on_loss="abort", codes=(0, 1, 3, 5, 6, 8, 9, 10))
    corpus.compare_fully("failures", "failures")
    corpus.train("checkpoints/with", "--checkpoint-at=600,1200", "--target=p1>=0.1", algorithm="ssgd")
    corpus.train("checkpoints/without", "--target=p1>=0.1", algorithm="ssgd")
    corpus.compare("checkpoints", "checkpoints")


def thinned(result, most):
    """The result with at most so many evaluations."""
    curve = result["curve"]
    stride = -(-len(curve) // most)
    result["curve"] = curve[:-1:stride] + curve[-1:]
    result["summary"]["evaluations"] = len(result["curve"])
    result["time_to_accuracy"] = []
    result["events"] = result["events"][:20]
    return result


def machines(corpus):
    for profile, network in (("v100", "pcie3"), ("k80", "ethernet-1g"), ("v100*1,gtx-1080ti", "nvlink2")):
        for algorithm in ("ssgd", "asgd"):
            for seed in (1, 2):
                corpus.train(f"machines/{algorithm}-{network}-{seed}", "--target=p1>=0.1", seed=seed, algorithm=algorithm, profile=profile,
                             network=network, epochs=2)
    corpus.compare_fully("machines", "machines", target="p1>=0.14")
    for workers in (1, 2, 4):
        corpus.train(f"scaling/workers-{workers}", "--target=p1>=0.1", algorithm="ssgd", workers=workers, epochs=2)
    corpus.train("scaling/charged", "--target=p1>=0.1", algorithm="ssgd", workers=4, charge="amazon670k", epochs=2)
    corpus.train("scaling/batch", "--target=p1>=0.1", algorithm="ssgd", workers=4, batch_size=32, epochs=2)
    corpus.compare_fully("scaling", "scaling")
    for algorithm in ("ssgd", "asgd"):
        for seed in (1, 2):
            corpus.train(f"threads/{algorithm}-{seed}", "--target=p1>=0.1", seed=seed, algorithm=algorithm, cluster="threads",
                         devices="cpu:1", epochs=2, host_threads=None)
    corpus.compare_fully("threads", "threads")
    for clock in CLOCKS[1:]:
        corpus.case(f"threads/compare-{clock}-text", "compare", "threads", "--clock", clock)


def tuned(corpus):
    (corpus.results / "tuned").mkdir()
    flags = [f"--{key}={value}" for key, value in TINY.items() if key not in ("test",)]
    done = corpus.call("tune", *flags, "--algorithms", "ssgd,asgd", "--grid", "0.5,1,2", "--goal", "p1>=0.1", "--quiet", "--redact", "-o",
                       "tuned/choice.json")
    if done.returncode:
        sys.exit(f"tune: {done.stderr.decode()}")
    for seed in (1, 2):
        for algorithm in ("ssgd", "asgd"):
            corpus.train(f"tuned/{algorithm}-{seed}", "--target=p1>=0.1", "--tuned=tuned/choice.json", seed=seed, algorithm=algorithm)
        corpus.train(f"tuned/elastic-{seed}", "--target=p1>=0.1", seed=seed, algorithm="elastic")
    corpus.compare_fully("tuned", "tuned")
    corpus.case("tuned/validate", "validate", "tuned/choice.json", "tuned/ssgd-1.json")


def kinds(corpus):
    """Clicks, images, texts, and what runs record."""
    for model in ("dcn", "deepfm", "wide_deep"):
        for seed in (1, 2):
            corpus.train(f"clicks/{model}-{seed}", "--target=auc>=0.55", "--optimizer=adam", seed=seed, algorithm="ssgd", model=model,
                         mega_batch=None, **{key.replace("-", "_"): value for key, value in CLICKS.items()})
    corpus.train("clicks/tables", "--target=auc>=0.55", "--tables=sharded", algorithm="ssgd", model="dcn", mega_batch=None,
                 **{key.replace("-", "_"): value for key, value in CLICKS.items()})
    corpus.compare_fully("clicks", "clicks", target="test_loss<=0.69")
    for algorithm in ("ssgd", "sma", "local-sgd"):
        for seed in (1, 2):
            corpus.train(f"images/{algorithm}-{seed}", "--target=accuracy>=0.5", seed=seed, algorithm=algorithm, mega_batch=None, test=None,
                         **{key.replace("-", "_"): value for key, value in IMAGES.items()})
            corpus.train(f"text/{algorithm}-{seed}", "--target=test_loss<=2.0", seed=seed, algorithm=algorithm, mega_batch=None, test=None,
                         hidden=None, **{key.replace("-", "_"): value for key, value in LANGUAGE.items()})
    corpus.compare_fully("images", "images", target="accuracy>=0.7")
    corpus.compare_fully("text", "text", target="perplexity<=7")
    slow = "--straggler=kind=uniform,min=0ms,max=2ms,workers=1"
    for algorithm in ("ssgd", "asgd", "rna", "adpsgd", "adaptive", "sma", "ssp", "easgd"):
        corpus.train(f"traced/{algorithm}", "--target=p1>=0.1", "--trace=traced/trace.out", "--overwrite", slow, algorithm=algorithm,
                     workers=3, epochs=1)
        corpus.train(f"steps/{algorithm}", "--target=p1>=0.1", "--record-steps", slow, algorithm=algorithm, epochs=0.5)
    (corpus.results / "traced/trace.out").unlink()
    corpus.compare_fully("traced", "traced")
    corpus.compare("steps", "steps")
    for seed in (1, 2):
        for delta in (0.1, 0.3):
            corpus.train(f"merges/adaptive-{delta}-{seed}", "--target=p1>=0.1", f"--delta={delta}", seed=seed, algorithm="adaptive",
                         workers=3, speed="1,0.6,0.3")
        corpus.train(f"merges/elastic-{seed}", "--target=p1>=0.1", seed=seed, algorithm="elastic", workers=3, speed="1,0.6,0.3")
    corpus.compare_fully("merges", "merges")


def edited(corpus):
    """Foreign fields, old results, numbers that are none, and texts that mean something to pages and terminals."""
    def foreign(result):
        result["config"]["their_option"] = "so-so"
        result["config"]["their_list"] = [1, "two", None]
        result["events"].append({"type": "theirs", "time_s": 0.001, "what": {"a": [1, 2]}})
        for point in result["curve"]:
            point["their_metric"] = point["p1"] / 2
            point["their_text"] = "x"

    def old(result):
        """As schema version 1.0 had it: without what came later."""
        for name in ("plugins", "tuning", "tables", "failures", "survival", "segments"):
            result.pop(name, None)
        for name in ("prepare_s", "checkpoint_s", "resumed_at"):
            result["wall"].pop(name, None)
        for name in ("server_profile", "machine"):
            result["cluster"].pop(name, None)
        for name in ("tokens", "tokens_per_s", "server_link_ratio", "constant_guess"):
            result["summary"].pop(name, None)
        for worker in result["workers"]:
            for name in ("profile", "host", "pid", "cores", "clock_offset_s", "waited_for", "stages", "shard_rows", "gpu_buffers"):
                worker.pop(name, None)
        for point in result["curve"]:
            for name in ("prepare_s", "wall_s", "bytes_sent"):
                point.pop(name, None)
        for name in ("stop_at_target", "optimizer", "momentum", "host_cores", "on_loss"):
            result["config"].pop(name, None)
        for target in result["time_to_accuracy"]:
            crossing = next((point["time_s"] for point in result["curve"] if point["p1"] >= target["value"]), None)
            for name in ("first_crossing_s", "smoothed_time_s", "judged_by", "evaluation", "resolution_s", "clocks"):
                target.pop(name, None)
            target.update(time_s=crossing, status="reached" if crossing is not None else "missed")

    def empty(result):
        for place, point in enumerate(result["curve"]):
            if place % 3 == 1:
                point.update(test_loss=None, test_loss_reason="inf", train_loss=None, train_loss_reason="nan")
        result["time_to_accuracy"] = []

    def evil(result):
        result["environment"]["cpu_model"] = result["workers"][0]["device"] = EVIL
        result["stragglers"] = [EVIL]
        result["histograms"] = {EVIL: {"1": 2, "10": 3}}
        result["config"]["learning_rate"] = EVIL

    def large(result):
        result["config"]["seed"] = 18446744073709551615
        result["curve"][-1]["test_loss"] = 1e308
        result["config"]["learning_rate"] = 1e-300

    for name, change in (("foreign", foreign), ("old", old), ("nulls", empty), ("evil", evil), ("large", large)):
        for seed, algorithm in ((1, "ssgd"), (2, "ssgd"), (1, "asgd"), (2, "asgd")):
            both = algorithm == "ssgd" or name == "old"
            corpus.write(f"{name}/{algorithm}-{seed}", corpus.read(f"held/{algorithm}-{seed}"), change if both else None)
        corpus.compare(name, name)
        corpus.case(f"{name}/compare-csv", "compare", name, "--runs", "--format", "csv")
        corpus.case(f"{name}/compare-algoperf", "compare", name, "--clock", "algoperf", "--format", "json")
        corpus.case(f"{name}/validate", "validate", f"{name}/ssgd-1.json", f"{name}/asgd-1.json")
    corpus.case("foreign/compare-target", "compare", "foreign/ssgd-1.json", "foreign/ssgd-2.json", "--target", "their_metric>=0.05",
                "--format", "json")
    broken(corpus)


def without(*keys):
    def change(result):
        node = result
        for key in keys[:-1]:
            node = node[key]
        del node[keys[-1]]
    return change


def with_value(value, *keys):
    def change(result):
        node = result
        for key in keys[:-1]:
            node = node[key]
        node[keys[-1]] = value
    return change


def unordered(result):
    result["curve"][2], result["curve"][3] = result["curve"][3], result["curve"][2]


BROKEN = {
    **{f"without-{key}": without(key) for key in ("curve", "config", "summary", "workers", "wall", "status", "time_to_accuracy", "cluster",
                                                  "schema_version", "environment", "dataset", "model", "events", "histograms")},
    "without-time": without("curve", 2, "time_s"), "without-algorithm": without("config", "algorithm"),
    "without-samples": without("workers", 0, "samples"), "without-elapsed": without("summary", "elapsed_s"),
    "text-time": with_value("soon", "curve", 2, "time_s"), "negative-time": with_value(-1, "curve", 2, "time_s"),
    "text-seed": with_value("one", "config", "seed"), "list-curve": with_value({}, "curve"), "null-curve": with_value(None, "curve"),
    "text-point": with_value("x", "curve", 1), "number-metric": with_value([1], "curve", 1, "p1"),
    "bool-samples": with_value(True, "curve", 1, "samples_count"), "unordered": unordered,
    "stop-at-target": with_value(3, "config", "stop_at_target"), "status": with_value("fine", "status"),
    "major": with_value("2.0", "schema_version"), "minor": with_value("1.9", "schema_version"),
    "rank": with_value(5, "workers", 0, "rank"), "bytes": with_value(7, "workers", 0, "bytes_sent"),
    "evaluations": with_value(3, "summary", "evaluations"), "ledger": with_value(9, "wall", "total_s"),
    "reached": with_value("reached", "time_to_accuracy", 0, "status"), "reached-time": with_value(1.5, "time_to_accuracy", 0, "time_s"),
    "running": with_value("running", "status"), "failed": with_value("failed", "status"), "foreign-top": with_value(1, "theirs"),
    "foreign-worker": with_value(1, "workers", 0, "theirs"), "empty-curve": with_value([], "curve"),
    "no-workers": with_value([], "workers"),
    "reason": with_value("inf", "curve", 1, "p1_reason"), "null-loss": with_value(None, "curve", 1, "test_loss"),
    "targets-text": with_value("p1>=0.1", "time_to_accuracy"), "text-value": with_value("0.1", "time_to_accuracy", 0, "value"),
}


def broken(corpus):
    good = corpus.read("held/ssgd-1")
    text = json.dumps(good)
    files = []
    for name, change in BROKEN.items():
        corpus.write(f"broken/{name}", good, change)
        files.append(f"broken/{name}.json")
    for name, content in (("cut.json", text[:len(text) // 2]), ("empty.json", "{}"), ("nothing.json", ""), ("list.json", "[1, 2]"),
                          ("number.json", "3"), ("twice.json", text + text),
                          ("nan.json", text.replace('"p1": 0.', '"p1": NaN, "p": 0.', 1)),
                          ("latin.json", text[:-1] + ', "x": "\udce9"}'), ("deep.json", "[" * 3000 + "]" * 3000),
                          ("profile.json", '{"launch_overhead_s": 0}'), ("tuning.json", '{"curve": [], "kind": "tuning"}'),
                          ("sweep.toml", "name = 3\n"), ("cut.toml", "name = \n"),
                          ("network.json", '{"nodes": [{"type": "conv", "chanels": 8}]}')):
        (corpus.results / "broken" / name).write_text(content, encoding="utf-8", errors="surrogateescape")
        files.append(f"broken/{name}")
    files.append("broken/none.json")
    for file in files:
        name = pathlib.Path(file).name.replace(".", "-").removesuffix("-json")
        corpus.case(f"broken/validate-{name}", "validate", file)
        if not file.endswith(".toml"):
            corpus.case(f"broken/compare-{name}", "compare", "held/ssgd-2.json", file, "--format", "json")
    corpus.case("broken/validate-all", "validate", "held/ssgd-2.json", *(f"broken/{name}.json" for name in BROKEN))
    corpus.case("broken/validate-no-operand", "validate")
    corpus.case("broken/validate-schema", "validate", "--schema")
    corpus.case("broken/compare-folder", "compare", "broken", "held/ssgd-1.json", "--format", "json")
    corpus.case("broken/compare-no-operand", "compare")
    corpus.case("broken/report-folder", "report", "broken", "--format", "json", "-o", "-")
    corpus.case("broken/report-file", "report", "broken/cut.json", "--format", "json", "-o", "-")
    corpus.case("broken/compare-no-result", "compare", "broken/profile.json", "broken/network.json")


def sweeps(corpus):
    corpus.write("sweep/cases.toml", SWEEP)
    corpus.write("sweep/bad.toml", SWEEP.replace("seeds = [1, 2, 3]", 'seeds = "one"'))
    run_sweep(corpus, "sweep/cases.toml", "sweep/out")
    corpus.compare_fully("sweep", "sweep/out", target="p1>=0.12", reference="central")
    files = sorted(str(path.relative_to(corpus.results)) for path in (corpus.results / "sweep/out/runs").glob("*.json"))
    corpus.case("sweep/compare-index", "compare", "sweep/out/cases.index.jsonl", "--format", "json")
    corpus.case("sweep/compare-files", "compare", *files, "--format", "json")
    corpus.case("sweep/compare-files-and-others", "compare", files[0], "held/ssgd-1.json", *files[1:], "--format", "json")
    corpus.case("sweep/compare-label", "compare", "sweep/out", "--reference", "local (local_steps=4)", "--format", "json")
    corpus.case("sweep/compare-no-reference", "compare", "sweep/out", "--reference", "ssgd")
    corpus.case("sweep/validate", "validate", "sweep/cases.toml", "sweep/bad.toml", files[0])
    corpus.case("sweep/report-title", "report", "sweep/out", "--title", "Mine", "--format", "json", "-o", "-")
    # A sweep that was cut off, with a file that is gone and one that is broken.
    shutil.copytree(corpus.results / "sweep/out", corpus.results / "partial")
    index = corpus.results / "partial/cases.index.jsonl"
    lines = index.read_text().splitlines(keepends=True)
    index.write_text("".join(lines[:-1]) + lines[0] + lines[-1][:100])
    (corpus.results / "partial" / json.loads(lines[1])["file"]).unlink()
    (corpus.results / "partial" / json.loads(lines[2])["file"]).write_text("{")
    corpus.compare("partial", "partial")
    corpus.case("partial/compare-index", "compare", "partial/cases.index.jsonl", "--format", "json")


def run_sweep(corpus, specification, output, limit_s=120):
    done = corpus.call("sweep", specification, "-o", output, "--jobs", "2", "--redact", "--quiet", limit_s=limit_s)
    if done.returncode:
        sys.exit(f"{specification}: exit code {done.returncode}\n{done.stderr.decode()}")
    shutil.rmtree(corpus.results / output / "locks", ignore_errors=True)


def experiments(corpus):
    """The smallest form of each specification of experiments/: made-up data, two seeds, targets that some runs hold."""
    sys.path[:0] = [str(ROOT / "scripts")]
    os.environ["HETSGD"] = str(corpus.program)
    import reproduce
    import reproduce_runs
    (corpus.results / "experiments").mkdir()
    for name, path in reproduce.specifications(ROOT / "experiments").items():
        figure = reproduce_runs.Figure(path, pathlib.Path("/nonexistent"))
        if "bench" in figure.spec:
            corpus.skipped[name] = "a benchmark of collectives, which has no runs"
            continue
        spec = smallest(reproduce.tiny(figure))
        if reproduce.needs_ranks(spec):
            corpus.skipped[name] = "needs ranks of MPI"
            continue
        file = corpus.folder / f"{name}.json"
        file.write_text(json.dumps(spec))
        begun = time.monotonic()
        try:
            run_sweep(corpus, file, f"experiments/{name}", limit_s=LONGEST_S)
        except subprocess.TimeoutExpired:
            corpus.skipped[name] = f"takes more than {LONGEST_S} s"
            shutil.rmtree(corpus.results / "experiments" / name)
            continue
        print(f"{name}: {time.monotonic() - begun:.1f} s", flush=True)
        shutil.rmtree(corpus.results / "experiments" / name / "trials", ignore_errors=True)
        operand = f"experiments/{name}"
        for file in (corpus.results / operand / "runs").glob("*.json"):
            shorten(file)
        kept = corpus.results / operand / f"{name}.sweep.json"
        kept.write_text(kept.read_text().replace(f"{ROOT}/", ""))
        corpus.case(f"{operand}/compare-json", "compare", operand, "--format", "json")
        corpus.case(f"{operand}/report", "report", operand, "--format", "json", "-o", "-")


def shorten(file):
    """Numbers of eight digits, so that the corpus is small. The times on other clocks go, which are sums of what is rounded."""
    def rounded(value):
        if isinstance(value, dict):
            return {key: rounded(each) for key, each in value.items()}
        if isinstance(value, list):
            return list(map(rounded, value))
        return float(f"{value:.8g}") if isinstance(value, float) else value

    result = rounded(json.loads(file.read_text()))
    for target in result["time_to_accuracy"]:
        target.pop("clocks", None)
    file.write_text(json.dumps(result, separators=(",", ":")))


def smallest(spec):
    """Two seeds, about ten evaluations, and targets that some runs hold."""
    spec["seeds"] = [1, 2]
    for table in (spec, *spec["setups"]):
        if "target" in table.get("metric", {}):
            table["metric"]["target"] = EASY[table["metric"].get("name", spec["metric"]["name"])]
        settings = table["settings"]
        train = settings.get("train", "")
        settings.update(evaluate_every=16 if re.search("images|language|video", train) else 200, epochs=1)
    for key in ("figure", "claims", "paper", "expectation"):  # texts of pages, which no command reads
        spec.pop(key, None)
    return spec


def benchmark(corpus):
    for name, text in (("b0", BENCHMARK + METHODS), ("entry", BENCHMARK.replace('"b0"', '"entry"') + ENTRY),
                       ("longer", BENCHMARK.replace('"b0"', '"longer"').replace("epochs = 4", "epochs = 3") + ENTRY),
                       ("taken", BENCHMARK.replace('"b0"', '"taken"') + METHODS.replace('name = "asgd"', 'name = "other"'))):
        corpus.write(f"benchmark/{name}.toml", text)
    for name in ("b0", "entry"):
        run_sweep(corpus, f"benchmark/{name}.toml", "benchmark/runs")
    for form in ("json", "text", "markdown", "csv"):
        corpus.case(f"benchmark/score-{form}", "score", "benchmark/b0.toml", "--runs", "benchmark/runs", "--format", form)
    corpus.compare("benchmark", "benchmark/runs")
    shutil.copytree(corpus.results / "benchmark/runs", corpus.results / "benchmark/more")
    for name in ("longer", "taken"):
        run_sweep(corpus, f"benchmark/{name}.toml", "benchmark/more")
    index = (corpus.results / "benchmark/more/b0.index.jsonl").read_text().splitlines()
    gone = next(line["file"] for line in map(json.loads, index) if line["case"] == "asgd" and line["stage"] == "final")
    (corpus.results / "benchmark/more" / gone).unlink()
    corpus.write("benchmark/more/text.sweep.json", "{}")
    for form in ("json", "text"):
        corpus.case(f"benchmark/score-left-out-{form}", "score", "benchmark/b0.toml", "--runs", "benchmark/more", "--format", form)
    changes = {"entry": ("two", "two"), "seeds": ('seeds = "1:3"', 'seeds = "1:4"'), "target": ("target = 0.1627", "target = 0.1"),
               "values": ("values = [0.5, 2]", "values = [0.5, 1, 2]"), "fixed": ('optimizer = "momentum"', "batch_size = 8"),
               "profile": ('optimizer = "momentum"', 'profile = "v100"'), "tuning": ('name = "momentum"', 'name = "m"\ntuning = false'),
               "unknown": ('optimizer = "momentum"', "learning_speed = 8")}
    for name, (old, new) in changes.items():
        corpus.write(f"benchmark/check-{name}.toml", (BENCHMARK.replace('"b0"', '"mine"') + ENTRY).replace(old, new))
        corpus.case(f"benchmark/score-check-{name}", "score", "benchmark/b0.toml", "--check", f"benchmark/check-{name}.toml")
    wrong = {"goal": BENCHMARK.replace('goal = "time_to_target"\ntarget = 0.1627', "").replace("metric = {target = 0.12}", "").replace(
                 "metric = {target = 0.9}", "") + METHODS,
             "only": BENCHMARK.replace('seeds = "1:3"', 'only = [{setup = "even"}]') + METHODS,
             "parameters": BENCHMARK + METHODS + "[parameters.momentum]\nvalues = [0.1, 0.9]\n",
             "epochs": BENCHMARK + METHODS.replace('"asgd"}', '"asgd", epochs = 3}')}
    for name, text in wrong.items():
        corpus.write(f"benchmark/wrong-{name}.toml", text)
        corpus.case(f"benchmark/score-wrong-{name}", "score", f"benchmark/wrong-{name}.toml", "--runs", "benchmark/runs")
    corpus.case("benchmark/score-nothing", "score")
    corpus.case("benchmark/score-schema", "score", "--schema")
    corpus.case("benchmark/score-nowhere", "score", "benchmark/b0.toml", "--runs", "nowhere")
    corpus.case("benchmark/score-no-runs", "score", "benchmark/b0.toml", "--runs", "held")


def ranks(corpus):
    """Results with a machine of hosts and ranks."""
    corpus.train("ranks/one", "--target=p1>=0.1", algorithm="ssgd", cluster="threads", devices="cpu:1", epochs=1, host_threads=None)
    for seed in (1, 2):
        for algorithm in ("ssgd", "asgd"):
            flags = [f"--{key}={value}" for key, value in {**TINY, "epochs": 1, "algorithm": algorithm, "seed": seed}.items()]
            done = corpus.call("train", *flags, "--target=p1>=0.1", "--cluster=mpi", "--quiet", "--redact", "-o",
                               f"ranks/{algorithm}-{seed}.json", launch=["mpirun", "--oversubscribe", "-n", "2"])
            if done.returncode not in (0, 3):
                sys.exit(f"ranks: {done.stderr.decode()}")
    corpus.compare("ranks", "ranks")
    for clock in CLOCKS[1:]:
        corpus.case(f"ranks/compare-{clock}", "compare", "ranks", "--clock", clock, "--format", "json")
    corpus.case("ranks/validate", "validate", *(f"ranks/{name}.json" for name in ("one", "ssgd-1", "asgd-2")))


def standing(corpus):
    """Six methods on two problems, five seeds each, untuned."""
    names = ("ssgd", "asgd", "elastic", "adaptive", "local-sgd", "sma")
    cases = "".join(f'[[cases]]\nname = "{name}"\nsettings = {{algorithm = "{name}"}}\n' for name in names)
    text = BENCHMARK[:BENCHMARK.index("[tuning]")] + BENCHMARK[BENCHMARK.index("[[setups]]"):BENCHMARK.rindex("[[setups]]")] + cases
    for old, new in (('"b0"', '"b1"'), ('"1:3"', '"1:5"'), ("epochs = 4", "epochs = 3")):
        text = text.replace(old, new)
    corpus.write("standing/b1.toml", text)
    run_sweep(corpus, "standing/b1.toml", "standing/runs")
    for file in (corpus.results / "standing/runs/runs").glob("*.json"):
        shorten(file)
    for form in ("json", "text", "markdown", "csv"):
        corpus.case(f"standing/score-{form}", "score", "standing/b1.toml", "--runs", "standing/runs", "--format", form)
    corpus.compare("standing", "standing/runs")


def records(corpus):
    (corpus.results / "records").mkdir()
    slow = "--straggler=kind=uniform,min=0ms,max=2ms,workers=1"
    runs = {name: {"algorithm": name} for name in ("sgd", "ssgd", "asgd", "local-sgd", "elastic", "adaptive", "sma", "rna", "ssp", "adpsgd",
                                                   "easgd", "esync", "eager-solo", "hogwild", "dc-asgd")}
    runs["constant"] = {"algorithm": "ssgd", "straggler": "kind=constant,worker=1,factor=3"}
    runs["burst"] = {"algorithm": "ssgd", "straggler": "kind=burst,on=2ms,off=6ms,factor=3,workers=0", "epochs": 6}
    runs["lognormal"] = {"algorithm": "ssgd", "straggler": "kind=lognormal,median=0.2ms,sigma=1,workers=2", "epochs": 6}
    runs["speeds"] = {"algorithm": "ssgd", "speed": "1,0.5,0.25", "straggler": "none"}
    runs["lost"] = {"algorithm": "ssgd", "straggler": "kind=fail,worker=1,at=1ms", "detect": "0.1ms"}
    runs["threads"] = {"algorithm": "ssgd", "cluster": "threads", "devices": "cpu:1", "host_threads": None}
    runs["threads-asgd"] = {"algorithm": "asgd", "cluster": "threads", "devices": "cpu:1", "host_threads": None}
    for name, options in runs.items():
        workers = {"workers": 1 if name in ("sgd",) else 3, "epochs": 1, **options}
        more = [] if "straggler" in options else [slow.replace("workers=1", "workers=0")] if name == "sgd" else [slow]
        corpus.train(f"records/{name}", f"--record-timeline=records/{name}.jsonl.zst", *more, **workers)
        (corpus.results / f"records/{name}.json").unlink()
    corpus.train("records/plain", "--record-timeline=records/plain.jsonl", slow, algorithm="ssgd", workers=2, epochs=0.25)
    (corpus.results / "records/plain.json").unlink()
    text = (corpus.results / "records/plain.jsonl").read_text()
    corpus.write("records/cut.jsonl", text[:len(text) * 2 // 3])
    corpus.write("records/broken.jsonl", text.replace('"', "'", 40))
    corpus.write("records/empty.jsonl", "")
    draws = [0.01 * (1 + 0.05 * ((17 * worker + 31 * step) % 13) / 13) * (3 if worker == 2 else 1)
             * (4 if worker == 1 and step % 20 < 5 else 1) for step in range(80) for worker in range(3)]
    rows = [f"{place % 3},{place // 3},{seconds:.8f}\n" for place, seconds in enumerate(draws)]
    corpus.write("records/steps.csv", "worker,step,seconds\n" + "".join(rows))
    corpus.write("records/short.csv", "worker,step,seconds\n0,0,1\n1,0,3\n")
    for name, content in (("no-header", "0,0,1\n"), ("text", "worker,step,seconds\n0,0,soon\n"),
                          ("negative", "worker,step,seconds\n0,0,-1\n"),
                          ("missing", "worker,step,seconds\n0,0,1\n0,2,1\n"), ("only-header", "worker,step,seconds\n")):
        corpus.write(f"records/bad-{name}.csv", content)
    for path in sorted((corpus.results / "records").iterdir()):
        file = f"records/{path.name}"
        name = path.name.removesuffix(".zst").removesuffix(".jsonl").replace(".csv", "-csv")
        corpus.case(f"records/replay-{name}", "replay", file, "--json")
        corpus.case(f"records/fit-{name}", "fit", file, "--json")
        if name.startswith("bad") or name in ("broken", "empty"):
            continue
        corpus.case(f"records/replay-{name}-text", "replay", file)
        for what in ("injected", "worker=0", "stragglers", "kind=compute"):
            corpus.case(f"records/replay-{name}-without-{what.replace('=', '-')}", "replay", file, "--without", what, "--json")
        corpus.case(f"records/replay-{name}-speed", "replay", file, "--speed", "1,2,0.5", "--json")
        corpus.case(f"records/replay-{name}-both", "replay", file, "--without", "injected", "--without", "worker=1", "--speed", "2",
                    "--json")
        corpus.case(f"records/replay-{name}-network", "replay", file, "--network", "ethernet-1g", "--json")
        corpus.case(f"records/fit-{name}-text", "fit", file)
    for name, arguments in (("worker", ["--without", "worker=9"]), ("what", ["--without", "weather"]),
                            ("network", ["--network", "carrier"]), ("speed", ["--speed", "0"])):
        corpus.case(f"records/replay-wrong-{name}", "replay", "records/ssgd.jsonl.zst", *arguments)
    corpus.case("records/replay-none", "replay", "records/none.jsonl")


STEPS = (held_and_missed, few_and_many, ties_and_copies, ends, machines, tuned, kinds, edited, sweeps,
         ranks, benchmark, standing, records, experiments)


def pack(folder):
    """Each of the two folders as one archive, which is the same for the same files."""
    def plain(entry):
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = ""
        return entry

    ARCHIVES.mkdir(exist_ok=True)
    for name in ("results", "expected"):
        with tarfile.open(ARCHIVES / f"{name}.tar.xz", "w:xz", preset=9) as archive:
            archive.add(folder / name, name, filter=plain)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--pack", action="store_true", help="write tests/judge/corpus")
    parser.add_argument("--only", nargs="*", help=f"names of steps: {', '.join(step.__name__ for step in STEPS)}")
    parser.add_argument("folder", type=pathlib.Path)
    arguments = parser.parse_args()
    corpus = Corpus(arguments.program.resolve(), arguments.folder.resolve())
    corpus.results.mkdir(parents=True)
    corpus.expected.mkdir()
    for step in STEPS:
        if not arguments.only or step.__name__ in arguments.only:
            begun = time.monotonic()
            step(corpus)
            print(f"{step.__name__}: {time.monotonic() - begun:.1f} s, {len(corpus.cases)} cases", flush=True)
    shutil.rmtree(corpus.folder / "cache", ignore_errors=True)
    document = {"skipped": corpus.skipped, "cases": corpus.cases}
    (corpus.expected / "cases.json").write_text(json.dumps(document, indent=1) + "\n")
    if arguments.pack:
        pack(corpus.folder)


if __name__ == "__main__":
    main()
