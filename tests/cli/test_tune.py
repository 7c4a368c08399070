"""hetsgd tune, and train --tuned: equal budgets, resuming, and what the choice cost."""

import json
import os

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
        self.assertEqual([one["algorithm"] for one in choice["cells"]], ["ssgd", "asgd"])
        for one in choice["cells"]:
            self.assertEqual([one["dataset"][part]["rows"] for part in ("train", "validation")], [1800, 200])
            tried = one["candidates"]
            self.assertEqual([each["parameters"] for each in tried], [{"learning_rate": rate} for rate in (0.3, 1, 1e30)])
            trials = [each["trials"][0] for each in tried]
            self.assertEqual([t["status"] for t in trials], ["completed", "completed", "diverged"])
            self.assertIsNone(trials[2]["value"])
            best = max(tried[:2], key=lambda each: each["value"])
            self.assertEqual(one["chosen"], best["parameters"])
            at_edge = best is tried[0]
            self.assertEqual((one["note"]["edge_of_grid"], len(one["warnings"])), (at_edge, int(at_edge)))
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
        for one, other in zip(simulated["cells"], measured["cells"]):
            self.assertEqual(*([each["trials"][0]["status"] for each in cell["candidates"]] for cell in (one, other)))
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
            self.assertEqual(self.result("c.json")["cells"][0]["goal"], goal)

    def test_stdout_is_json_and_nothing_else(self):
        done = self.run_program(*TUNE[:-1], "-", "--goal", "p1>=0.2", "--tune-seeds", "1,2")
        first = json.loads(done.stdout)["cells"][0]
        self.assertEqual((first["seeds"], first["cost"]["trials"]), ([1, 2], 6))
        self.assertIsNotNone(first["candidates"][1]["trials"][0]["time_to_target_s"])

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

    def test_a_file_of_an_older_program_is_made_again_from_its_trials(self):
        self.run_program(*TUNE)
        whole = self.result("c.json")
        self.write("c.json", {"schema_version": "1.0", "kind": "tuning", "algorithms": []})
        train = ["train", "--train", "generate:tiny", "--algorithm", "asgd", *RUN, "--tuned", "c.json"]
        self.refused(train, ("c.json: schema_version", '"1.0"'), "--resume", code=4)
        self.assertRegex(self.run_program("validate", "c.json", code=4).stdout, r'^c\.json: /schema_version: found "1\.0".* --resume')
        self.assertIn("all trials", self.run_program(*TUNE, "--resume").stderr)
        self.assertEqual(without_wall(self.result("c.json")), without_wall(whole))
        self.run_program(*train)

    def test_a_failed_trial_is_named_and_the_choice_is_one_of_the_others(self):
        self.run_program(*TUNE)
        for path in (self.folder / "c.json.trials" / "trials").iterdir():
            result = json.loads(path.read_text())
            if (result["config"]["algorithm"], result["config"]["learning_rate"]) == ("ssgd", 1):
                path.unlink()
                os.mkfifo(path)
        done = self.run_program(*TUNE, "--resume", code=1)
        self.assertRegex(done.stderr, r"warning: \d/6  ssgd  learning rate 1  seed 1: failed: .*pipe")
        self.assertIn("1 of 6 trials failed", done.stderr)
        one = self.result("c.json")["cells"][0]
        self.assertEqual((one["candidates"][1]["trials"][0]["status"], one["chosen"]), ("failed", {"learning_rate": 0.3}))
        self.run_program("validate", "c.json")

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
        configs = {one["algorithm"]: one["config"] for one in self.result("c.json")["cells"]}
        self.assertEqual(configs["ssp"]["staleness"], 5)
        self.assertNotIn("staleness", configs["ssgd"])
        self.run_program(*TUNE, "--algorithms", "ssgd,ssp", "--staleness", "7", "--overwrite")
        self.assertEqual(self.result("c.json")["cells"][1]["config"]["staleness"], 7)


class Tuned(ProgramTest):
    def setUp(self):
        super().setUp()
        self.run_program(*TUNE)
        self.notes = {one["algorithm"]: one["note"] for one in self.result("c.json")["cells"]}

    def train_tuned(self, output, algorithm, *more, code=0):
        return self.train(output, *RUN, "--algorithm", algorithm, "--tuned", "c.json", *more, code=code)

    def test_train_takes_the_choice_and_rerun_repeats_it(self):
        self.assertEqual(self.train_tuned("r.json", "ssgd").stderr.count("warning"), 0)
        result = self.result("r.json")
        tuning = result["tuning"]
        self.assertEqual(tuning, {**self.notes["ssgd"], "differs": []})
        self.assertEqual(result["config"]["learning_rate"], tuning["learning_rate"])
        self.assertEqual((tuning["trials"], tuning["validation_rows"], tuning["goal"]), (3, 200, "p1"))
        self.assertEqual(tuning["grid"], [0.3, 1, 1e30])
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
