#!/usr/bin/env python3
"""Compares the simulated results of two binaries: same_results.py OLD NEW [--jobs N] [--only REGEX] [--new-options OPTIONS] [--new-keys KEYS]

Runs every configuration below (each algorithm with stragglers, optimizers, schedules, partitions, models,
networks, profiles and options of its own; all short, on small synthetic data) with both binaries and compares
curve, events, histograms, workers, summary, time to accuracy, status, warnings, failures, segments and the final
parameters, to the byte. Prints each configuration that differs, with the first difference of each part.

Every method also runs with --trace and --record-timeline: whole, in segments with checkpoints, and with workers that
are lost and return. Then the others go on without them, or wait for them. The files of the record and of the trace
must be equal to the byte, too.

--new-options: options that only the new binary gets. They are for options that the old binary lacks, with values that
restore the old results. {profile} stands for the configuration's device profile. For example,
--new-options='--server-profile {profile}' lets services compute on the workers' devices.

--new-keys: keys, separated by commas, that only results of the new binary have, such as bytes_sent at the points of
the curve. They are not compared in places where the old results lack them, and of records and traces the values alone
are compared.

Exit code 0: all are equal; 1: a configuration differs; 2: a binary is missing, or no configuration matches --only.
"""

import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

PARTS = ("status", "curve", "events", "histograms", "workers", "summary", "time_to_accuracy", "warnings",
         "stragglers", "failures", "segments")

ALGORITHMS = ["sgd", "ssgd", "elastic", "adaptive", "asgd", "dc-asgd", "ssp", "esync", "adpsgd", "eager-solo", "eager-majority", "rna", "sma", "easgd", "local-sgd"]

OPTIMIZERS = {
    "momentum": "--optimizer momentum --weight-decay 1e-4",
    "nesterov": "--optimizer nesterov",
    "adam": "--optimizer adam --learning-rate 0.01",
    "adamw": "--optimizer adam --learning-rate 0.01 --weight-decay 0.01 --decoupled-weight-decay",
    "lars": "--optimizer lars --learning-rate 5 --weight-decay 1e-4",
    "lamb": "--optimizer lamb --learning-rate 0.01 --weight-decay 0.01",
    "clip": "--optimizer sgd --clip-norm 0.3",
}
SCHEDULES = {
    "warmup": "--warmup-epochs 1",
    "linear": "--schedule linear --decay-epochs 3",
    "step": "--schedule step --step-epochs 0.5,1 --step-factor 0.3",
    "inverse": "--schedule inverse_time --inverse-rate 0.5 --warmup-epochs 0.3",
}
TEXT = "generate:language?vocabulary=8&steps=16&rows_train=200&rows_test=40"
LINES = f"{TEXT}&lengths=lognormal&median=8"
# Conditions for every algorithm, beside optimizers and schedules.
CONDITIONS = {
    "base": "",
    "uniform": "--straggler kind=uniform,min=0ms,max=5ms",
    "slow": "--straggler kind=constant,factor=4,workers=0 --speed 1,0.9,0.8,0.7",
    "mixed": "--straggler kind=lognormal,median=1ms --straggler kind=periodic,period=20ms,duration=5ms,factor=3 "
             "--straggler kind=pause,at=10ms,duration=5ms,workers=0",
    "dirichlet": "--partition dirichlet --straggler kind=pareto,scale=1ms",
    "label_sorted": "--partition label_sorted",
    "iid": "--partition iid --order sequential",
    "seed": "--seed 7 --batch-size 13 --evaluate-every 100",
    "linear_model": "--model linear",
    "deep": "--hidden 8,6",
    "multiclass": "--train {data}/classes.txt --test {data}/classes_test.txt",
    "binary": "--train {data}/binary.txt --test {data}/binary_test.txt --model linear",
    "binary_deep": "--train {data}/binary.txt --test {data}/binary_test.txt --hidden 5,4",
    "causal": f"--model gpt-micro?layers=1&width=16&block=16 --train {TEXT} --test {TEXT}",
    "masked": f"--model bert-micro?layers=1&width=16&block=16 --train {LINES} --test {LINES} --learning-rate 0.1",
    "bf16": "--precision bf16",
    "causal_bf16": f"--precision bf16 --model gpt-micro?layers=1&width=16&block=16 --train {TEXT} --test {TEXT}",
    "charge": "--charge amazon670k --network ethernet-10g",
    "cpu": "--profile cpu --network shared-memory",
    "many": "--workers 9 --straggler kind=uniform,min=0ms,max=1ms",
    "time": "--epochs 0 --max-time 5ms",
    "target": "--target p1>=0.2 --stop-at-target",
    "host_threads": "--host-threads 2",
    "no_events": "--no-record-steps",
}
# Conditions with --trace and --record-timeline, for every method.
FILES = "--trace {output}.trace.json --record-timeline {output}.record.jsonl"
FAILURES = "--straggler kind=fail,worker=1,at=300us --straggler kind=return,worker=1,at=2ms --detect 100us"
RECORDED = {
    "recorded": "",
    "recorded_uniform": "--straggler kind=uniform,min=0ms,max=5ms",
    "checkpoints": "--checkpoint {output}.checkpoint --checkpoint-every 1",
    "failures": FAILURES,
    "restarts": f"{FAILURES} --on-loss restart --restart-time 1ms --checkpoint {{output}}.checkpoint --checkpoint-every 1",
}
# Methods that run under RECORDED alone, with options that they need.
RECORDED_ONLY = {
    "hogbatch": "",
    "hogwild": "",
    "slide": "--active-min 4",
    "sven": "--model deepfm --tables sharded --train generate:ctr-tiny?scale=0.2 --test generate:ctr-tiny?scale=0.2",
}
PARTITIONED_POOLS = ("dirichlet", "label_sorted", "iid")

# Options of the algorithms' own, and what only some of them meet.
VARIANTS = {
    "sgd": ["--batch-size 64", "--init-std 0.1", "--epochs 0 --max-samples 777", "--learning-rate 1e6",
            "--profile k80"],
    "ssgd": ["--per-worker-batch full", "--storage central", "--storage central --optimizer adam",
             "--storage central --workers 1",
             "--reduce adasum", "--reduce adasum --workers 6", "--reduce adasum --adasum-shape linear",
             "--reduce adasum --adasum-scope model --orthogonality-every 3", "--reduce adasum --node-size 2",
             "--reduce adasum --node-size 4 --optimizer adam --learning-rate 0.01",
             "--reduce adasum --node-size 2 --optimizer-state partitioned --optimizer momentum --orthogonality-every 2",
             "--reduce adasum --node-size 4 --optimizer-state partitioned --optimizer lamb --hidden 8,6",
             "--reduce adasum --per-worker-batch full --hidden 8,6 --optimizer momentum",
             "--network nvlink2 --all-reduce ring", "--all-reduce tree", "--all-reduce host",
             "--network infiniband-edr --workers 16", "--workers 2 --network ethernet-1g", "--workers 1",
             "--straggler kind=burst,on=5ms,off=5ms,factor=3", "--straggler kind=groups,split=2,max1=1ms,max2=4ms"],
    "elastic": ["--gamma 0", "--mega-batch 7", "--workers 1", "--workers 100 --mega-batch 100 --epochs 10",
                "--epochs 0 --max-samples 500"],
    "adaptive": ["--delta 0", "--bounds clamp --beta 4", "--pert-norm l2_over_n --pert-threshold 0.3 --gamma 0.5",
                 "--batch-min 4 --speed 1,0.5,0.25,0.1", "--workers 1", "--workers 100 --mega-batch 100 --epochs 10",
                 "--speed 1,0.3 --gamma 0.9 --delta 0.5 --pert-threshold 10 --mega-batch 5 --epochs 5"],
    "asgd": ["--workers 1", "--workers 20 --network ethernet-1g", "--network ideal"],
    "dc-asgd": ["--dc adaptive", "--dc-backup server", "--dc adaptive --dc-backup server --speed 1,0.4"],
    "ssp": ["--staleness 0", "--staleness 1 --speed 1,0.3", "--staleness 0 --optimizer momentum"],
    "esync": ["--ack delayed", "--ack delayed --speed 1,0.5,0.3,0.2 --optimizer adam --learning-rate 0.01",
              "--weight steps --speed 1,0.3", "--rounds 5 --update-scale 0.7", "--time-slack 1ms --speed 1,0.2",
              "--ack delayed --straggler kind=uniform,min=0ms,max=5ms", "--workers 1", "--ack delayed --workers 1",
              "--ack delayed --partition iid --speed 1,0.3", "--ack delayed --optimizer momentum --speed 1,0.3",
              "--speed 1,0.3 --optimizer adam --learning-rate 0.01"],
    "adpsgd": ["--workers 1", "--workers 2", "--workers 7", "--network ethernet-1g --workers 8"],
    "eager-solo": ["--late drop", "--late drop --speed 1,0.2", "--workers 1", "--no-staging"],
    "eager-majority": ["--late drop", "--speed 1,0.2", "--workers 1", "--no-staging"],
    "rna": ["--probes 1", "--probes 4", "--eta 1", "--bound age --eta 2 --speed 1,0.3", "--local sum --speed 1,0.3",
            "--ahead 1", "--hierarchical --groups 0-1:2-3 --speed 1,1,0.3,0.3",
            "--hierarchical --group-after 3 --speed 1,1,0.2,0.2 --exchange-every 2",
            "--hierarchical --groups 0;2:1;3 --group-server last --optimizer adam --learning-rate 0.01",
            "--hierarchical --groups 0-1:2-3 --optimizer momentum", "--workers 1", "--no-staging",
            "--trigger any --speed 1,0.3", "--trigger any --local sum --optimizer momentum --speed 1,0.3",
            "--bound age --eta 0 --speed 1,0.3", "--local-training --speed 1,0.3",
            "--local-training --ahead 3 --trigger fresh --hierarchical --groups 0-1:2-3 --network ethernet-1g",
            "--hierarchical --group-by gap --group-after 3 --speed 1,1,0.7,0.7"],
    "sma": ["--sma hierarchical --learners-per-device 2", "--learners-per-device 3", "--tau 3", "--no-overlap",
            "--learners-per-device auto --tuner-every 3 --batch-size 4", "--alpha 0.2 --sma-momentum 0",
            "--learners-per-device auto --tuner stop --tuner-every 2 --optimizer momentum --batch-size 4",
            "--sma hierarchical --learners-per-device auto --tuner-every 2 --batch-size 4 --optimizer adam "
            "--learning-rate 0.01",
            "--schedule step --step-epochs 0.5,1 --restart always --optimizer adam --learning-rate 0.01",
            "--schedule step --step-epochs 0.5,1 --restart never --learners-per-device 2",
            "--sma hierarchical --learners-per-device 2 --tau 2 --no-overlap --optimizer momentum",
            "--learners-per-device 2 --partition iid", "--learners-per-device 2 --workers 1", "--workers 1",
            "--sma hierarchical --learners-per-device 3 --schedule step --step-epochs 0.5,1 --restart always"],
    "easgd": ["--tau 4", "--alpha 0.1 --learners-per-device 2", "--no-overlap --tau 2", "--workers 1",
              "--tau 2 --optimizer adam --learning-rate 0.01 --learners-per-device 2"],
    "local-sgd": ["--local-steps 1", "--local-steps 5 --outer-optimizer momentum",
                  "--outer-optimizer nesterov --outer-learning-rate 0.7 --outer-momentum 0.9 --optimizer adam "
                  "--learning-rate 0.01 --local-steps 4", "--outer-learning-rate 0.5 --local-steps 3", "--workers 1"],
}

BASE = ("--train generate:tiny?scale=0.2 --test generate:tiny?scale=0.2 --hidden 8 --batch-size 16 --mega-batch 8 "
        "--learning-rate 0.5 --epochs 3 --record-steps --host-threads 1")


def configurations():
    """(name, options) of every run."""
    for algorithm in ALGORITHMS:
        base = f"{BASE} --algorithm {algorithm} --workers {1 if algorithm == 'sgd' else 4}"
        if algorithm == "ssgd":
            base += " --per-worker-batch split"  # named, because the default is not the same in all revisions
        for name, options in CONDITIONS.items():
            if algorithm == "sgd" and name in ("many", "slow"):
                continue  # it has one worker
            if algorithm == "adaptive" and name in PARTITIONED_POOLS:
                continue  # it deals from one pool
            # Options of another model are errors.
            mine = base.replace("--hidden 8 ", "") if "--model " in options else base
            yield f"{algorithm}/{name}", f"{mine} {options}"
        for number, (name, options) in enumerate(OPTIMIZERS.items()):
            if algorithm == "dc-asgd":
                break  # plain SGD only
            schedule = list(SCHEDULES.values())[number % len(SCHEDULES)]
            yield f"{algorithm}/{name}", f"{base} {options}"
            speed = "" if algorithm == "sgd" else "--speed 1,0.6"
            yield f"{algorithm}/{name}+schedule", f"{base} {options} {schedule} {speed}"
        for name, options in SCHEDULES.items():
            yield f"{algorithm}/{name}", f"{base} {options} --straggler kind=uniform,min=0ms,max=1ms"
        for options in VARIANTS[algorithm]:
            yield f"{algorithm}/{options}", f"{base} {options}"
        yield from recorded(algorithm, base)
    for algorithm, options in RECORDED_ONLY.items():
        yield from recorded(algorithm, f"{BASE} --algorithm {algorithm} --workers 4 {options}")


def recorded(algorithm, base):
    """(name, options) of a method's runs with a record and a trace."""
    for name, options in RECORDED.items():
        if algorithm == "sgd" and "kind=return" in options:
            continue  # it has no worker 1
        if algorithm == "sven" and name == "failures":
            continue  # rows of a lost worker are lost with it
        yield f"{algorithm}/{name}", f"{base} {FILES} {options}"


def arguments(text, **places):
    """Later options win: each is given once, but --straggler, which adds up."""
    values, repeated, words = {}, [], text.format(**places).split()
    while words:
        name = words.pop(0)
        value = [words.pop(0)] if words and not words[0].startswith("--") else []
        if name == "--straggler":
            repeated += [name, *value]
        else:
            values[name] = value
    return [word for name, value in values.items() for word in (name, *value)] + repeated


def profile_of(text):
    """The device profile of a configuration."""
    words = text.split()
    return words[words.index("--profile") + 1] if "--profile" in words else "v100"


def write_data(folder):
    """libSVM files whose rows a linear model can tell apart: two classes, and seven."""
    for name, classes in (("binary", (-1, 1)), ("classes", range(7))):
        draw = random.Random(name)
        for suffix, rows in (("", 300), ("_test", 100)):
            lines = []
            for _ in range(rows):
                label = draw.randrange(len(classes))
                features = sorted({draw.randrange(30) + (20 * label if draw.random() < 0.5 else 0)
                                   for _ in range(draw.randrange(3, 15))})
                lines.append(" ".join([str(classes[label])] + [f"{f + 1}:{draw.uniform(0.1, 2):.3f}"
                                                               for f in features]))
            (folder / f"{name}{suffix}.txt").write_text("\n".join(lines) + "\n")


def run(binary, options, output, data):
    """The parts of the result that must not change."""
    result, parameters = output.with_suffix(".json"), output.with_suffix(".bin")
    command = [binary, "train", *arguments(options, data=data, output=output), "--quiet", "-o", result,
               "--dump-parameters", parameters, "--cache=false"]
    done = subprocess.run(command, capture_output=True, text=True)
    parts = {"exit": done.returncode}
    if not result.exists():
        return parts | {"stderr": done.stderr.strip()}
    written = json.loads(result.read_text())
    parts |= {part: written.get(part) for part in PARTS}
    parts["parameters"] = (hashlib.sha256(parameters.read_bytes()).hexdigest() if parameters.exists() else None)
    for part, suffix in (("record", "record.jsonl"), ("trace", "trace.json")):
        if (file := output.with_suffix(f".{suffix}")).exists():
            text = file.read_bytes()
            parts[part] = [json.loads(line) for line in text.splitlines()]
            parts[f"bytes of the {part}"] = hashlib.sha256(text).hexdigest()
    for file in output.parent.glob(f"{output.name}.*"):
        file.unlink()
    return parts


def first_difference(old, new, path=""):
    """Where two JSON values first differ, as 'path: old -> new'; empty: nowhere."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            if key not in old or key not in new:
                return f"{path}.{key}: {'only in new' if key in new else 'only in old'}"
            if found := first_difference(old[key], new[key], f"{path}.{key}"):
                return found
        return ""
    if isinstance(old, list) and isinstance(new, list):
        for i, (a, b) in enumerate(zip(old, new)):
            if found := first_difference(a, b, f"{path}[{i}]"):
                return found
        return "" if len(old) == len(new) else f"{path}: {len(old)} -> {len(new)} elements"
    old, new = json.dumps(old), json.dumps(new)  # as text: 0 is not -0
    return "" if old == new else f"{path}: {old[:70]} -> {new[:70]}"


def differences(old, new):
    """One line for each part of two results that differs."""
    parts = list(old) + [part for part in new if part not in old]
    found = (first_difference(old.get(part), new.get(part), part) for part in parts)
    return [line for line in found if line]


def without(keys, new, old):
    """The new JSON value without those of these keys that objects of the old one lack."""
    if isinstance(new, dict) and isinstance(old, dict):
        return {key: without(keys, each, old.get(key)) for key, each in new.items() if key in old or key not in keys}
    if isinstance(new, list) and isinstance(old, list):
        return [without(keys, each, old[i] if i < len(old) else None) for i, each in enumerate(new)]
    return new


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="path of the old binary")
    parser.add_argument("new", help="path of the new binary")
    parser.add_argument("--jobs", type=int, default=2, help="number of runs at the same time (default: 2)")
    parser.add_argument("--only", default="", metavar="REGEX", help="run only configurations whose name matches (default: all)")
    parser.add_argument("--new-options", default="", metavar="OPTIONS", help="options that only the new binary gets (see above)")
    parser.add_argument("--new-keys", default="", metavar="KEYS", help="keys that only results of the new binary have (see above)")
    parser.add_argument("--list", action="store_true", help="print the configurations and run nothing")
    options = parser.parse_args()
    try:
        chosen = [(name, text) for name, text in configurations() if re.search(options.only, name)]
    except re.error:
        chosen = []
    if not chosen:
        print(f"same_results.py: --only: found {options.only}, expected a regular expression for a name of --list", file=sys.stderr)
        return 2
    if options.list:
        for name, text in chosen:
            print(name, "|", " ".join(arguments(text, data="DATA", output="OUTPUT")))
        return 0
    binaries = [pathlib.Path(path).resolve() for path in (options.old, options.new)]
    for binary in binaries:
        if not binary.is_file():
            print(f"same_results.py: found no file {binary}, expected a hetsgd binary", file=sys.stderr)
            return 2
    different = refused = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        write_data(folder)
        new_keys = set(options.new_keys.split(","))

        def compare(number):
            text = chosen[number][1]
            more = options.new_options.replace("{profile}", profile_of(text))
            old, new = (run(binary, f"{text} {besides}", folder / f"{number}-{which}", folder)
                        for which, binary, besides in zip(("old", "new"), binaries, ("", more)))
            if options.new_keys:
                old, new = ({part: value for part, value in each.items() if not part.startswith("bytes of")}
                            for each in (old, new))
            return old, differences(old, without(new_keys, new, old))

        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for (name, text), (old, lines) in zip(chosen, pool.map(compare, range(len(chosen)))):
                if "stderr" in old:
                    refused += 1
                    print(f"{name}\n    the old binary refuses this configuration: {old['stderr'][:300]}")
                if not lines:
                    continue
                different += 1
                print(name)
                print("    " + " ".join(arguments(text, data="DATA", output="OUTPUT")))
                for line in lines:
                    print("    " + line, flush=True)
    print(f"{len(chosen)} configurations: {len(chosen) - different} equal, {different} differ"
          + (f"; {refused} were refused by the old binary, so only the refusals were compared" if refused else ""))
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
