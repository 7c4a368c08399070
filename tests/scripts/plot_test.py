#!/usr/bin/python3
"""Tests of scripts/plot.py on small synthetic results."""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "scripts")]
try:
    import matplotlib.pyplot as plt
    import numpy as np
    import plot
except ImportError as error:
    print(f"skipped: {error}; scripts/setup-debian.sh installs it")
    sys.exit(77)
from synthetic_result import result  # noqa: E402


def with_paths(results):
    for number, r in enumerate(results):
        r["path"] = f"{number}.json"
    return results


def points(run, x, metric):
    return [p[x] for p in run["curve"]], [p[metric] for p in run["curve"]]


class Curves(unittest.TestCase):
    def tearDown(self):
        plt.close("all")

    def lines(self, groups, x="time_s", **options):
        axes = plot.plot_curve(groups, x, "p1", **options).axes[0]
        return axes, {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}

    def test_one_seed_is_plotted_as_it_is(self):
        run = result()
        _, lines = self.lines({"adaptive": [run]})
        time, p1 = points(run, "time_s", "p1")
        np.testing.assert_array_equal(lines["adaptive"].get_xdata(), time)
        np.testing.assert_array_equal(lines["adaptive"].get_ydata(), p1)

    def test_seeds_give_median_and_range(self):
        runs = [result(seed=seed, reach=0.5 + 0.03 * seed) for seed in (1, 2, 3, 4, 5)]
        axes, lines = self.lines({"adaptive": runs}, x="samples_count")
        table = np.array([points(run, "samples_count", "p1")[1] for run in runs])
        line = lines["adaptive (5 seeds)"]
        np.testing.assert_array_equal(line.get_xdata(), points(runs[0], "samples_count", "p1")[0])
        np.testing.assert_allclose(line.get_ydata(), np.median(table, axis=0), rtol=1e-15)
        edges = axes.collections[0].get_paths()[0].vertices
        for x, low, high in zip(line.get_xdata(), table.min(axis=0), table.max(axis=0)):
            at = edges[edges[:, 0] == x][:, 1]
            self.assertAlmostEqual(at.min(), low, places=12)
            self.assertAlmostEqual(at.max(), high, places=12)

    def test_band_is_clipped_to_where_all_seeds_have_data(self):
        x, median, low, high = plot.band([(np.array([0.0, 10.0]), np.array([0.0, 1.0])),
                                          (np.array([2.0, 4.0]), np.array([1.0, 1.0]))], "minmax")
        np.testing.assert_array_equal(x, [2, 4])
        np.testing.assert_allclose(median, [0.6, 0.7])
        np.testing.assert_allclose(low, [0.2, 0.4])
        np.testing.assert_allclose(high, [1, 1])

    def test_times_choose_their_unit(self):
        for longest, unit, divisor in ((0.5, "ms", 1e-3), (30, "s", 1), (1200, "min", 60), (90000, "h", 3600)):
            run = result(step_s=longest / 30 / 1.02)
            axes, lines = self.lines({"adaptive": [run]})
            self.assertEqual(axes.get_xlabel(), f"Training time (simulated {unit})")
            np.testing.assert_allclose(lines["adaptive"].get_xdata(),
                                       np.array(points(run, "time_s", "p1")[0]) / divisor)

    def test_points_without_the_metric_are_left_out(self):
        run = result()
        run["curve"][0]["p1"] = None
        del run["curve"][5]["p1"]
        _, lines = self.lines({"adaptive": [run]})
        self.assertEqual(len(lines["adaptive"].get_xdata()), len(run["curve"]) - 2)

    def test_targets_and_logarithmic_time(self):
        axes, lines = self.lines({"adaptive": [result()]}, targets=[0.6], log_time=True)
        self.assertEqual(axes.get_xscale(), "log")
        self.assertGreater(min(lines["adaptive"].get_xdata()), 0)
        self.assertIn(0.6, [line.get_ydata()[0] for line in axes.lines if len(line.get_ydata()) == 2])
        self.assertIn("target 0.6", [text.get_text() for text in axes.texts])

    def test_lines_differ_in_colour_style_and_marker(self):
        names = "abcdefg"
        _, lines = self.lines({name: [result()] for name in names})
        for look in ("get_color", "get_marker"):
            self.assertEqual(len({getattr(line, look)() for line in lines.values()}), len(names))


class BatchSizes(unittest.TestCase):
    def tearDown(self):
        plt.close("all")

    def test_each_worker_has_its_line(self):
        run = result()
        figure = plot.plot_batch_sizes({"adaptive": [run]})
        lines = {line.get_label(): line for line in figure.axes[0].lines}
        for worker in range(4):
            expected = [event["batch_size"][worker] for event in run["events"]]
            np.testing.assert_array_equal(lines[f"worker {worker}"].get_ydata(), expected)
            np.testing.assert_array_equal(lines[f"worker {worker}"].get_xdata(), range(1, len(expected) + 1))

    def test_equal_sizes_are_one_line_and_many_workers_a_range(self):
        equal = plot.plot_batch_sizes({"elastic": [result(batch_sizes=False)]}).axes[0]
        self.assertEqual([line.get_label() for line in equal.lines], ["every worker"])
        many = plot.plot_batch_sizes({"adaptive": [result(workers=20)]}).axes[0]
        self.assertEqual([line.get_label() for line in many.lines], ["median of 20 workers"])
        self.assertEqual(len(many.collections), 1)

    def test_without_merges_there_is_no_plot(self):
        run = result()
        run["events"] = [{"type": "other", "time_s": 0}]
        self.assertIsNone(plot.plot_batch_sizes({"sgd": [run]}))


class Utilisation(unittest.TestCase):
    def tearDown(self):
        plt.close("all")

    def test_bars_are_the_shares_of_the_run(self):
        run = result(batch_sizes=False)
        axes = plot.plot_utilisation({"elastic": [run]}).axes[0]
        for container, key in zip(axes.containers, ("compute_s", "communicate_s", "wait_s")):
            expected = [worker[key] / run["summary"]["elapsed_s"] for worker in run["workers"]]
            np.testing.assert_allclose([bar.get_height() for bar in container], expected)
        tops = [bar.get_y() + bar.get_height() for bar in axes.containers[2]]
        np.testing.assert_allclose(tops, 0.99)

    def test_groups_stand_side_by_side(self):
        axes = plot.plot_utilisation({"a": [result(workers=2)], "b": [result(workers=3)]}).axes[0]
        self.assertEqual(len(axes.containers), 6)
        self.assertLess(max(bar.get_x() for bar in axes.containers[0]), min(bar.get_x() for bar in axes.containers[3]))
        self.assertEqual([label.get_text() for label in axes.get_xticklabels()], ["0", "1", "0", "1", "2"])


class Grouping(unittest.TestCase):
    def test_label_and_chosen_options_tell_runs_apart(self):
        a, b, c = with_paths([result(seed=1), result(seed=2), result(seed=1)])
        c["config"]["label"] = "slow"
        self.assertEqual(plot.group([a, b, c], []), {"adaptive": [a, b], "adaptive, slow": [c]})
        a["config"]["learning_rate"], b["config"]["learning_rate"] = 1, 0.3
        self.assertEqual(list(plot.group([a, b], ["learning_rate"])),
                         ["adaptive, learning_rate=1", "adaptive, learning_rate=0.3"])

    def test_the_same_seed_twice_is_said(self):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            plot.group(with_paths([result(), result()]), [])
        self.assertIn("the same seed more than once", said.getvalue())


class Program(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, content):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        return path

    def call(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = plot.main(list(arguments))
            except SystemExit as stop:
                code = stop.code
        return code, out.getvalue(), err.getvalue()

    def test_writes_all_plots(self):
        paths = [self.write(f"{algorithm}-{seed}.json", result(algorithm, seed))
                 for algorithm in ("adaptive", "ssgd") for seed in (1, 2, 3)]
        output = os.path.join(self.folder.name, "plots")
        code, out, err = self.call(*paths, "-o", output, "--format", "png,svg,pdf", "--title", "Test")
        self.assertEqual((code, err), (0, ""))
        names = ["accuracy_over_time", "accuracy_over_samples", "batch_size", "utilisation"]
        self.assertEqual(out.split(), [os.path.join(output, f"{name}.{extension}")
                                       for name in names for extension in ("png", "svg", "pdf")])
        for name in names:
            image = plt.imread(os.path.join(output, name + ".png"))
            self.assertGreater(min(image.shape[:2]), 400)
            self.assertGreater(len(np.unique(image.reshape(-1, image.shape[2]), axis=0)), 50)
            svg = ElementTree.parse(os.path.join(output, name + ".svg")).getroot()
            texts = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}text")]
            self.assertIn("adaptive", " ".join(filter(None, texts)))

    def test_equal_data_give_equal_files(self):
        path = self.write("a.json", result())
        for folder in ("one", "two"):
            self.call(path, "-o", os.path.join(self.folder.name, folder), "--format", "svg")
        contents = []
        for folder in ("one", "two"):
            with open(os.path.join(self.folder.name, folder, "batch_size.svg"), "rb") as file:
                contents.append(file.read())
        self.assertEqual(*contents)

    def test_other_files_of_ours_are_skipped(self):
        others = {"choice.json": ({"kind": "tuning"}, "tuning"), "trace.json": ({"traceEvents": []}, "trace")}
        for name, (document, _) in others.items():
            self.write(name, document)
        self.write("r.json", result())
        paths = [os.path.join(self.folder.name, name) for name in [*others, "r.json"]]
        code, _, err = self.call(*paths, "-o", self.folder.name, "--format", "svg")
        self.assertEqual(code, 0, err)
        for name, (_, kind) in others.items():
            self.assertIn(f"{name}: skipped, it is a {kind} and no result\n", err)
        self.assertEqual(self.call(paths[0], "-o", self.folder.name)[0], 4)

    def test_a_file_that_is_not_a_result_is_named(self):
        good = result()
        for content, found in (("hello", "not JSON"), ("[]", 'found no "config"'), ({"config": {}}, 'found no "curve"'),
                               ({**good, "config": {}}, 'found no "config.algorithm"'),
                               ({**good, "curve": []}, "found no evaluations")):
            path = self.write("bad.json", content)
            code, out, err = self.call(path, "-o", os.path.join(self.folder.name, "plots"))
            self.assertEqual((code, out), (4, ""))
            self.assertTrue(err.startswith(f"plot.py: {path}: {found}"), err)
        code, _, err = self.call(os.path.join(self.folder.name, "none.json"))
        self.assertEqual(code, 4)
        self.assertIn("No such file", err)

    def test_wrong_options(self):
        path = self.write("a.json", result())
        self.assertEqual(self.call(path, "--format", "gif")[0], 2)
        self.assertEqual(self.call(path, "--targets", "x")[0], 2)
        code, _, err = self.call(path, "--metric", "auc")
        self.assertEqual(code, 4)
        self.assertIn("found no auc in the curve", err)


if __name__ == "__main__":
    unittest.main()
