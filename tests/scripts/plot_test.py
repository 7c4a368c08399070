"""Tests of scripts/plot.py on small synthetic results."""

import contextlib
import io
import itertools
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

from plot_support import PictureTest, configured, drawn, points, result, results  # first: it finds the modules

import hetsgd
import matplotlib.colors
import matplotlib.pyplot as plt
import numpy as np
import plot
from hetsgd._plot import curves as plot_curves
from hetsgd._plot import losses as plot_losses
from hetsgd._plot import style as plot_style
from hetsgd._plot import workers as plot_workers
from hetsgd._plot.lines import lines_of
from hetsgd._plot.style import PlotError


class Curves(PictureTest):
    def axes(self, *runs, x="time", **options):
        data = results(*runs)
        return plot_curves.plot_curves(data, lines_of(data)[0], x, "p1", **options).axes[0]

    def test_one_seed_is_plotted_as_it_is(self):
        run = result()
        line = drawn(self.axes(run))["adaptive"]
        time, p1 = points(run, "time_s", "p1")
        np.testing.assert_array_equal(line.get_xdata(), time)
        np.testing.assert_array_equal(line.get_ydata(), p1)

    def test_seeds_give_median_and_range(self):
        runs = [result(seed=seed, reach=0.5 + 0.03 * seed) for seed in (1, 2, 3, 4, 5)]
        axes = self.axes(*runs, x="samples")
        table = np.array([points(run, "samples_count", "p1")[1] for run in runs])
        line = drawn(axes)["adaptive (5 seeds)"]
        np.testing.assert_array_equal(line.get_xdata(), points(runs[0], "samples_count", "p1")[0])
        np.testing.assert_allclose(line.get_ydata(), np.median(table, axis=0), rtol=1e-15)
        edges = axes.collections[0].get_paths()[0].vertices
        for x, low, high in zip(line.get_xdata(), table.min(axis=0), table.max(axis=0)):
            at = edges[edges[:, 0] == x][:, 1]
            self.assertAlmostEqual(at.min(), low, places=12)
            self.assertAlmostEqual(at.max(), high, places=12)

    def test_band_is_clipped_to_where_all_seeds_have_data(self):
        x, median, low, high = plot_curves.band([(np.array([0.0, 10.0]), np.array([0.0, 1.0])),
                                                 (np.array([2.0, 4.0]), np.array([1.0, 1.0]))], "minmax")
        np.testing.assert_array_equal(x, [2, 4])
        np.testing.assert_allclose(median, [0.6, 0.7])
        np.testing.assert_allclose(low, [0.2, 0.4])
        np.testing.assert_allclose(high, [1, 1])

    def test_times_choose_their_unit(self):
        for longest, unit, divisor in ((0.5, "ms", 1e-3), (30, "s", 1), (1200, "min", 60), (90000, "h", 3600)):
            run = result(step_s=longest / 30 / 1.02)
            axes = self.axes(run)
            self.assertEqual(axes.get_xlabel(), f"Training time (simulated {unit})")
            np.testing.assert_allclose(drawn(axes)["adaptive"].get_xdata(), np.array(points(run, "time_s", "p1")[0]) / divisor)

    def test_every_axis_has_its_values(self):
        # A point per mega-batch of 100 batches of 256 samples, as the synthetic curve has it.
        run = configured({"mega_batch": 100, "batch_size": 256})
        for i, point in enumerate(run["curve"]):
            point["bytes_sent"] = 1000 * i
        count = np.arange(len(run["curve"]))
        for x, expected in (("epochs", 2 * count), ("samples", 25600 * count), ("updates", 100 * count), ("mega_batches", count),
                            ("bytes", 1000 * count)):
            np.testing.assert_array_equal(drawn(self.axes(run, x=x))["adaptive"].get_xdata(), expected)
        with self.assertRaisesRegex(PlotError, "--x bytes: found no bytes_sent in the curve"):
            self.axes(result(), x="bytes")

    def test_points_without_the_metric_are_left_out(self):
        run = result()
        run["curve"][0]["p1"] = None
        del run["curve"][5]["p1"]
        self.assertEqual(len(drawn(self.axes(run))["adaptive"].get_xdata()), len(run["curve"]) - 2)

    def test_targets_and_logarithmic_time(self):
        axes = self.axes(result(), targets=[0.6], log=True)
        self.assertEqual(axes.get_xscale(), "log")
        self.assertGreater(min(drawn(axes)["adaptive"].get_xdata()), 0)
        self.assertIn(0.6, [line.get_ydata()[0] for line in axes.lines if len(line.get_ydata()) == 2])
        self.assertIn("target 0.6", [text.get_text() for text in axes.texts])

    def test_eight_lines_differ_in_colour_style_and_marker(self):
        axes = self.axes(*(result(name) for name in "abcdefgh"))
        for look in ("get_color", "get_marker"):
            self.assertEqual(len({getattr(line, look)() for line in drawn(axes).values()}), 8)
        self.assertEqual(len(set(map(str, plot_style.STYLES))), 8)

    def test_colours_stay_apart_for_the_colour_blind(self):
        # Machado et al. 2009, protanopia, deuteranopia and tritanopia, on linear RGB; distances in CIELAB (1976). A
        # difference of 2.3 is just noticeable.
        blind = [[[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
                 [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
                 [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]]
        to_xyz = np.array([[.4124, .3576, .1805], [.2126, .7152, .0722], [.0193, .1192, .9505]]) / [[.9505], [1], [1.089]]

        def lab(linear):
            f = [x ** (1 / 3) if x > .008856 else 7.787 * x + 16 / 116 for x in to_xyz @ np.clip(linear, 0, 1)]
            return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])

        for matrix in [np.eye(3), *map(np.array, blind)]:
            linear = [((np.array(matplotlib.colors.to_rgb(color)) + .055) / 1.055) ** 2.4 for color in plot_style.COLORS]
            seen = [lab(matrix @ color) for color in linear]
            for i, j in itertools.combinations(range(8), 2):
                self.assertGreater(np.linalg.norm(seen[i] - seen[j]), 10, (plot_style.COLORS[i], plot_style.COLORS[j]))


class BatchSizes(PictureTest):
    def draw(self, *runs):
        data = results(*runs)
        return plot_workers.plot_batch_sizes(data, lines_of(data)[0])

    def test_each_worker_has_its_line(self):
        run = result()
        lines = {line.get_label(): line for line in self.draw(run).axes[0].lines}
        for worker in range(4):
            expected = [event["batch_size"][worker] for event in run["events"]]
            np.testing.assert_array_equal(lines[f"worker {worker}"].get_ydata(), expected)
            np.testing.assert_array_equal(lines[f"worker {worker}"].get_xdata(), range(1, len(expected) + 1))

    def test_equal_sizes_are_one_line_and_many_workers_a_range(self):
        equal = self.draw(result("elastic", batch_sizes=False)).axes[0]
        self.assertEqual([line.get_label() for line in equal.lines], ["every worker"])
        many = self.draw(result(workers=20)).axes[0]
        self.assertEqual([line.get_label() for line in many.lines], ["median of 20 workers"])
        self.assertEqual(len(many.collections), 1)

    def test_without_merges_there_is_no_plot(self):
        run = result()
        run["events"] = [{"type": "other", "time_s": 0}]
        self.assertIsNone(self.draw(run))
        run["events"] = []
        self.assertIsNone(self.draw(run))


class Utilisation(PictureTest):
    def draw(self, *runs):
        data = results(*runs)
        return plot_workers.plot_utilisation(data, lines_of(data)[0]).axes[0]

    def test_bars_are_the_shares_of_the_run(self):
        run = result(batch_sizes=False)
        axes = self.draw(run)
        for container, key in zip(axes.containers, ("compute_s", "communicate_s", "wait_s")):
            expected = [worker[key] / run["summary"]["elapsed_s"] for worker in run["workers"]]
            np.testing.assert_allclose([bar.get_width() for bar in container], expected)
        np.testing.assert_allclose([bar.get_x() + bar.get_width() for bar in axes.containers[2]], 0.99)

    def test_groups_stand_below_each_other(self):
        axes = self.draw(result("a", workers=2), result("b", workers=3))
        self.assertEqual([label.get_text() for label in axes.get_yticklabels()], ["0", "1", "0", "1", "2"])
        self.assertEqual([text.get_text() for text in axes.texts], ["a", "b"])

    def test_many_bars_become_one_per_group(self):
        runs = [result(name, workers=30, batch_sizes=False) for name in "ab"]
        axes = self.draw(*runs)
        self.assertEqual([label.get_text() for label in axes.get_yticklabels()], ["a", "b"])
        expected = np.mean([worker["compute_s"] for worker in runs[0]["workers"]]) / runs[0]["summary"]["elapsed_s"]
        self.assertAlmostEqual(axes.containers[0][0].get_width(), expected)


class Losses(PictureTest):
    def lossy(self, failures):
        run = result(workers=3)
        run.update(failures=failures, survival={"availability": 0.9, "participation": 0.8, "goodput": 0.7})
        return run

    def test_time_of_a_loss_has_its_two_parts(self):
        end = result()["summary"]["elapsed_s"]
        run = self.lossy([{"worker": 1, "failed_s": 3.0, "detected_s": 4.0, "returned_s": 9.0},
                          {"worker": 2, "failed_s": 20.0, "detected_s": 21.0, "returned_s": None}])
        data = results(run)
        axes = plot_losses.plot_losses(data, lines_of(data)[0]).axes[0]
        bars = [(round(bar.get_y() + bar.get_height() / 2), bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches]
        np.testing.assert_allclose(bars, [(0, 0, end), (1, 0, end), (2, 0, end), (1, 3, 4), (1, 4, 9), (2, 20, 21), (2, 21, end)])
        self.assertIn("participation 0.80", axes.get_title(loc="left").replace("\n", " "))

    def test_a_return_may_come_before_the_others_know(self):
        self.assertEqual([span[1:3] for span in plot_losses.spans(
            [{"worker": 0, "failed_s": 1, "detected_s": 6, "returned_s": 2}], 10)], [(1, 2), (2, 2)])

    def test_runs_without_losses_have_no_picture(self):
        data = results(result())
        self.assertIsNone(plot_losses.plot_losses(data, lines_of(data)[0]))


class OfResults(PictureTest):
    def test_pictures_are_figures_and_with_a_folder_files(self):
        data = results(*(result(algorithm, seed) for algorithm in ("adaptive", "ssgd") for seed in (1, 2)))
        names = ["accuracy_over_epochs", "time_to_target", "batch_size", "utilisation"]
        made = data.plot(x=["epochs"], width_in=5)
        self.assertEqual((list(made), {figure.get_figwidth() for figure in made.values()}), (names, {5}))
        self.assertEqual(made["accuracy_over_epochs"].axes[0].get_xlabel(), "Epochs")
        with tempfile.TemporaryDirectory() as folder:
            data.plot(os.path.join(folder, "new"), formats=["svg"], x=["epochs"])
            self.assertEqual(sorted(os.listdir(os.path.join(folder, "new"))), sorted(f"{name}.svg" for name in names))

    def test_what_cannot_be_drawn_warns(self):
        data = results(result())
        with self.assertWarnsRegex(UserWarning, "--over: found gamma, expected an option of the runs"):
            self.assertEqual(data.plot(over="gamma"), {})
        with self.assertWarnsRegex(UserWarning, "--x: found years, expected one of time, epochs"):
            self.assertNotIn("accuracy_over_years", data.plot(x=["years"]))
        with self.assertRaisesRegex(hetsgd.ResultError, "found no auc in the curve"):
            data.plot(metric="auc")


class Program(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def write(self, name, content):
        path = os.path.join(self.folder, name)
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
        output = os.path.join(self.folder, "plots")
        code, out, err = self.call(*paths, "-o", output, "--format", "png,svg,pdf", "--title", "Test")
        self.assertEqual((code, err), (0, ""))
        names = ["accuracy_over_time", "accuracy_over_samples", "time_to_target", "batch_size", "utilisation"]
        self.assertEqual(out.split(), [os.path.join(output, f"{name}.{extension}")
                                       for name in names for extension in ("png", "svg", "pdf")])
        for name in names:
            image = plt.imread(os.path.join(output, name + ".png"))
            self.assertEqual(image.shape[1], 6.2 * 200)
            self.assertGreater(image.shape[0], 200)
            self.assertGreater(len(np.unique(image[::4, ::4].reshape(-1, image.shape[2]), axis=0)), 10)
            svg = ElementTree.parse(os.path.join(output, name + ".svg")).getroot()
            texts = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}text")]
            self.assertIn("adaptive", " ".join(filter(None, texts)))

    def test_the_width_is_exact(self):
        path = self.write("a.json", result())
        for width, inches in (("3.3in", 3.3), ("84mm", 84 / 25.4)):
            output = os.path.join(self.folder, width)
            code, out, err = self.call(path, "-o", output, "--format", "png", "--width", width, "--x", "epochs")
            self.assertEqual((code, err), (0, ""))
            for file in out.split():
                self.assertEqual(plt.imread(file).shape[1], int(inches * 200), file)

    def test_what_cannot_be_drawn_is_said_and_the_rest_is_drawn(self):
        runs = [configured({"a": a, "b": b}, points=2, workers=2, batch_sizes=False) for a in range(13) for b in range(13)]
        paths = [self.write(f"{i}.json", run) for i, run in enumerate(runs)]
        code, out, err = self.call(*paths, "-o", self.folder, "--format", "svg", "--x", "time")
        self.assertEqual((code, os.path.basename(out.strip())), (2, "utilisation.svg"))
        self.assertIn("found 169 lines, expected at most 8 in a panel", err)

    def test_a_sweep_folder_is_drawn_without_its_tuning(self):
        os.mkdir(os.path.join(self.folder, "runs"))
        lines = []
        for number, stage in enumerate(["tuning", "final", "final"]):
            self.write(f"runs/{number}.json", configured({"learning_rate": number}, seed=number))
            lines.append({"id": str(number), "setup": "s", "case": f"case {number}", "parameters": {"learning_rate": number},
                          "seed": number, "stage": stage, "status": "completed", "file": f"runs/{number}.json"})
        self.write("s.index.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        code, out, err = self.call(self.folder, "-o", self.folder, "--format", "svg", "--over", "learning_rate",
                                   "--figures", "time_to_target,final_p1")
        self.assertIn("1 runs of the tuning stage left out", err)
        self.assertEqual([os.path.basename(path) for path in out.split()], ["time_to_target_over_learning_rate.svg"])
        self.assertEqual(code, 2)  # the synthetic runs have no final_p1
        self.assertIn("--figures: found final_p1", err)

    def test_equal_data_give_equal_files(self):
        path = self.write("a.json", result())
        for folder in ("one", "two"):
            self.call(path, "-o", os.path.join(self.folder, folder), "--format", "svg")
        contents = []
        for folder in ("one", "two"):
            with open(os.path.join(self.folder, folder, "batch_size.svg"), "rb") as file:
                contents.append(file.read())
        self.assertEqual(*contents)

    def test_a_file_that_is_not_a_result_is_named(self):
        good = result()
        for content, found in (("hello", ":1:1: found \"h\", expected JSON"), ("[]", "found [], expected an object"),
                               ({"config": {}}, "/status: found nothing"), ({**good, "config": {}}, "/config/algorithm: found nothing"),
                               ({**good, "curve": []}, "found no evaluations")):
            path = self.write("bad.json", content)
            code, out, err = self.call(path, "-o", os.path.join(self.folder, "plots"))
            self.assertEqual((code, out), (4, ""))
            self.assertTrue(err.startswith(f"plot.py: {path}:") and found in err, err)
        code, _, err = self.call(os.path.join(self.folder, "none.json"))
        self.assertEqual(code, 4)
        self.assertIn("No such file", err)

    def test_a_python_without_the_packages_is_told_how_to_get_them(self):
        done = subprocess.run([sys.executable, "-S", plot.__file__, "x"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^plot\.py: No module named .* -m pip install matplotlib pandas; .*\n$")

    def test_wrong_options(self):
        path = self.write("a.json", result())
        self.assertEqual(self.call(path, "--format", "gif")[0], 2)
        self.assertEqual(self.call(path, "--targets", "x")[0], 2)
        self.assertEqual(self.call(path, "--x", "years")[0], 2)
        for width in ("3.3", "0.1in", "2m"):
            self.assertEqual(self.call(path, "--width", width)[0], 2)
        code, _, err = self.call(path, "--metric", "auc")
        self.assertEqual(code, 4)
        self.assertIn("found no auc in the curve", err)
