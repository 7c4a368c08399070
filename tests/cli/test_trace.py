"""--trace: a file in the format of trace viewers."""

import json
import unittest

from program import ProgramTest


class Trace(ProgramTest):
    def test_every_worker_has_a_line_of_ranges(self):
        self.train("r.json", "--algorithm", "ssgd", "--workers", "2", "--trace", "t.json")
        events = json.loads((self.folder / "t.json").read_text())["traceEvents"]
        names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
        self.assertEqual(names, {0: "worker 0", 1: "worker 1"})
        elapsed_us = 1e6 * self.result("r.json")["summary"]["elapsed_s"]
        ranges = [e for e in events if e["ph"] == "X"]
        self.assertEqual({e["name"] for e in ranges} & {"step", "all_reduce", "evaluation"},
                         {"step", "all_reduce", "evaluation"})
        for event in ranges:
            self.assertGreaterEqual(event["ts"], 0)
            self.assertLessEqual(event["ts"] + event["dur"], elapsed_us * (1 + 1e-9))
        steps = [e for e in ranges if e["name"] == "step"]
        ledgers = [w["steps"] for w in self.result("r.json")["workers"]]
        self.assertEqual(len(steps), sum(ledgers))

    def test_a_folder_that_is_not_there_is_said_before_the_run(self):
        self.assertIn("no/t.json", self.error("train", "--train", "generate:tiny", "--test",
                                              "generate:tiny", "--epochs", "1", "--trace",
                                              "no/t.json", code=2))


if __name__ == "__main__":
    unittest.main()
