"""Shared by the scripts that measure the host: they run hetsgd and read results."""
import json
import math
import os
import pathlib
import subprocess
import sys

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


def time_to(result, metric, value):
    """Training seconds until the metric holds the value, a --target of the run; infinity if it never does."""
    for target in result["time_to_accuracy"]:
        if target["metric"] == metric and target["value"] == value:
            return math.inf if target["time_s"] is None else target["time_s"]
    raise ValueError(f"found no target {metric}>={value} in the result, expected a run with --target")


def show(seconds):
    return "not reached" if math.isinf(seconds) else f"{seconds:.3g}"
