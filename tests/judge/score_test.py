"""Tests of hetsgd._score: what is a benchmark, what is an entry, and the standing by hand."""

import copy
import json
import math
import os
import pathlib
import re
import tempfile
import unittest
from unittest import mock

import package  # noqa: F401  # finds the package
import jsonschema
from hetsgd import _score, _validate
from hetsgd._errors import Error
from whole_results import document, tuning

HERE = pathlib.Path(__file__).resolve().parent

SPEC = {"name": "v0", "about": "two problems", "seeds": "1:3", "metric": {"name": "p1", "goal": "time_to_target", "target": 0.5},
        "settings": {"train": "generate:tiny", "batch_size": 16}, "tuning": {"parameters": {"learning_rate": {"values": [0.5, 2]}}},
        "setups": [{"name": "even"}, {"name": "uneven", "metric": {"target": 0.9}}],
        "cases": [{"name": "ssgd", "settings": {"algorithm": "ssgd"}}, {"name": "asgd", "settings": {"algorithm": "asgd"}}]}
FIXED = frozenset({"batch_size", "epochs", "profile", "config"})  # as the program would say


def changed(path, value):
    """SPEC with another value at a place such as "cases/1/settings/epochs"; None removes it."""
    spec = copy.deepcopy(SPEC)
    *above, key = path.split("/")
    at = spec
    for part in above:
        at = at[int(part) if isinstance(at, list) else part]
    if value is None:
        del at[key]
    else:
        at[key] = value
    return spec


class Folder(unittest.TestCase):
    """Works in a temporary folder; the program is not asked."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="hetsgd-score-")))
        self.enterContext(mock.patch.object(_score, "fixed_options", lambda: FIXED))

    def write(self, name, content):
        (self.folder / name).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return str(self.folder / name)

    def rules(self, spec=SPEC, name="v0.json"):
        return _score.read_rules(self.write(name, spec))

    def refused(self, spec, *words):
        with self.assertRaises(Error) as caught:
            self.rules(spec)
        self.assertEqual(caught.exception.code, 2)
        for word in words:
            self.assertIn(word, str(caught.exception))


class Rules(Folder):
    def test_of_a_benchmark(self):
        rules = self.rules()
        self.assertEqual((rules.name, rules.seeds), ("v0", [1, 2, 3]))
        self.assertEqual([(name, target.text) for name, target in rules.problems], [("even", "p1>=0.5"), ("uneven", "p1>=0.9")])
        losses = self.rules({**SPEC, "metric": {"name": "test_loss", "goal": "time_to_target", "target": 2}})
        self.assertEqual([target.text for _, target in losses.problems], ["test_loss<=2", "test_loss<=0.9"])
        self.assertEqual(self.rules({**SPEC, "seeds": [7, 3]}).seeds, [7, 3])
        text = "// a comment\n" + json.dumps({**SPEC, "about": "a // b /* c"})
        self.assertEqual(self.rules(text).written["about"], "a // b /* c")

    def test_what_is_no_benchmark(self):
        for spec, words in (
                (changed("metric/goal", None), "metric.goal"), (changed("setups/0/metric", {"name": "p1", "goal": "maximize"}), '"even"'),
                (changed("only", [{"setup": "even"}]), "only"), (changed("parameters", {"momentum": {"values": [0.1]}}), "parameters"),
                (changed("cases/1/settings/epochs", 3), "cases[1].settings.epochs"), (changed("cases/1/tuning", False), "cases[1].tuning"),
                (changed("cases/1/name", "ssgd"), "twice"), (changed("cases", None), "cases"),
                (changed("metric/target", 60), "metric.target"),
                (changed("seeds", "5:1"), "seeds"), (changed("colour", 1), "colour")):
            with self.subTest(words):
                self.refused(spec, "v0.json", words)
        whole = changed("only", [{"setup": "even"}, {"setup": "uneven", "cases": ["asgd", "ssgd"]}])
        self.assertEqual(len(self.rules(whole).problems), 2)

    def test_what_is_no_entry(self):
        rules = self.rules()
        for spec, place in (
                (changed("seeds", "1:4"), "seeds"), (changed("metric/target", 0.4), "metric.target"),
                (changed("tuning/parameters/learning_rate/values", [0.5, 1, 2]), "tuning.parameters.learning_rate.values[1]"),
                (changed("tuning/parameters/learning_rate/values", [0.5]), "tuning.parameters.learning_rate.values[1]"),
                (changed("setups/1/settings", {"speed": [1]}), "setups[1].settings"), (changed("setups/0/name", None), "setups[0].name"),
                (changed("cases/0/settings/batch_size", 8), "cases[0].settings.batch_size"), (changed("cases", []), "cases"),
                (changed("cases/0/rate_from", {"case": "asgd"}), "cases[0].rate_from")):
            with self.subTest(place):
                self.assertRegex(_score.why_no_entry(rules, spec), rf"^{re.escape(place)}( |:)")
        for spec in (changed("name", "mine"), changed("about", ["other"]), changed("launch", "mpirun"), changed("settings/plugin", "p.so"),
                     changed("cases", [{"name": "x", "settings": {"algorithm": "ssgd", "momentum": 0.5, "own_option": 3}}])):
            self.assertEqual(_score.why_no_entry(rules, spec), "")

    def test_options_of_methods_are_those_of_optimizer_and_schedule(self):
        """As lib/optimizer declares them; the options of tables, which follow there, are not a method's."""
        folder, found = HERE.parents[1] / "lib" / "optimizer", {"algorithm"}
        for name in ("options.cpp", "schedule.cpp"):
            text = (folder / name).read_text(encoding="utf-8").split("::declare_tables(")[0]
            found |= set(re.findall(r'set\.add(?:_choice)?\(\s*"(\w+)"', text))
        self.assertEqual(set(_score.METHOD_OPTIONS), found)

    def test_first_differences(self):
        for a, b, place in (({"a": 1}, {"a": 1.0}, ""), ({"a": 1}, {"a": True}, "a"),
                            ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, "a[1].b"),
                            ({"b": 1}, {"a": 1}, "b"), ({"a": {}}, {"a": {"c": 1}}, "a.c"), ([1], [1, 2], "[1]"), ("a", "b", "")):
            self.assertEqual(_score.first_difference(a, b), place)


class Standing(Folder):
    """Two problems, three seeds. p1 passes 0.5 at second `at` of a seed, and 0.9 never: ratios to the best median are 1, 2 and 5/2."""
    TIMES = {"ssgd": (2, 1, 3), "asgd": (4, 4, 0), "momentum": (5, 5, 5)}

    def sweep(self, name, spec, times):
        for part in ("runs", "index"):
            (self.folder / part).mkdir(exist_ok=True)
        self.write(f"{name}.sweep.json", {"kind": "sweep", "specification": {**spec, "name": name}})
        lines = []
        for case in (each["name"] for each in spec["cases"]):
            for setup in ("even", "uneven"):
                for seed, at in enumerate(times.get(case, ()), 1):
                    run = f"runs/{case}-{setup}-{seed}.json"
                    result = document([0.6 if 0 < at <= i else 0.495 if at else 0.1 for i in range(10)], "ssgd", seed)
                    result["tuning"] = tuning(trials=4, edge_of_grid=setup == "even")
                    self.write(run, result)
                    lines.append({"id": f"{case}{setup}{seed}", "status": "completed", "stage": "final", "setup": setup, "case": case,
                                  "seed": seed, "file": run})
        self.write(f"{name}.index.jsonl", "".join(json.dumps(line) + "\n" for line in lines))

    def standing(self):
        self.sweep("v0", SPEC, self.TIMES)
        self.sweep("entry", changed("cases", [{"name": "momentum", "settings": {"algorithm": "ssgd", "momentum": 0.5}}]), self.TIMES)
        return _score.read_benchmark(self.rules(), str(self.folder))

    def test_by_hand(self):
        benchmark = self.standing()
        self.assertEqual([(each.name, each.sweep, each.is_entry) for each in benchmark.methods],
                         [("ssgd", "v0", False), ("asgd", "v0", False), ("momentum", "entry", True)])
        scores = {each.name: each.score for each in benchmark.methods}
        for name, ratio in (("ssgd", 1), ("asgd", 2), ("momentum", 5 / 2)):
            self.assertEqual(scores[name].ratios, [ratio, math.inf])
            self.assertAlmostEqual(scores[name].score, (4 - ratio) / 3 / 2)  # nobody reaches 0.9, which counts as 0 for all
            self.assertLessEqual(scores[name].low, scores[name].score)
        self.assertEqual([each.score.rank for each in benchmark.methods], [1, 2, 3])
        self.assertEqual([each.reached for each in benchmark.methods], [[3, 0], [2, 0], [3, 0]])
        # 0.495 reaches the relaxed targets at once: at 0 s by all but the seed of asgd that missed, whose median is 0 s, too.
        self.assertEqual([score.ratios[0] for method in benchmark.methods for score in method.scores[1:]], [1] * 6)
        self.assertEqual(benchmark.methods[0].tuning, {"trials": 8, "samples_count": 18, "train_s": 2.0, "edges_of_grid": 1})
        self.assertEqual(benchmark.notes, [])

    def test_texts_and_the_document(self):
        benchmark = self.standing()
        tool = {"name": "hetsgd", "version": "1", "git_revision": "0", "git_dirty": False}
        text = _score._results.json_text(_score.standing_json(benchmark, tool))
        jsonschema.Draft7Validator(json.loads(_validate.schema("standing"))).validate(json.loads(text))
        method = json.loads(text)["methods"][1]
        self.assertEqual((method["time_s"], method["time_s_reason"], method["ratio"]), ([4, None], "inf", [2, None]))
        report = _score.standing_report(benchmark, "text")
        self.assertRegex(report, r"(?m)^momentum \* +3 \[\d, 3\] +0\.250 \[0\.\d{3}, 0\.\d{3}\] +0\.500 +0\.500 +1/2 +2\.50 +inf +1$")
        self.assertIn("\n(1) even, p1>=0.5: best 2 s, ssgd\n(2) uneven, p1>=0.9: no method reached it\n", report)
        self.assertTrue(all(len(line) <= 120 for line in report.splitlines()))
        self.assertIn("\n- (1) even, p1>=0.5: best 2 s, ssgd\n", _score.standing_report(benchmark, "markdown"))
        self.assertEqual(_score.standing_table(benchmark, "csv").splitlines()[0], "method,rank,score,-1 %,-2 %,solved,(1),(2),edges")

    def test_what_is_left_out_and_unequal_is_said(self):
        self.sweep("taken", changed("cases", [{"name": "ssgd", "settings": {"algorithm": "ssgd"}}]), {})
        self.sweep("longer", changed("settings/epochs", 3), {})
        self.write("text.sweep.json", "{}")
        self.standing()
        os.unlink(self.folder / "runs" / "asgd-even-2.json")
        path = self.folder / "runs" / "ssgd-even-1.json"
        other = json.loads(path.read_text(encoding="utf-8"))
        other["dataset"]["train"]["content_hash"], other["tool"]["git_revision"] = "xxh3:0000000000000077", "4567"
        self.write("runs/ssgd-even-1.json", other)
        benchmark = _score.read_benchmark(self.rules(), str(self.folder))
        self.assertEqual([each.name for each in benchmark.methods], ["ssgd", "momentum"])
        for words in ("^asgd is left out: 1 of its 6 runs are missing$", "^the sweep longer is left out: settings.epochs differs",
                      "^ssgd of the sweep taken is left out: its name is taken$", "^the sweep text is left out: not the specification of",
                      "^even: runs have different training data, xxh3:0000000000000077, xxh3:",
                      "different revisions of the program: 0123, 4567$"):
            self.assertTrue(any(re.search(words, note) for note in benchmark.notes), (words, benchmark.notes))

    def test_mistakes(self):
        with self.assertRaisesRegex(Error, "nowhere: cannot read the folder") as caught:
            _score.read_benchmark(self.rules(), "nowhere")
        self.assertEqual(caught.exception.code, 4)
        with self.assertRaises(Error) as caught:
            _score.read_benchmark(self.rules(), str(self.folder))
        self.assertIn("hetsgd sweep", caught.exception.hint)
        self.standing()
        broken = document([0.1])
        broken["curve"][0]["time_s"] = "late"
        self.write("runs/ssgd-even-1.json", broken)
        with self.assertRaisesRegex(Error, "ssgd-even-1.json: not a valid result: /curve/0/time_s"):
            _score.read_benchmark(self.rules(), str(self.folder))
