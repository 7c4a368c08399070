"""The result file: where it goes, when it is refused, and what survives."""

import json
import os
import pathlib
import signal
import unittest

from program import LIMIT_S, TINY, ProgramTest, without_host

ENDLESS = ["train", *TINY, "--epochs", "1000000", "-o", "r.json"]


class Writing(ProgramTest):
    def test_an_existing_file_is_refused(self):
        (self.folder / "r.json").write_text("precious")
        self.assertEqual(self.train("r.json", code=2).stderr,
                         "error: r.json: the file exists\n"
                         "hint: --overwrite replaces it, --resume goes on with it or keeps what is complete\n")
        self.assertEqual((self.folder / "r.json").read_text(), "precious")
        self.train("r.json", "--overwrite")
        self.assertEqual(self.result("r.json")["status"], "completed")

    def test_a_missing_folder_is_found_before_the_training(self):
        done = self.train("no/such/r.json", "--epochs", "1000000", code=2)
        self.assertEqual(done.stderr,
                         "error: no/such/r.json: cannot write the result: "
                         "No such file or directory\nhint: create the folder first\n")

    @unittest.skipIf(os.geteuid() == 0, "root may write anywhere")
    def test_an_unwritable_folder(self):
        (self.folder / "locked").mkdir(mode=0o500)
        self.assertIn("Permission denied",
                      self.train("locked/r.json", "--epochs", "1000000", code=2).stderr)

    def test_a_folder_is_no_file(self):
        (self.folder / "folder").mkdir()
        self.assertIn("error: folder: cannot write the result: Is a directory",
                      self.train("folder", code=2).stderr)

    @unittest.skipUnless(pathlib.Path("/dev/full").exists(), "no /dev/full")
    def test_a_full_disk_ends_the_run_with_1_and_its_name(self):
        done = self.train("/dev/full", "--epochs", "3", code=1)
        self.assertIn("error: /dev/full: cannot write the result: No space left on device\n",
                      done.stderr)
        self.assertIn("completed", done.stderr)  # the run went on to its end

    def test_a_disk_that_fills_up_keeps_the_last_whole_file(self):
        """A limit on file sizes stands in for the full disk: the growing result passes it."""
        import resource
        import subprocess
        from program import BINARY

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

        done = subprocess.run(
            [BINARY, "train", *TINY, "--epochs", "8", "--mega-batch", "1", "-o", "r.json"],
            cwd=self.folder, env=self.environment(), preexec_fn=limit, capture_output=True,
            text=True, timeout=LIMIT_S, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("error: r.json: cannot write the result: File too large\n", done.stderr)
        self.assertEqual(self.result("r.json")["status"], "running")
        self.run_program("validate", "r.json")
        self.assertEqual([p.name for p in self.folder.glob("*.tmp")], [])

    def test_stdout_is_json_and_nothing_else(self):
        done = self.train("-", "--target", "p1>=0.2")
        result = json.loads(done.stdout)
        self.assertEqual(result["status"], "completed")
        self.assertIn("p1>=0.2", done.stderr)
        self.assertEqual(list(self.folder.glob("*.json")), [])

    def test_quiet_says_nothing(self):
        self.assertEqual(self.train("r.json", "--quiet").stderr, "")

    def test_progress_lines_without_a_terminal(self):
        done = self.train("r.json", "--epochs", "300", "--progress-every", "60ms")
        lines = [line for line in done.stderr.splitlines() if "samples/s" in line]
        self.assertGreaterEqual(len(lines), 1)
        for line in lines:  # one that comes while a measurement is under way says so
            self.assertRegex(line, r"^\d+%(  measuring)?(  ETA \S+ \S+)?  epoch [\d.]+  step \d+  samples \S+  "
                                   r"loss [\d.]+  p1 [01]\.\d+  \S+ samples/s")
        self.assertNotIn("\033", done.stderr)
        self.assertNotIn("\r", done.stderr)

    def test_points_count_the_bytes_until_then(self):
        """ssgd sends the same in each update: between points, as many times that as there are updates."""
        self.train("r.json", "--algorithm", "ssgd", "--workers", "3", "--epochs", "4", "--mega-batch", "10")
        result = self.result("r.json")
        points = [(point["updates"], point["bytes_sent"]) for point in result["curve"]]
        self.assertEqual(points[0], (0, 0))
        self.assertGreater(len(points), 3)
        per_update = result["summary"]["bytes_sent"] / result["summary"]["updates"]
        for (updates, sent), (more_updates, more_sent) in zip(points[1:], points[2:]):
            self.assertAlmostEqual((more_sent - sent) / (more_updates - updates) / per_update, 1, places=6)
        self.assertLessEqual(points[-1][1], result["summary"]["bytes_sent"])

    def test_redact(self):
        data = self.folder / "data"
        self.run_program("data", "generate", "tiny", str(data))
        self.run_program("train", "--train", f"{data}_train.txt", "--test", f"{data}_test.txt",
                         "--epochs", "1", "--redact", "-o", "r.json")
        self.assertNotIn(str(self.folder), (self.folder / "r.json").read_text())
        self.run_program("validate", "r.json")


class Resume(ProgramTest):
    def test_a_completed_run_is_not_repeated(self):
        self.train("r.json")
        before = (self.folder / "r.json").read_text()
        done = self.train("r.json", "--resume")
        self.assertEqual(done.stderr, "r.json: has this run's result, nothing to do\n")
        self.assertEqual((self.folder / "r.json").read_text(), before)

    def test_a_redacted_run_is_not_repeated(self):
        (self.folder / "data").mkdir()
        self.run_program("data", "convert", "--to", "xc", "generate:tiny", "data/tiny.txt")
        files = ["--train", "data/tiny.txt", "--test", "data/tiny.txt", "--redact"]
        self.train("r.json", *files)
        self.assertEqual(self.train("r.json", *files, "--resume").stderr, "r.json: has this run's result, nothing to do\n")

    def test_an_unfinished_run_is_repeated(self):
        self.train("r.json")
        result = self.result("r.json")
        result["status"] = "aborted"
        (self.folder / "r.json").write_text(json.dumps(result))
        self.train("r.json", "--resume")
        self.assertEqual(self.result("r.json")["status"], "completed")

    def test_another_configuration_is_refused(self):
        self.train("r.json")
        self.assertEqual(self.train("r.json", "--resume", "--seed", "2", code=2).stderr,
                         "error: --resume: r.json holds a run of another configuration: "
                         "seed differs\nhint: --overwrite replaces it\n")


class Interruption(ProgramTest):
    def interrupted(self, number, *more):
        """Starts an endless run, sends the signal after its first result, returns the exit code."""
        program = self.start(*ENDLESS, *more)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.stderr.close)
        self.wait_for(lambda: (self.folder / "r.json").exists(), "the first result")
        program.send_signal(number)
        return program.wait(timeout=LIMIT_S)

    def check_aborted(self, number, *more):
        self.assertEqual(self.interrupted(number, *more), 128 + number)
        result = self.result("r.json")
        self.assertEqual(result["status"], "aborted")
        self.assertIsNotNone(result["finished_at"])
        self.assertGreater(len(result["curve"]), 0)
        self.run_program("validate", "r.json")

    def test_sigint(self):
        self.check_aborted(signal.SIGINT)

    def test_sigterm(self):
        self.check_aborted(signal.SIGTERM)

    def test_sigkill_leaves_the_last_result_whole(self):
        several = ["--algorithm", "adaptive", "--workers", "3"]
        self.assertEqual(self.interrupted(signal.SIGKILL, *several), -signal.SIGKILL)
        self.assertEqual(self.result("r.json")["status"], "running")
        self.run_program("validate", "r.json")

    def test_sigint_in_real_time(self):
        self.check_aborted(signal.SIGINT, "--cluster", "threads", "--workers", "2",
                           "--algorithm", "ssgd")

    def test_a_second_signal_kills(self):
        program = self.start(*ENDLESS)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.stderr.close)
        self.wait_for(lambda: (self.folder / "r.json").exists(), "the first result")
        program.send_signal(signal.SIGINT)
        program.send_signal(signal.SIGTERM)
        # both may be pending at once, and then the kernel chooses the order
        self.assertIn(program.wait(timeout=LIMIT_S), (-signal.SIGTERM, -signal.SIGINT))
        self.run_program("validate", "r.json")

    def test_time_limit(self):
        self.run_program(*ENDLESS, "--time-limit", "500ms", code=6)
        self.assertEqual(self.result("r.json")["status"], "time_limit")
        self.run_program("validate", "r.json")


class ExitCodes(ProgramTest):
    def test_a_missed_target(self):
        done = self.train("r.json", "--target", "p1>=0.999", "--require-target", code=3)
        self.assertIn("error: a target was missed (--require-target)\n", done.stderr)
        self.assertEqual(self.result("r.json")["time_to_accuracy"][0]["status"], "not_reached")
        self.train("r.json", "--overwrite", "--target", "p1>=0.999")

    def test_a_reached_target_stops_the_run(self):
        self.train("r.json", "--epochs", "1000", "--target", "p1>=0.3", "--stop-at-target",
                   "--require-target")
        result = self.result("r.json")
        self.assertEqual(result["status"], "target_reached")
        # Held for certain at the third of five evaluations that reach it.
        reaches = [point["p1"] >= 0.3 for point in result["curve"]]
        self.assertEqual(sum(reaches[-5:]), 3)
        self.assertTrue(reaches[-1])
        self.assertIn(result["time_to_accuracy"][0]["time_s"], [point["time_s"] for point in result["curve"][-5:-2]])
        self.run_program("validate", "r.json")

    def test_a_diverged_run_is_a_result(self):
        done = self.train("r.json", "--epochs", "20", "--learning-rate", "1e30")
        self.assertIn("warning: the run diverged", done.stderr)
        self.assertEqual(self.result("r.json")["status"], "diverged")
        self.run_program("validate", "r.json")
        self.train("r.json", "--overwrite", "--epochs", "20", "--learning-rate", "1e30",
                   "--target", "p1>=0.9", "--require-target", code=3)

    def test_a_device_that_is_missing(self):
        for device in ("cuda:1000", "cpu:1,cuda:1000"):
            done = self.train("r.json", "--algorithm", "ssgd", "--cluster", "threads", "--devices",
                              device, code=5)
            self.assertIn("error: --devices: cuda:1000: ", done.stderr)
            self.assertIn("hint: ", done.stderr)
        gpus = json.loads(self.run_program("devices", "--json").stdout)["cuda"]["gpus"]
        if not gpus:
            for device in ("cuda:0", "cuda:all"):
                done = self.train("r.json", "--cluster", "threads", "--devices", device, code=5)
                self.assertIn(f"error: --devices: {device}: ", done.stderr)
        self.assertFalse((self.folder / "r.json").exists())


class Rerun(ProgramTest):
    def test_repeats_the_run_to_the_byte(self):
        self.train("r.json", "--epochs", "2", "--algorithm", "adaptive", "--workers", "3",
                   "--speed", "1,0.8,0.6", "--delta", "0.2", "--mega-batch", "4",
                   "--straggler", "kind=uniform,min=0ms,max=5ms", "--target", "p1>=0.3")
        # neither the environment nor the number of threads has a say
        self.run_program("rerun", "r.json", "-o", "again.json", "--host-threads", "1",
                         env={"HETSGD_SEED": "9"})
        first, second = self.result("r.json"), self.result("again.json")
        self.assertGreater(len(first["events"]), 1)
        self.assertEqual(without_host(first), without_host(second))
        lines = [(self.folder / name).read_text().splitlines() for name in ("r.json", "again.json")]
        different = {a.split(":")[0].strip('"') for a, b in zip(*lines) if a != b}
        self.assertLessEqual(different, {"environment", "wall", "started_at", "finished_at"})

    def test_flags_change_what_they_name(self):
        self.train("r.json")
        self.run_program("rerun", "r.json", "--seed", "2", "-o", "second.json")
        second = self.result("second.json")
        self.assertEqual(second["config"], {**self.result("r.json")["config"], "seed": 2})
        self.assertEqual(second["args"][-1], "--seed=2")

    def test_none_takes_the_stragglers_away(self):
        run = ["--workers", "2", "--algorithm", "ssgd"]
        self.train("calm.json", *run)
        self.train("late.json", *run, "--straggler", "kind=constant,worker=1,factor=3")
        self.run_program("rerun", "late.json", "--straggler", "none", "-o", "again.json")
        calm, again = self.result("calm.json"), self.result("again.json")
        self.assertEqual((again["config"], again["curve"]), (calm["config"], calm["curve"]))
        self.assertEqual(again["stragglers"], [])

    def test_another_algorithm_leaves_the_options_of_the_old_one_out(self):
        self.train("r.json", "--algorithm", "adaptive", "--workers", "2", "--delta", "0.2", "--gamma", "0.8")
        told = ("r.json: left out, as options of adaptive that esync does not have: adaptive_warmup_epochs, batch_min, beta, "
                "bounds, delta, gamma")
        done = self.run_program("rerun", "r.json", "--algorithm", "esync", "-o", "e.json")
        self.assertIn(told, done.stderr)
        fresh = {**self.result("r.json")["config"], "algorithm": "esync"}
        config = self.result("e.json")["config"]
        self.assertNotIn("delta", config)
        self.assertEqual({k: v for k, v in config.items() if k in fresh}, {k: v for k, v in fresh.items() if k in config})
        done = self.run_program("train", "--config", "r.json", "--algorithm", "elastic", "-o", "l.json")
        self.assertIn("left out, as options of adaptive that elastic does not have: adaptive_warmup_epochs, batch_min, beta, "
                      "bounds, delta, pert", done.stderr)
        self.assertEqual(self.result("l.json")["config"]["gamma"], 0.8)  # which both have
        (self.folder / "c.json").write_text('{"algorithm": "adaptive", "staleness": 3}')
        self.assertIn("error: c.json: staleness: unknown option",
                      self.error("train", "--config", "c.json", "--algorithm", "esync", code=2))

    def test_a_flag_leaves_out_what_it_excludes(self):
        self.train("r.json", "--charge", "amazon670k", "--optimizer", "adam", "--decoupled-weight-decay",
                   "--weight-decay", "0.1")
        for flags, dropped in ((["--cluster", "threads"], "charge"), (["--max-samples", "640"], "epochs"),
                               (["--validation", "0.1"], "test"), (["--optimizer", "sgd"], "decoupled_weight_decay")):
            with self.subTest(flags):
                done = self.run_program("rerun", "r.json", *flags, "--overwrite", "-o", "again.json")
                self.assertIn(f"r.json: left out, as they do not go with the flags that were given: {dropped}\n",
                              done.stderr)
        self.assertNotIn("left out", self.run_program("rerun", "r.json", "--epochs", "0.5", "--cluster", "sim").stderr)
        self.train("n.json", "--charge", "lenet-5", "--charge-batch", "64")
        self.assertIn("n.json: left out, as they do not go with the flags that were given: charge, charge_batch\n",
                      self.run_program("rerun", "n.json", "--cluster", "threads").stderr)

    def test_needs_a_result_first(self):
        self.assertIn("error: rerun: expected RESULT\n", self.error("rerun", code=2))
        self.train("r.json")
        self.assertIn("error: rerun: found an option first, expected the result file\n",
                      self.error("rerun", "--seed", "2", "r.json", code=2))


if __name__ == "__main__":
    unittest.main()
