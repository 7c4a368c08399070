"""The meaning of time: the ledger of host time, and the clocks of other benchmarks."""

import time

from program import ProgramTest

PHASES = ("load_s", "init_s", "train_s", "prepare_s", "eval_s", "record_s")
RUN = ["--algorithm", "ssgd", "--workers", "2", "--mega-batch", "2", "--target", "p1>=0.01"]


class Clocks(ProgramTest):
    def test_a_comparison_takes_the_clock_that_it_is_told(self):
        begin = time.monotonic()
        self.train("r.json", *RUN, "--cluster", "threads", "--devices", "cpu:1")
        outside = time.monotonic() - begin
        result = self.result("r.json")
        self.assertAlmostEqual(sum(result["wall"][phase] for phase in PHASES), result["wall"]["total_s"], places=6)
        self.assertLessEqual(result["wall"]["total_s"], outside)
        self.run_program("validate", "r.json")
        (target,) = result["time_to_accuracy"]
        times = {"training": target["time_s"], **{clock: target["clocks"][clock + "_s"] for clock in ("algoperf", "mlperf", "dawnbench")}}
        for clock, time_s in times.items():
            compared = self.json_of("compare", "r.json", "--clock", clock, "--format", "json")
            self.assertEqual(compared["clock"], clock)
            self.assertEqual(compared["runs"][0]["targets"][0]["time_s"], time_s)
