"""Tests of scripts/plot.py on small synthetic results: which runs make a line, and figures as bars or over an option."""

from plot_support import PictureTest, configured, drawn, labels, of_sweep, result, results  # first: it finds the modules

import numpy as np
from hetsgd._plot import curves as plot_curves
from hetsgd._plot import figures as plot_figures
from hetsgd._plot import style as plot_style
from hetsgd._plot.lines import lines_of, panels_of
from hetsgd._plot.style import PlotError


class Lines(PictureTest):
    def test_lines_are_the_groups_of_compare_in_the_order_of_their_numbers(self):
        runs = [configured({"learning_rate": rate, "staleness": s}, algorithm="ssp", seed=seed)
                for rate in (1.0, 0.3) for s in (16, 2, 4) for seed in (1, 2)]
        lines, notes = lines_of(results(*runs, result("asgd")))
        self.assertEqual(labels(lines), [f"ssp, learning_rate={rate}, staleness={s}" for rate in ("0.3", "1") for s in (2, 4, 16)]
                         + ["asgd"])
        self.assertEqual(([len(line.runs) for line in lines], notes), ([2] * 6 + [1], []))

    def test_times_with_units_are_numbers(self):
        lines, _ = lines_of(results(*(configured({"straggler": [f"kind=uniform,max={ms}ms"]}) for ms in (100, 20, 5))))
        self.assertEqual(labels(lines), [f"adaptive, straggler=kind=uniform,max={ms}ms" for ms in (5, 20, 100)])
        lines, _ = lines_of(results(*(configured({"max_time": f"{s}s"}) for s in (100, 20, 5))))
        self.assertEqual(labels(lines), [f"adaptive, max_time={s}s" for s in (5, 20, 100)])

    def test_chosen_options_tell_lines_apart_and_equal_seeds_are_said(self):
        data = results(*(configured({"learning_rate": rate, "gamma": gamma}) for rate in (1, 0.3) for gamma in (0, 0.9)))
        lines, notes = lines_of(data, ["learning_rate"])
        self.assertEqual(labels(lines), ["adaptive, learning_rate=0.3", "adaptive, learning_rate=1"])
        self.assertIn("the same seed more than once", notes[0])

    def test_of_many_options_only_the_unusual_are_named(self):
        usual = {"a": 1, "b": 2, "c": 3, "d": 4}
        lines, notes = lines_of(results(*(configured({**usual, **more}) for more in ({}, {"a": 9}, {"b": 9, "c": 8}, {"d": 7}))))
        self.assertEqual(sorted(labels(lines)), ["adaptive", "adaptive, a=9", "adaptive, b=9, c=8", "adaptive, d=7"])
        self.assertEqual(notes, ["adaptive: unless a name says otherwise a=1, b=2, c=3, d=4"])

    def test_a_sweep_names_its_lines_by_case_and_parameters(self):
        listed = [{"setup": "tiny", "case": case, "parameters": {"staleness": s}} for case in "ab" for s in (10, 9)]
        data = of_sweep([(configured({"learning_rate": i}), line) for i, line in enumerate(listed)])
        self.assertEqual(labels(lines_of(data)[0]), ["a, staleness=9", "a, staleness=10", "b, staleness=9", "b, staleness=10"])

    def test_more_than_eight_lines_become_panels_with_the_same_looks(self):
        runs = [configured({"learning_rate": rate, "staleness": s}) for rate in (0.1, 0.3, 1.0) for s in (1, 2, 4, 10)]
        data = results(*runs)
        lines, _ = lines_of(data)
        panels, without = panels_of(lines)
        self.assertEqual(list(panels), ["learning_rate=0.1", "learning_rate=0.3", "learning_rate=1"])
        self.assertEqual(without, ("learning_rate",))
        figure = plot_curves.plot_curves(data, lines, "time", "p1")
        self.assertEqual(len(figure.axes), 3)
        for axes in figure.axes:
            self.assertEqual([(name, line.get_color()) for name, line in drawn(axes).items()],
                             [(f"adaptive, staleness={s}", plot_style.COLORS[i]) for i, s in enumerate((1, 2, 4, 10))])
        self.assertEqual(len(figure.legends), 1)
        self.assertEqual(list(panels_of(lines, "staleness")[0]), [f"staleness={s}" for s in (1, 2, 4, 10)])

    def test_what_no_panels_can_hold_is_refused(self):
        runs = [configured({"learning_rate": i}) for i in range(9)]
        with self.assertRaisesRegex(PlotError, "found 169 lines, expected at most 8 in a panel"):
            panels_of(lines_of(results(*(configured({"a": a, "b": b}) for a in range(13) for b in range(13))))[0])
        self.assertEqual(len(panels_of(lines_of(results(*runs))[0])[0]), 9)
        with self.assertRaisesRegex(PlotError, "--panels: found gamma, expected one of algorithm, learning_rate"):
            panels_of(lines_of(results(*runs))[0], "gamma")


class Figures(PictureTest):
    def bars(self, *runs, figure="time_to_target", **options):
        data = results(*runs)
        return plot_figures.plot_bars(data, lines_of(data)[0], figure, **options).axes

    def over(self, *runs, key="learning_rate", figure="time_to_target", **options):
        data = results(*runs)
        return plot_figures.plot_over(data, lines_of(data)[0], key, figure, **options).axes

    @staticmethod
    def timed(time_s, seed=1, **options):
        run = configured(options, seed=seed, reach=0.65 if time_s else 0.5)
        if time_s:  # the whole curve moves with the point at which the target is reached
            reached = next(point["time_s"] for point in run["curve"] if point["p1"] >= 0.6)
            for point in run["curve"]:
                point["time_s"] *= time_s / reached
        return run

    def test_bars_are_medians_with_their_intervals(self):
        # The interval of five seeds reaches from the first to the last (see tests/judge/stats_test.py).
        axes, = self.bars(*(self.timed(time, seed) for seed, time in enumerate([5.0, 1.0, 4.0, 2.0, 3.0])))
        self.assertEqual(axes.patches[0].get_width(), 3)
        np.testing.assert_array_equal(axes.lines[0].get_xdata(), [1, 5])
        self.assertEqual(axes.get_xlabel(), "Time to P@1 \u2265 0.6 (s)")

    def test_a_missed_target_is_drawn_beyond_all_others(self):
        axes, = self.bars(self.timed(4.0, gamma=0), self.timed(None, gamma=1))
        self.assertGreater(axes.patches[1].get_width(), 4)
        self.assertEqual(axes.patches[1].get_hatch(), "///")
        self.assertTrue({"0/1 reached", "missed"} <= {text.get_text() for text in axes.texts})

    def test_a_figure_over_an_option(self):
        runs = [self.timed(time * seed, seed, learning_rate=rate, gamma=gamma) for seed in (1, 2, 3)
                for rate, time in ((1.0, 1), (0.1, 3), (0.3, 2)) for gamma in (0, 1)]
        axes, = self.over(*runs)
        self.assertEqual(list(drawn(axes)), ["adaptive, gamma=0", "adaptive, gamma=1"])
        line = drawn(axes)["adaptive, gamma=0"]
        np.testing.assert_allclose(line.get_xdata(), [0.1, 0.3, 1.0], rtol=0.05)  # lines stand a little apart
        np.testing.assert_array_equal(line.get_ydata(), [6, 4, 2])
        self.assertEqual(axes.get_xscale(), "log")
        ends = [path.vertices[:, 1].tolist() for path in axes.collections[0].get_paths()]
        self.assertEqual(ends, [[3, 9], [2, 6], [1, 3]])

    def test_over_words_and_missed_ones(self):
        axes, = self.over(self.timed(4.0, network="pcie3"), self.timed(None, network="ethernet"), key="network")
        self.assertEqual([label.get_text() for label in axes.get_xticklabels()], ["ethernet", "pcie3"])
        missed, reached = drawn(axes)["adaptive"].get_ydata()
        self.assertEqual(reached, 4)
        self.assertGreater(missed, 4)

    def test_any_number_of_a_run_can_be_the_figure(self):
        run = result()
        run["summary"].update(samples_per_s=2e4, final={"p1": 0.6})
        self.assertEqual(self.bars(run, figure="samples_per_s")[0].patches[0].get_width(), 2e4)
        self.assertEqual(self.bars(run, figure="final_p1")[0].get_xlabel(), "Final P@1")
        with self.assertRaisesRegex(PlotError, "found samples_per_h, expected a number of each run such as samples_per_s"):
            self.bars(run, figure="samples_per_h")
        with self.assertRaisesRegex(PlotError, "--over: found learning_rat, expected .* such as learning_rate"):
            self.over(configured({"learning_rate": 1}), key="learning_rat")

    def test_a_run_without_targets_has_no_time_to_one(self):
        run = result()
        run["time_to_accuracy"] = []
        with self.assertRaisesRegex(PlotError, "time_to_target: found no target in the runs"):
            self.bars(run)
