#!/usr/bin/python3
"""Tests of scripts/hetsgd_results.py: frames of results and sweep folders, beside what `hetsgd compare` says."""

import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "scripts")]
try:
    import hetsgd_results
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}; scripts/setup-debian.sh installs it")
    sys.exit(77)
from synthetic_result import result  # noqa: E402

HETSGD = os.environ.pop("HETSGD_BINARY", None)  # popped: the program takes HETSGD_... for its options
RUN = ["--train", "generate:tiny", "--test", "generate:tiny", "--hidden", "8", "--batch-size", "32", "--mega-batch", "20",
       "--cluster", "sim", "--workers", "2", "--epochs", "1", "--target", "p1>=0.06", "--target", "p1>=0.99", "--quiet"]


def missing(run):
    """The run with a target that it does not reach."""
    run["time_to_accuracy"] = [{**run["time_to_accuracy"][0], "value": 2}]
    return run


class Folder(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path


class Frames(Folder):
    def test_a_row_per_run_evaluation_event_worker_and_target(self):
        for seed in (1, 2):
            self.write(f"{seed}.json", result(seed=seed, workers=4, points=30))
        data = hetsgd_results.load(self.folder)
        self.assertEqual([len(frame) for frame in (data.runs, data.curve, data.events, data.workers, data.targets)],
                         [2, 2 * 31, 2 * 30, 2 * 4, 2])
        for frame in (data.runs, data.curve, data.events, data.workers, data.targets):
            self.assertEqual(list(frame)[:4], ["run", "group", "algorithm", "seed"])
        np.testing.assert_array_equal(data.curve[data.curve.seed == 1].p1, [point["p1"] for point in result(seed=1)["curve"]])

    def test_what_has_an_entry_per_worker_becomes_a_row_per_worker(self):
        run = result(workers=3, points=5)
        self.write("r.json", run)
        flat = hetsgd_results.per_worker(hetsgd_results.load(self.folder).events)
        self.assertEqual(list(flat["rank"]), [0, 1, 2] * 5)
        np.testing.assert_array_equal(flat.batch_size, np.concatenate([event["batch_size"] for event in run["events"]]))
        self.assertTrue((flat.perturbed == False).all())  # noqa: E712

    def test_a_missed_target_is_infinity_and_counts(self):
        # Two of three seeds miss: the median is infinite. Left out, it would be the fast seed's.
        for seed in (1, 2, 3):
            self.write(f"{seed}.json", result(seed=seed) if seed == 1 else missing(result(seed=seed)))
        targets = hetsgd_results.load(self.folder).targets
        for name in ("time_s", "samples_count", "updates", "first_crossing_s"):
            self.assertFalse(targets[name].isna().any(), name)
            self.assertEqual(np.isinf(targets[name]).sum(), 2, name)
        self.assertEqual(list(targets.reached), [True, False, False])
        self.assertEqual(targets.time_s.median(), math.inf)
        self.assertEqual(hetsgd_results.summarise(targets, "time_s")["median"][0], math.inf)

    def test_null_is_what_its_reason_says(self):
        run = result()
        run["curve"][3].update(test_loss=None, test_loss_reason="inf")
        run["summary"]["final"] = {"test_loss": None, "test_loss_reason": "inf"}
        self.write("r.json", run)
        data = hetsgd_results.load(self.folder)
        self.assertEqual(data.curve.test_loss[3], math.inf)
        self.assertTrue(math.isnan(data.curve.train_loss[0]))
        self.assertEqual(data.runs.final_test_loss[0], math.inf)
        self.assertFalse([name for name in data.curve if name.endswith("_reason")])

    def test_the_resolution_of_a_time_is_the_gap_before_its_evaluation(self):
        run = result()
        run["time_to_accuracy"][0]["time_s"] = run["curve"][7]["time_s"]
        self.write("r.json", run)
        expected = run["curve"][7]["time_s"] - run["curve"][6]["time_s"]
        self.assertAlmostEqual(hetsgd_results.load(self.folder).targets.resolution_s[0], expected)

    def test_a_run_that_is_named_twice_counts_once(self):
        path = self.write("r.json", result())
        data = hetsgd_results.load(path, path)
        self.assertEqual((len(data.runs), data.notes), (1, [f"{path}: named more than once, but used once"]))

    def test_other_files_are_noted_and_broken_ones_are_errors(self):
        self.write("r.json", result())
        self.write("choice.json", {"kind": "tuning"})
        data = hetsgd_results.load(self.folder)
        self.assertEqual(len(data.runs), 1)
        self.assertTrue(data.notes[0].endswith("choice.json: skipped, because it is a tuning and not a result"), data.notes)
        broken = self.write("broken.json", "{")
        with self.assertRaisesRegex(hetsgd_results.ResultError, f"{broken}: not JSON"):
            hetsgd_results.load(self.folder)
        with self.assertRaisesRegex(hetsgd_results.ResultError, "found no result, expected at least one"):
            hetsgd_results.load(self.folder / "choice.json")


class Groups(Folder):
    def load(self, *configs):
        for i, config in enumerate(configs):
            run = result()
            run["config"].update(config)
            self.write(f"{i}.json", run)
        return hetsgd_results.load(self.folder)

    def test_seeds_are_one_group_and_options_tell_groups_apart(self):
        data = self.load({"seed": 1, "learning_rate": 0.1}, {"seed": 2, "learning_rate": 0.1, "train": "elsewhere.txt"},
                         {"seed": 1, "learning_rate": 1.0, "straggler": ["kind=constant,factor=2"]},
                         {"algorithm": "ssgd", "learning_rate": 1.0})
        slow = 'adaptive (learning_rate=1.0, straggler=["kind=constant,factor=2"])'
        self.assertEqual(list(data.runs.group), ["adaptive (learning_rate=0.1)"] * 2 + [slow, "ssgd"])

    def test_varying_names_the_options_that_differ(self):
        data = self.load({"learning_rate": 0.1, "gamma": 0.9}, {"learning_rate": 1.0, "gamma": 0.9},
                         {"algorithm": "ssgd", "learning_rate": 1.0})
        self.assertEqual(data.varying(), ["algorithm", "learning_rate"])  # ssgd has no gamma; who has one has the same

    def test_select_keeps_and_names_what_is_asked_for(self):
        data = self.load({"learning_rate": 0.1}, {"learning_rate": 1.0})
        rest = data.select(data.runs.learning_rate == 0.1)
        self.assertEqual((len(rest.runs), list(rest.runs.group)), (1, ["adaptive"]))


class Sweeps(Folder):
    def sweep(self, lines, name="rates"):
        return self.write(f"{name}.index.jsonl", "".join(json.dumps(line) + "\n" for line in lines))

    def line(self, name, **more):
        return {"id": name, "setup": "tiny", "case": "slow", "parameters": {"learning_rate": 0.3, "devices": ["a", "b"]},
                "seed": 1, "stage": "final", "status": "completed", "file": f"runs/{name}.json", **more}

    def test_the_index_brings_setup_case_parameters_and_stage(self):
        for name in ("aa", "bb"):
            self.write(f"runs/{name}.json", result(seed=2 if name == "bb" else 1))
        self.sweep([self.line("aa", stage="tuning"), self.line("bb", case="fast")])
        data = hetsgd_results.load(self.folder)
        row = data.runs.set_index("run").loc["aa"]
        self.assertEqual((row.setup, row.case, row.learning_rate, row.devices, row.stage, row.seed),
                         ("tiny", "slow", 0.3, '["a", "b"]', "tuning", 1))
        self.assertEqual(data.parameters, ["setup", "case", "devices", "learning_rate"])
        self.assertEqual(len(data.select(data.runs.stage == "final").curve), 31)

    def test_the_last_line_of_a_run_counts_and_a_torn_one_does_not(self):
        self.write("runs/aa.json", result())
        index = self.sweep([self.line("aa", status="failed", case="old"), self.line("aa"), self.line("cc", status="pending")])
        index.write_text(index.read_text() + '{"id": "bb", "fi')
        data = hetsgd_results.load(index)
        self.assertEqual((len(data.runs), data.runs.case[0]), (1, "slow"))
        self.assertRegex(data.notes[0], r"rates.index.jsonl:4: skipped")
        self.assertRegex(data.notes[1], r"cc.json: no result \(status pending\), left out")

    def test_two_sweeps_in_a_folder_ask_for_one(self):
        self.write("runs/aa.json", result())
        self.sweep([self.line("aa")])
        other = self.sweep([self.line("aa")], "others")
        with self.assertRaisesRegex(hetsgd_results.ResultError, "found 2 sweeps, expected one"):
            hetsgd_results.load(self.folder)
        self.assertEqual(len(hetsgd_results.load(other).runs), 1)


class Intervals(unittest.TestCase):
    def test_ends_are_order_statistics_where_the_distribution_says_so(self):
        # The median of 5 resampled values is at most the k-th one with P(Bin(5, k/5) >= 3): 0.058 for k = 1, 0.942 for
        # k = 4. So 95 % reach from the first to the last.
        self.assertEqual(hetsgd_results.interval([5, 1, 4, 2, 3]), (3, 1, 5))
        self.assertEqual(hetsgd_results.interval([1, 2, 3, math.inf, math.inf]), (3, 1, math.inf))
        self.assertEqual(hetsgd_results.interval([7]), (7, 7, 7))
        self.assertTrue(math.isnan(hetsgd_results.interval([1, math.nan])[0]))


@unittest.skipUnless(HETSGD, "HETSGD_BINARY is not set")
class BesideCompare(Folder):
    def test_groups_times_and_intervals_are_those_of_compare(self):
        for algorithm, rates in (("ssgd", ["0.3", "3"]), ("elastic", ["3"])):
            for rate in rates:
                for seed in "12345":
                    subprocess.run([HETSGD, "train", *RUN, "--algorithm", algorithm, "--learning-rate", rate, "--seed", seed,
                                    "-o", self.folder / f"{algorithm}-{rate}-{seed}.json"], check=True)
        files = sorted(map(str, self.folder.glob("*.json")))
        data = hetsgd_results.load(*files)
        said = json.loads(subprocess.run([HETSGD, "compare", *files, "--format", "json"], check=True, capture_output=True).stdout)
        self.assertEqual([run["label"] for run in said["runs"]], list(data.runs.group))
        self.assertEqual(len(said["groups"]), 3)
        medians = hetsgd_results.summarise(data.targets, "time_s", ["group", "target"]).set_index(["group", "target"])
        for group in said["groups"]:
            for target in group["targets"]:
                found = medians.loc[group["label"], target["target"]]
                for key in ("median", "low", "high"):
                    value = target["time_s"][key]
                    self.assertEqual(math.inf if value is None else value, found[key], (group["label"], target["target"], key))


if __name__ == "__main__":
    unittest.main()
