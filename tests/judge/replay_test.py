"""Replays: timelines that can be checked by hand, and records of runs, which give their own times."""

import json
import pathlib
import random
import subprocess
import tempfile
import unittest

import package  # noqa: F401  # finds the package
from hetsgd import _errors, _program, _replay, _text, _timeline

HEADER = {"hetsgd_timeline": 1, "config": {}, "cluster": "sim", "clock_resolution_s": 0, "workers": 2, "elapsed_s": 3,
          "processes": [{"rank": 0, "name": "worker 0", "main": True}, {"rank": 1, "name": "worker 1", "main": True}]}
TINY = ["--train", "generate:tiny", "--test", "generate:tiny", "--hidden", "8", "--batch-size", "16", "--quiet", "--workers", "4",
        "--max-samples", "2560", "--mega-batch", "20"]


class ReplayTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="hetsgd-replay-")))
        self.warnings = []
        warn, _text.warn = _text.warn, self.warnings.append
        self.addCleanup(setattr, _text, "warn", warn)

    def timeline(self, *calls, name="run.jsonl", **header):
        """A record of two workers with these calls."""
        lines = [{**HEADER, **header}, *calls, {"lines": len(calls)}]
        path = self.folder / name
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return str(path)

    def csv(self, times, name="steps.csv", header="worker,step,seconds"):
        """Step times, by worker."""
        path = self.folder / name
        path.write_text(header + "\n" + "".join(f"{worker},{step},{seconds}\n" for worker, steps in enumerate(times)
                                                for step, seconds in enumerate(steps)), encoding="utf-8")
        return str(path)

    def recorded(self, *options, name="record.jsonl.zst"):
        """The record of a run, and its result."""
        path, result = self.folder / name, self.folder / "result.json"
        subprocess.run([_program.program(), "train", *TINY, *options, "--record-timeline", str(path), "-o", str(result), "--overwrite"],
                       check=True, capture_output=True)
        return str(path), json.loads(result.read_text(encoding="utf-8"))

    def with_speed(self, path, speed):
        """Times of all calls, by process, if the workers have these speeds."""
        with _timeline.Record(path) as record:
            what_if = _replay.WhatIf(record)
            times = what_if.recorded.copy()
            what_if.change_speed(speed, times)
            run = record.run(calls=list(range(len(times))), own_s=times.tolist(), times=True)
            return list(zip(record.calls["rank"], run["begin_s"], run["end_s"]))

    def test_steps_between_barriers(self):
        # 3 + 2 = 5 s; the mean step is 1.75 s.
        path = self.csv([[1, 2], [3, 1]])
        found = _replay.replay(path, without=["worker=1"])
        self.assertEqual((found["time_s"], found["ideal_time_s"], found["gap_share"], found["decisions_frozen"]), (5, 3.5, 0, False))
        self.assertEqual(found["changed_time_s"], 3.75)
        self.assertEqual(_replay.replay(path, speed=[1, 2])["changed_time_s"], 1.5 + 2)
        first, second = found["workers"]
        self.assertEqual((first["rank"], second["rank"]), (1, 0))
        for each, extra in ((first, 1.25), (second, 0.25)):
            self.assertAlmostEqual(each["slowdown"], (3.5 + extra) / 3.5, 12)
            self.assertAlmostEqual(each["share"], extra / 1.5, 12)
        self.assertEqual((found["kinds"][0]["kind"], found["kinds"][0]["share"]), ("step", 1))

    def test_a_message_waits_for_its_sender(self):
        # Worker 1 waits from 1 s on for what worker 0 sends after 2 s and 0.5 s of transfer.
        path = self.timeline({"p": 1, "c": "compute", "n": "step", "e": 1}, {"p": 0, "c": "compute", "n": "step", "e": 2},
                             {"p": 0, "c": "communicate", "n": "send", "e": 2.5, "k": "send", "o": 1},
                             {"p": 1, "c": "communicate", "n": "receive", "e": 2.75, "w": 1.5, "k": "receive", "r": 1, "o": 0})
        self.assertEqual([end for _, _, end in self.with_speed(path, [2, 1])], [1, 1.5, 1, 1.75])

    def test_a_service_serves_by_replayed_arrival(self):
        # It takes 0.5 s for a request, and a way to it 0.125 s. Where worker 0 is late, worker 1 comes first.
        path = self.timeline({"p": 0, "c": "compute", "n": "step", "e": 1}, {"p": 1, "c": "compute", "n": "step", "e": 1.25},
                             {"p": 2, "c": "served", "b": 1.125, "e": 1.625, "k": "served", "o": 0, "a": [0, 0, 0, 1.625]},
                             {"p": 0, "c": "service", "n": "service s", "e": 1.75, "k": "service"},
                             {"p": 2, "c": "served", "e": 2.125, "k": "served", "o": 1, "a": [0, 0, 1, 2.125]},
                             {"p": 1, "c": "service", "n": "service s", "e": 2.25, "k": "service"},
                             services=[{"rank": -1, "name": "s"}])
        self.assertEqual([end for _, _, end in self.with_speed(path, [1])], [1, 1.75, 1.25, 2.25])
        self.assertEqual([end for _, _, end in self.with_speed(path, [0.5, 1])], [2, 2.75, 1.25, 2])

    def test_a_monitor_waits_for_its_notifier(self):
        path = self.timeline({"p": 0, "c": "compute", "n": "step", "e": 1},
                             {"p": 1, "c": "monitor", "n": "wait", "e": 1.25, "w": 1.25, "k": "monitor", "a": [0, 0, 1, 1.25]})
        self.assertEqual(self.with_speed(path, [0.5, 1])[1][2], 2.25)

    def test_gaps_on_the_longest_path(self):
        found = _replay.replay(self.timeline({"p": 0, "c": "compute", "n": "step", "b": 1, "e": 2},
                                             {"p": 0, "c": "compute", "n": "step", "b": 3, "e": 4}))
        self.assertEqual(found["gap_share"], 0.5)
        self.assertRegex(self.warnings[0], "50.0 % of the longest path")

    def test_without_injected_delays_it_is_the_run_without_them(self):
        path, _ = self.recorded("--algorithm", "ssgd", "--straggler", "kind=constant,worker=2,factor=3")
        _, plain = self.recorded("--algorithm", "ssgd", name="plain.jsonl.zst")
        self.assertAlmostEqual(_replay.replay(path, without=["injected"])["changed_time_s"] / plain["curve"][-1]["time_s"], 1, delta=0.05)

    def test_a_planted_slow_worker_is_blamed_first(self):
        for seed in range(3):
            slow = random.Random(seed).randrange(4)
            path, _ = self.recorded("--algorithm", "ssgd", "--seed", str(seed), "--straggler", "kind=jitter,factor=1.2", "--straggler",
                                    f"kind=constant,worker={slow},factor=1.5")
            self.assertEqual(_replay.replay(path)["workers"][0]["rank"], slow)

    def test_columns_of_other_tools(self):
        path = self.csv([[1000, 2000], [3000, 1000]], header="rank,iteration,step_ms")
        self.assertEqual(_replay.replay(path, columns="rank,iteration,step_ms")["time_s"], 5)

    def test_errors_name_the_option(self):
        path = self.csv([[1]])
        for options, said in (({"without": ["stragler"]}, '--without: found "stragler", expected injected, stragglers'),
                              ({"without": ["worker=1"]}, '--without worker: found "1", expected a whole number from 0 to 0'),
                              ({"without": ["kind=stepp"]}, "expected kind= and one of step or communicate"),
                              ({"network": "pcie3"}, "--network: found pcie3, expected a record with a network")):
            with self.assertRaisesRegex(_errors.Error, said) as caught:
                _replay.replay(path, **options)
            self.assertEqual(caught.exception.code, _errors.USAGE)
        with self.assertRaisesRegex(_errors.Error, "cannot open"):
            _replay.replay(str(self.folder / "none"))

    def test_sets_of_durations(self):
        with _timeline.Record(self.csv([[1, 2], [3, 1]])) as record:
            self.assertEqual(record.run(calls=[0, 4], own_s=[5, 4], name="slow", times=True)["total_s"], 7)
            self.assertEqual(record.run("slow", rank=0, from_set="recorded")["total_s"], 6)
            self.assertEqual(record.run("slow", signatures=[0], from_set="recorded")["total_s"], 5)
            with self.assertRaisesRegex(_errors.Error, "stdin:4: calls: found .*expected 0 to 7"):
                record.run(calls=[8], own_s=[1])
