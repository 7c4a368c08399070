"""The comparisons with PyTorch, whose place a program with known rates takes."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Rates by the options of the way: compiled products in BF16 are PyTorch's fastest, and eager ones in FP32 its slowest.
PYTORCH = """#!{python}
import json, sys
def figures(compiled):
    rate = 1000 * (1 + 2 * compiled + ("bf16" in sys.argv))
    return {{"samples_per_s": rate, "samples_per_cpu_s": rate, "tokens_per_s": rate, "peak_resident_bytes": 1 << 20,
             "loss": "gather", "form": "one", "version": "2"}}
compiled = "--compile" in sys.argv
mlp = "pytorch_mlp.py" in sys.argv[1]  # its compiled figures stand beside the eager ones
print(json.dumps({{**figures(compiled and not mlp), "compiled": figures(True) if compiled and mlp else None}}))
"""
BENCHMARK = """#!{python}
import json, sys
rate = 8000 if "_bf16/" in " ".join(sys.argv) else 2000
print(json.dumps({{"benchmarks": [{{"samples_per_s": rate, "floor_ratio": 0.5, "real_time": 64e9 / rate, "cpu_time": 64e9 / rate,
                                   "time_unit": "ns"}}]}}))
"""
WAYS = {"fp32": 1000, "fp32 compiled": 3000, "bf16": 2000, "bf16 compiled": 4000}


class Peers(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="hetsgd-peers-")))
        self.pytorch, self.benchmark = self.program("pytorch", PYTORCH), self.program("benchmark", BENCHMARK)

    def program(self, name, text):
        path = self.folder / name
        path.write_text(text.format(python=sys.executable))
        path.chmod(0o755)
        return path

    def row_of(self, script, program, only):
        output = self.folder / "rows.json"
        done = subprocess.run([sys.executable, "-B", ROOT / "scripts" / "peers" / script, program, "--python", self.pytorch, "--rounds", "2",
                               "--seconds", "0.05", "--only", only, "--json", output], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        row, = json.loads(output.read_text())["cases"]
        self.assertEqual(len(done.stdout.splitlines()), 2)
        return row

    def test_the_best_ways_of_both_are_compared(self):
        for script, only, unit in (("compare_images.py", "lenet-5/1", "samples_per_s"),
                                   ("compare_transformer.py", "gpt-micro 32 rows/1", "tokens_per_s")):
            with self.subTest(script=script):
                row = self.row_of(script, os.environ["HETSGD_BINARY"], only)
                self.assertEqual(row[f"pytorch_{unit}"], WAYS)
                rounds = [[run[unit] for run in row["hetsgd"][way]] for way in ("fp32", "bf16")]
                for ratio, ours in zip(row["ratios"], zip(*rounds)):
                    self.assertAlmostEqual(ratio, max(ours) / 4000)
                self.assertAlmostEqual(row["fp32_ratio"], sum(rounds[0]) / 2 / 3000)

    def test_benchmarks_have_a_case_for_bf16(self):
        for script, only, unit in (("compare_speed.py", "delicious/64", "samples_per_cpu_s"), ("compare_ctr.py", "step/deepfm/1024/1", "samples_per_s")):
            with self.subTest(script=script):
                row = self.row_of(script, self.benchmark, only)
                self.assertEqual((row[f"hetsgd_{unit}"], row[f"pytorch_{unit}"]), ({"fp32": 2000, "bf16": 8000}, WAYS))
                self.assertEqual((row["ratio"], row["fp32_ratio"]), (2, 2000 / 3000))
        row = self.row_of("compare_ctr.py", self.benchmark, "lookup/1024/1")  # lookups have no products
        self.assertEqual((row["hetsgd_samples_per_s"], row["pytorch_samples_per_s"], row["ratio"]), ({"fp32": 2000}, {"fp32": 1000}, 2))


if __name__ == "__main__":
    unittest.main()
