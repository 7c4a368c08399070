"""The comparisons with PyTorch, whose place a program with known rates takes."""

import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Rates by the options of the way: compiled products in BF16 are PyTorch's fastest, and eager ones its slowest.
PYTORCH = """#!{python}
import json, sys
rate = 1000 * (1 + 2 * ("--compile" in sys.argv) + ("bf16" in sys.argv))
print(json.dumps({{"samples_per_s": rate, "tokens_per_s": rate, "peak_resident_bytes": 1 << 20}}))
"""


class Peers(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="hetsgd-peers-")))
        self.pytorch = self.folder / "pytorch"
        self.pytorch.write_text(PYTORCH.format(python=sys.executable))
        self.pytorch.chmod(self.pytorch.stat().st_mode | stat.S_IXUSR)

    def rows_of(self, script, only):
        output = self.folder / "rows.json"
        done = subprocess.run([sys.executable, "-B", ROOT / "scripts" / "peers" / script, os.environ["HETSGD_BINARY"], "--python", self.pytorch,
                               "--rounds", "2", "--seconds", "0.05", "--only", only, "--json", output], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(output.read_text())["cases"]
        self.assertEqual(len(done.stdout.splitlines()), 1 + len(rows))
        return rows

    def test_the_best_ways_of_both_are_compared(self):
        for script, only, unit in (("compare_images.py", "lenet-5/1", "samples_per_s"),
                                   ("compare_transformer.py", "gpt-micro 32 rows/1", "tokens_per_s")):
            with self.subTest(script=script):
                row, = self.rows_of(script, only)
                self.assertEqual(row[f"pytorch_{unit}"], {"fp32": 1000, "fp32 compiled": 3000, "bf16": 2000, "bf16 compiled": 4000})
                rounds = [[run[unit] for run in row["hetsgd"][way]] for way in ("fp32", "bf16")]
                for ratio, ours in zip(row["ratios"], zip(*rounds)):
                    self.assertAlmostEqual(ratio, max(ours) / 4000)
                self.assertAlmostEqual(row["fp32_ratio"], sum(rounds[0]) / 2 / 3000)


if __name__ == "__main__":
    unittest.main()
