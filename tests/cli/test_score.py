"""hetsgd score: the standing of runs that the program has just made. judge/corpus has what is left out, refused and printed."""

import json
import math
import statistics

from program import ProgramTest

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
    def sweep(self, name, cases):
        self.run_program("sweep", self.write(f"{name}.toml", SPEC.replace("v0", name) + cases), "-o", "runs", "--jobs", "2")

    def times(self, sweep, case):
        """By setup, the times of the seeds, as the sweep's index has them."""
        found = {}
        for line in map(json.loads, (self.folder / "runs" / f"{sweep}.index.jsonl").read_text().splitlines()):
            if (line["stage"], line["case"]) == ("final", case):
                time = line["summary"]["time_to_target_s"]
                found.setdefault(line["setup"], []).append(math.inf if time is None else time)
        return found

    def test_the_standing_of_methods_and_an_entry(self):
        self.sweep("v0", CASES)
        self.sweep("entry", ENTRY)
        standing = self.json_of("score", "v0.toml", "--runs", "runs", "--format", "json")
        self.assertEqual([(each["name"], each["target"]) for each in standing["problems"]],
                         [("even", "p1>=0.1627"), ("uneven", "p1>=0.9")])
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
            self.assertEqual(method["tuning"]["trials"], 4)
