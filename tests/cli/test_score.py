"""hetsgd score: standings from the runs of sweeps, what is an entry, what is left out."""

import json
import math
import statistics
import unittest

from program import ProgramTest

SPEC = """
name = "v0"
about = "two problems"
seeds = "1:3"
[metric]
name = "p1"
goal = "time_to_target"
target = 0.2
[settings]
train = "generate:tiny?rows_train=600"
test = "generate:tiny?rows_train=600"
workers = 2
batch_size = 16
hidden = 8
mega_batch = 5
epochs = 4
[tuning]
seeds = [101]
validation = 0.2
[tuning.parameters.learning_rate]
values = [0.5, 2]
[[setups]]
name = "even"
[[setups]]
name = "uneven"
metric = {target = 0.9}
[setups.settings]
speed = [1, 0.2]
"""
CASES = """
[[cases]]
name = "ssgd"
settings = {algorithm = "ssgd"}
[[cases]]
name = "asgd"
settings = {algorithm = "asgd"}
"""
ENTRY = """
[[cases]]
name = "momentum"
settings = {algorithm = "ssgd", optimizer = "momentum", momentum = 0.5}
"""


class Score(ProgramTest):
    def write(self, text, name="v0.toml"):
        (self.folder / name).write_text(text)
        return name

    def entry(self, *changes, cases=ENTRY, name="entry.toml"):
        text = SPEC.replace('"v0"', f'"{name.removesuffix(".toml")}"') + cases
        for old, new in changes:
            self.assertIn(old, text)
            text = text.replace(old, new)
        return self.write(text, name)

    def sweep(self, spec):
        self.run_program("sweep", spec, "-o", "runs", "--jobs", "2")

    def standing(self):
        done = self.run_program("score", "v0.toml", "--runs", "runs", "--format", "json")
        return json.loads(done.stdout), done.stderr

    def times(self, sweep, case):
        """By setup, the times of the seeds, as the sweep's index has them."""
        lines = [json.loads(line) for line in (self.folder / "runs" / f"{sweep}.index.jsonl").read_text().splitlines()]
        found = {}
        for line in lines:
            if (line["stage"], line["case"]) == ("final", case):
                time = line["summary"]["time_to_target_s"]
                found.setdefault(line["setup"], []).append(math.inf if time is None else time)
        return found

    def test_the_standing_of_methods_and_an_entry(self):
        self.sweep(self.write(SPEC + CASES))
        self.sweep(self.entry())
        standing, talk = self.standing()
        self.assertEqual(talk.count("warning"), 0, talk)
        self.assertEqual([(each["name"], each["target"]) for each in standing["problems"]],
                         [("even", "p1>=0.2"), ("uneven", "p1>=0.9")])
        methods = {each["name"]: each for each in standing["methods"]}
        self.assertEqual({name: each["is_entry"] for name, each in methods.items()},
                         {"ssgd": False, "asgd": False, "momentum": True})
        times = {name: self.times(each["sweep"], name) for name, each in methods.items()}
        even = {name: statistics.median(each["even"]) for name, each in times.items()}
        self.assertTrue(all(map(math.isfinite, even.values())), even)
        for name, method in methods.items():
            # Nobody reaches 0.9, which counts as 0 for everybody.
            ratio = even[name] / min(even.values())
            self.assertAlmostEqual(method["ratio"][0], ratio)
            self.assertEqual((method["ratio"][1], method["solved"], method["reached"]), (None, 1, [3, 0]))
            self.assertAlmostEqual(method["score"], max(0, (4 - ratio) / 3) / 2)
            self.assertLessEqual(method["score_low"], method["score"])
            self.assertGreaterEqual(method["score_high"], method["score"])
            self.assertEqual(method["tuning"]["trials"], 4)
        scores = [each["score"] for each in standing["methods"]]
        self.assertEqual(scores, sorted(scores, reverse=True))
        self.assertEqual(standing, self.standing()[0])

    def test_tables(self):
        self.sweep(self.write(SPEC + CASES))
        self.sweep(self.entry())
        text = self.run_program("score", "v0.toml", "--runs", "runs").stdout
        self.assertRegex(text, r"(?m)^momentum \* +\d \[\d, \d\] +0\.\d{3} \[0\.\d{3}, 0\.\d{3}\] +1/2 ")
        self.assertIn("(2) uneven, p1>=0.9: nobody reached it\n", text)
        self.assertTrue(all(len(line) <= 120 for line in text.splitlines()))
        markdown = self.run_program("score", "v0.toml", "--runs", "runs", "--format", "markdown").stdout
        self.assertIn("\n- (1) even, p1>=0.2: best ", markdown)
        rows = self.run_program("score", "v0.toml", "--runs", "runs", "--format", "csv").stdout.splitlines()
        self.assertEqual(rows[0], "method,rank,score,solved,(1),(2),edges")
        self.assertEqual(len(rows), 4)

    def test_the_schema_is_published(self):
        schema = json.loads(self.run_program("score", "--schema").stdout)
        self.sweep(self.write(SPEC + CASES))
        standing, _ = self.standing()
        self.assertLessEqual(set(schema["required"]), set(standing))
        try:
            import jsonschema
        except ImportError:
            self.skipTest("python3-jsonschema is not installed")
        jsonschema.Draft7Validator.check_schema(schema)
        jsonschema.Draft7Validator(schema).validate(standing)

    def test_what_is_incomplete_or_by_other_rules_is_left_out(self):
        self.sweep(self.write(SPEC + CASES))
        self.sweep(self.entry(("epochs = 4", "epochs = 3"), name="longer.toml"))
        self.sweep(self.entry(cases=CASES.replace('"asgd"', '"ssgd"', 1).replace('"ssgd"', '"other"', 1), name="taken.toml"))
        lines = [json.loads(line) for line in (self.folder / "runs/v0.index.jsonl").read_text().splitlines()]
        gone = next(line["file"] for line in lines if line["case"] == "asgd" and line["stage"] == "final")
        (self.folder / "runs" / gone).unlink()
        (self.folder / "runs" / "text.sweep.json").write_text("{}")
        standing, talk = self.standing()
        self.assertEqual([each["name"] for each in standing["methods"] if each["name"] == "asgd"], [])
        notes = "\n".join(standing["notes"])
        self.assertIn("asgd is left out: 1 of its 6 runs are missing", notes)
        self.assertIn("the sweep longer is left out: settings.epochs differs from v0.toml", notes)
        self.assertIn("ssgd of the sweep taken is left out: the name is taken", notes)
        self.assertIn("the sweep text is left out: not the specification of a sweep", notes)
        self.assertIn("warning: asgd is left out", talk)

    def test_what_is_no_entry(self):
        self.write(SPEC + CASES)
        self.assertEqual(self.run_program("score", "v0.toml", "--check", self.entry()).stdout,
                         "entry.toml: an entry to v0\n")
        for change, reason in (
                (("seeds = \"1:3\"", "seeds = \"1:4\""), "seeds differs from v0.toml"),
                (("target = 0.2", "target = 0.1"), "metric.target differs"),
                (("values = [0.5, 2]", "values = [0.5, 1, 2]"), "tuning.parameters.learning_rate.values[1] differs"),
                (("optimizer = \"momentum\"", "batch_size = 8"), "cases[0].settings.batch_size: fixed by the benchmark"),
                (("optimizer = \"momentum\"", "profile = \"v100\""), "cases[0].settings.profile: fixed by the benchmark"),
                (("name = \"momentum\"", "name = \"m\"\ntuning = false"), "cases[0].tuning: every method is tuned")):
            message = self.error("score", "v0.toml", "--check", self.entry(change), code=2)
            self.assertIn("error: entry.toml: no entry to v0: ", message)
            self.assertIn(reason, message)

    def test_what_is_no_benchmark(self):
        for text, reason in (
                (SPEC.replace('goal = "time_to_target"\ntarget = 0.2', "").replace("metric = {target = 0.9}", "") + CASES,
                 'setup "even": found no target, expected metric.goal = "time_to_target"'),
                (SPEC.replace("seeds = \"1:3\"", "only = [{setup = \"even\"}]") + CASES, "every case on every setup"),
                (SPEC + CASES + "[parameters.momentum]\nvalues = [0.1, 0.9]\n", "each case of a benchmark is one"),
                (SPEC + CASES.replace("\"asgd\"}", "\"asgd\", epochs = 3}"), "cases[1].settings.epochs: fixed by the")):
            self.assertIn(reason, self.error("score", self.write(text), "--runs", ".", code=2))

    def test_mistakes(self):
        self.write(SPEC + CASES)
        self.assertIn("expected SPEC or --schema", self.error("score", code=2))
        self.assertIn("nowhere: cannot read the folder", self.error("score", "v0.toml", "--runs", "nowhere", code=4))
        message = self.error("score", "v0.toml", "--runs", ".", code=2)
        self.assertIn("found no method with all its runs\nhint: hetsgd sweep v0.toml -o . runs what is missing", message)


if __name__ == "__main__":
    unittest.main()
