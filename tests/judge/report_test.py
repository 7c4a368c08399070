"""Tests of hetsgd._report and _output: numbers of the page by hand, and a page that nothing in the data can break."""

import base64
import contextlib
import hashlib
import io
import json
import math
import os
import pathlib
import re
import tempfile
import unittest

import package  # noqa: F401  # finds the package
import numpy as np
from hetsgd import _output, _report, _results
from hetsgd._errors import Error
from whole_results import document

INF = math.inf
EVIL = "</script><img src=x onerror=alert(1)><!-- {{script}} \"' & \udcff"


def run_of(algorithm, p1, seed=1, *stragglers):
    return _results.Loaded(f"{algorithm}{seed}{''.join(stragglers)}.json", document(p1, algorithm, seed, stragglers))


def timed(algorithm, reached, *stragglers):
    """P@1 passes 0.5 at second `reached`; 0: never. Ten evaluations."""
    return run_of(algorithm, [0.6 if 0 < reached <= i else 0.1 for i in range(10)], 1, *stragglers)


def data_of(*loaded, **options):
    return json.loads(_results.json_text(_report.report_data(list(loaded), **options)))


def only_group(*loaded):
    workload, = data_of(*loaded)["workloads"]
    group, = workload["groups"]
    return group


class Numbers(unittest.TestCase):
    def test_spread_keeps_both_ends(self):
        self.assertEqual([_report.spread(*each) for each in ((3, 5), (9, 5), (0, 5), (1000, 3))],
                         [[0, 1, 2], [0, 2, 4, 6, 8], [], [0, 499, 999]])

    def test_rounding_to_significant_digits(self):
        for value, digits, right in ((0.123456, 3, 0.123), (-98765.4, 3, -98800), (1234567890.0, 4, 1235000000.0), (0, 3, 0), (INF, 3, INF),
                                     (1e-320, 3, 1e-320), (2.5e307, 1, 3e307)):
            self.assertEqual(float(_report.rounded(value, digits)), right, value)
        values = np.random.default_rng(1).lognormal(0, 20, 1000)
        np.testing.assert_allclose(_report.rounded(values, 5), [float(f"{value:.4e}") for value in values], rtol=1e-15)
        self.assertEqual(float(_report.rounded(1 / 64, 4)), 0.01563)  # halves go away from zero

    def test_json_of_numbers_and_names_that_json_has_not(self):
        text = _results.json_text({"b": [1.0, INF], "a": math.nan, "name": "caf\udce9 5%", "é": "bytes:x"})
        self.assertEqual(text, '{"a":null,"a_reason":"nan","b":[1.0,null],"b_reason":"inf","name":"bytes:caf%E9 5%25","é":"bytes:x"}')


class Curves(unittest.TestCase):
    def test_bytes_are_those_of_the_points(self):
        run = run_of("ssgd", [0, 0.2, 0.4])
        for i, point in enumerate(run.document["curve"]):
            point["bytes_sent"] = i * i * 50
        self.assertEqual(only_group(run)["curves"]["x"]["bytes_sent"], [0, 50, 200])

    def test_bands_go_from_the_lowest_to_the_highest_run(self):
        """Two workers send 111 bytes each in a run of 200 samples, and no point says when."""
        curves = only_group(run_of("ssgd", [0, 0.2, 0.4]), run_of("ssgd", [0, 0.4, 0.8], 2))["curves"]
        self.assertEqual(curves["x"], {"time_s": [0, 1, 2], "samples_count": [0, 100, 200], "bytes_sent": [0, 111, 222]})
        for axis in _report.AXES:
            self.assertEqual(curves["y"]["p1"][axis], {"median": [0, 0.3, 0.6], "low": [0, 0.2, 0.4], "high": [0, 0.4, 0.8]})
        self.assertEqual(curves["y"]["train_loss"]["time_s"]["median"], [None, 1, 1])

    def test_runs_of_unequal_length_meet_on_one_grid(self):
        """The second run needs twice the time. The first one ends at 2 s and keeps its value."""
        fast, slow, third = (run_of("ssgd", [0, 0.2, 0.4], seed) for seed in (1, 2, 3))
        for point in slow.document["curve"]:
            point["time_s"] *= 2
        two = only_group(fast, slow)["curves"]
        self.assertEqual(two["x"]["time_s"], [0, 1, 2, 4])
        self.assertEqual(two["y"]["p1"]["time_s"]["low"], [0, 0.1, 0.2, 0.4])
        self.assertEqual(two["y"]["p1"]["time_s"]["high"], [0, 0.2, 0.4, 0.4])
        self.assertEqual(only_group(fast, slow, third)["curves"]["x"]["time_s"], [0, 1, 2])

    def test_lines_are_those_of_numpy(self):
        random = np.random.default_rng(1)
        x, y, grid = np.sort(random.random(20)), random.random(20), random.random(50)
        y[3] = math.nan
        known = np.isfinite(y)
        np.testing.assert_allclose(_report.values_at(grid, x, y), np.interp(grid, x[known], y[known], left=math.nan), rtol=1e-12)

    def test_long_curves_are_thinned_out(self):
        curves = only_group(run_of("ssgd", [i / 2000 for i in range(1001)]))["curves"]
        x = curves["x"]["time_s"]
        self.assertEqual((len(x), x[0], x[-1], curves["y"]["p1"]["time_s"]["median"][-1]), (120, 0, 1000, 0.5))
        self.assertNotIn("low", curves["y"]["p1"]["time_s"])  # one run has no band

    def test_runs_that_ended_at_once(self):
        group = only_group(run_of("ssgd", []), run_of("ssgd", [0.1], 2))
        self.assertEqual((group["n"], group["curves"]["x"]["time_s"], group["workers"]), (2, [0], None))


class Workers(unittest.TestCase):
    def test_shares_are_means_over_the_runs(self):
        """Both workers of both runs compute 1.5 s; the runs take 2 s and 4 s: (3/4 + 3/8) / 2."""
        longer = run_of("ssgd", [0, 0.2, 0.4], 2)
        longer.document["summary"]["elapsed_s"] = 4.0
        workers = only_group(run_of("ssgd", [0, 0.2, 0.4]), longer)["workers"]
        self.assertEqual((workers["count"], workers["elapsed_s"], workers["compute"], workers["wait"]), (2, 3, [0.5625] * 2, [0, 0]))

    def test_who_waited_for_whom(self):
        """Worker 0 waits 3 s for 1 and 2 s for the server, and in the second run 1 s for 1."""
        first, second = (run_of("ssgd", [0, 0.2, 0.4], seed) for seed in (1, 2))
        self.assertIsNone(only_group(first, second)["waited_for"])
        first.document["workers"][0]["waited_for"] = [{"rank": 1, "wait_s": 3.0}, {"rank": None, "service": "server", "wait_s": 2.0}]
        second.document["workers"][0]["waited_for"] = [{"rank": 1, "wait_s": 1.0}]
        first.document["workers"][1]["waited_for"] = []
        one = only_group(first, second)["waited_for"]  # the mean over those that say it
        self.assertEqual((one["service"], one["wait_s"]), (["server"], [[0, 3, 2], [0, 0, 0]]))
        second.document["workers"][1]["waited_for"] = []
        self.assertEqual(only_group(first, second)["waited_for"]["wait_s"], [[0, 2, 1], [0, 0, 0]])

    def test_losses_are_means_of_the_runs_that_have_them(self):
        first, second = (run_of("ssgd", [0, 0.2, 0.4], seed) for seed in (1, 2))
        self.assertIsNone(only_group(first, second)["survival"])
        first.document.update(failures=[{}], survival={"availability": 0.5, "resume_s": None})
        self.assertEqual(only_group(first, second)["survival"], {"runs": 1, "lost_workers": 1, "availability": 0.5})
        second.document.update(failures=[{}], survival={"availability": 1, "resume_s": 3.0})
        self.assertEqual(only_group(first, second)["survival"], {"runs": 2, "lost_workers": 1, "availability": 0.75, "resume_s": 3})

    def test_steps_are_compared_with_the_run_without_failures(self):
        """Half as many steps in the same time; the other run is that of the same seed and the same other stragglers."""
        slow = "kind=uniform,min=0s,max=0.05s,workers=0-3"
        whole, other = run_of("ssgd", [0, 0.2, 0.4], 1, slow), run_of("ssgd", [0, 0.2, 0.4], 1)
        lost = run_of("ssgd", [0, 0.2, 0.4], 1, slow, "kind=fail,at=30s,workers=1")
        lost.document["config"]["detect"] = "1s"
        lost.document["survival"] = {}
        whole.document["summary"]["updates"], lost.document["summary"]["updates"] = 200, 100
        _report.add_step_efficiency([lost, run_of("ssgd", [0, 0.2], 2, slow), other])
        self.assertEqual(lost.document["survival"], {})
        _report.add_step_efficiency([lost, other, whole])
        self.assertEqual(lost.document["survival"], {"step_efficiency": 0.5})

    def test_batch_sizes_are_those_of_the_merges(self):
        result = run_of("adaptive", [0, 0.2, 0.4])
        sizes = only_group(result)["batch_sizes"]
        self.assertEqual((sizes["batch_size"], sizes["time_s"]), ([[32], [16]], [1]))
        merge = result.document["events"][0]
        result.document["events"].append({**merge, "time_s": 2.0, "workers": [1], "batch_size": [8]})
        self.assertEqual(only_group(result)["batch_sizes"]["batch_size"], [[32, None], [16, 8]])
        result.document["events"] = [{**merge, "batch_size": [16, 16]}]
        self.assertIsNone(only_group(result)["batch_sizes"])  # they never changed

    def test_histograms_count_all_runs(self):
        """0 three times, 2 five times. More than 80 values go into bins of equal width: 0 .. 199 in bins of 3."""
        first, second = run_of("asgd", [0, 0.2]), run_of("asgd", [0, 0.2], 2)
        first.document["histograms"], second.document["histograms"] = {"staleness": {"0": 3, "2": 1}}, {"staleness": {"2": 4}}
        self.assertEqual(only_group(first, second)["histograms"]["staleness"],
                         {"value": [0, 2], "share": [0.375, 0.625], "count": 8, "width": 1, "p50": 2, "p95": 2, "max": 2})
        first.document["histograms"] = {"staleness": {str(value): 1 for value in range(200)}}
        binned = only_group(first)["histograms"]["staleness"]
        self.assertEqual((binned["width"], len(binned["value"]), binned["share"][0], binned["p95"]), (3, 67, 0.015, 189))


class Documents(unittest.TestCase):
    def test_what_is_learnt_on_what_machine_makes_a_workload(self):
        data = data_of(timed("ssgd", 4), timed("asgd", 2), timed("ssgd", 6, "kind=pause"), timed("asgd", 3, "kind=pause"))
        plain, slow = data["workloads"]
        self.assertEqual((plain["name"], slow["name"], slow["about"]),
                         ("hand; stragglers: none", "hand; stragglers: kind=pause", "hand; stragglers: kind=pause"))
        self.assertEqual((slow["groups"][1]["label"], slow["groups"][1]["place"], slow["groups"][1]["targets"][0]["speedup"]["median"]),
                         ("asgd", 0, 2))  # 6 s against 3 s
        self.assertEqual([slow[key] for key in ("reference", "targets", "higher_is_better", "bytes_measured")], ["ssgd", ["p1>=0.5"], True, False])

    def test_the_performance_profile_is_that_of_dolan_and_more(self):
        """Best times 1, 2 and 3 s; ratios of ssgd 1, 2, 1 and of asgd 2, 1, missed. Nobody reached the target under the fourth."""
        times = {"kind=a": (1, 2), "kind=b": (4, 2), "kind=c": (3, 0), "kind=d": (0, 0)}
        profile = data_of(*(timed(*each, kind) for kind, pair in times.items() for each in zip(("ssgd", "asgd"), pair)))["profile"]
        self.assertEqual([problem["best_time_s"] for problem in profile["problems"]], [1, 2, 3])
        ssgd, asgd = sorted(profile["solvers"], key=lambda solver: solver["label"], reverse=True)
        self.assertEqual((ssgd["ratios"], asgd["ratios"], asgd["ratios_reason"], asgd["solved"]), ([1, 2, 1], [2, 1, None], "inf", 2))
        self.assertAlmostEqual(ssgd["area"], 8 / 9)
        self.assertAlmostEqual(asgd["area"], 5 / 9)

    def test_settings_are_those_in_which_groups_differ(self):
        other = run_of("ssgd", [0, 0.2], 2)
        other.document["config"].update(learning_rate=0.25, beta=2)
        settings = data_of(run_of("ssgd", [0, 0.2]), other)["workloads"][0]["settings"]
        self.assertEqual(settings, {
            "options": ["learning_rate"], "groups": [{"values": ["0.5"], "own": []}, {"values": ["0.25"], "own": ["beta=2"]}]})

    def test_reference_and_targets_hold_where_a_workload_has_them(self):
        results = [timed("ssgd", 4), timed("asgd", 2), timed("ssgd", 6, "kind=pause")]
        target, auc = (_results.parse_target(text, "--target") for text in ("p1>=0.3", "auc>=0.9"))
        first, second = data_of(*results, reference="asgd", targets=[target])["workloads"]
        self.assertEqual((first["reference"], first["targets"], second["reference"]), ("asgd", ["p1>=0.3"], "ssgd"))
        self.assertTrue(any("--reference asgd" in warning for warning in second["warnings"]))
        for options in ({"targets": [target, auc]}, {"reference": "esync"}):
            with self.assertRaises(Error) as caught:
                data_of(*results, **options)
            self.assertEqual(caught.exception.code, 2)
        with self.assertRaises(Error):
            data_of()

    def test_whose_time_it_is(self):
        real, simulated = run_of("ssgd", [0, 0.2]), run_of("asgd", [0, 0.2])
        real.document["cluster"].update(virtual_time=False, name="threads")
        simulated.document["cluster"]["network"] = {"name": "pcie3"}
        simulated.document["workers"][1]["profile"] = "xeon"
        machines = [workload["simulated"] for workload in data_of(real, simulated)["workloads"]]
        self.assertEqual(machines, ["", "1 x v100 + 1 x xeon, network pcie3"])

    def test_environments_are_counted(self):
        runs = [run_of("ssgd", [0, 0.2], seed) for seed in (1, 2, 3)]
        runs[2].document["environment"]["variables"] = {"OMP_NUM_THREADS": "1"}
        found = data_of(*runs)["environments"]
        self.assertEqual([each["runs"] for each in found], [2, 1])
        self.assertEqual((found[0]["rows"][0], found[1]["rows"][-1]), (["host", "red"], ["OMP_NUM_THREADS", "1"]))


class Pages(unittest.TestCase):
    def page_of(self, *loaded, **options):
        return _report.report_page(_report.report_data(list(loaded), **options))

    def test_nothing_in_the_data_becomes_markup(self):
        result = run_of("ssgd", [0, 0.2])
        result.path = result.setup = EVIL
        result.document["environment"]["hostname"] = EVIL
        result.document["config"][EVIL] = EVIL
        page, plain = self.page_of(result, title=EVIL, notes=[EVIL]), self.page_of(run_of("ssgd", [0, 0.2]))
        for part in ("</script", "<img", "<!--", "<script"):
            self.assertEqual(page.count(part), plain.count(part), part)
        self.assertIn("{{script}}", page)  # what is put in is not looked at again
        self.assertIn("<title>bytes:&lt;/script&gt;&lt;img src=x onerror", page)
        page.encode("utf-8")
        embedded = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1]
        self.assertEqual(json.loads(embedded)["notes"], ["bytes:" + EVIL.replace("\udcff", "%FF")])

    def test_the_policy_names_the_script_and_the_style_that_are_there(self):
        page = self.page_of(run_of("ssgd", [0, 0.2]))
        self.assertIn("default-src 'none'", page)
        for kind in ("script", "style"):
            text = re.findall(f"<{kind}>(.*?)</{kind}>", page, re.DOTALL)
            source = base64.b64encode(hashlib.sha256(text[0].encode()).digest()).decode()
            self.assertEqual((len(text), f"{kind}-src 'sha256-{source}'" in page), (1, True), kind)
        self.assertEqual(page, self.page_of(run_of("ssgd", [0, 0.2])))


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="hetsgd-report-")))

    def refused(self, path, words, overwrite=True, code=2, inputs=()):
        with self.assertRaises(Error) as caught:
            _output.Output("--output", str(path), "the report").check(overwrite, dict.fromkeys(map(str, inputs), "report"))
        self.assertIn(words, str(caught.exception) + caught.exception.hint)
        self.assertEqual(caught.exception.code, code)

    def test_outputs_replace_nothing_unasked_and_no_input(self):
        page, link, data = self.folder / "page.html", self.folder / "link.html", self.folder / "a.json"
        data.write_text("{}", encoding="utf-8")
        link.symlink_to("page.html")
        output = _output.Output("--output", str(link), "the report")
        output.check(False, {str(data): "report"})
        output.write("first")
        self.assertTrue(link.is_symlink())
        self.assertEqual(page.read_text(encoding="utf-8"), "first")
        self.refused(page, "--overwrite", overwrite=False)
        self.refused(self.folder / "no" / "page.html", "create the folder first")
        self.refused(self.folder, "Is a directory")
        os.link(data, self.folder / "other.json")
        self.refused(self.folder / "other.json", "no input is ever replaced", inputs=[data])
        self.assertEqual(sorted(os.listdir(self.folder)), ["a.json", "link.html", "other.json", "page.html"])

    def test_streams_are_written_directly(self):
        for path in ("/dev/full", "/dev/fd/99"):
            with self.assertRaises(Error) as caught:
                _output.Output("--output", path, "the report").write("x" * 100000)
            self.assertEqual(caught.exception.code, 1)
        with open(self.folder / "log", "w", encoding="utf-8") as file:
            for text in ("one", "two"):
                output = _output.Output("--output", f"/dev/fd/{file.fileno()}", "the report")
                output.check(False, {})
                output.write(text)
        self.assertEqual((self.folder / "log").read_text(encoding="utf-8"), "onetwo")

    def test_broken_fields_that_only_the_page_takes(self):
        """A file that was named is an error, one of a folder is left out with a note."""
        for name, damage in (("a", None), ("b", lambda result: result["histograms"].update(x={"one": 1})),
                             ("c", lambda result: result["workers"][1].pop("compute_s"))):
            result = document([0, 0.2, 0.4], "ssgd", ord(name))
            if damage:
                damage(result)
            (self.folder / f"{name}.json").write_text(json.dumps(result), encoding="utf-8")
        with contextlib.redirect_stderr(io.StringIO()) as said:
            data = _report.data_of(_results.read_inputs([str(self.folder)]), [str(self.folder)])
        self.assertEqual((data["runs"], len(data["notes"])), (1, 2))
        self.assertRegex(said.getvalue(), r'warning: left out: .*b\.json: not a valid result: /histograms/x: found "one"')
        path = str(self.folder / "c.json")
        with self.assertRaisesRegex(Error, 'c.json: not a valid result: /workers/1: found no "compute_s"'):
            _report.data_of(_results.read_inputs([path]), [path])

    def test_headings_name_few_operands(self):
        self.assertEqual([_report.heading_of(each) for each in (["runs"], ["a", "b", "c"], ["a", "b", "c", "d"])],
                         ["runs", "a, b, c", "a and 3 others"])
