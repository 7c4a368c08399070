"""Shared by the scripts that measure the host: they run hetsgd and read results."""
import itertools
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
HETSGD = os.environ.get("HETSGD", str(ROOT / "build" / "release" / "apps" / "hetsgd" / "hetsgd"))
TABLES = ("<!-- tables: written by a script of experiments/ -->", "<!-- end of tables -->")


def write_tables(name, lines):
    """Replaces what stands between the markers of results/NAME. The text around them is written by hand."""
    path = ROOT / "results" / name
    before, _, rest = path.read_text().partition(TABLES[0])
    after = rest.partition(TABLES[1])[2]
    path.write_text("\n".join([before + TABLES[0], "", *lines, "", TABLES[1] + after]))


def write_section(name, title, lines):
    """Replaces the table of the section of this title in results/NAME; a new section comes last."""
    path = ROOT / "results" / name
    text = path.read_text()
    if f"## {title}\n" not in text:
        text += f"\n## {title}\n\n| \n"
    start = text.index("| ", text.index(f"## {title}\n"))
    end = text.find("\n\n", start)
    path.write_text(text[:start] + "\n".join(lines) + (text[end:] if end > 0 else "\n"))


def delicious():
    folder = os.environ.get("HETSGD_DATA_DIR")
    if not folder:
        sys.exit("HETSGD_DATA_DIR: found nothing, expected the folder with delicious_train.txt and delicious_test.txt")
    return [text for part in ("train", "test") for text in (f"--{part}", f"{folder}/delicious_{part}.txt")]


def mpi_environment():
    """For mpirun on this machine, as root and with more ranks than cores too."""
    return {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def hetsgd(command, options, good=(0,), launch=(HETSGD,)):
    """Calls hetsgd and returns its stdout; ends the script with its message if it fails. launch: as in
    ["mpirun", "-n", "2", HETSGD]."""
    call = [*launch, command, *map(str, options)]
    done = subprocess.run(call, capture_output=True, text=True, env=mpi_environment(), check=False)
    if done.returncode not in good:
        sys.exit(f"{' '.join(call)}\nended with exit code {done.returncode}:\n{done.stderr}")
    return done.stdout


def train(options, output, launch=(HETSGD,)):
    """The result in `output`; a finished run of the same configuration is kept (--resume)."""
    output.parent.mkdir(parents=True, exist_ok=True)
    hetsgd("train", ["--quiet", "--resume", "-o", output, "--redact", *options], good=(0, 3), launch=launch)
    return json.loads(output.read_text())


class Run(NamedTuple):
    """The result of a run of hetsgd train, and what the run took: elapsed seconds, those of the processor in its own code and in all, and
    the largest resident set."""
    result: dict
    host_s: float
    user_s: float
    processor_s: float
    peak_bytes: int


def measured(options, output):
    """A Run that writes the file `output`; ends the script with the program's message if it fails."""
    output.parent.mkdir(parents=True, exist_ok=True)
    command = [str(word) for word in [HETSGD, "train", "--quiet", "--overwrite", "-o", output, *options]]
    start = time.monotonic()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    talk = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)}\nended with exit code {os.waitstatus_to_exitcode(status)}:\n{talk}")
    return Run(json.loads(output.read_text()), time.monotonic() - start, usage.ru_utime, usage.ru_utime + usage.ru_stime,
               1024 * usage.ru_maxrss)


def calibrated(options, path, launch=(HETSGD,)):
    """The file that `hetsgd calibrate` writes; one that is there is kept."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        hetsgd("calibrate", [*options, "-o", path], launch=launch)
    return path


def time_to(result, metric, value):
    """Training seconds until the metric holds the value, a --target of the run; infinity if it never does."""
    for target in result["time_to_accuracy"]:
        if target["metric"] == metric and target["value"] == value:
            return math.inf if target["time_s"] is None else target["time_s"]
    raise ValueError(f"found no target {metric}>={value} in the result, expected a run with --target")


def kendall(rankings):
    """(Kendall's tau of the predicted and the measured order, the number of its pairs), over the pairs within a ranking whose measured
    ranges do not overlap. rankings: lists of (predicted, measured), each the values of the seeds. tau is None without a pair."""
    same = []
    for ranking in rankings:
        for one, other in itertools.combinations(ranking, 2):
            if max(one[1]) < min(other[1]) or max(other[1]) < min(one[1]):
                orders = {statistics.median(a) < statistics.median(b) for a, b in zip(one, other)}
                same.append(len(orders) == 1)
    return (2 * sum(same) - len(same)) / len(same) if same else None, len(same)


def spread(values, text):
    """The median with the smallest and the largest, each written by `text`."""
    return f"{text(statistics.median(values))} ({text(min(values))}..{text(max(values))})"


def show(seconds):
    return "not reached" if math.isinf(seconds) else f"{seconds:.3g}"
