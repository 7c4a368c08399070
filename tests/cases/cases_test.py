"""Stored cases: inputs, and the right values for them, found apart from the program.

Every JSON file of this folder is a list of cases. A case has

  name      what is tried, unique among all files
  seen      where such a fault was seen: a public report, or what a user tried
  right     why the value is right, in a sentence
  steps     what is done in an empty folder, in this order; the last step is a command, which is judged:
              "replay steps.csv --json"                          a command of the program
              {"write": "a.csv", "text": "..."}                  a file
              {"edit": "a.json", "to": "b.json", "set": {"/key/0": 1}, "line": 1}
                                                                 a copy of a JSON file with other values; line: of a file of JSON lines
              {"make": "slow_phases", ...}                       a function of makers.py; the other keys are its arguments
  expect    what is right for the last command:
              "code": 4                                          its exit code; without it 0
              "json": {"/0/p": 0.1, "/1/on": [8, 13]}            values of the JSON that it prints; two numbers: from, to
              "says": ["regular expression"], "says_not": [...]  its output and error output together
              "longest": 200                                     the most characters of a line of both
              "page": ["regular expression"]                     what report.html shows in a browser
  computed  a function of right_values.py that computes "json" (or lies within its limits) in the folder of the case, without the program
  fails     only where the program does not yet do what is right: the reason. The case then has to fail
"""

import json
import math
import pathlib
import re
import shlex
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "cli"), str(HERE)]

import makers  # noqa: E402
import right_values  # noqa: E402
from browser import Browser, find_browser  # noqa: E402
from program import ProgramTest  # noqa: E402

CASES = [(path.name, case) for path in sorted(HERE.glob("*.json")) for case in json.loads(path.read_text(encoding="utf-8"))]
KEYS = {"name": str, "seen": str, "right": str, "steps": list, "expect": dict, "computed": str, "fails": str}
EXPECTED = {"code": int, "json": dict, "says": list, "says_not": list, "longest": int, "page": list}
OPTIONAL = {"computed", "fails", *EXPECTED}


def value_at(document, pointer):
    """The value at a JSON pointer, None if there is none."""
    for key in pointer.split("/")[1:]:
        try:
            document = document[int(key) if isinstance(document, list) else key]
        except (LookupError, ValueError):
            return None
    return document


def set_at(document, pointer, value):
    *above, key = pointer.split("/")[1:]
    parent = value_at(document, "/".join(["", *above]))
    parent[int(key) if isinstance(parent, list) else key] = value


def agrees(found, right):
    if isinstance(right, list) and len(right) == 2 and isinstance(found, (int, float)):
        return right[0] <= found <= right[1]
    if isinstance(right, float) and isinstance(found, (int, float)):
        return math.isclose(found, right, rel_tol=1e-9)
    return found == right


class Cases(ProgramTest):
    def check_keys(self, document, keys):
        for key, value in document.items():
            self.assertIsInstance(value, keys.get(key, ()), key)
        self.assertLessEqual(set(keys) - set(document), OPTIONAL)

    def do(self, step):
        if isinstance(step, str):
            self.run_program(*shlex.split(step))
        elif "write" in step:
            (self.folder / step["write"]).write_text(step["text"], encoding="utf-8")
        elif "edit" in step:
            lines = [(self.folder / step["edit"]).read_text(encoding="utf-8")]
            if "line" in step:
                lines = lines[0].splitlines(keepends=True)
            document = json.loads(lines[step.get("line", 1) - 1])
            for pointer, value in step["set"].items():
                set_at(document, pointer, value)
            lines[step.get("line", 1) - 1] = json.dumps(document) + "\n"
            (self.folder / step["to"]).write_text("".join(lines), encoding="utf-8")
        else:
            getattr(makers, step["make"])(self.folder, **{key: value for key, value in step.items() if key != "make"})

    def check_computed(self, case):
        for pointer, value in getattr(right_values, case["computed"])(self.folder).items():
            self.assertTrue(agrees(value, case["expect"]["json"][pointer]), f"{pointer}: computed {value}")

    def judge(self, command, expect):
        done = self.run_program(*shlex.split(command), code=expect.get("code", 0))
        printed = json.loads(done.stdout) if "json" in expect else None
        for pointer, right in expect.get("json", {}).items():
            found = value_at(printed, pointer)
            self.assertTrue(agrees(found, right), f"{pointer}: found {found}, expected {right}")
        for pattern in expect.get("says", []):
            self.assertRegex(done.stdout + done.stderr, pattern)
        for pattern in expect.get("says_not", []):
            self.assertNotRegex(done.stdout + done.stderr, pattern)

        lines = (done.stdout + done.stderr).splitlines()
        self.assertLessEqual(max(map(len, lines), default=0), expect.get("longest", math.inf))
        for pattern in expect.get("page", []):
            self.assertRegex(self.shown("report.html"), pattern)

    def shown(self, page):
        with tempfile.TemporaryDirectory(prefix="hetsgd-chromium-", ignore_cleanup_errors=True) as profile:
            browser = Browser(profile)
            self.addCleanup(browser.close)
            browser.open(self.folder / page)
            return browser.evaluate("document.body.innerText")

    def check(self, case):
        self.check_keys(case, KEYS)
        self.check_keys(case["expect"], EXPECTED)
        if "page" in case["expect"] and find_browser() is None:
            self.skipTest("no chromium here")
        for step in case["steps"][:-1]:
            self.do(step)
        if "computed" in case:
            self.check_computed(case)
        if "fails" not in case:
            self.judge(case["steps"][-1], case["expect"])
            return
        with self.assertRaises(self.failureException, msg="the program does what is right by now: remove \"fails\""):
            self.judge(case["steps"][-1], case["expect"])

    def test_names_differ(self):
        names = [case["name"] for _, case in CASES]
        self.assertEqual(len(names), len(set(names)))


def test_of(case):
    return lambda self: self.check(case)


for file, case in CASES:
    setattr(Cases, f"test_{file.removesuffix('.json')}_{re.sub('[^a-z0-9]+', '_', case['name'].lower())}", test_of(case))

if __name__ == "__main__":
    unittest.main()
