"""scripts/same_results.py finds a difference in each part of a result, and none between equal runs.

The binaries are stand-ins that write a result of their own; one real configuration of each algorithm shows that
the program takes the options.
"""

import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts")]
import same_results  # noqa: E402

STAND_IN = """#!/usr/bin/python3
import json, sys
value = lambda name: sys.argv[sys.argv.index(name) + 1]
result = {"status": "completed", "curve": [{"time_s": 1.0, "p1": 0.5}], "events": [], "histograms": {},
          "started_at": "%(started)s"}
result.update(%(changes)s)
open(value("-o"), "w").write(json.dumps(result))
open(value("--dump-parameters"), "wb").write(%(parameters)s)
"""


class SameResults(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.old = self.stand_in("old")

    def stand_in(self, name, changes="{}", parameters="b'1234'"):
        path = self.folder / name
        path.write_text(STAND_IN % {"started": name, "changes": changes, "parameters": parameters})
        path.chmod(0o755)
        return str(path)

    def compare(self, new, only="^sgd/base$", old=None, more=()):
        said = io.StringIO()
        sys.argv = ["same_results.py", old or self.old, new, "--only", only, *more]
        with contextlib.redirect_stdout(said):
            code = same_results.main()
        return code, said.getvalue()

    def test_equal_runs(self):
        code, said = self.compare(self.stand_in("new"))
        self.assertEqual((code, said), (0, "1 configurations: 1 equal, 0 differ\n"))

    def test_the_last_bit_of_a_number(self):
        code, said = self.compare(self.stand_in("new", "{'curve': [{'time_s': 1.0000000000000002, 'p1': 0.5}]}"))
        self.assertEqual(code, 1)
        self.assertIn("curve[0].time_s: 1.0 -> 1.0000000000000002", said)

    def test_keys_of_the_new_binary_alone(self):
        new = self.stand_in("new", "{'curve': [{'time_s': 1.0, 'p1': 0.5, 'bytes_sent': 3}]}")
        self.assertIn("curve[0].bytes_sent: only in new", self.compare(new)[1])
        self.assertEqual(self.compare(new, more=["--new-keys", "bytes_sent"])[0], 0)
        self.assertEqual(self.compare(self.old, old=new, more=["--new-keys", "bytes_sent"])[0], 1)  # lost

    def test_parameters_and_events(self):
        code, said = self.compare(self.stand_in("new", "{'events': [{}]}", "b'1235'"))
        self.assertEqual(code, 1)
        self.assertIn("parameters: ", said)
        self.assertIn("events: 0 -> 1 elements", said)

    def test_a_lost_part(self):
        code, said = self.compare(self.stand_in("new", "{'histograms': None}"))
        self.assertEqual(code, 1)
        self.assertIn("histograms: {} -> null", said)

    def test_options_of_the_new_binary_alone(self):
        new = self.stand_in("new", "{'warnings': [value('--server-profile')]}")
        more = ["--new-options=--server-profile {profile}"]
        self.assertIn("warnings: null -> [\"v100\"]", self.compare(new, more=more)[1])
        self.assertIn("warnings: null -> [\"cpu\"]", self.compare(new, "^sgd/cpu$", more=more)[1])

    def test_no_configuration_has_the_name(self):
        for only in ("^sgd/nothing$", "("):
            with contextlib.redirect_stderr(io.StringIO()) as said:
                self.assertEqual(self.compare(self.old, only)[0], 2)
            self.assertIn(f"found {only}, expected a regular expression", said.getvalue())

    def test_program(self):
        binary = os.environ["HETSGD_BINARY"]
        code, said = self.compare(binary, "/base$", binary)
        algorithms = len(same_results.ALGORITHMS)
        self.assertEqual((code, said), (0, f"{algorithms} configurations: {algorithms} equal, 0 differ\n"))

    def test_records_and_traces(self):
        other = self.folder / "other"
        other.write_text(f'#!/bin/sh\nexec {os.environ["HETSGD_BINARY"]} "$@" --speed 0.5\n')
        other.chmod(0o755)
        said = self.compare(os.environ["HETSGD_BINARY"], "^ssgd/failures$", str(other))[1]
        self.assertIn("    record[0].config.speed", said)
        self.assertIn("    trace[0].traceEvents", said)
        self.assertIn("    bytes of the trace: ", said)
