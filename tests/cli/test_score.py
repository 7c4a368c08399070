"""hetsgd score: standings from the runs of sweeps, what is an entry, what is left out."""

import json
import math
import statistics
import unittest

from program import ProgramTest

# Relaxed by 1 or 2 %, it is held by other evaluations (test_score.check_relaxed).
TARGET = 0.1627
SPEC = """
name = "v0"
about = "two problems"
seeds = "1:3"
[metric]
name = "p1"
goal = "time_to_target"
target = 0.1627
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
    def entry(self, *changes, cases=ENTRY, name="entry.toml"):
        text = SPEC.replace('"v0"', f'"{name.removesuffix(".toml")}"') + cases
        for old, new in changes:
            self.assertIn(old, text)
            text = text.replace(old, new)
        return self.write(name, text)

    def sweep(self, spec):
        self.run_program("sweep", spec, "-o", "runs", "--jobs", "2")

    def score(self, form):
        return self.run_program("score", "v0.toml", "--runs", "runs", "--format", form)

    def index(self, sweep):
        return [json.loads(line) for line in (self.folder / "runs" / f"{sweep}.index.jsonl").read_text().splitlines()]

    def times(self, sweep, case):
        """By setup, the times of the seeds, as the sweep's index has them."""
        found = {}
        for line in self.index(sweep):
            if (line["stage"], line["case"]) == ("final", case):
                time = line["summary"]["time_to_target_s"]
                found.setdefault(line["setup"], []).append(math.inf if time is None else time)
        return found

    def held_s(self, sweep, case, target):
        """Median over the seeds of the time on "even" from which on three of five evaluations reach the target."""
        times = []
        for line in self.index(sweep):
            if (line["stage"], line["setup"], line["case"]) == ("final", "even", case):
                curve = self.result(f"runs/{line['file']}")["curve"]
                reaches = [each["p1"] >= target for each in curve]
                times.append(next(each["time_s"] for i, each in enumerate(curve) if reaches[i] and sum(reaches[i:i + 5]) >= 3))
        return statistics.median(times)

    def check_relaxed(self, methods):
        strict = {name: self.held_s(each["sweep"], name, TARGET) for name, each in methods.items()}
        for place, by in enumerate((0.01, 0.02)):
            even = {name: self.held_s(each["sweep"], name, TARGET * (1 - by)) for name, each in methods.items()}
            self.assertNotEqual(even, strict, "else a target that is not relaxed would not be found out")
            for name, method in methods.items():
                relaxed = method["relaxed"][place]
                self.assertEqual(relaxed["by"], by)
                self.assertAlmostEqual(relaxed["score"], max(0, (4 - even[name] / min(even.values())) / 3) / 2)
                self.assertEqual(relaxed["rank"], 1 + sum(each["relaxed"][place]["score"] > relaxed["score"] for each in methods.values()))

    def check_methods(self, standing):
        self.assertEqual([(each["name"], each["target"]) for each in standing["problems"]],
                         [("even", f"p1>={TARGET}"), ("uneven", "p1>=0.9")])
        methods = {each["name"]: each for each in standing["methods"]}
        self.assertEqual({name: each["is_entry"] for name, each in methods.items()},
                         {"ssgd": False, "asgd": False, "momentum": True})
        even = {name: statistics.median(self.times(each["sweep"], name)["even"]) for name, each in methods.items()}
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
        self.check_relaxed(methods)
        scores = [each["score"] for each in standing["methods"]]
        self.assertEqual(scores, sorted(scores, reverse=True))

    def test_the_standing_of_methods_and_an_entry(self):
        self.sweep(self.write("v0.toml", SPEC + CASES))
        self.sweep(self.entry())
        done = self.score("json")
        self.assertNotIn("warning", done.stderr)
        standing = json.loads(done.stdout)
        self.check_methods(standing)
        self.assertEqual(self.score("json").stdout, done.stdout)
        text = self.score("text").stdout
        self.assertRegex(text, r"(?m)^momentum \* +\d \[\d, \d\] +0\.\d{3} \[0\.\d{3}, 0\.\d{3}\] +0\.\d{3} +0\.\d{3} +1/2 ")
        self.assertRegex(text, r"\(2\) uneven, p1>=0\.9: ")
        self.assertTrue(all(len(line) <= 120 for line in text.splitlines()))
        self.assertIn("\n- (1) even, p1>=0.1627: best ", self.score("markdown").stdout)
        rows = self.score("csv").stdout.splitlines()
        self.assertEqual((rows[0], len(rows)), ("method,rank,score,-1 %,-2 %,solved,(1),(2),edges", 4))
        schema = self.json_of("score", "--schema")
        self.assertLessEqual(set(schema["required"]), set(standing))
        self.check_schema(schema, standing)

    def test_what_is_incomplete_or_by_other_rules_is_left_out(self):
        self.sweep(self.write("v0.toml", SPEC + CASES))
        self.sweep(self.entry(("epochs = 4", "epochs = 3"), name="longer.toml"))
        self.sweep(self.entry(cases=CASES.replace('"asgd"', '"ssgd"', 1).replace('"ssgd"', '"other"', 1), name="taken.toml"))
        gone = next(line["file"] for line in self.index("v0") if line["case"] == "asgd" and line["stage"] == "final")
        (self.folder / "runs" / gone).unlink()
        self.write("runs/text.sweep.json", "{}")
        done = self.score("json")
        standing = json.loads(done.stdout)
        self.assertNotIn("asgd", [each["name"] for each in standing["methods"]])
        notes = "\n".join(standing["notes"])
        for words in (r"(?m)^asgd .* 1 of its 6 runs", "longer .* settings.epochs", "ssgd of the sweep taken", "the sweep text"):
            self.assertRegex(notes, words)
        self.assertIn("warning: asgd", done.stderr)

    def test_what_is_no_entry(self):
        self.write("v0.toml", SPEC + CASES)
        self.assertEqual(self.run_program("score", "v0.toml", "--check", self.entry()).stdout, "entry.toml: an entry to v0\n")
        momentum = 'optimizer = "momentum"'
        for old, new, place in (
                ('seeds = "1:3"', 'seeds = "1:4"', "seeds"), ("target = 0.1627", "target = 0.1", "metric.target"),
                ("values = [0.5, 2]", "values = [0.5, 1, 2]", "tuning.parameters.learning_rate.values[1]"),
                (momentum, "batch_size = 8", "cases[0].settings.batch_size"), (momentum, 'profile = "v100"', "cases[0].settings.profile"),
                ('name = "momentum"', 'name = "m"\ntuning = false', "cases[0].tuning")):
            self.refused(["score", "v0.toml", "--check", self.entry((old, new))], ("entry.toml", place))

    def test_what_is_no_benchmark(self):
        for text, place in (
                (SPEC.replace('goal = "time_to_target"\ntarget = 0.1627', "").replace("metric = {target = 0.9}", "") + CASES, "metric.goal"),
                (SPEC.replace('seeds = "1:3"', 'only = [{setup = "even"}]') + CASES, "only"),
                (SPEC + CASES + "[parameters.momentum]\nvalues = [0.1, 0.9]\n", "parameters"),
                (SPEC + CASES.replace('"asgd"}', '"asgd", epochs = 3}'), "cases[1].settings.epochs")):
            self.refused(["score", self.write("v0.toml", text), "--runs", "."], ("v0.toml", place))

    def test_mistakes(self):
        self.write("v0.toml", SPEC + CASES)
        self.refused(["score"], ("score", "--schema"))
        self.refused(["score", "v0.toml", "--runs", "nowhere"], "nowhere", code=4)
        self.refused(["score", "v0.toml", "--runs", "."], "", "hetsgd sweep v0.toml -o .")


if __name__ == "__main__":
    unittest.main()
