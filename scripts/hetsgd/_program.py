"""Runs the program from Python: one run, or a sweep."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence

from . import _errors

# Variables that a call of the program must not inherit: it would take them for options.
OWN_VARIABLES = ("HETSGD_BINARY", "HETSGD_VERSION")


def program() -> str:
    """The path of the program: HETSGD_BINARY, else the one of the install, bundle or source tree that holds this package, else
    the one in PATH. Raises Error."""
    package = pathlib.Path(__file__).resolve().parent
    candidates = [package.parents[3] / "bin" / "hetsgd", package.parents[1] / "build" / "release" / "apps" / "hetsgd" / "hetsgd"]
    named = os.environ.get("HETSGD_BINARY")
    found = named or next((str(path) for path in candidates if os.access(path, os.X_OK)), None) or shutil.which("hetsgd")
    if not found:
        raise _errors.Error(f"found no program hetsgd at {' or '.join(map(str, candidates))} or in PATH", _errors.RUNTIME,
                            "HETSGD_BINARY names it")
    return found


def environment() -> dict[str, str]:
    """The variables that a call of the program inherits."""
    return {key: value for key, value in os.environ.items() if key not in OWN_VARIABLES}


def call(arguments: Sequence[str]) -> subprocess.CompletedProcess:
    """Runs the program and returns what subprocess.run() returns; stdout and stderr are texts."""
    return subprocess.run([program(), *arguments], env=environment(), capture_output=True, text=True, check=False)


def ask(*arguments: str) -> str:
    """The text that a command of the program prints to stdout. Raises Error with the program's own message and exit code."""
    done = call(arguments)
    if done.returncode != 0:
        raise error_of(done.stderr, done.returncode)
    return done.stdout


def error_of(log: str, code: int) -> _errors.Error:
    """The error that the program has written to stderr."""
    found = re.search("^error: (.*)(?:\nhint: (.*))?", log, re.MULTILINE)
    return _errors.Error(found[1] if found else f"hetsgd ended with {code}", code, found[2] or "" if found else "")


def _flags(options: dict) -> list[str]:
    """The flags of keyword arguments: batch_size=64 is --batch-size=64, True and False are --flag and --no-flag, a list repeats the
    flag if it holds texts and is joined by commas if it holds numbers. None: not given."""
    flags = []
    for key, value in options.items():
        name = "--" + key.rstrip("_").replace("_", "-")
        if isinstance(value, bool):
            flags.append(name if value else "--no-" + name[2:])
        elif isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value):
            flags += [f"{name}={each}" for each in value]
        elif isinstance(value, (list, tuple)):
            flags.append(f"{name}={','.join(map(str, value))}")
        elif value is not None:
            flags.append(f"{name}={value}")
    return flags


def run(output: str | None = None, **options) -> dict:
    """Runs `hetsgd train` and returns its result, the document that `hetsgd validate --schema` describes.

    output   path of the result file; an existing one is replaced. None: a temporary file
    options  those of `hetsgd train` by name: run(train="generate:tiny", algorithm="ssgd", workers=4, learning_rate=0.3)

    A run that diverged (exit code 8) or missed a target is a result like any other. Raises Error with the program's message."""
    with tempfile.TemporaryDirectory(prefix="hetsgd-") as folder:
        path = output or os.path.join(folder, "result.json")
        done = call(["train", *_flags(options), "--quiet", "--overwrite", f"--output={path}"])
        if done.returncode not in (0, _errors.TARGET_MISSED, _errors.DIVERGED):
            raise error_of(done.stderr, done.returncode)
        with open(path, encoding="utf-8") as file:
            return json.load(file)


def sweep(specification: str, output: str, **options):
    """Runs `hetsgd sweep`, or goes on with one, and returns the Results of its runs.

    specification  path of the TOML file
    output         folder of the sweep
    options        those of `hetsgd sweep` by name, for example jobs=2

    Raises Error with the program's message."""
    ask("sweep", specification, f"--output={output}", *_flags(options))
    from . import load  # pylint: disable=import-outside-toplevel  # pandas is needed here alone
    return load(output)
