"""Tests of hetsgd._compare: groups, relations, warnings, workloads and outputs of results made by hand."""

import contextlib
import io
import json
import math
import pathlib
import tempfile
import unittest

import package  # noqa: F401  # finds the package
import numpy as np
from hetsgd import _compare, _results, cli
from hetsgd._errors import Error
import made_results
from made_results import families, result, results, seeds, tuning

INF = math.inf


def labels(comparison):
    return [group.label for group in comparison.groups]


def warnings(loaded):
    return "\n".join(_compare.compare(loaded).warnings)


class Groups(unittest.TestCase):
    def test_seeds_are_grouped_and_medians_taken(self):
        loaded = [each for seed in range(1, 6) for each in (
            result(f"a{seed}", "ssgd", seed, 4), result(f"b{seed}", "adaptive", seed, 1 + seed // 2 if seed < 5 else 0))]
        comparison = _compare.compare(loaded)
        adaptive, ssgd = comparison.groups  # the faster one first
        self.assertTrue(ssgd.reference)
        self.assertEqual((ssgd.label, len(ssgd.runs), ssgd.targets[0].ratio), ("ssgd", 5, 1))
        target = adaptive.targets[0]  # times 1, 2, 2, 3, missed
        self.assertEqual((target.reached, target.time_s.median, target.time_s.high, target.samples, target.updates, target.ratio),
                         (4, 2, INF, 200, 20, 0.5))
        self.assertEqual((adaptive.samples_per_s.median, comparison.worst_ratio), (100, 0.5))
        for text, said in zip(("fewer than 6 seeds (adaptive 5, ssgd 5)", "p1>=0.5 is reached within the first 20 evaluations (adaptive 2, "
                               "ssgd 4): its times are coarse", "no learning rate was tuned"), comparison.warnings, strict=True):
            self.assertIn(text, said)

    def test_options_separate_groups(self):
        def found(name, value, stop=False):
            loaded = results(("ssgd", 4), ("ssgd", 4))
            loaded[1].document["config"].update({"seed": 2, name: value})
            for each in loaded:
                each.document["config"]["stop_at_target"] = stop
            return labels(_compare.compare(loaded))

        self.assertEqual(found("learning_rate", 0.25), ["ssgd (learning_rate=0.5)", "ssgd (learning_rate=0.25)"])
        self.assertEqual(found("batch_size", 10.0), ["ssgd"])  # the same number
        self.assertEqual([len(found("target", ["p1>=0.7"], stop)) for stop in (False, True)], [1, 2])
        self.assertEqual([len(found(*each)) for each in (("train", "other.txt"), ("new", None), ("new", "none"))], [1, 1, 1])
        self.assertEqual(found("new", 2), ["ssgd", "ssgd (new=2)"])

    def test_groups_that_differ_in_their_data_alone_are_numbered(self):
        loaded = results(("ssgd", 4), ("ssgd", 4))
        loaded[1].document["dataset"]["test"]["content_hash"] = "xxh3:00000000000000ff"
        self.assertEqual(labels(_compare.compare(loaded)), ["ssgd, data 1", "ssgd, data 2"])

    def cases(self):
        loaded = results(("ssgd", 4), ("ssgd", 2), ("ssgd", 3), ("asgd", 3))
        for i, (each, case) in enumerate(zip(loaded, ("mean", "adasum", "adasum", "ssgd"))):
            each.case = case
            each.document["config"]["bucket"] = i
        return loaded

    def test_groups_are_called_by_their_cases(self):
        comparison = _compare.compare(self.cases())
        self.assertEqual([run.label for run in comparison.runs], ["mean", "adasum (bucket=1)", "adasum (bucket=2)", "ssgd"])
        self.assertEqual(comparison.reference.label, "mean")

    def test_a_reference_is_a_file_a_label_a_case_then_an_algorithm(self):
        for name, label in (("mean", "mean"), ("ssgd", "ssgd"), ("asgd", "ssgd"), ("adasum (bucket=2)", "adasum (bucket=2)"),
                            ("c", "adasum (bucket=2)")):
            self.assertEqual(_compare.compare(self.cases(), reference=name).reference.label, label)
        with self.assertRaisesRegex(Error, r'2 groups have in common, expected one of "adasum \(bucket=1\)", "adasum') as caught:
            _compare.compare(self.cases(), reference="adasum")
        self.assertEqual(caught.exception.code, 2)
        with self.assertRaises(Error) as caught:
            _compare.compare(self.cases(), reference="elastic")
        self.assertIn('"mean"', caught.exception.hint)

    def test_copies_of_a_run_are_one_run(self):
        loaded = results(("ssgd", 2), ("ssgd", 2), ("ssgd", 2), ("sgd", 4), ("sgd", 4))
        comparison = _compare.compare(loaded)
        self.assertEqual([(group.label, len(group.runs)) for group in comparison.groups], [("ssgd", 1), ("sgd", 1)])
        self.assertTrue(math.isnan(comparison.groups[1].targets[0].p_value))  # one run against one
        said = "\n".join(comparison.warnings)
        self.assertIn("ssgd: 2 of 3 results are copies, with the seed and the numbers of another one (b of a, c of a)", said)
        self.assertNotIn("occurs", said)
        self.assertEqual([run.label for run in comparison.runs], ["ssgd"] * 3 + ["sgd"] * 2)
        self.assertEqual(_compare.compare(loaded, reference="e").reference.label, "sgd")  # a copy names its group
        self.assertIn("ssgd: seed 1 occurs 2 times", warnings([*loaded, result("f", "ssgd", 1, 4)]))


class Relations(unittest.TestCase):
    def test_a_speed_up_is_statistical_times_hardware(self):
        # 4 s and 400 samples against 2 s and 100 samples: half the throughput, a quarter of the samples.
        loaded = families(("ssgd", 4), ("asgd", 1))
        for each in loaded[1::2]:
            each.document["summary"]["samples_per_s"] = 50
            for point in each.document["curve"]:
                point.update(time_s=2 * point["time_s"], updates=point["updates"] // 2)
        comparison = _compare.compare(loaded)
        asgd, ssgd = comparison.groups
        target = asgd.targets[0]
        self.assertEqual((target.speedup.median, target.speedup.low, target.statistical, target.hardware), (2, 2, 4, 0.5))
        self.assertEqual((target.p_value, target.least_effect), (2 / 64, 1))  # six pairs of one sign; all of the same ratio
        self.assertTrue(math.isnan(ssgd.targets[0].p_value))
        self.assertEqual(target.samples_relation.ratio, (0.25, 0.25, 0.25))
        self.assertEqual((target.updates_relation.ratio.median, target.first_crossing_relation.ratio.median), (0.125, 0.5))
        self.assertEqual((asgd.samples_per_s_relation.ratio.median, asgd.updates_per_s_relation.ratio.median), (0.5, 0.25))
        self.assertEqual((asgd.final_relation.ratio.median, asgd.final_relation.p_value), (1, 1))
        self.assertEqual(ssgd.final_relation.ratio.median, 1)

    def test_runs_of_one_seed_are_pairs(self):
        # Seeds differ by a factor of 6, both methods alike: pairs show the 10 %, unpaired runs do not.
        base, times = seeds("ssgd", range(1, 7)), [1.1 * i for i in range(1, 7)]

        def other(loaded):
            return next(group for group in _compare.compare([*base, *loaded], reference="ssgd").groups if not group.reference)

        paired, unpaired = other(seeds("asgd", times)[::-1]), other(seeds("asgd", times, first=2))
        self.assertEqual((paired.paired, unpaired.paired), (True, False))
        self.assertEqual(paired.targets[0].p_value, 2 / 64)
        self.assertAlmostEqual(paired.targets[0].speedup.low, 1 / 1.1)
        self.assertGreater(unpaired.targets[0].p_value, 0.5)
        foreign = seeds("asgd", times)
        for each in foreign:
            each.document["dataset"]["train"]["content_hash"] = "xxh3:00000000000000ff"
        self.assertFalse(other(foreign).paired)

    def test_p_values_are_corrected_for_several_comparisons(self):
        loaded = families(("ssgd", 8), ("elastic", 1), ("asgd", 2), ("ssp", 8))
        for i, each in enumerate(loaded):
            for point in each.document["curve"]:
                point["time_s"] *= 1 + 0.01 * (1 + i // 4)
        comparison = _compare.compare(loaded)
        found = {group.label: group.targets[0].p_holm for group in comparison.groups}
        self.assertEqual((found["elastic"], found["asgd"], found["ssp"]), (6 / 64, 6 / 64, 1))
        self.assertIn("paired by seed.\np_holm: corrected for 3 comparisons (Holm).\n", _compare.groups_report(comparison, "text"))

    def test_missed_targets_are_infinitely_slow(self):
        loaded = results(("ssgd", 4), ("adaptive", 0))
        self.assertEqual(_compare.compare(loaded).worst_ratio, INF)
        turned = _compare.compare(loaded, reference="b")
        first, second = (group.targets[0] for group in turned.groups)
        self.assertEqual((first.ratio, first.speedup.median, turned.worst_ratio), (0, INF, 0))
        self.assertTrue(math.isnan(first.hardware) and math.isnan(second.ratio))
        loaded[1].document["summary"]["samples_per_s"] = None
        missed = _compare.compare(loaded).groups[1]
        self.assertEqual(missed.targets[0].samples_relation.ratio.median, INF)
        self.assertTrue(math.isnan(missed.samples_per_s_relation.ratio.median))

    def test_a_reference_that_missed_the_target_is_replaced(self):
        loaded = results(("ssgd", 0), ("asgd", 4), ("elastic", 2))
        comparison = _compare.compare(loaded)
        self.assertEqual((comparison.reference.label, comparison.groups[0].targets[0].speedup.median), ("asgd", 2))
        self.assertIn("the reference is asgd, because the median run of ssgd, which comes first, missed p1>=0.5; --reference names another",
                      comparison.warnings)
        gate = _compare.compare(loaded, first_is_reference=True)
        self.assertIn("ssgd, the reference, holds p1>=0.5 in 0 of 1 runs: speed-ups over it are infinite", gate.warnings)
        self.assertNotIn("reference", warnings(loaded[:1]))

    def test_groups_are_sorted_by_time_then_by_final_value(self):
        loaded = results(("sgd", 0), ("ssgd", 4), ("asgd", 0), ("elastic", 1))
        loaded[2].document["summary"]["final"]["p1"] = 0.4
        self.assertEqual(labels(_compare.compare(loaded)), ["elastic", "ssgd", "asgd", "sgd"])

    def test_a_diverged_run_is_the_worst_run(self):
        loaded = [result(f"a{seed}", "ssgd", seed, 0 if seed == 3 else 4) for seed in range(1, 6)]
        loaded[2].document.update(status="diverged")
        loaded[2].document["summary"]["final"] = {"test_loss": None}
        group = _compare.compare(loaded).groups[0]
        self.assertEqual((group.diverged, group.targets[0].reached, group.final_value.median, group.final_value.low), (1, 4, 0.6, -INF))
        self.assertIn("ssgd: 1 of 5 runs diverged", warnings(loaded))

    def test_times_are_those_of_the_clock(self):
        def real(name, load_s):
            document = made_results.document([0.1] * 4 + [0.6] * 3, name)
            document["cluster"]["virtual_time"] = False
            document["wall"]["load_s"] = load_s
            for i, point in enumerate(document["curve"]):
                point.update(prepare_s=0.5 * i, wall_s=load_s + 1.5 * i + 2 * (i + 1))
            return _results.Loaded(name, document)

        for clock, expected in (("training", [4, 4]), ("algoperf", [6, 6]), ("mlperf", [17, 25]), ("dawnbench", [5, 13])):
            comparison = _compare.compare([real("a", 1), real("b", 9)], clock=clock)
            self.assertEqual([run.targets[0].time_s for run in comparison.runs], expected, clock)
        with self.assertRaisesRegex(Error, r"--clock: found mlperf, which c does not have \(simulated: its time is not the host's\)"):
            _compare.compare([result("c", "ssgd", 1, 4)], clock="mlperf")

    def test_a_time_has_the_resolution_of_the_evaluations(self):
        loaded = [result("a", "ssgd", 1, 4), result("b", "ssgd", 2, 3), result("c", "ssgd", 3, 0)]
        loaded[0].document["curve"][3]["time_s"] = 2.25
        comparison = _compare.compare(loaded)
        self.assertEqual((comparison.runs[0].targets[0].evaluation, comparison.runs[0].targets[0].resolution_s), (4, 1.75))
        self.assertEqual((comparison.groups[0].targets[0].evaluation, comparison.groups[0].targets[0].resolution_s), (4, 1.75))
        self.assertIn("\np1>=0.5 is held from evaluation 4 on. Times are exact to one evaluation interval: 1.75 s.\n",
                      _compare.groups_report(comparison, "text"))

    def test_a_crossing_that_is_lost_is_no_time_to_the_target(self):
        lost = _results.Loaded("b", made_results.document([0.1, 0.6, 0.1, 0.1, 0.2, 0.1, 0.1], "elastic"))
        comparison = _compare.compare([result("a", "ssgd", 1, 4), lost])
        target = comparison.groups[1].targets[0]
        self.assertEqual((target.reached, target.time_s.median, target.first_crossing_s.median, target.misses_at_end), (0, INF, 1, 1))
        self.assertIn("elastic: the final value misses p1>=0.5 in 1 of 1 runs that crossed it", comparison.warnings)

    def test_a_target_that_was_not_measured_is_refused(self):
        with self.assertRaisesRegex(Error, "a: the target is accuracy>=0.5, but accuracy was not measured, expected one of p1, test_loss"):
            _compare.compare([result("a", "ssgd", 1, 4)], [_results.parse_target("accuracy>=0.5", "--target")])


class Warnings(unittest.TestCase):
    def test_of_tuning(self):
        loaded = results(("ssgd", 4), ("asgd", 4), ("sgd", 4))
        for each in loaded:
            each.document["tuning"] = tuning(3)
        self.assertNotIn("tuned", warnings(loaded))
        loaded[2].document["tuning"] = tuning(4)
        self.assertIn("learning rates were tuned with unequal budgets: asgd, ssgd (3 trials for p1 on 200 rows, grid 0.5,1.0,1.5); "
                      "sgd (4 trials for p1 on 200 rows, grid 0.5,1.0,1.5,2.0)", warnings(loaded))
        loaded[2].document["tuning"] = None
        self.assertIn("; sgd (not tuned)", warnings(loaded))
        loaded[1].document["tuning"].update(edge_of_grid=True, differs=["workers", "speed"])
        self.assertIn("asgd: its learning rate 1.0 lies at the edge of the grid", warnings(loaded))
        self.assertIn("asgd: its runs and the trials of its tuning differ in these options: workers, speed", warnings(loaded))

    def test_of_workloads_and_open_runs(self):
        loaded = results(("ssgd", 4), ("adaptive", 4), ("asgd", 4))
        loaded[1].document["cluster"]["network"] = {"name": "pcie3", "source": "a paper"}
        self.assertNotIn("differ in the network", warnings(loaded))  # the text explains the numbers
        loaded[1].document["cluster"]["network"]["latency_s"] = 2
        self.assertIn("different workloads: a and b differ in the network", warnings(loaded))
        loaded[2].document["status"] = "aborted"
        self.assertIn("c: the run is not complete, its status is aborted", warnings(loaded))

    def test_of_too_few_pairs(self):
        def said(first, *times):
            return warnings([*seeds("ssgd", times), *seeds("asgd", times, first)])

        self.assertIn("fewer than 6 seeds (ssgd 5, asgd 5): so few pairs can show no difference", said(1, 1, 2, 3, 4, 5))
        self.assertNotIn("seeds", said(1, 1, 2, 3, 4, 5, 6))
        self.assertIn("fewer than 6 seeds (ssgd 2, asgd 2): the differences may be chance", said(3, 1, 2))

    def test_of_steps_with_other_numbers_of_samples_unasked(self):
        loaded = results(("ssgd", 4), ("asgd", 4))
        for each, size in zip(loaded, (8, 16)):
            for worker in each.document["workers"]:
                worker["steps"] = worker["samples"] / size
        self.assertIn("--batch-size 10 (8: ssgd; 16: asgd)", warnings(loaded))
        loaded[0].document["events"] = [{"type": "merge", "time_s": 1, "batch_size": [16, 8]}]  # the method's design
        self.assertNotIn("step of a worker", warnings(loaded))
        loaded[0].document.update(events=[])
        loaded[0].document["config"]["batch_size"] = 8
        self.assertNotIn("step of a worker", warnings(loaded))

    def test_of_loaded_hosts_and_staging(self):
        loaded = results(("ssgd", 4), ("rna", 4))
        loaded[1].document["environment"]["load"] = {"start": 0.0, "end": None, "idle_cores": 0}
        loaded[1].document["config"]["staging"] = True
        self.assertIn("only rna is charged", warnings(loaded))
        self.assertNotIn("other programs", warnings(loaded))
        loaded[1].document["environment"]["load"]["end"] = 3.5
        self.assertIn("other programs took cores from 1 of 2 runs (b)", warnings(loaded))

    def test_options_of_any_type_are_read(self):
        names = {**results(("ssgd", 4))[0].document["config"], **dict.fromkeys(("stop_at_target", "target", "plugin", "staging", "speed"))}
        for name in set(names) - {"algorithm", "seed"}:
            for odd in (None, 3, -1, 0.5, "text", True, [1], {"a": 1}):
                loaded = results(("ssgd", 4), ("asgd", 4))
                loaded[0].document["config"][name] = odd
                _compare.compare(loaded)
                _compare.split_workloads(loaded)


class Workloads(unittest.TestCase):
    def loaded(self):
        loaded = [result(f"runs/{machine}/{algorithm}.json", algorithm, 1, 4)
                  for machine in ("fast", "slow") for algorithm in ("ssgd", "asgd")]
        for each in loaded[2:]:
            each.document["cluster"]["network"] = {"name": "ethernet"}
        return loaded

    def test_results_of_one_machine_and_data_belong_together(self):
        fast, slow = _compare.split_workloads(self.loaded())
        self.assertEqual((fast.name, slow.name, slow.about), ("fast", "slow", "train; network: ethernet"))
        self.assertEqual([each.path for each in slow.results], ["runs/slow/ssgd.json", "runs/slow/asgd.json"])
        self.assertIn(("training data", "train, 1000 rows (xxh3:0000000000000001)"), fast.facts)
        self.assertIn(("network", "pcie3"), fast.facts)

    def test_setups_name_them_and_targets_apply_where_they_are_measured(self):
        loaded = self.loaded()
        for each in loaded:
            each.setup = "calm" if "fast" in each.path else "heavy"
        for each in loaded[2:]:
            for point in each.document["curve"]:
                point.pop("p1")
            each.document["time_to_accuracy"] = []
        workloads = _compare.split_workloads(loaded)
        _compare.compare_workloads(workloads, [_results.parse_target("p1>=0.5", "--target")], "asgd")
        self.assertEqual([(each.name, len(each.comparison.targets)) for each in workloads], [("calm", 1), ("heavy", 0)])
        with self.assertRaisesRegex(Error, "--target: found accuracy>=0.5, expected a metric that all runs of a workload measure"):
            _compare.compare_workloads(workloads, [_results.parse_target("accuracy>=0.5", "--target")])

    def test_a_reference_applies_where_it_names_one_group(self):
        loaded = self.loaded()
        loaded[3].document["config"]["algorithm"] = "ssp"
        workloads = _compare.split_workloads(loaded)
        _compare.compare_workloads(workloads, reference="asgd")
        self.assertEqual([each.comparison.reference.label for each in workloads], ["asgd", "ssgd"])
        self.assertIn("--reference asgd names no group or several groups: the reference is ssgd", workloads[1].comparison.warnings)
        with self.assertRaisesRegex(Error, '--reference: found "nobody"'):
            _compare.compare_workloads(workloads, reference="nobody")

    def test_long_labels_give_way_to_folders(self):
        loaded = [result(f"runs/{folder}/1.json", "ssgd", 1, 4) for folder in ("left", "right")]
        for i, each in enumerate(loaded):
            each.document["config"]["a_rather_long_option"] = str(i) * 30
        workloads = [_compare.Workload(results=loaded)]
        _compare.compare_workloads(workloads)
        self.assertEqual(labels(workloads[0].comparison), ["left", "right"])


class Outputs(unittest.TestCase):
    def test_the_report_fits_on_a_terminal_and_numbers_long_labels(self):
        loaded = []
        for group in range(15):
            for seed in range(1, 6):
                each = result("r", "hierarchical", seed, 0 if group == 14 else 1 + group // 4)
                each.document["tuning"] = tuning(3)
                change = {"algorithm": f"eager-major-{group:x}"} if group > 1 else {"a_rather_long_option": 30 * f"{group}"}
                each.document["config"].update(change)
                for point in each.document["curve"]:
                    point["time_s"] *= 123.4 + group
                loaded.append(each)
        comparison = _compare.compare(loaded)
        text = _compare.groups_report(comparison, "text")
        self.assertLessEqual(max(map(len, text.splitlines())), 132)
        self.assertEqual(len(text.splitlines()), 17 + 1 + 7 + 1 + 2)
        self.assertIn("\nhierarchical [1] ", text)
        self.assertIn("\n[1] a_rather_long_option=0000", text)
        said = "\n".join(_compare.warnings_of(loaded, comparison, _compare.names_in_warnings(comparison)))
        self.assertIn("([1] 5, ", said)
        self.assertNotIn("a_rather_long_option", said)

    def test_tables_and_json_agree(self):
        comparison = _compare.compare([result("a", "ssgd", 1, 4), result("b", "adaptive", 1, 0)])
        self.assertEqual(_compare.runs_table(comparison, "csv"),
                         "group,algorithm,file,seed,status,p1>=0.5 time_s,p1>=0.5 first_crossing_s,p1>=0.5 samples,p1>=0.5 updates,"
                         "p1>=0.5 evaluation,p1>=0.5 resolution_s,samples_per_s,final_p1\n"
                         "ssgd,ssgd,a,1,completed,4,4,400,40,4,1,100,0.6000\n"
                         "adaptive,adaptive,b,1,completed,inf,inf,inf,inf,inf,,100,0.1000\n")
        self.assertIn("\nadaptive,adaptive,1,0,p1>=0.5,0,inf,inf,inf,inf,inf,inf,inf,0.0000,0.0000,0.0000,,,,,signed_rank,,inf,,100,100,"
                      "100,0.1000,0.1000,0.1000,,\n", _compare.groups_table(comparison, "csv"))
        first, second = _compare.comparison_json(comparison)["groups"]
        target = second["targets"][0]
        self.assertEqual((first["test"], second["test"], second["paired"]), (None, "signed_rank", True))
        self.assertEqual((target["ratio"], target["ratio_reason"], target["times_s_reason"]), (None, "inf", "inf"))
        self.assertEqual((target["least_effect_reason"], second["final_relation"]["least_effect_reason"]), ("nan", "inf"))

    def test_options_that_vary_are_columns(self):
        loaded = results(("ssp", 4), ("ssp", 4), ("asgd", 4))
        for each, change in zip(loaded, ({"staleness": 4}, {"staleness": 16}, {"learning_rate": 1.0})):
            each.document["config"].update(change)
        comparison = _compare.compare(loaded)
        self.assertEqual(comparison.varying, ["learning_rate", "staleness"])
        runs = _compare.runs_table(comparison, "csv")
        self.assertIn("\nssp (staleness=16),ssp,0.5,16,b,1,completed,", runs)
        self.assertIn("\nasgd,asgd,1.0,,c,1,completed,", runs)
        self.assertEqual(_compare.comparison_json(comparison)["groups"][2]["options"], {"learning_rate": "1.0"})

    def test_which_test_it_was_stands_below(self):
        base, other = seeds("ssgd", range(1, 7)), seeds("asgd", range(1, 7), 2)
        text = _compare.groups_report(_compare.compare([*base, *other, *seeds("ssp", [1, 2, 3, 4, 5, 7])]), "text")
        self.assertIn("\np: two-sided Wilcoxon signed-rank test of the times against ssgd, paired by seed.\n", text)
        self.assertIn("\np of asgd: two-sided Mann-Whitney U test", text)
        many = _compare.compare([*seeds("ssgd", range(1, 61)), *seeds("asgd", range(1, 61))])
        self.assertIn("\np of asgd: by the normal approximation", _compare.groups_report(many, "text"))
        self.assertTrue(_compare.comparison_json(many)["groups"][1]["targets"][0]["p_value_approximate"])

    def test_latex_has_the_legend_as_a_comment(self):
        text = _compare.groups_report(_compare.compare(results(("ssgd", 4), ("asgd", 0))), "latex")
        self.assertTrue(text.startswith("\\begin{tabular}{lrrrrrrrrr}\n\\toprule\nalgorithm & reached & time\\_s to p1$\\geq$0.5 &"), text)
        self.assertIn("\n% speedup over ssgd = stat", text)
        self.assertIn("$\\infty$", text)

    def test_a_frame_has_a_row_per_group_and_target(self):
        try:
            import pandas  # noqa: F401
        except ImportError as error:
            self.skipTest(str(error))
        frame = _compare.groups_frame(_compare.compare(results(("ssgd", 4), ("asgd", 0))))
        self.assertEqual(list(frame.time_s), [4, INF])
        self.assertEqual(list(frame.group), ["ssgd", "asgd"])
        self.assertTrue(np.isnan(frame.p_value).all())


class Commands(unittest.TestCase):
    def setUp(self):
        self.enterContext(contextlib.chdir(self.enterContext(tempfile.TemporaryDirectory())))
        for each in results(("ssgd", 4), ("asgd", 8)):
            pathlib.Path(f"{each.path}.json").write_text(json.dumps(each.document))

    def run_command(self, *arguments, code=0):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            self.assertEqual(cli.run(["compare", *arguments]), code, err.getvalue())
        return out.getvalue(), err.getvalue()

    def test_formats(self):
        document = json.loads(self.run_command("a.json", "b.json", "--format", "json")[0])
        self.assertEqual([group["label"] for group in document["groups"]], ["ssgd", "asgd"])
        self.assertTrue(self.run_command(".", "--format", "markdown")[0].startswith("| algorithm |"))
        self.assertEqual(len(self.run_command(".", "--runs", "--format", "csv")[0].splitlines()), 3)
        out, err = self.run_command("a.json", "b.json")
        self.assertTrue(out.startswith("algorithm"))
        self.assertIn("warning: fewer than 6 seeds (ssgd 1, asgd 1)", err)

    def test_the_gate_ends_with_seven(self):
        self.run_command("a.json", "b.json", "--fail-if-slower", "2")
        err = self.run_command("a.json", "b.json", "--fail-if-slower", "1.05", code=7)[1]
        self.assertIn("error: a group is slower than the reference by a factor of 2.000 (--fail-if-slower 1.05)", err)

    def test_mistakes_are_sentences(self):
        for arguments, code, text in ((["none.json"], 4, "none.json: cannot open the file"), (["a.json", "--reference", "x"], 2, '"x"'),
                                      (["a.json", "--target", "p1>=60"], 2, "0.6"), (["a.json", "--clock", "mlperf"], 2, "a.json")):
            self.assertIn(text, self.run_command(*arguments, code=code)[1])
        pathlib.Path("empty").mkdir()
        self.assertIn("no result files", self.run_command("empty", code=2)[1])
