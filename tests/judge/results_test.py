"""Tests of hetsgd._results: files and sweeps that are found and refused, targets, and the frames."""

import contextlib
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

import package  # noqa: F401  # finds the package
import numpy as np
import hetsgd
import made_results
from hetsgd import _results
from hetsgd._errors import Error

HERE = pathlib.Path(__file__).resolve().parent

INF = math.inf


def result(seed=1, reached=4, **config):
    document = made_results.result("", "ssgd", seed, reached).document
    document["config"].update(config)
    return document


class Folder(unittest.TestCase):
    def setUp(self):
        self.enterContext(contextlib.chdir(self.enterContext(tempfile.TemporaryDirectory())))

    def write(self, name, content):
        path = pathlib.Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8", errors="surrogateescape")
        return name

    def refused(self, *parts, call, code=4):
        with self.assertRaises(Error) as caught:
            call()
        for part in parts:
            self.assertIn(part, str(caught.exception))
        self.assertEqual(caught.exception.code, code)


class Files(Folder):
    def test_what_is_no_json_is_refused_with_its_place(self):
        for content, *said in (("{", "x.json:1:2: found the end of the file"), ("", "the end of the file"),
                               ('{"a":\n nan}', 'x.json:2:2: found "n"'),
                               ('{"a": NaN}', '"NaN"'), ('{"a": 1, "a": 2}', 'key "a" again'), ("[" * 3000, "nested more than 100 levels"),
                               ("[" * 101 + "]" * 101, "nested more than 100 levels"), ('{"a": "\udce9"}', "x.json:1:8: found"),
                               ('{"a": "\\ud800"}', "surrogate"), ("9" * 5000, "too large"), ("[9" + "9" * 320 + "]", "too large"),
                               ("[-1e999]", "too large"), ("\x1f", "expected JSON"),
                               ("PK\x03\x04", "a zip archive"), ("{} {}", 'x.json:1:4: found "{"')):
            self.refused("x.json", *said, call=lambda: _results.read_json(self.write("x.json", content)))
        self.assertEqual(_results.read_json(self.write("x.json", "\ufeff[1]")), [1])

    def test_what_is_no_file_is_refused(self):
        os.mkdir("d")
        os.mkfifo("pipe")
        for path, said in (("none", "cannot open the file: No such file"), ("d", "found a directory, expected a file"),
                           ("/dev/null", "a device"), ("pipe", "a pipe to which nobody writes"), ("a\0b", "cannot open the file")):
            self.refused(path, said, call=lambda: _results.read_text(path))
        writer = threading.Thread(target=lambda: pathlib.Path("pipe").write_text("[2]"))
        writer.start()
        self.assertEqual(_results.read_json("pipe"), [2])
        writer.join()

    def test_a_result_with_mistakes_is_refused_at_its_place(self):
        mistakes = {"/curve/2/time_s: found \"soon\", expected a number from 0 on": lambda run: run["curve"][2].update(time_s="soon"),
                    "/curve/2/time_s: found -1": lambda run: run["curve"][2].update(time_s=-1),
                    "/curve/3/time_s: found 3.0 after 9": lambda run: run["curve"][2].update(time_s=9),
                    "/curve/1/samples_count: found true": lambda run: run["curve"][1].update(samples_count=True),
                    "/curve/1/p1: found [1], expected a number": lambda run: run["curve"][1].update(p1=[1]),
                    "/curve: found {}, expected a list": lambda run: run.update(curve={}),
                    "/curve/1: found 3, expected an object": lambda run: run["curve"].__setitem__(1, 3),
                    "/config/algorithm: found nothing, expected a text": lambda run: run["config"].pop("algorithm"),
                    "/config/seed: found \"one\", expected a count": lambda run: run["config"].update(seed="one"),
                    "/workers/0/samples: found nothing": lambda run: run["workers"][0].pop("samples"),
                    "/time_to_accuracy/0/value": lambda run: run["time_to_accuracy"][0].update(value=10**400),
                    "/time_to_accuracy/0/metric: found \"x\"": lambda run: run["time_to_accuracy"][0].update(metric="x"),
                    "/tuning/grid/0": lambda run: run.update(tuning={**made_results.tuning(1), "grid": ["a"]}),
                    "/schema_version: found \"2.0\", expected 1.x": lambda run: run.update(schema_version="2.0")}
        for said, change in mistakes.items():
            run = result()
            change(run)
            self.refused("x.json: not a valid result: ", said, call=lambda: _results.check_result(run, "x.json"))
        for document in ([1], 3, None, {}):
            self.refused("not a valid result", call=lambda: _results.check_result(document, "x.json"))

    def test_kinds_of_other_files(self):
        kinds = [_results.other_kind(each) for each in ({"kind": "tuning"}, {"traceEvents": []}, {"groups": []}, {"curve": [], "kind": "x"}, 3)]
        self.assertEqual(kinds, ["tuning", "trace", "comparison", "", ""])

    def test_numbers_that_are_none_have_their_reason(self):
        self.assertEqual(_results.explain_nonfinite({"a": [1.0, INF, {"b": math.nan}], "c": -INF}),
                         {"a": [1.0, None, {"b": None, "b_reason": "nan"}], "a_reason": "inf", "c": None, "c_reason": "-inf"})


class Targets(unittest.TestCase):
    def test_held(self):
        for reaching, expected in (("0111", (1, 1)), ("0101011", (1, 1)), ("0100011", (1, None)), ("01000111", (1, 5)),
                                   ("10000", (0, None)), ("0011", (2, None)), ("00", (None, None)),
                                   ("110", (0, 0)), ("1010", (0, None)), ("101001", (0, None)), ("1110000", (0, 0))):
            self.assertEqual(_results.crossings([each == "1" for each in reaching]), expected, reaching)

    def test_texts(self):
        self.assertEqual(_results.parse_target(" p1 >= 0.60", "--target"), _results.Target("p1>=0.6", "p1", True, 0.6))
        self.assertEqual(_results.parse_target("test_loss<=2", "x").text, "test_loss<=2")
        for text, said, hint in (("p1", "METRIC>=VALUE", "quote"), ("p1>=x", 'found "x", expected a number', ""),
                                 ("p1>=nan", "a number", ""),
                                 ("acuracy>=1", 'the metric "acuracy", expected one of p1, p3', "accuracy"),
                                 ("p1>=60", "p1 from 0 to 1", "0.6?"), ("p1>=-1", "p1 from 0 to 1", "")):
            with self.assertRaisesRegex(Error, f"^--target: .*{said}") as caught:
                _results.parse_target(text, "--target")
            self.assertIn(hint, caught.exception.hint)

    def test_values_that_are_not_finite_reach_nothing(self):
        run = result()
        run["curve"][5].update(p1=None, p1_reason="inf")
        self.assertTrue(math.isnan(_results.evaluations(run, "p1")[1][5]))


class Sweep(Folder):
    """A sweep with two final runs and a trial, in a folder with another result."""

    def setUp(self):
        super().setUp()
        for seed, name in enumerate(("zz", "aa"), 1):
            self.write(f"out/runs/{name}.json", result(seed))
        self.write("out/trials/tt.json", result(3))
        self.write("out/tunings/h.json", {"kind": "tuning"})
        self.write("out/rates.sweep.json", {"kind": "sweep", "specification": {"name": "Rates", "about": "Which one."}})
        self.write("out/rates.tuning.json", {"kind": "tuning"})
        self.lines = [self.line("zz"), self.line("tt", stage="tuning", file="trials/tt.json"), self.line("aa", case="fast")]
        self.index()

    def line(self, name, **more):
        return {"id": name, "setup": "tiny", "case": "slow", "parameters": {"learning_rate": 0.3, "devices": ["a", "b"]}, "seed": 1,
                "stage": "final", "status": "completed", "file": f"runs/{name}.json", **more}

    def index(self, end=""):
        return self.write("out/rates.index.jsonl", "".join(json.dumps(line) + "\n" for line in self.lines) + end)

    def paths(self, *operands):
        return [each.path for each in _results.read_inputs(operands, log=False).loaded]

    def test_folders_indexes_and_files(self):
        final = ["out/runs/zz.json", "out/runs/aa.json"]  # in the order of the index
        self.assertEqual(self.paths("out"), final)
        self.assertEqual(self.paths("out/rates.index.jsonl"), final)
        self.assertEqual(self.paths(*reversed(final)), final)
        self.assertEqual(self.paths("out/trials/tt.json"), ["out/trials/tt.json"])
        inputs = _results.read_inputs(["out"], log=False)
        self.assertEqual((inputs.title, inputs.about), ("Rates", "Which one."))
        self.assertEqual([(each.setup, each.case, each.listed["id"]) for each in inputs.loaded],
                         [("tiny", "slow", "zz"), ("tiny", "fast", "aa")])
        self.write("out/runs/more.json", result(9))
        self.assertEqual(self.paths("out"), [final[1], "out/runs/more.json", final[0]])  # what is not listed stays in its place
        self.assertEqual(_results.read_inputs(["out"], log=False).title, "")

    def test_the_last_line_of_a_run_counts_and_a_torn_one_does_not(self):
        self.lines.insert(0, self.line("aa", case="old"))
        self.index('{"id": "bb", "fi')
        self.assertEqual([each.case for each in _results.read_inputs(["out"], log=False).loaded], ["slow", "fast"])
        self.lines.append({"id": "aa"})
        self.refused('rates.index.jsonl:5: found "{"id', "expected a run as a JSON object", call=lambda: self.paths(self.index()))

    def test_broken_files_are_notes_in_folders_and_errors_if_named(self):
        self.write("out/runs/zz.json", "{")
        self.lines.append(self.line("gone"))
        inputs = _results.read_inputs([self.index()], log=False)
        self.assertEqual(len(inputs.loaded), 1)
        self.assertEqual([note.split(": ")[0] for note in inputs.notes], ["out/runs/zz.json:1:2", "out/runs/gone.json"])
        self.refused("out/runs/zz.json", call=lambda: self.paths("out/runs/zz.json"))

    def test_frames_have_what_the_index_says_and_the_trials(self):
        data = hetsgd.load("out")
        row = data.runs.set_index("run").loc["tt"]
        self.assertEqual((row.setup, row.case, row.learning_rate, row.devices, row.stage, row.seed),
                         ("tiny", "slow", 0.3, '["a", "b"]', "tuning", 3))
        self.assertEqual(data.parameters, ["setup", "case", "devices", "learning_rate"])
        self.assertEqual(len(data.select(data.runs.stage == "final").curve), 22)
        self.assertEqual(data.listed["zz"]["file"], "out/runs/zz.json")
        self.assertEqual(data.compare().n.sum(), 2)


class Frames(Folder):
    def load(self, *documents):
        for i, document in enumerate(documents):
            self.write(f"r/{i}.json", document)
        return hetsgd.load("r")

    def test_a_row_per_run_evaluation_event_worker_and_target(self):
        merge = {"type": "merge", "time_s": 1, "batch_size": [16, 8], "norm": [1.0, 2.0]}
        data = self.load(*({**result(seed), "events": [merge], "histograms": {"staleness": {"0": 3, "2": 1}}} for seed in (1, 2)))
        frames = (data.runs, data.curve, data.events, data.workers, data.targets, data.histograms)
        self.assertEqual([len(frame) for frame in frames], [2, 22, 2, 4, 2, 4])
        for frame in frames:
            self.assertEqual(list(frame)[:4], ["run", "group", "algorithm", "seed"])
        flat = hetsgd.per_worker(data.events)
        self.assertEqual((list(flat["rank"]), list(flat.batch_size)), ([0, 1] * 2, [16, 8] * 2))
        self.assertEqual(list(data.runs.group), ["ssgd"] * 2)

    def test_a_missed_target_is_infinity_and_counts(self):
        targets = self.load(result(1), result(2, 0), result(3, 0)).targets
        for name in ("time_s", "samples_count", "updates", "first_crossing_s"):
            self.assertEqual(np.isinf(targets[name]).sum(), 2, name)
        self.assertEqual((list(targets.reached), targets.resolution_s[0]), ([True, False, False], 1))
        self.assertEqual(hetsgd.summarise(targets, "time_s")["median"][0], INF)

    def test_null_is_what_its_reason_says(self):
        run = result()
        run["curve"][3].update(test_loss=None, test_loss_reason="inf")
        run["summary"]["final"] = {"test_loss": None, "test_loss_reason": "inf"}
        data = self.load(run)
        self.assertEqual((data.curve.test_loss[3], data.runs.final_test_loss[0]), (INF, INF))
        self.assertTrue(math.isnan(data.curve.train_loss[0]))
        self.assertFalse([name for name in data.curve if name.endswith("_reason")])

    def test_options_tell_groups_apart_and_vary(self):
        data = self.load(result(1), result(2, train="elsewhere.txt"), result(1, learning_rate=1.0, straggler=["kind=constant"]),
                         result(1, algorithm="sgd", learning_rate=1.0))
        slow = 'ssgd (learning_rate=1.0, straggler=["kind=constant"])'
        self.assertEqual(list(data.runs.group), ["ssgd (learning_rate=0.5)"] * 2 + [slow, "sgd"])
        self.assertEqual(data.varying(), ["algorithm", "learning_rate"])
        rest = data.select(data.runs.learning_rate == 0.5)
        self.assertEqual((len(rest.runs), list(rest.runs.group)), (2, ["ssgd"] * 2))

    def test_what_is_named_twice_and_what_is_left_out_is_noted(self):
        self.write("r/choice.json", {"kind": "tuning"})
        self.write("r/broken.json", "{")
        self.load(result())
        data = hetsgd.load("r", pathlib.Path("r/0.json"))
        self.assertEqual(len(data.runs), 1)
        self.assertEqual([note.split(": ")[0] for note in data.notes], ["r/choice.json", "r/broken.json:1:2", "r/0.json"])
        self.refused("found no result, expected at least one", call=lambda: hetsgd.load("r/choice.json"), code=2)
        with self.assertRaisesRegex(hetsgd.ResultError, "r/broken.json"):
            hetsgd.load("r/broken.json")

    def test_comparisons_of_frames(self):
        data = self.load(result(1, 4), result(1, 2, algorithm="asgd"))
        frame = data.compare(reference="ssgd", target="p1>=0.6")
        self.assertEqual((list(frame.group), list(frame.speedup)), (["asgd", "ssgd"], [2, 1]))
        for wrong in ({"clock": "sun"}, {"target": "p1"}, {"reference": "nobody"}):
            self.refused("found", call=lambda: data.compare(**wrong), code=2)

    def test_intervals(self):
        self.assertEqual(hetsgd.interval([5, 1, 4, 2, 3]), (3, 1, 5))
        self.assertTrue(math.isnan(hetsgd.interval([1, math.nan])[0]) and math.isnan(hetsgd.interval([])[0]))

    def test_the_command_needs_neither_pandas_nor_scipy(self):
        self.write("a.json", result())
        script = ("import sys; from hetsgd import cli; cli.run(['compare', 'a.json']); "
                  "print(sorted({'pandas', 'scipy', 'jsonschema'} & set(sys.modules)))")
        done = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(HERE.parents[1] / "scripts")},
                              capture_output=True, text=True, check=True)
        self.assertTrue(done.stdout.endswith("\n[]\n"), done.stdout)
