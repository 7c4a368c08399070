#!/usr/bin/env python3
"""Finds comments that break four rules of how hetsgd speaks: lint_comments.py [FILE...]

A comment names its subject: it does not open with "Of", "Who", "Whose", "Those" or "What" in place of one. In C++ and CUDA this rule
holds for every sentence (later ones may open with "What"), and a line with a comment has at most 100 columns. A header says "Throws Error(usage) if ...",
not "Errors: usage". Without FILE it checks all sources, scripts and specifications. Exit code 1: it found a fault.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
COLUMNS = 100
SOURCE = re.compile(r"\.(cpp|hpp|cu|cuh|h)$")
HEADER = re.compile(r"\.(hpp|cuh|h)$")
SCRIPT = re.compile(r"\.(py|sh|sbatch|toml|cmake)$|(^|/)CMakeLists\.txt$|^\.ci/")
WHOLE = re.compile(r"^\s*//+!?<?\s?(.*)$")  # a line that is a comment
WHOLE_IN_SCRIPT = re.compile(r'^\s*(?:#+|""")\s?(.*)$')  # the same, or the first line of a docstring
TRAILING = re.compile(r"[;,{})]\s+// (.*)$")  # one behind code
OPENING = re.compile(r"(Of|Who|Whose|Whom|Those|What) ")
LATER = re.compile(r"[.!?] (Of|Who|Whose|Whom|Those) ")  # the opening of a later sentence
ERRORS = re.compile(r"\bErrors *(\([a-z]+\))? *:")


def problems(name, text):
    """[message] of one file."""
    found, above, source = [], "", SOURCE.search(name)
    for number, line in enumerate(text.splitlines(), 1):
        whole = (WHOLE if source else WHOLE_IN_SCRIPT).match(line)
        comment = whole or (source and TRAILING.search(line))
        words = comment[1] if comment else ""
        opening = not (whole and above) and OPENING.match(words) or source and LATER.search(f"{above[-1:]} {words}")
        if opening:
            found.append(f'{name}:{number}: found a sentence that opens with "{opening[1]}", expected its subject')
        errors = HEADER.search(name) and ERRORS.search(words)
        if errors:
            found.append(f'{name}:{number}: found "{errors[0]}", expected "Throws Error(usage) if ..."')
        if source and words and len(line) > COLUMNS and not re.search(r"NOLINT|https?:", line):
            found.append(f"{name}:{number}: found {len(line)} columns, expected at most {COLUMNS}")
        above = words.rstrip() if whole else ""
    return found


def main(names):
    if not names:
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
        names = [name for name in listed.stdout.split() if (SOURCE.search(name) or SCRIPT.search(name)) and (ROOT / name).is_file()]
    found = [message for name in names for message in problems(name, (ROOT / name).read_text(encoding="utf-8"))]
    print(*found, f"comments of {len(names)} files: {len(found)} to mend", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
