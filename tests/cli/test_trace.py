"""--trace: a file in the format of trace viewers."""

import os
import unittest

from program import ProgramTest


class Trace(ProgramTest):
    def test_every_worker_has_a_line_of_ranges(self):
        self.train("r.json", "--algorithm", "ssgd", "--per-worker-batch", "split", "--workers", "2", "--trace", "t.json")
        events = self.result("t.json")["traceEvents"]
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
        charged_steps = [w["steps"] for w in self.result("r.json")["workers"]]
        self.assertEqual(len(steps), sum(charged_steps))
        self.assertEqual([e["args"]["iteration"] for e in steps if e["tid"] == 0], list(range(charged_steps[0])))
        self.assertEqual({e["args"]["batch"] for e in steps}, {32})  # two shares of 64

    def test_a_slow_worker_is_whom_the_other_waits_for(self):
        said = self.train("r.json", "--algorithm", "ssgd", "--workers", "2", "--trace", "t.json",
                          "--straggler", "kind=constant,worker=1,factor=3").stderr
        workers = self.result("r.json")["workers"]
        (whom,) = workers[0]["waited_for"]
        self.assertEqual(whom["rank"], 1)
        self.assertAlmostEqual(whom["wait_s"], workers[0]["wait_s"])
        self.assertEqual(workers[1]["waited_for"], [])
        self.assertRegex(said, r"waiting: \S+ m?s of the workers' time, 100 % of it for worker 1")
        events = self.result("t.json")["traceEvents"]
        waits = [e for e in events if e.get("cat") == "wait"]
        self.assertEqual({(e["tid"], e["name"]) for e in waits}, {(0, "wait for worker 1")})
        self.assertAlmostEqual(sum(e["dur"] for e in waits), 1e6 * whom["wait_s"], delta=1)
        for event in events:
            if event.get("name") == "all_reduce":
                about = event["args"]
                self.assertAlmostEqual(1e6 * (about["wait_s"] + about["transfer_s"]), event["dur"], delta=1e-3)
                self.assertEqual("waited_for" in about, event["tid"] == 0)
        delays = [e for e in events if e.get("cat") == "delay"]
        self.assertEqual({e["tid"] for e in delays}, {1})
        self.assertAlmostEqual(sum(e["dur"] for e in delays), 1e6 * workers[1]["delay_achieved_s"], delta=1)

    def test_messages_are_arrows(self):
        self.train("r.json", "--algorithm", "adpsgd", "--workers", "3", "--trace", "t.json")
        events = self.result("t.json")["traceEvents"]
        starts = {e["id"]: e for e in events if e["ph"] == "s"}
        ends = {e["id"]: e for e in events if e["ph"] == "f"}
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
        self.train("r.json", "--algorithm", "asgd", "--workers", "2", "--trace", "t.json",
                   env=counter)
        counts = {}
        for line in (self.folder / "counts").read_text().splitlines():
            name, count = line.rsplit(" ", 1)
            counts[name] = int(count)
        events = self.result("t.json")["traceEvents"]
        expected = {}
        for event in events:
            if event["ph"] == "X" and event["cat"] not in ("wait", "delay"):
                expected[event["name"]] = expected.get(event["name"], 0) + 1
        self.assertEqual(counts.pop("ended"), sum(expected.values()))
        self.assertEqual(counts, expected)


if __name__ == "__main__":
    unittest.main()
