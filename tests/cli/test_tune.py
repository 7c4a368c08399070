"""hetsgd tune, and train --tuned: equal budgets, resuming, and what the choice cost."""

import json
import unittest

from program import ProgramTest, without_host
from test_files import WRITTEN

TUNE = ["tune", "--train", "generate:tiny", "--algorithms", "ssgd,asgd", "--workers", "2", "--batch-size", "32",
        "--hidden", "16", "--mega-batch", "10", "--grid", "0.3,1,1e30", "--epochs", "2", "-o", "c.json"]
RUN = ["--workers", "2", "--batch-size", "32", "--hidden", "16", "--mega-batch", "10", "--epochs", "2"]


def without_wall(document):
    """The file without what depends on the host's load."""
    if isinstance(document, dict):
        return {key: without_wall(value) for key, value in document.items() if key not in ("wall_s", "args")}
    return [without_wall(each) for each in document] if isinstance(document, list) else document


class Tune(ProgramTest):
    def test_two_algorithms_three_rates(self):
        done = self.run_program(*TUNE)
        choice = self.result("c.json")
        self.assertEqual(choice["status"], "completed")
        self.assertEqual(choice["dataset"]["train"]["rows"], 1800)
        self.assertEqual(choice["dataset"]["validation"]["rows"], 200)
        self.assertEqual([one["algorithm"] for one in choice["algorithms"]], ["ssgd", "asgd"])
        for one in choice["algorithms"]:
            trials = one["trials"]
            self.assertEqual([t["learning_rate"] for t in trials], [0.3, 1, 1e30])
            self.assertEqual([t["status"] for t in trials], ["completed", "completed", "diverged"])
            self.assertIsNone(trials[2]["value"])
            best = max(trials[:2], key=lambda trial: trial["value"])
            self.assertEqual(one["learning_rate"], best["learning_rate"])
            self.assertEqual(one["edge_of_grid"], best["learning_rate"] == 0.3)
            for key in ("samples_count", "train_s", "wall_s"):
                self.assertAlmostEqual(one["cost"][key], sum(t[key] for t in trials))
            self.assertNotIn("learning_rate", one["config"])
        self.assertRegex(done.stderr, r"\d/6  asgd  learning rate 1e\+30  seed 1: diverged\n")
        self.run_program(*TUNE, "-o", "in_turn.json", "--jobs", "1")  # TUNE: as many jobs as cores
        self.assertEqual(without_wall(choice), without_wall(self.result("in_turn.json")))
        self.assertRegex(done.stderr, r"\nssgd +0\.\d{4}\*? +0\.\d{4}\*? +diverged ")
        self.assertEqual(done.stdout, "")
        self.assertEqual(self.run_program("validate", "c.json").stdout, "c.json: valid\n")

    def test_a_folder_for_trials_that_is_not_there(self):
        self.write("choice.txt", "")
        for folder in ("nowhere", "choice.txt"):
            self.refused(TUNE[:-2], "", "TMPDIR", code=1, env={"TMPDIR": str(self.folder / folder)})
        self.write("c.json.trials", "")
        self.refused(TUNE, ("", "c.json.trials"), code=1)

    def test_trials_in_processes_of_their_own(self):
        self.run_program(*TUNE)
        simulated = self.result("c.json")
        self.run_program(*TUNE, "--cluster", "threads", "--devices", "cpu:1", "--overwrite")
        measured = self.result("c.json")
        for one, other in zip(simulated["algorithms"], measured["algorithms"]):
            self.assertEqual([t["status"] for t in one["trials"]], [t["status"] for t in other["trials"]])
            self.assertEqual(other["config"]["cluster"], "threads")
        for flags, env in ((["--cluster", "mpi"], {}), ([], {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"})):
            self.assertIn("launch", self.refused([*TUNE, "--overwrite", *flags], "", env=env))

    def test_the_edge_of_the_grid_is_a_warning(self):
        done = self.run_program(*TUNE, "--grid", "0.01,0.02", "--algorithms", "ssgd", "--per-worker-batch", "split", "--goal", "p1>=0.99")
        self.assertRegex(done.stderr, "warning: ssgd: .* 0.02,? ")
        self.assertIn("warning: ssgd: no choice reaches p1>=0.99", done.stderr)
        done = self.run_program(*TUNE, "--grid", "1e30", "--algorithms", "ssgd", "--overwrite")
        self.assertIn("warning: ssgd: every trial diverged or failed", done.stderr)

    def test_the_goal_is_the_first_metric_of_the_data(self):
        self.write("two.txt", "".join(f"{'+1' if i % 2 else '-1'} {i % 7 + 1}:1\n" for i in range(90)))
        for flags, goal in (([], "accuracy"), (["--goal", "auc", "--resume"], "auc")):
            self.run_program(*TUNE, "--train", "two.txt", "--algorithms", "ssgd", *flags)
            self.assertEqual(self.result("c.json")["goal"], goal)

    def test_stdout_is_json_and_nothing_else(self):
        done = self.run_program(*TUNE[:-1], "-", "--goal", "p1>=0.2", "--tune-seeds", "1,2")
        choice = json.loads(done.stdout)
        self.assertEqual(choice["seeds"], [1, 2])
        self.assertEqual(choice["algorithms"][0]["cost"]["trials"], 6)
        self.assertIsNotNone(choice["algorithms"][0]["trials"][2]["time_to_target_s"])

    def test_resume_goes_on_where_it_was_cut_off(self):
        self.run_program(*TUNE)
        whole = self.result("c.json")
        self.refused(TUNE, "c.json", "--resume")
        trials = sorted((self.folder / "c.json.trials" / "trials").iterdir())
        self.assertEqual(len(trials), 6)
        for trial in trials[:2]:
            trial.unlink()
        done = self.run_program(*TUNE, "--resume")
        self.assertIn("4 of 6 trials", done.stderr)
        self.assertEqual(without_wall(self.result("c.json")), without_wall(whole))
        self.assertIn("all trials", self.run_program(*TUNE, "--resume").stderr)
        # Another budget has other trials; more seeds have some more.
        self.assertNotIn("have been run", self.run_program(*TUNE, "--epochs", "3", "--resume").stderr)
        self.assertIn("6 of 12 trials", self.run_program(*TUNE, "--tune-seeds", "1,2", "--resume").stderr)
        self.assertNotIn("have been run", self.run_program(*TUNE, "--overwrite").stderr)

    def test_a_choice_without_all_of_its_trials_is_none(self):
        self.run_program(*TUNE)
        cut = self.result("c.json")
        one = cut["algorithms"][1]
        one["trials"] = one["trials"][:1]
        one["learning_rate"] = one["edge_of_grid"] = None
        one["cost"] = {"trials": 1, **{k: one["trials"][0][k] for k in ("samples_count", "train_s", "wall_s")}}
        for key in ("trials", "samples_count", "train_s", "wall_s"):
            cut["cost"][key] = cut["algorithms"][0]["cost"][key] + one["cost"][key]
        cut["status"] = "running"
        self.run_program("validate", self.write("c.json", cut))
        self.refused(["train", "--train", "generate:tiny", "--algorithm", "asgd", *RUN, "--tuned", "c.json"], ("c.json", "asgd"), "--resume")

    def test_what_the_trials_decide_is_refused(self):
        self.refuse_all(TUNE, (
            ("--learning-rate 1", "--learning-rate", "--grid"), ("--seed 1", "--seed", "--tune-seeds"), ("--stop-at-target", "--stop-at-target"),
            ("--validation 0", ("--validation", "found 0")), ("--grid 1,1", "--grid"), ("--goal accuracy", ("--goal", "found accuracy")),
            ("--delta 1", "--delta", "--algorithms"), ("--algorithms ssgd,nothing", ("--algorithm", "nothing")),
            ("--algorithms ssp --staleness x", "--staleness")))
        self.assertFalse((self.folder / "c.json").exists())

    def test_no_option_makes_trials_share_a_file(self):
        for option in sorted(WRITTEN - {"--output"} | {"--tensorboard"}):
            name = option[2:].replace("-", "_")
            self.write("config.json", {name: "new"})
            for flags, env, place in (([option, "new"], {}, option), (["--config", "config.json"], {}, ("config.json", name)),
                                      ([], {f"HETSGD_{name.upper()}": "new"}, ("", name.upper()))):
                self.refused([*TUNE, *flags], place, env=env)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["config.json"])

    def test_options_of_algorithms_reach_those_that_know_them(self):
        self.write("config.json", {"staleness": 5, "delta": 0.3, "seed": 4})
        self.run_program(*TUNE, "--algorithms", "ssgd,ssp", "--config", "config.json")
        configs = {one["algorithm"]: one["config"] for one in self.result("c.json")["algorithms"]}
        self.assertEqual(configs["ssp"]["staleness"], 5)
        self.assertNotIn("staleness", configs["ssgd"])
        self.run_program(*TUNE, "--algorithms", "ssgd,ssp", "--staleness", "7", "--overwrite")
        self.assertEqual(self.result("c.json")["algorithms"][1]["config"]["staleness"], 7)


class Tuned(ProgramTest):
    def setUp(self):
        super().setUp()
        self.run_program(*TUNE)
        chosen = self.result("c.json")["algorithms"]
        self.rates = {one["algorithm"]: one["learning_rate"] for one in chosen}

    def train_tuned(self, output, algorithm, *more, code=0):
        return self.train(output, *RUN, "--algorithm", algorithm, "--tuned", "c.json", *more, code=code)

    def test_train_takes_the_choice_and_rerun_repeats_it(self):
        self.assertEqual(self.train_tuned("r.json", "ssgd").stderr.count("warning"), 0)
        result = self.result("r.json")
        self.assertEqual(result["config"]["learning_rate"], self.rates["ssgd"])
        tuning = result["tuning"]
        self.assertEqual(tuning["learning_rate"], self.rates["ssgd"])
        self.assertEqual((tuning["trials"], tuning["validation_rows"], tuning["goal"]), (3, 200, "p1"))
        self.assertEqual(tuning["grid"], [0.3, 1, 1e30])
        self.assertEqual(tuning["differs"], [])
        self.run_program("validate", "r.json")
        (self.folder / "c.json").unlink()
        self.run_program("rerun", "r.json", "-o", "again.json")
        self.assertEqual(without_host(self.result("again.json")), without_host(result))
        self.run_program("rerun", "r.json", "--learning-rate", "0.7", "-o", "other.json")
        self.assertIsNone(self.result("other.json")["tuning"])

    def test_other_options_are_a_warning(self):
        done = self.train_tuned("r.json", "asgd", "--workers", "3")
        self.assertRegex(done.stderr, "warning: c.json: .*: workers\n")
        self.assertEqual(self.result("r.json")["tuning"]["differs"], ["workers"])

    def test_what_is_no_choice(self):
        train = ["train", "--train", "generate:tiny", *RUN, "--tuned", "c.json"]
        self.refuse_all(train, (("--algorithm ssgd --learning-rate 1", ("--learning-rate", "--tuned")), ("--algorithm adaptive", ("c.json", "adaptive"))))
        self.write("c.json", "{}")
        self.refused([*train, "--algorithm", "ssgd"], "c.json", code=4)


class Validation(ProgramTest):
    def test_the_same_rows_for_every_algorithm_and_seed(self):
        flags = ["--train", "generate:tiny", "--validation", "0.1", *RUN]
        self.run_program("train", *flags, "--algorithm", "ssgd", "-o", "a.json")
        self.run_program("train", *flags, "--algorithm", "asgd", "--seed", "2", "-o", "b.json")
        first, second = self.result("a.json")["dataset"], self.result("b.json")["dataset"]
        self.assertEqual(first, second)
        self.assertEqual((first["train"]["rows"], first["test"]["rows"]), (1800, 200))
        self.assertNotEqual(first["train"]["content_hash"], first["test"]["content_hash"])
        self.run_program("validate", "a.json", "b.json")
        self.run_program("rerun", "a.json", "-o", "again.json")
        self.assertEqual(without_host(self.result("again.json")), without_host(self.result("a.json")))
        self.refused(["train", *flags, "--test", "generate:tiny"], ("--validation", "--test generate:tiny"))


if __name__ == "__main__":
    unittest.main()
