"""The result file: where it goes, when it is refused, and what survives; and a run that is run again."""

import json
import pathlib
import re
import resource
import signal
import unittest

from program import HOST_KEYS, LIMIT_S, TINY, ProgramTest, without_host

ENDLESS = ["train", *TINY, "--epochs", "1000000", "-o", "r.json"]


class Writing(ProgramTest):
    @unittest.skipUnless(pathlib.Path("/dev/full").exists(), "no /dev/full")
    def test_a_full_disk_ends_the_run_with_1_and_its_name(self):
        done = self.train("/dev/full", "--epochs", "3", code=1)
        self.check_refusal(done.stderr, ("/dev/full", "No space left on device"))
        self.assertIn("completed", done.stderr)  # the run went on to its end

    def test_a_disk_that_fills_up_keeps_the_last_whole_file(self):
        """A limit on file sizes stands in for the full disk: the growing result passes it."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

        done = self.run_program("train", *TINY, "--epochs", "8", "--mega-batch", "1", "-o", "r.json", code=1, preexec_fn=limit)
        self.check_refusal(done.stderr, ("r.json", "File too large"))
        self.assertEqual(self.result("r.json")["status"], "running")
        self.run_program("validate", "r.json")
        self.assertEqual([p.name for p in self.folder.glob("*.tmp")], [])

    def test_stdout_is_json_and_nothing_else(self):
        done = self.train("-", "--target", "p1>=0.2")
        self.assertEqual(json.loads(done.stdout)["status"], "completed")
        self.assertIn("p1>=0.2", done.stderr)
        self.assertEqual(list(self.folder.glob("*.json")), [])
        self.assertEqual(self.train("r.json", "--quiet").stderr, "")

    def test_a_dry_run_writes_nothing(self):
        files = [word for option in ("trace", "record-timeline", "mllog", "tensorboard", "dump-parameters", "dump-initial-parameters", "checkpoint")
                 for word in (f"--{option}", f"a.{option}")]
        before = sorted(path.name for path in self.folder.iterdir())
        self.train("t.json", "--dry-run", "--checkpoint-every", "1", "--checkpoint-at", "100", *files)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), before)

    def test_progress_lines_without_a_terminal(self):
        done = self.train("r.json", "--epochs", "300", "--progress-every", "60ms")
        lines = [line for line in done.stderr.splitlines() if "samples/s" in line]
        self.assertGreaterEqual(len(lines), 1)
        for line in lines:  # one that comes while a measurement is under way says so
            self.assertRegex(line, r"^\d+%(  evaluating)?(  ETA \S+ \S+)?  epoch [\d.]+  step \d+  samples \S+  "
                                   r"loss [\d.]+  p1 [01]\.\d+  \S+ samples/s")
        self.assertNotIn("\033", done.stderr)
        self.assertNotIn("\r", done.stderr)

    def test_progress_of_text_counts_its_tokens(self):
        text = "generate:language?rows_train=2000&steps=8"
        done = self.run_program("train", "--train", text, "--model", "gpt-micro?layers=1&width=16", "--algorithm", "sgd", "--epochs", "20",
                                "--progress-every", "20ms")
        self.assertRegex(done.stderr, r"samples/s  \S+ tokens  \S+ tokens/s")

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


class Resume(ProgramTest):
    def test_a_completed_run_is_not_repeated_and_another_one_is_refused(self):
        (self.folder / "data").mkdir()
        self.run_program("data", "convert", "--to", "xc", "generate:tiny", "data/tiny.txt")
        for more in ([], ["--train", "data/tiny.txt", "--test", "data/tiny.txt", "--redact"]):
            self.train("r.json", *more, "--overwrite")
            before = (self.folder / "r.json").read_text()
            self.assertEqual(self.train("r.json", *more, "--resume").stderr.count("\n"), 1)
            self.assertEqual((self.folder / "r.json").read_text(), before)
        self.assertNotIn(str(self.folder), before)  # redacted
        self.run_program("validate", "r.json")
        self.check_refusal(self.train("r.json", *more, "--resume", "--seed", "2", code=2).stderr, ("--resume", "r.json", "seed"), "--overwrite")

    def test_an_unfinished_run_is_repeated(self):
        self.train("r.json")
        self.write("r.json", {**self.result("r.json"), "status": "aborted"})
        self.train("r.json", "--resume")
        self.assertEqual(self.result("r.json")["status"], "completed")


class Interruption(ProgramTest):
    def interrupted(self, *numbers, more=()):
        """Starts an endless run, sends the signals after its first result, returns the exit code."""
        program = self.start(*ENDLESS, "--overwrite", *more)
        self.wait_for(lambda: (self.folder / "r.json").exists(), "the first result")
        for number in numbers:
            program.send_signal(number)
        code = program.wait(timeout=LIMIT_S)
        self.run_program("validate", "r.json")
        result = self.result("r.json")
        (self.folder / "r.json").unlink()
        return code, result

    def test_a_signal_aborts_the_run(self):
        for number, more in ((signal.SIGINT, ()), (signal.SIGTERM, ()),
                             (signal.SIGINT, ("--cluster", "threads", "--workers", "2", "--algorithm", "ssgd"))):
            with self.subTest(number=number, more=more):
                code, result = self.interrupted(number, more=more)
                self.assertEqual((code, result["status"]), (128 + number, "aborted"))
                self.assertIsNotNone(result["finished_at"])
                self.assertGreater(len(result["curve"]), 0)

    def test_a_signal_for_a_checkpoint_ends_no_run(self):
        code, result = self.interrupted(*3 * [signal.SIGUSR1], signal.SIGTERM)
        self.assertEqual((code, result["status"]), (128 + signal.SIGTERM, "aborted"))

    def test_what_kills_leaves_the_last_result_whole(self):
        code, result = self.interrupted(signal.SIGKILL, more=["--algorithm", "adaptive", "--workers", "3"])
        self.assertEqual((code, result["status"]), (-signal.SIGKILL, "running"))
        # Both signals may be pending at once, and then the kernel chooses the order.
        code, _ = self.interrupted(signal.SIGINT, signal.SIGTERM)
        self.assertIn(code, (-signal.SIGTERM, -signal.SIGINT))


class LastLines(ProgramTest):
    def test_a_missed_target_says_so_and_how_near_the_run_came(self):
        said = self.train("t.json", "--target", "p1>=0.999", "--target", "test_loss<=99", "--evaluate-every", "500").stderr
        best = self.result("t.json")["summary"]["best"]["p1"]["value"]
        self.assertRegex(said, rf"(?m)^p1>=0\.999 +missed +- +- +{best:.4f} +- +-$")
        self.assertRegex(said, r"(?m)^test_loss<=99 +[\d.]+ \w?s ")

    def test_precision_at_k_is_left_out_where_rows_have_one_label(self):
        images = "generate:images?size=8&rows_train=64&rows_test=20"
        run = ["train", "--train", images, "--test", images, "--model", "resnet-20?size=8", "--epochs", "1", "-o", "i.json"]
        for said, names in ((self.run_program(*run).stderr, ["p1"]), (self.train("t.json").stderr, ["p1", "p3", "p5"])):
            for line in re.findall("^(?:a constant guess reaches|completed) .*", said, re.M):
                self.assertEqual(re.findall(r" (p\d) ", line), names)
        self.assertIn("p3", self.result("i.json")["summary"]["final"])


class ExitCodes(ProgramTest):
    def test_a_missed_target(self):
        missed = ["--target", "p1>=0.999"]
        self.check_refusal(self.train("r.json", *missed, "--require-target", code=3).stderr, ("a target was missed", "--require-target"))
        self.assertEqual(self.result("r.json")["time_to_accuracy"][0]["status"], "not_reached")
        self.train("r.json", "--overwrite", *missed)

    def test_a_reached_target_stops_the_run(self):
        self.train("r.json", "--epochs", "1000", "--target", "p1>=0.3", "--stop-at-target", "--require-target")
        result = self.result("r.json")
        self.assertEqual(result["status"], "target_reached")
        self.assertIn(result["time_to_accuracy"][0]["time_s"], [point["time_s"] for point in result["curve"]])
        self.run_program("validate", "r.json")

    def test_a_diverged_run_is_a_result(self):
        diverging = ["--epochs", "20", "--learning-rate", "1e30"]
        self.assertRegex(self.train("r.json", *diverging, code=8).stderr, r"warning: the run diverged: .* became (nan|inf) at ")
        self.assertEqual(self.result("r.json")["status"], "diverged")
        self.run_program("validate", "r.json")
        self.run_program("rerun", "r.json", "-o", "again.json", code=8)
        self.train("r.json", "--resume", *diverging)  # the result is complete
        self.train("r.json", "--overwrite", *diverging, "--target", "p1>=0.9", "--require-target", code=8)

    def test_a_device_that_is_missing(self):
        run = ["train", *TINY, "--epochs", "1", "--algorithm", "ssgd", "--cluster", "threads", "-o", "r.json", "--devices"]
        missing = ["cuda:1000", "cpu:1,cuda:1000"]
        if not self.json_of("devices", "--json")["cuda"]["gpus"]:
            missing += ["cuda:0", "cuda:all"]
        self.refuse_all(run, (([device], ("--devices", device.rpartition(",")[2]), True) for device in missing), code=5)
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
        self.assertLessEqual(different, set(HOST_KEYS))

    def test_flags_change_what_they_name(self):
        self.train("r.json", "--workers", "2", "--algorithm", "ssgd", "--straggler", "kind=constant,worker=1,factor=3")
        self.run_program("rerun", "r.json", "--straggler", "none", "--seed", "2", "-o", "second.json")
        second = self.result("second.json")
        self.assertEqual(second["config"], {**self.result("r.json")["config"], "seed": 2, "straggler": []})
        self.assertEqual((set(second["args"][-2:]), second["stragglers"]), ({"--seed=2", "--straggler=[]"}, []))

    def left_out(self, said, file):
        """The options that were left out of this file, by their names."""
        line, = re.findall(rf"^(?:warning: |info: )?{file}: ignored options.*: ([a-z_0-9, ]+)$", said, re.M)
        return set(line.split(", "))

    def test_another_algorithm_leaves_the_options_of_the_old_one_out(self):
        self.train("r.json", "--algorithm", "adaptive", "--workers", "2", "--delta", "0.2", "--gamma", "0.8")
        old = self.result("r.json")["config"]
        self.assertLess({"delta", "gamma"}, self.left_out(
            self.run_program("rerun", "r.json", "--algorithm", "esync", "-o", "e.json").stderr, "r.json"))
        fresh, config = {**old, "algorithm": "esync"}, self.result("e.json")["config"]
        self.assertNotIn("delta", config)
        self.assertEqual({k: v for k, v in config.items() if k in fresh}, {k: v for k, v in fresh.items() if k in config})
        left = self.left_out(self.run_program("train", "--config", "r.json", "--algorithm", "elastic", "-o", "l.json").stderr, "r.json")
        self.assertIn("delta", left)
        self.assertNotIn("gamma", left)  # which both have
        self.assertEqual(self.result("l.json")["config"]["gamma"], 0.8)
        self.write("c.json", {"algorithm": "adaptive", "staleness": 3})
        self.refused(["train", "--config", "c.json", "--algorithm", "esync"], "c.json: staleness")

    def test_a_flag_leaves_out_what_it_excludes(self):
        self.train("r.json", "--charge", "amazon670k", "--optimizer", "adam", "--decoupled-weight-decay", "--weight-decay", "0.1")
        self.train("n.json", "--charge", "lenet-5", "--charge-batch", "64")
        for file, flags, dropped in (("r.json", "--cluster threads", {"charge"}), ("r.json", "--max-samples 640", {"epochs"}),
                                     ("r.json", "--validation 0.1", {"test"}), ("r.json", "--optimizer sgd", {"decoupled_weight_decay"}),
                                     ("n.json", "--cluster threads", {"charge", "charge_batch"})):
            with self.subTest(flags):
                done = self.run_program("rerun", file, *flags.split(), "--overwrite", "-o", "again.json")
                self.assertEqual(self.left_out(done.stderr, file), dropped)
        self.assertNotIn("ignored options", self.run_program("rerun", "r.json", "--epochs", "0.5", "--cluster", "sim").stderr)

    def test_needs_a_result_first(self):
        self.train("r.json")
        self.refuse_all(["rerun"], (("", "rerun"), ("--seed 2 r.json", "rerun")))
