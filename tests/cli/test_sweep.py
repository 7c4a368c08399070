"""hetsgd sweep: plans, resuming after kills, sharing of folders, bad input."""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time
import unittest

from program import LIMIT_S, ProgramTest, without_host

SPEC = """
name = "tiny"
seeds = "1:2"
[metric]
name = "p1"
goal = "time_to_target"
target = 0.2
[settings]
train = "generate:tiny"
test = "generate:tiny"
workers = 2
batch_size = 32
hidden = 16
mega_batch = 10
epochs = 1
[[cases]]
name = "ssgd"
settings = {algorithm = "ssgd"}
[[cases]]
name = "ssp"
settings = {algorithm = "ssp"}
[parameters.staleness]
values = [1, 4]
"""
TUNING = """
[tuning]
seeds = [101, 102]
[tuning.parameters.learning_rate]
values = [0.3, 1, 1e30]
"""
KILLS = int(os.environ.get("HETSGD_SWEEP_KILLS", "10"))  # of the test that kills sweeps


class Sweep(ProgramTest):
    def specify(self, text):
        self.write("s.toml", text)

    def index(self, folder="runs", name="tiny"):
        return [json.loads(line) for line in (self.folder / folder / f"{name}.index.jsonl").read_text().splitlines()]

    def results(self, folder="runs"):
        """The parts of every run and trial that are a function of options and seed."""
        found = {}
        for kind in ("runs", "trials"):
            for path in (self.folder / folder / kind).glob("*.json"):
                found[f"{kind}/{path.name}"] = without_host(json.loads(path.read_text()))
        return found

    def sweep(self, *more, code=0, spec="s.toml"):
        return self.run_program("sweep", spec, *more, code=code)

    def test_a_grid(self):
        self.specify(SPEC)
        done = self.sweep("--jobs", "2")
        self.assertIn("tiny: 6 runs in ", done.stderr)
        self.assertEqual(done.stdout, "")
        lines = self.index()
        self.assertEqual([(line["case"], line["parameters"], line["seed"]) for line in lines],
                         [("ssgd", {}, 1), ("ssgd", {}, 2), ("ssp", {"staleness": 1}, 1), ("ssp", {"staleness": 1}, 2),
                          ("ssp", {"staleness": 4}, 1), ("ssp", {"staleness": 4}, 2)])
        for line in lines:
            result = self.result(f"runs/{line['file']}")
            self.assertEqual(line["status"], result["status"])
            self.assertEqual(line["summary"]["elapsed_s"], result["summary"]["elapsed_s"])
            self.assertEqual(line["summary"]["time_to_target_s"], result["time_to_accuracy"][0]["time_s"])
            self.assertEqual(result["config"]["seed"], line["seed"])
        files = [f"runs/{line['file']}" for line in lines]
        self.assertIn(f"{files[0]}: valid\n", self.run_program("validate", *files).stdout)
        self.assertEqual(sorted(os.listdir(self.folder / "runs" / "runs")),
                         sorted(os.path.basename(file) for file in files))  # no log is left
        # A run is what train does.
        self.train("one.json", "--algorithm", "ssp", "--staleness", "1", "--workers", "2", "--batch-size", "32",
                   "--hidden", "16", "--mega-batch", "10", "--target", "p1>=0.2", "--seed", "1")
        one, run = (without_host(self.result(name)) for name in ("one.json", files[2]))
        self.assertEqual({**one, "args": []}, {**run, "args": []})

    def test_what_is_done_is_skipped(self):
        self.specify(SPEC)
        self.sweep()
        before = self.results()
        self.assertIn("tiny: 0 runs in ", self.sweep().stderr)
        index = self.index()
        (self.folder / "runs/tiny.index.jsonl").unlink()  # follows from the results
        self.assertIn("tiny: 0 runs in ", self.sweep().stderr)
        self.assertEqual(self.index(), index)
        (self.folder / "runs" / index[1]["file"]).unlink()
        self.assertIn("tiny: 1 runs in ", self.sweep().stderr)
        self.assertEqual(self.results(), before)
        # A result with another status is run again, and so is one that is broken.
        result = self.result(f"runs/{index[1]['file']}")
        (self.folder / "runs" / index[1]["file"]).write_text(json.dumps({**result, "status": "running"}))
        (self.folder / "runs" / index[2]["file"]).write_text('{"status": "completed"')
        (self.folder / "runs/tiny.index.jsonl").unlink()
        done = self.sweep()
        self.assertIn("tiny: 2 runs in ", done.stderr)
        self.assertEqual(self.results(), before)
        # So is one that is no longer what the index says, and no result of its run: index and results disagree.
        first, second, third = (self.folder / "runs" / line["file"] for line in index[:3])
        second.write_text(first.read_text())
        third.write_text("{")
        done = self.sweep()
        self.assertIn("tiny: 2 runs in ", done.stderr)
        self.assertIn("seed differs", done.stderr)
        self.assertEqual(self.results(), before)
        shutil.copytree(self.folder / "runs", self.folder / "copy")  # a copy has other times
        os.utime(self.folder / "copy" / index[0]["file"], (1, 1))
        self.assertIn("tiny: 0 runs in ", self.sweep("-o", "copy").stderr)

    def test_what_is_no_file(self):
        """Pipes and links to nothing or to themselves: neither waited for nor followed for ever."""
        self.specify(SPEC)
        self.sweep()
        files = [self.folder / "runs" / line["file"] for line in self.index()]
        for file in files[:4]:
            file.unlink()
        os.mkfifo(files[0])
        os.mkfifo(files[1].with_suffix(".log"))
        files[2].symlink_to("nowhere.json")
        files[3].symlink_to(files[3].name)
        self.assertIn("runs are left", self.sweep("--dry-run").stdout)
        self.assertEqual(len(self.sweep("--print-commands").stdout.splitlines()), 4)
        done = self.sweep(code=1)
        self.check_refusal(done.stderr, "1 run failed")
        files[0].unlink()
        self.assertIn("tiny: 1 runs in ", self.sweep().stderr)

    def test_variables_do_not_reach_the_runs(self):
        self.specify(SPEC)
        (self.folder / "tb").mkdir()
        variables = {"HETSGD_TENSORBOARD": "tb", "HETSGD_MLLOG": "m.log", "HETSGD_EPOCHS": "7"}
        done = self.run_program("sweep", "s.toml", env=variables)
        for name in variables:
            self.assertIn(name, done.stderr)
        self.assertEqual((os.listdir(self.folder / "tb"), (self.folder / "m.log").exists()), ([], False))

    def test_sweeps_share_runs_and_another_specification_of_the_same_name_is_refused(self):
        self.specify(SPEC)
        self.sweep()
        self.write("m.toml", SPEC.replace('name = "tiny"', 'name = "more"').replace("[1, 4]", "[1, 4, 8]"))
        self.assertIn("more: 2 runs in ", self.sweep(spec="m.toml").stderr)
        self.assertEqual(len(self.index(name="more")), 8)
        self.specify('about = "words are free"' + SPEC.replace("[1, 4]", "[1, 16]"))
        self.refused(["sweep", "s.toml"], ("s.toml", "parameters.staleness.values[1]"), "--extend")
        self.assertIn("tiny: 2 runs in ", self.sweep("--extend").stderr)

    def test_tuning_comes_first(self):
        self.specify(SPEC + TUNING.replace("seeds", "target = 0.25\nseeds"))
        said = self.sweep().stderr
        chosen = {cell["case"]: cell["chosen"] for cell in self.result("runs/tiny.tuning.json")["cells"]}
        for case, values in chosen.items():
            self.assertRegex(said, rf"(?m)^{case}.* learning_rate={values['learning_rate']} +p1 0\.\d+, p1>=0\.25 (missed|after)")
        lines = self.index()
        trials = [line for line in lines if line["stage"] == "tuning"]
        self.assertEqual(len(trials), 2 * 3 * 2)
        self.assertEqual({line["summary"]["target"] for line in trials}, {"p1>=0.25"})
        self.assertEqual(self.result("runs/tiny.tuning.json")["cells"][0]["goal"], "p1>=0.25")
        finals = [line for line in lines if line["stage"] == "final"]
        self.assertEqual(len(finals), 6)
        for line in finals:
            result = self.result(f"runs/{line['file']}")
            self.assertEqual(line["tuned"], {"learning_rate": result["config"]["learning_rate"]})
            self.assertEqual(line["tuned"], chosen[line["case"]])
            self.assertEqual(result["tuning"]["trials"], 6)
            self.assertEqual(result["tuning"]["goal"], "p1>=0.25")
            self.assertEqual(result["time_to_accuracy"][0]["value"], 0.2)
        self.run_program("validate", "runs/tiny.tuning.json", *(f"runs/{line['file']}" for line in lines))

    def tunings(self, folder="runs"):
        """The note on its tuning in each final run, by case, parameters and seed."""
        return {(line["case"], str(line["parameters"]), line["seed"]): self.result(f"{folder}/{line['file']}")["tuning"]
                for line in self.index(folder) if line["stage"] == "final"}

    def test_a_folder_of_an_older_program_gets_its_tunings_again(self):
        self.specify(SPEC + TUNING)
        self.sweep()
        results, files = self.results(), [self.folder / "runs/tiny.tuning.json", *self.folder.glob("runs/tunings/*.json")]
        texts = [path.read_text() for path in files]
        for path in files:
            self.write(path, {"schema_version": "1.0", "kind": "tuning" if path.parent.name == "tunings" else "sweep tuning"})
        self.refused(["train", "--train", "generate:tiny", "--epochs", "1", "--tuned", files[1]], (f"{files[1]}: schema_version", '"1.0"'),
                     "hetsgd sweep", code=4)
        self.assertIn("tiny: 0 runs in ", self.sweep().stderr)
        self.assertEqual((self.results(), [path.read_text() for path in files]), (results, texts))

    def test_a_tuning_of_several_cases_or_options_is_no_choice_of_a_rate(self):
        two = '[[cases]]\nname = "wide"\nsettings = {algorithm = "ssgd", batch_size = 64}\n'
        self.specify(SPEC.replace('[[cases]]\nname = "ssp"', two + '[[cases]]\nname = "ssp"') + TUNING)
        self.sweep()
        train = ["train", "--train", "generate:tiny", "--epochs", "1", "--tuned", "runs/tiny.tuning.json", "--algorithm"]
        self.refused([*train, "ssgd"], ("runs/tiny.tuning.json", "2 tunings of ssgd"), "tunings")
        self.run_program(*train, "ssp", "-o", "r.json")
        self.assertEqual(self.result("r.json")["tuning"]["trials"], 6)
        self.specify(SPEC + TUNING + "[tuning.parameters.momentum]\nvalues = [0, 0.9]\n")
        self.sweep("--extend")
        self.assertEqual({str(cell["note"]) for cell in self.result("runs/tiny.tuning.json")["cells"]}, {"None"})
        self.refused([*train, "ssp"], ("runs/tiny.tuning.json", "learning rate alone"), "chosen")
        self.run_program("validate", "runs/tiny.tuning.json")

    def test_an_extended_tuning_reaches_the_runs_that_are_kept(self):
        self.specify(SPEC + TUNING)
        self.sweep()
        before = self.tunings()
        self.specify(SPEC + TUNING.replace("1e30", "1e29, 1e30"))
        self.assertIn("tiny: 4 runs in ", self.sweep("--extend").stderr)  # trials alone
        self.sweep("-o", "fresh")
        self.assertNotEqual(self.tunings(), before)
        self.assertEqual(self.results(), self.results("fresh"))
        self.run_program("validate", *(f"runs/{line['file']}" for line in self.index()))
        times = [path.stat().st_mtime_ns for path in sorted(self.folder.glob("runs/runs/*"))]
        self.assertIn("tiny: 0 runs in ", self.sweep().stderr)
        self.assertEqual([path.stat().st_mtime_ns for path in sorted(self.folder.glob("runs/runs/*"))], times)

    def test_a_tuning_is_widened_until_its_best_value_lies_within(self):
        def widened(most):
            return SPEC + TUNING.replace("[0.3, 1, 1e30]", f"[0.01, 0.02]\nwiden = {most}")
        self.specify(widened(12))
        self.sweep()
        for cell in self.result("runs/tiny.tuning.json")["cells"]:
            rates = [candidate["parameters"]["learning_rate"] for candidate in cell["candidates"]]
            self.assertEqual(rates, [float(f"{0.01 * 2**i:.3g}") for i in range(len(rates))])
            self.assertEqual(cell["chosen"], {"learning_rate": rates[-2]})  # one beyond it was no better
            self.assertEqual(cell["edges"], [])
        before = self.results()
        self.assertIn("tiny: 0 runs in ", self.sweep().stderr)
        self.assertIn("0 runs are left", self.sweep("--dry-run").stdout)
        # The same command makes again what is lost, trials beyond the list too.
        for path in sorted(self.folder.glob("runs/trials/*.json"))[::3]:
            path.unlink()
        self.sweep()
        self.assertEqual(self.results(), before)
        self.specify(widened(1))
        self.sweep("-o", "narrow")
        for cell in self.result("narrow/tiny.tuning.json")["cells"]:
            self.assertEqual(len(cell["candidates"]), 3)
            self.assertEqual(cell["edges"], ["learning_rate"])

    def test_runs_in_real_time_go_one_at_a_time_and_say_their_tuning(self):
        text = SPEC.replace("workers = 2", 'cluster = "threads"\ndevices = ["cpu:1", "cpu:1"]').replace('"1:2"', "[1]")
        tuning = TUNING.replace("[101, 102]", "[101]").replace("[0.3, 1, 1e30]", "[1, 0.3]")
        self.specify(text.replace("[1, 4]", "[1]") + tuning)
        self.sweep("--redact", "--jobs", "2")
        for (case, _, _), tuning in self.tunings().items():
            self.assertEqual((tuning["grid"], tuning["trials"]), ([0.3, 1], 2), case)
            self.assertEqual(tuning["differs"], ["staleness"] if case == "ssp" else [])
        spans = sorted((result["started_at"], result["finished_at"]) for result in
                       (self.result(f"runs/{line['file']}") for line in self.index()))
        self.assertEqual(len(spans), 6)
        for (_, end), (begin, _) in zip(spans, spans[1:]):
            self.assertLessEqual(end, begin)
        runs = [f"runs/{line['file']}" for line in self.index() if line["stage"] == "final"]
        for run in runs:
            self.assertEqual(self.result(run)["environment"]["hostname"], None)
        self.run_program("validate", *runs, *(f"runs/tunings/{name}" for name in os.listdir(self.folder / "runs/tunings")))
        self.assertNotIn("was tuned", self.run_program("compare", *runs, "--reference", "ssgd").stderr)

    def test_a_failed_run_is_named_and_the_others_go_on(self):
        bad = '[[cases]]\nname = "bad"\nsettings = {algorithm = "ssgd", train = "missing.txt"}\n'
        second = '[[cases]]\nname = "ssp"'
        self.specify(SPEC.replace(second, bad + second))
        done = self.sweep(code=1)
        self.assertRegex(done.stderr, r"\(bad, seed 1\) .*missing\.txt")
        self.check_refusal(done.stderr, "2 runs failed")
        lines = self.index()
        self.assertEqual([line["status"] for line in lines].count("failed"), 2)
        self.assertEqual(len(self.results()), 6)
        self.sweep("--fail-fast", "-o", "fast", code=1)
        self.assertLess(len(self.results("fast")), 6)

    def test_a_run_that_is_killed_is_run_again(self):
        self.specify(SPEC.replace("epochs = 1", "epochs = 300").replace('"1:2"', "[1]").replace("[1, 4]", "[1]"))
        process = self.start("sweep", "s.toml", "--jobs", "1", "--retry", "1")
        children = f"/proc/{process.pid}/task/{process.pid}/children"
        self.wait_for(lambda: pathlib.Path(children).read_text().split(), "a run")
        os.kill(int(pathlib.Path(children).read_text().split()[0]), signal.SIGKILL)
        _, errors = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 0, errors)
        self.assertEqual(len(self.results()), 2)
        self.specify(SPEC.replace("epochs = 1", 'epochs = 300\ntime_limit = "1ms"'))
        self.assertIn("--time-limit", self.sweep("-o", "limited", code=1).stderr)

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun")
    def test_runs_that_something_has_to_launch(self):
        if not self.json_of("--version", "--json")["features"]["mpi"]:
            self.skipTest("built without MPI")
        text = SPEC.replace("workers = 2", 'workers = 2\ncluster = "mpi"').replace("[1, 4]", "[1]")
        self.specify(text)
        self.refused(["sweep", "s.toml"], ("", "ssgd"), "launch = ")
        launch = "mpirun --allow-run-as-root --oversubscribe --bind-to none -n {ranks}"
        self.specify(f'launch = "{launch}"\n' + text.replace('"1:2"', "[1]"))
        self.sweep()
        for result in self.results().values():
            self.assertEqual((result["cluster"]["name"], len(result["workers"])), ("mpi", 2))
        (self.folder / "runs" / self.index()[0]["file"]).unlink()
        self.assertIn("mpirun", self.sweep("--print-commands").stdout)

    def test_the_plan(self):
        self.specify(SPEC + TUNING)
        done = self.sweep("--dry-run")
        self.assertRegex(done.stdout, r"ssp +6 +0 +4 +0 ")
        self.assertIn("18 runs are left: about ", done.stdout)
        self.assertFalse((self.folder / "runs").exists())
        self.sweep()
        self.assertIn("0 runs are left", self.sweep("--dry-run").stdout)

    def test_commands_are_self_contained(self):
        self.run_program("data", "generate", "tiny", "rows")
        self.specify(SPEC.replace('train = "generate:tiny"', 'train = "rows_train.txt"').replace('"generate:tiny"', '"rows_test.txt"') + TUNING)
        for stage, count in (("trials", 12), ("runs", 6)):
            done = self.sweep("--print-commands")
            lines = done.stdout.splitlines()
            self.assertEqual(len(lines), count)
            for line in lines:
                self.assertIn(f"runs/{stage}/", line)
                done = subprocess.run(line, shell=True, cwd="/", env=self.environment(), timeout=LIMIT_S)
                self.assertIn(done.returncode, (0, 8), line)  # a rate of 1e30 diverges
        self.assertEqual(self.sweep("--print-commands").stdout, "")
        printed = self.results()
        self.assertIn("tiny: 0 runs in ", self.sweep().stderr)
        self.assertEqual(self.results(), printed)
        self.sweep("-o", "alone")
        self.assertEqual(self.tunings(), self.tunings("alone"))

    def test_shards_share_a_folder(self):
        self.specify(SPEC + TUNING)
        processes = [self.start("sweep", "s.toml", "--jobs", "1", "--shard", f"{i}/2") for i in range(2)]
        for process in processes:
            _, errors = process.communicate(timeout=LIMIT_S)
            self.assertEqual(process.returncode, 0, errors)
        self.sweep("-o", "alone")
        self.assertEqual(self.results(), self.results("alone"))
        self.assertIn("tiny: 0 runs in ", self.sweep().stderr)

    def test_ctrl_c_and_max_wall_keep_what_is_done(self):
        self.specify(SPEC.replace('"1:2"', '"1:500"'))
        process = self.start("sweep", "s.toml", "--jobs", "2")
        self.wait_for(lambda: len(list(self.folder.glob("runs/runs/*.json"))) > 3, "results")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 130)
        self.assertGreater(len(self.index()), 1)
        done = self.sweep("--max-wall", "1ms", code=6)
        self.assertIn("max_wall", done.stderr)

    def test_killed_at_random_moments(self):
        text = (SPEC + TUNING).replace('"1:2"', '"1:6"')
        self.specify(text)
        self.sweep("-o", "whole", "--jobs", "2")
        whole = self.results("whole")
        self.assertEqual(len(whole), 12 + 18)
        chance = random.Random(1)
        for _ in range(KILLS):
            process = self.start("sweep", "s.toml", "--jobs", "2")
            time.sleep(chance.uniform(0, 0.4))
            process.kill()
            process.communicate(timeout=LIMIT_S)
        self.sweep("--jobs", "2")
        self.assertEqual(self.results(), whole)
        self.assertEqual(len(self.index()), 30)
        self.assertEqual([path.name for path in (self.folder / "runs/locks").glob("*-*.lock")], [])
        self.assertEqual([path.name for path in (self.folder / "runs").rglob("*.tmp")], [])

    def test_a_broken_index_line_is_named(self):
        self.specify(SPEC)
        self.sweep()
        path = self.folder / "runs/tiny.index.jsonl"
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(lines) + lines[0][:40])  # as a kill leaves it
        self.assertIn("tiny: 0 runs in ", self.sweep().stderr)
        path.write_text(lines[0] + "{broken\n" + lines[1])
        self.refused(["sweep", "s.toml"], ("runs/tiny.index.jsonl:2", "{broken"), "remove", code=4)

    def test_bad_input(self):
        for text, code, names, *hint in (
                (SPEC.replace("epochs = 1", "epocs = 1"), 2, "s.toml:15: settings.epocs", "epochs"),
                (SPEC.replace("epochs = 1", "epochs = -1"), 2, ("s.toml:15: settings.epochs", '"-1"')),
                (SPEC.replace('"1:2"', '"1:1000000"'), 2, "", "--yes"),
                (SPEC.replace("[1, 4]", "[1, 4]\nwiden = 2"), 2, ("s.toml:22: parameters.staleness.widen", "no tuning")),
                (SPEC + TUNING.replace("1e30]", "1e30]\nwiden = 0"), 2, "s.toml:29: tuning.parameters.learning_rate.widen"),
                (SPEC + TUNING.replace("[0.3, 1, 1e30]", "[1]\nwiden = 2"), 2, ("s.toml:29: tuning.parameters.learning_rate.widen", "two values")),
                (SPEC.replace("[1, 4]", "[1, 4"), 4, "s.toml")):
            with self.subTest(text):
                self.specify(text)
                self.refused(["sweep", "s.toml"], names, *hint, code=code)
        self.assertFalse((self.folder / "runs").exists())
        self.specify(SPEC)
        self.refuse_all(["sweep", "s.toml"], (("--shard 2", ("--shard", '"2"')), ("--keep-going", "--keep-going", "--fail-fast"),
                                              (["-o", ""], ("", "--output"))))
        # A name that the system refuses is no bug.
        self.specify(SPEC.replace('train = "generate:tiny"', f'train = "{3000 * "a"}"'))
        self.assertNotIn("bug", self.run_program("sweep", "s.toml", "--print-commands", code=(0, 1, 2, 4)).stderr)

    def test_the_schema_is_published(self):
        self.specify(SPEC + TUNING)
        self.assertEqual(self.run_program("validate", "s.toml").stdout, "s.toml: valid\n")
        schema = self.json_of("sweep", "--schema")
        self.assertEqual(schema["title"], "Specification of hetsgd sweep")
