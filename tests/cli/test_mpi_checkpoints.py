"""Checkpoints of runs under mpirun: resumed runs, ranks that are lost, the script that starts them again."""

import os
import pathlib
import re
import signal
import subprocess
import unittest

from mpi_program import MPI, RUN, MpiTest, has_mpi
from program import BINARY, LIMIT_S

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
SHORT = [*RUN, "--mega-batch", "8", "--max-samples", "3840", "--evaluate-every", "512", "--optimizer", "adam",
         "--learning-rate", "0.01", "--checkpoint-every", "2"]


@unittest.skipUnless(has_mpi(), "no mpirun, or built without MPI")
class MpiCheckpoints(MpiTest):
    def train(self, *options, code=0):
        self.finished(self.mpirun(2, *SHORT, "--overwrite", *options), code)

    def test_losses_go_on_to_the_bit(self):
        for algorithm in ("ssgd", "elastic", "sma"):
            with self.subTest(algorithm=algorithm):
                method = ["--algorithm", algorithm]
                self.train(*method, "-o", "whole.json", "--checkpoint-every", "never")
                self.train(*method, "-o", "cut.json", "--checkpoint", "run.checkpoint")
                self.train(*method, "-o", "resumed.json", "--resume-from", "run.checkpoint.1")
                cut = self.result("cut.json")
                self.assertGreaterEqual(len(cut["segments"]), 2)
                self.expect_same_curve([self.result(name) for name in ("whole.json", "cut.json", "resumed.json")])
                self.assertEqual(len(self.result("resumed.json")["wall"]["resumed_at"]), 1)

    def test_asynchronous_runs_go_on(self):
        for algorithm in ("asgd", "rna", "adpsgd"):
            with self.subTest(algorithm=algorithm):
                method = ["--algorithm", algorithm]
                self.train(*method, "-o", "cut.json", "--checkpoint", "run.checkpoint")
                self.train(*method, "-o", "resumed.json", "--resume-from", "run.checkpoint")
                for name in ("cut.json", "resumed.json"):
                    curve = self.result(name)["curve"]
                    self.assertGreaterEqual(curve[-1]["samples_count"], 3840)
                    self.assertLess(curve[-1]["test_loss"], curve[0]["test_loss"])

    def test_a_lost_rank_ends_the_run_and_the_script_starts_it_again(self):
        run = [*SHORT, "--algorithm", "elastic", "--max-samples", "640000", "--evaluate-every", "5120"]
        process = self.launch(2, [BINARY, *run, "-o", "lost.json", "--checkpoint", "lost.checkpoint"])
        self.wait_for((self.folder / "lost.checkpoint").exists, "the first checkpoint")
        os.kill(self.pid_of_rank(process, 1), signal.SIGKILL)
        process.communicate(timeout=LIMIT_S)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn(self.result("lost.json")["status"], ("running", "failed", "aborted"))
        before = self.result("lost.json")["curve"]
        subprocess.run([SCRIPTS / "examples" / "restart.sh", "lost.checkpoint", "mpirun", "-n", "2", BINARY, *run, "-o",
                        "lost.json", "--max-samples", str(before[-1]["samples_count"] + 20480), "--quiet"],
                       cwd=self.folder, env=self.environment(MPI), check=True, timeout=LIMIT_S,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = self.result("lost.json")
        self.assertEqual(after["status"], "completed")
        self.assertGreaterEqual(len(after["wall"]["resumed_at"]), 1)
        shared = min(len(before), len(after["curve"]))
        self.assertEqual([point["test_loss"] for point in before[:shared]],
                         [point["test_loss"] for point in after["curve"][:shared]])

    def test_files_of_ranks_are_outputs(self):
        run = [*SHORT, "--algorithm", "ssgd", "-o", "r.json"]
        foreign = ["m.rank-1.segment-notes.txt", "m.rank-1.2.bak", "m.rank-1.notes", "m.rank-10"]
        for name in foreign:
            self.write(name, "precious")
        self.train("--algorithm", "ssgd", "-o", "r.json", "--checkpoint", "m")
        made = sorted(path.name for path in self.folder.glob("m*"))
        self.assertEqual(made, sorted([*foreign, "m", "m.1", *(f"m.rank-1.{slot}" for slot in range(3))]))
        self.assertEqual({(self.folder / name).read_text() for name in foreign}, {"precious"})
        (self.folder / "r.json").unlink()
        for name in set(made) - {*foreign, "m"}:
            with self.subTest(name):
                content = (self.folder / name).read_bytes()
                others = [path for path in self.folder.glob("m*") if path.name not in (name, *foreign)]
                for path in others:
                    path.rename(self.folder / f"aside.{path.name}")
                self.assertIn(f"{name}: the file exists", self.finished(self.mpirun(2, *run, "--checkpoint", "m"), 2))
                self.write(name, "precious")
                self.assertIn(name, self.finished(self.mpirun(2, *run, "--checkpoint", "m", "--overwrite"), 4))
                self.assertEqual((self.folder / name).read_text(), "precious")
                (self.folder / name).write_bytes(content)
                for path in others:
                    (self.folder / f"aside.{path.name}").rename(path)

    def test_another_budget_keeps_the_schedule(self):
        run = ["--algorithm", "ssgd", "--schedule", "linear", "--checkpoint", "run.checkpoint"]
        self.train(*run, "-o", "cut.json")
        process = self.mpirun(2, *SHORT, *run, "--overwrite", "--max-samples", "5120", "-o", "longer.json", "--resume-from", "run.checkpoint")
        decay = re.search(r"--decay-epochs [0-9.]+", self.finished(process, 2)).group().split()
        self.train(*run, *decay, "--max-samples", "5120", "-o", "longer.json", "--resume-from", "run.checkpoint")
        self.run_program("rerun", "longer.json", "--cluster", "sim", "--workers", "2", "-o", "again.json")
        self.expect_same_curve([self.result(name) for name in ("longer.json", "again.json")])

    def test_a_missing_file_of_a_rank_is_named(self):
        self.train("-o", "cut.json", "--algorithm", "ssgd", "--checkpoint", "run.checkpoint")
        for path in self.folder.glob("run.checkpoint.rank-1.*"):
            path.unlink()
        process = self.mpirun(2, *SHORT, "--algorithm", "ssgd", "--overwrite", "-o", "again.json", "--resume-from",
                              "run.checkpoint")
        self.assertIn("run.checkpoint.rank-1", self.finished(process, 4))
