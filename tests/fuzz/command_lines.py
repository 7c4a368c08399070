#!/usr/bin/env python3
"""Runs random command lines of hetsgd, valid and invalid, on valid and mutated files, and judges how they end.

  command_lines.py [--seed S] [--seconds T] [--count N] [--only I] [--keep DIR] [--jobs J] [--mutate FILES] HETSGD

Properties: no crash, no hang, no "this is a bug", no exit code that is not documented, every result that was written is valid,
no file changes that the command line does not name as an output, none outside its folder, and no temporary file is left.
Command line number I of a seed is always the same: --only I repeats it, --keep DIR leaves its files there.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import itertools
import json
import os
import pathlib
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from command_line_draws import LINKS, RESUMED, Draws, outputs_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT_S = 60  # most take a tenth of a second
MEMORY_BYTES = 6 << 30
DOCUMENTED = range(9)  # exit codes (README)
TINY = ["train", "--train", "generate:tiny?scale=0.1", "--test", "generate:tiny?scale=0.1", "--hidden", "4", "--batch-size", "16", "--mega-batch", "4",
        "--epochs", "1", "--workers", "2", "--quiet"]
MANIFEST = {"name": "small", "title": "t", "task": "binary", "features": 3, "labels": 1, "format": "libsvm", "split": "s", "page": "p",
            "preparation": "none", "licence": "l", "paper": "p",
            "train": {"name": "data.svm", "address": None, "sha256": None, "bytes": None, "rows": 4, "nonzeros": None},
            "test": {"name": "test.svm", "address": None, "sha256": None, "bytes": None, "rows": 2, "nonzeros": None}}
NET = {"name": "n", "input": [1, 8, 8], "nodes": [{"name": "a", "type": "conv", "channels": 4, "kernel": 3, "padding": 1}, {"type": "relu"},
                                                  {"type": "pool", "kernel": 2, "stride": 2}, {"type": "fc", "units": 3}, {"type": "softmax"}]}
SPEC = """name = "t"
seeds = "1:2"
[metric]
name = "p1"
goal = "time_to_target"
target = 0.2
[settings]
train = "generate:tiny?scale=0.1"
test = "generate:tiny?scale=0.1"
hidden = 4
batch_size = 16
workers = 2
epochs = 1
[[cases]]
name = "a"
settings = {algorithm = "ssgd"}
[[cases]]
name = "b"
settings = {algorithm = "local-sgd", local_steps = 2}
[tuning]
seeds = [1]
validation = 0.2
[tuning.parameters.learning_rate]
values = [0.1, 1]
"""
XC = "4 5 3\n0,1 0:1 2:0.5\n2 1:1\n 3:1 4:2\n1 0:1\n"
TEXT = "abcabd abba cab\nbad cab\n\nabc dab abcd\n" * 8
SVM = "1 1:1 2:1\n0 3:1\n1 2:1\n0 1:0.5\n"


def environment(home):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HETSGD_")} | {"HETSGD_PYTHON": sys.executable}
    return {**kept, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "XDG_DATA_HOME": str(home / "share"), "TMPDIR": str(home / "tmp")}


def make_fixtures(binary, folder):
    """The contents of the files that every command line finds in its folder."""
    home = folder / "home"
    (home / "tmp").mkdir(parents=True)

    def hetsgd(*words):
        return subprocess.run([binary, *words], cwd=folder, env=environment(home), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True,
                              text=True).stdout
    hetsgd(*TINY, "--algorithm", "adaptive", "--target", "p1>=0.1", "-o", "result.json")
    hetsgd(*TINY, "--algorithm", "ssgd", "--seed", "2", "--record-steps", "-o", "other.json")
    hetsgd("tune", *TINY[1:], "--algorithms", "ssgd", "--grid", "0.1,1", "--tune-seeds", "1", "-o", "tuning.json")
    hetsgd("train", *RESUMED, "--checkpoint", "run.ck", "--checkpoint-every", "1", "-o", "saved.json", "--quiet")
    hetsgd("train", *RESUMED, "--straggler", "kind=uniform,max=1ms", "--record-timeline", "record.jsonl", "-o", "recorded.json", "--quiet")
    made = {name: (folder / name).read_text() for name in ("result.json", "other.json", "tuning.json", "record.jsonl")}
    return {**made, "spec.toml": SPEC, "net.json": json.dumps(NET), "config.json": json.dumps({"train": "generate:tiny?scale=0.1", "hidden": [4], "epochs": 1}),
            "manifest.json": json.dumps(MANIFEST), "data.txt": XC, "data.svm": SVM, "test.svm": SVM, "text.txt": TEXT,
            "run.ck": (folder / "run.ck").read_bytes(), "in": XC, **dict.fromkeys(("kept.txt", "kept.json", "kept.ck.1", "in.1"), "precious\n"),
            "trace.csv": "rank,iteration,delay_s\n0,0,0.004\n*,1,0.0001\n",
            "steps.csv": "worker,step,seconds\n0,0,0.004\n1,0,0.001\n0,1,0.002\n1,1,0.003\n",
            "profile.json": (ROOT / "lib/cluster/profiles/v100.json").read_text(),
            "network.json": (ROOT / "lib/cluster/networks/pcie3.json").read_text()}


def state_of(folder):
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*")
            if path.is_file() and not path.is_symlink()}


def limits():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run_limited(command, work, home):
    """(exit code or None if it hung, output)."""
    process = subprocess.Popen(command, cwd=work, env=environment(home), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=limits)
    try:
        output, _ = process.communicate(timeout=LIMIT_S)
        return process.returncode, output.decode(errors="replace")
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return None, output.decode(errors="replace")


def problem_of_end(code, output):
    if code is None:
        return f"no end within {LIMIT_S} s"
    if code < 0:
        return f"ended by signal {-code}"
    if code not in DOCUMENTED:
        return f"exit code {code}, which is not documented"
    if "this is a bug" in output:
        return "it says that this is a bug"
    return ""


def problem_of_files(words, before, after):
    outputs = outputs_of(words)
    writes_operands = words[:1] == ["data"]
    for name, old in before.items():
        if after.get(name) == old:
            continue
        is_output = writes_operands or any(os.path.normpath(f"work/{output}") == name for output in outputs)
        if not ("--overwrite" in words and is_output and name.startswith("work/")):
            return f"{name} {'was changed' if name in after else 'is gone'}, which no output names with --overwrite"
    new = set(after) - set(before) - {os.path.normpath(f"work/{output}") for output in outputs}
    strangers = [name for name in new if not name.startswith(("work/", "home/cache/", "home/share/"))]
    if strangers:
        return f"left outside its folder: {strangers[0]}"
    temporary = [name for name in new if re.search(r"\.(tmp|part|partial)\b|~$|\.tmp", name)]
    if temporary:
        return f"a temporary file is left: {temporary[0]}"
    return ""


def written_results(after, before, work):
    """Result and tuning files that this command wrote."""
    for name in sorted(after):
        if name.endswith(".json") and after[name] != before.get(name) and name.startswith("work/"):
            try:
                document = json.loads((work.parent / name).read_text())
            except (UnicodeDecodeError, ValueError):
                continue
            if isinstance(document, dict) and "schema_version" in document and ("curve" in document or "trials" in document):
                yield (work.parent / name)


def problem(binary, words, files, fixtures, box):
    """The fault of a command line ("" is none), its exit code and its messages."""
    work, home = box / "work", box / "home"
    for folder in (work, home / "tmp", home / "cache", home / "share", box / "beside"):
        folder.mkdir(parents=True)
    for folder in (box / "beside", home, home / "share"):
        (folder / "precious").write_text("precious\n")
    for name, content in {**fixtures, **files}.items():
        (work / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    for name, target in LINKS.items():
        (work / name).symlink_to(target)
    before = state_of(box)
    code, output = run_limited([binary, *words], work, home)
    after = state_of(box)
    what = problem_of_end(code, output) or problem_of_files(words, before, after)
    for path in () if what else written_results(after, before, work):
        valid, said = run_limited([binary, "validate", str(path)], work, home)
        if valid != 0:
            return f"{path.name} is not valid", code, said
    return what, code, output


class Run:
    def __init__(self, options, folder):
        self.options = options
        self.binary = str(pathlib.Path(options.hetsgd).resolve())
        self.folder = folder
        template = folder / "template"
        self.fixtures = make_fixtures(self.binary, template)
        self.draws = Draws(lambda words: subprocess.run([self.binary, *words], env=environment(template / "home"), stdout=subprocess.PIPE,
                                                        stderr=subprocess.DEVNULL, text=True, check=False).stdout, self.fixtures,
                           options.mutate.split(",") if options.mutate else ())
        self.end = time.monotonic() + options.seconds
        self.codes = collections.Counter()  # how the command lines ended

    def one(self, number):
        """The report of a failure, "" if all is well, None if the time is up."""
        if time.monotonic() > self.end:
            return None
        words, files = self.draws.draw(random.Random(f"{self.options.seed}/{number}"))
        words = [word.replace("\0", "") for word in words]
        box = pathlib.Path(self.options.keep or self.folder) / str(number)
        try:
            what, code, output = problem(self.binary, words, files, self.fixtures, box)
        finally:
            if not self.options.keep:
                shutil.rmtree(box, ignore_errors=True)
        self.codes[code] += 1
        if not what:
            return ""
        changed = f" with a mutated {', '.join(files)}" if files else ""
        return (f"FAILED --seed {self.options.seed} --only {number}: {what}{changed}\n  hetsgd {shlex.join(words)[:1500]}\n"
                + "".join(f"  | {line[:300]}\n" for line in output.splitlines()[-6:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hetsgd")
    parser.add_argument("--seed", default="1", help="of all command lines (1)")
    parser.add_argument("--seconds", type=float, default=1e9, help="none is begun after so long")
    parser.add_argument("--count", type=int, default=None, help="so many command lines; without it and --seconds: 1000")
    parser.add_argument("--only", type=int, help="this one alone")
    parser.add_argument("--keep", help="leave the folders of the command lines here")
    parser.add_argument("--mutate", help="only commands that read one of these files, mutated, such as record.jsonl,steps.csv")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="at once (all cores)")
    options = parser.parse_args()
    if options.count is None and options.seconds > 1e8:
        options.count = 1000
    numbers = [options.only] if options.only is not None else range(options.count) if options.count else itertools.count()
    ran = failed = 0
    with tempfile.TemporaryDirectory(prefix="hetsgd-command-lines-") as folder, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        run = Run(options, pathlib.Path(folder))
        numbers = iter(numbers)
        while batch := list(itertools.islice(numbers, 16 * options.jobs)):
            outcomes = list(pool.map(run.one, batch))
            for outcome in outcomes:
                ran += outcome is not None
                failed += bool(outcome)
                if outcome:
                    print(outcome, flush=True)
            if None in outcomes:
                break
    codes = ", ".join(f"{code}: {times}" for code, times in sorted(run.codes.items(), key=str))
    print(f"{ran} command lines of seed {options.seed}, {failed} failed; exit codes {codes}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
