"""--trace: a file in the format of trace viewers."""

import collections
import os
import unittest

from program import ProgramTest


class Trace(ProgramTest):
    def trace(self, *options):
        """The events of a run, what its result says of the workers, and what was said."""
        said = self.train("r.json", *options, "--trace", "t.json").stderr
        return self.result("t.json")["traceEvents"], self.result("r.json")["workers"], said

    # Worker 0 waits for the slow one in each all_reduce. Times are microseconds.
    def test_every_worker_has_a_line_of_ranges(self):
        events, workers, said = self.trace("--algorithm", "ssgd", "--per-worker-batch", "split", "--workers", "2",
                                           "--straggler", "kind=constant,worker=1,factor=3")
        self.assertEqual({e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}, {0: "worker 0", 1: "worker 1"})
        elapsed_us = 1e6 * self.result("r.json")["summary"]["elapsed_s"]
        for event in (e for e in events if e["ph"] == "X"):
            self.assertGreaterEqual(event["ts"], 0)
            self.assertLessEqual(event["ts"] + event["dur"], elapsed_us * (1 + 1e-9))
        steps = [e for e in events if e["name"] == "step"]
        for rank, worker in enumerate(workers):
            self.assertEqual([e["args"]["iteration"] for e in steps if e["tid"] == rank], list(range(worker["steps"])))
        self.assertEqual({e["args"]["batch"] for e in steps}, {32})  # two shares of 64
        self.assertIn("evaluation", {e["name"] for e in events})
        (whom,) = workers[0]["waited_for"]
        self.assertRegex(said, r"waiting: \S+ m?s of the workers' time, 100 % of it for worker 1")
        waits = [e for e in events if e.get("cat") == "wait"]
        self.assertEqual({(e["tid"], e["name"]) for e in waits}, {(0, "wait for worker 1")})
        self.assertAlmostEqual(sum(e["dur"] for e in waits), 1e6 * whom["wait_s"], delta=1)
        for event in (e for e in events if e["name"] == "all_reduce"):
            about = event["args"]
            self.assertAlmostEqual(1e6 * (about["wait_s"] + about["transfer_s"]), event["dur"], delta=1e-3)
            self.assertEqual("waited_for" in about, event["tid"] == 0)
        delays = [e for e in events if e.get("cat") == "delay"]
        self.assertEqual({e["tid"] for e in delays}, {1})
        self.assertAlmostEqual(sum(e["dur"] for e in delays), 1e6 * workers[1]["delay_achieved_s"], delta=1)

    def test_messages_are_arrows(self):
        events, _, _ = self.trace("--algorithm", "adpsgd", "--workers", "3")
        starts, ends = ({e["id"]: e for e in events if e["ph"] == phase} for phase in "sf")
        self.assertTrue(starts)
        self.assertEqual(starts.keys(), ends.keys())
        for number, start in starts.items():
            self.assertLessEqual(start["ts"], ends[number]["ts"])
            self.assertNotEqual(start["tid"], ends[number]["tid"])

    @unittest.skipUnless("HETSGD_NVTX_COUNTER" in os.environ, "this binary has no NVTX")
    def test_profilers_see_the_same_ranges(self):
        counter = {"NVTX_INJECTION64_PATH": os.environ["HETSGD_NVTX_COUNTER"],
                   "NVTX_COUNTS": str(self.folder / "counts")}
        self.train("quiet.json", "--algorithm", "asgd", "--workers", "2", env=counter)
        self.assertFalse((self.folder / "counts").exists())  # without --trace nothing is noted
        self.train("r.json", "--algorithm", "asgd", "--workers", "2", "--trace", "t.json", env=counter)
        lines = [line.rsplit(" ", 1) for line in (self.folder / "counts").read_text().splitlines()]
        counts = {name: int(count) for name, count in lines}
        expected = collections.Counter(event["name"] for event in self.result("t.json")["traceEvents"]
                                       if event["ph"] == "X" and event["cat"] not in ("wait", "delay"))
        self.assertEqual(counts.pop("ended"), expected.total())
        self.assertEqual(counts, expected)
