"""What time means: the ledger of host time, and the clocks of other benchmarks."""

import json
import time
import unittest

from program import ProgramTest

PHASES = ("load_s", "init_s", "train_s", "prepare_s", "eval_s", "record_s")
REAL = ["--algorithm", "ssgd", "--workers", "2", "--cluster", "threads", "--devices", "cpu:1", "--mega-batch", "2",
        "--target", "p1>=0.01"]


class Clocks(ProgramTest):
    def compare(self, clock, name, code=0):
        return self.run_program("compare", name, "--clock", clock, "--format", "json", code=code)

    def test_the_ledger_is_the_time_of_the_run(self):
        begin = time.monotonic()
        self.train("r.json", *REAL)
        outside = time.monotonic() - begin
        wall = self.result("r.json")["wall"]
        self.assertAlmostEqual(sum(wall[phase] for phase in PHASES), wall["total_s"], places=6)
        self.assertLessEqual(wall["total_s"], outside)
        self.run_program("validate", "r.json")

    def test_a_comparison_takes_the_clock_that_it_is_told(self):
        self.train("r.json", *REAL)
        (target,) = self.result("r.json")["time_to_accuracy"]
        for clock in ("algoperf", "mlperf", "dawnbench"):
            compared = json.loads(self.compare(clock, "r.json").stdout)
            self.assertEqual(compared["clock"], clock)
            self.assertEqual(compared["runs"][0]["targets"][0]["time_s"], target["clocks"][clock + "_s"])
        self.assertEqual(json.loads(self.compare("training", "r.json").stdout)["runs"][0]["targets"][0]["time_s"],
                         target["time_s"])

    def test_simulated_time_is_not_the_hosts(self):
        self.train("r.json", "--algorithm", "ssgd", "--workers", "2", "--mega-batch", "2", "--target", "p1>=0.01")
        clocks = self.result("r.json")["time_to_accuracy"][0]["clocks"]
        self.assertIsNone(clocks["mlperf_s"])
        self.assertIn("simulated", clocks["mlperf_s_reason"])
        self.assertIn("--clock: found mlperf, which r.json does not have (simulated",
                      self.compare("mlperf", "r.json", code=2).stderr)


if __name__ == "__main__":
    unittest.main()
