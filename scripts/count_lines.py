#!/usr/bin/env python3
"""Counts lines of code, without blank lines and comment lines: count_lines.py [REVISION] [--folders]

A line counts if something else than blanks and comments stands on it; docstrings of Python count. Files are those that git knows
in REVISION (default: the files of the working tree), C++ and CUDA in lib and apps, C++ and Python in tests, Python and shell elsewhere.

--folders  a line for every folder below these, too
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CPP = {".cpp", ".hpp", ".cu", ".cuh", ".h", ".c"}
# The groups that are counted: folders, and the kinds of files in them.
GROUPS = {
    "lib + apps (C++, CUDA)": (("lib/", "apps/"), CPP),
    "tests (C++, Python)": (("tests/",), CPP | {".py"}),
    "scripts + experiments (Python)": (("scripts/", "experiments/"), {".py"}),
}
# A string or character hides comment marks in it, a comment hides quotes; blanks stand for both.
TOKENS = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', re.DOTALL)


def code_lines(path, text):
    """Lines of `text` that hold code."""
    if pathlib.PurePath(path).suffix == ".py":
        return sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in text.splitlines())
    without = TOKENS.sub(lambda found: re.sub(r"[^\n]", " ", found[0]) if found[0].startswith("/") else re.sub(r"[^\n]", "x", found[0]), text)
    return sum(bool(line.strip()) for line in without.splitlines())


def files(revision):
    """(path, text) of every file of `revision`, or of the working tree."""
    if revision is None:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for path in filter(None, listed.split("\0")):
            if (ROOT / path).is_file() and any(path.endswith(suffix) for suffix in CPP | {".py"}):
                yield path, (ROOT / path).read_text(encoding="utf-8", errors="replace")
        return
    listed = subprocess.run(["git", "ls-tree", "-rz", "--name-only", revision], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for path in filter(None, listed.split("\0")):
        if any(path.endswith(suffix) for suffix in CPP | {".py"}):
            yield path, subprocess.run(["git", "show", f"{revision}:{path}"], cwd=ROOT, check=True, capture_output=True).stdout.decode(errors="replace")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", nargs="?")
    parser.add_argument("--folders", action="store_true")
    arguments = parser.parse_args()
    lines, count = collections.Counter(), collections.Counter()
    for path, text in files(arguments.revision):
        for name, (folders, suffixes) in GROUPS.items():
            if path.startswith(folders) and pathlib.PurePath(path).suffix in suffixes:
                keys = [name] + (["  " + "/".join(path.split("/")[:2])] if arguments.folders else [])
                for key in keys:
                    lines[key] += code_lines(path, text)
                    count[key] += 1
    for key in sorted(lines, key=lambda key: (key.startswith(" "), key)):
        print(f"{key:<40} {lines[key]:>7} lines {count[key]:>5} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
