"""Every result that the tests of lib/result make from records by hand is valid."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import package  # noqa: F401  # finds the package
from hetsgd import _validate


class WrittenResults(unittest.TestCase):
    def test_all_are_valid(self):
        program = os.environ.get("HETSGD_RESULT_TESTS")
        if not program:
            self.skipTest("HETSGD_RESULT_TESTS names no program")
        with tempfile.TemporaryDirectory(prefix="hetsgd-judge-") as folder:
            path = pathlib.Path(folder, "results.jsonl")
            subprocess.run([program, "--gtest_filter=ResultJson.*"], env={**os.environ, "HETSGD_TEST_RESULTS": str(path)}, check=True,
                           stdout=subprocess.DEVNULL)
            documents = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        self.assertGreater(len(documents), 20)
        self.assertEqual([finding.line() for document in documents for finding in _validate.validate_result(document)], [])
