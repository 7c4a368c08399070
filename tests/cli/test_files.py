"""The files that a command reads and writes: none is lost, and their names may be any bytes."""

import json
import os
import re
import subprocess
import unittest

from program import BINARY, ProgramTest, TINY, without_host

# Options that name files, by what is done with them. A new one belongs here and needs its role
# (OptionRefiner::reads_file, writes_file), or the tests below find it.
READ = {"--train", "--test", "--config", "--tuned", "--charge", "--profile", "--server-profile", "--network", "--straggler",
        "--vocabulary"}
WRITTEN = {"--output", "--trace", "--mllog", "--dump-parameters", "--dump-initial-parameters"}
NO_FILES = {"--cache-directory", "--log-dir", "--tensorboard", "--reference"}  # folders; one of the operands
COMMANDS = ["train", "tune", "rerun", "compare", "validate", "data info", "data convert", "data generate",
            "data verify", "algorithms", "models", "stragglers", "memory", "devices", "calibrate", "calibrate network",
            "bench all_reduce", "bench all_gather", "bench reduce_scatter", "bench broadcast", "bench all_to_all", "doctor"]
RUN = ["train", "--train", "in.txt", "--epochs", "1", "--quiet"]
KEPT = "hint: no input is ever replaced, not even with --overwrite\n"


class FilesTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.run_program("data", "convert", "--to", "xc", "generate:tiny?rows_train=200", "in.txt")
        self.data = (self.folder / "in.txt").read_bytes()

    def refused(self, *arguments, code=2):
        message = self.error(*arguments, code=code)
        self.assertNotIn("bug", message)
        self.assertEqual((self.folder / "in.txt").read_bytes(), self.data)
        return message


class Inputs(FilesTest):
    def test_every_option_that_names_a_file_is_known_here(self):
        for command in COMMANDS:
            text = self.run_program(*command.split(), "--help").stdout
            for option, about in re.findall(r"^ +(?:-\w, )?(--[a-z-]+) TEXT(.*(?:\n {20,}.*)*)", text, re.M):
                if re.search(r"\bfile\b|\bwrite\b|\bdirectory\b", about):
                    self.assertIn(option, READ | WRITTEN | NO_FILES, f"{command}: {about}")

    def test_no_output_of_a_run_replaces_its_data(self):
        os.link(self.folder / "in.txt", self.folder / "hard.txt")
        (self.folder / "link.txt").symlink_to("in.txt")
        (self.folder / "here").symlink_to(".")
        for option in sorted(WRITTEN):
            for name in ("in.txt", "./here/in.txt", "hard.txt", "link.txt"):
                self.assertEqual(
                    self.refused(*RUN, "--overwrite", option, name),
                    f"error: {option}: found {name}, which --train reads as in.txt, expected another file\n" + KEPT)
        (self.folder / "logs").mkdir()
        (self.folder / "logs" / "rank_0.log").symlink_to("../in.txt")
        self.assertIn("which --train reads", self.refused(*RUN, "--log-dir", "logs"))

    def test_no_output_replaces_a_model_a_scenario_or_a_configuration(self):
        (self.folder / "c.json").write_text('{"epochs": 1}')
        for option in ("--test", "--config", "--tuned", "--profile", "--server-profile", "--network"):
            message = self.refused("train", "--train", "generate:tiny", "--epochs", "1", option, "in.txt" if
                                   option == "--test" else "c.json", "-o", "in.txt" if option == "--test" else
                                   "./c.json", "--overwrite")
            self.assertIn(f"which {option} reads as", message)
        message = self.refused(*RUN, "--straggler", "kind=trace,file=c.json", "--trace", "c.json", "--overwrite")
        self.assertIn("which --straggler reads as c.json", message)
        self.assertIn("which HETSGD_TRAIN reads",
                      self.run_program("train", "--epochs", "1", "-o", "in.txt", "--overwrite", code=2,
                                       env={"HETSGD_TRAIN": "in.txt"}).stderr)
        self.assertEqual((self.folder / "c.json").read_text(), '{"epochs": 1}')

    def test_no_other_command_replaces_what_it_reads(self):
        self.train("r.json")
        before = (self.folder / "r.json").read_bytes()
        for arguments in (["rerun", "r.json", "-o", "./r.json"], ["rerun", "r.json", "--trace", "r.json"],
                          ["train", "--config", "r.json", "-o", "r.json"],
                          ["tune", "--train", "in.txt", "--epochs", "1", "-o", "in.txt"],
                          ["bench", "all_reduce", "--cluster", "sim", "--profile", "r.json", "-o", "r.json"],
                          ["data", "convert", "--to", "libsvm", "in.txt", "./in.txt"]):
            self.assertIn(KEPT, self.refused(*arguments, "--overwrite"))
        self.assertEqual((self.folder / "r.json").read_bytes(), before)


class Outputs(FilesTest):
    def test_two_outputs_never_share_a_file(self):
        (self.folder / "dangling").symlink_to("t.json")
        for first, second in (("t.json", "./t.json"), ("t.json", "dangling"), ("-", "-"), ("-", "/dev/stdout")):
            message = self.refused(*RUN, "--trace", first, "-o", second, "--overwrite")
            self.assertIn("expected a file of its own\n", message)
        self.assertIn("--dump-parameters: found x, which --dump-initial-parameters writes as x",
                      self.refused(*RUN, "--dump-parameters", "x", "--dump-initial-parameters", "x"))
        self.assertFalse((self.folder / "t.json").exists())

    def test_nothing_that_exists_is_replaced_unasked(self):
        (self.folder / "old").write_text("precious")
        for arguments in ([*RUN, "-o"], [*RUN, "--trace"], [*RUN, "--dump-parameters"],
                          [*RUN, "--dump-initial-parameters"], ["tune", *RUN[1:], "-o"], ["calibrate", "-o"],
                          ["calibrate", "network", "-o"], ["bench", "all_reduce", "-o"],
                          ["data", "convert", "in.txt"]):
            self.assertIn("error: old: the file exists\nhint: --overwrite replaces it",
                          self.refused(*arguments, "old"))
        self.assertIn("old: the file exists", self.refused(*RUN, "-o", "new.json", "--resume", "--trace", "old"))
        self.assertEqual((self.folder / "old").read_text(), "precious")
        self.run_program(*RUN, "--trace", "old", "--overwrite")
        self.assertIn("traceEvents", json.loads((self.folder / "old").read_text()))

    def test_a_log_goes_on(self):
        for _ in range(2):
            self.run_program(*RUN[:-1], "--log-dir", "logs")
        log = self.folder / "logs" / "rank_0.log"
        self.assertEqual(log.read_text().count("completed"), 2)
        self.run_program(*RUN[:-1], "--log-dir", "logs", "--overwrite")
        self.assertEqual(log.read_text().count("completed"), 1)

    def test_what_cannot_be_written_is_found_before_the_data_are_read(self):
        """The data file does not exist: its message would come first if it were looked at."""
        (self.folder / "folder").mkdir()
        for command, options in (("train", sorted(WRITTEN)), ("tune", ["-o"])):
            for option in options:
                for path, reason in (("nope/x", "No such file or directory"), ("folder", "Is a directory")):
                    message = self.refused(command, "--train", "none.txt", "--epochs", "1", option, path)
                    self.assertRegex(message, rf"^error: {path}: cannot write the [a-z ]+: {reason}\n")
        self.assertIn("nope/x: cannot write the data", self.refused("data", "convert", "none.txt", "nope/x"))
        self.assertIn("nope/x_train.txt: cannot write the data", self.refused("data", "generate", "tiny", "nope/x"))
        for command in (["calibrate"], ["calibrate", "network"], ["bench", "all_reduce"]):
            self.assertIn("nope/x: cannot write the", self.refused(*command, "-o", "nope/x"))
        self.assertIn("--log-dir: cannot make in.txt",
                      self.refused("train", "--train", "none.txt", "--epochs", "1", "--log-dir", "in.txt", code=1))

    def test_a_model_that_cannot_be_kept_costs_no_result(self):
        self.run_program(*RUN, "-o", "r.json", "--dump-parameters", "/dev/full", code=1)
        self.assertEqual(self.result("r.json")["status"], "completed")

    def test_plans_and_configurations_write_nothing(self):
        (self.folder / "r.json").write_text("precious")
        for instead in ("--dry-run", "--print-config"):
            self.run_program(*RUN, "-o", "r.json", instead)
        self.assertEqual((self.folder / "r.json").read_text(), "precious")


class Streams(FilesTest):
    def test_devices_and_descriptors_are_written_to(self):
        for path in ("-", "/dev/stdout", "/dev/fd/1"):
            with self.subTest(path=path), open(self.folder / "out", "w+b") as out:
                out.write(b"before\n")
                out.flush()
                self.run_program(*RUN, "-o", path, stdout=out)
                out.write(b"after\n")
                out.seek(0)
                text = out.read().decode()
            self.assertTrue(text.startswith("before\n") and text.endswith("}\nafter\n"), text[:80])
            self.assertEqual(json.loads(text[7:-6])["status"], "completed")
        self.run_program(*RUN, "-o", "/dev/null", "--trace", "/dev/null", "--dump-parameters", "/dev/null")

    def test_another_descriptor(self):
        done = subprocess.run(["sh", "-c", '"$0" "$@" 3> three.json', BINARY, *RUN, "-o", "/dev/fd/3"],
                              cwd=self.folder, env=self.environment(), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.run_program("validate", "three.json")
        self.assertIn("error: /dev/fd/77: cannot write the result: Bad file descriptor",
                      self.refused(*RUN, "-o", "/dev/fd/77"))

    def test_a_pipe_gets_one_document(self):
        os.mkfifo(self.folder / "pipe")
        reader = subprocess.Popen(["cat", "pipe"], cwd=self.folder, stdout=subprocess.PIPE)
        self.addCleanup(reader.stdout.close)
        self.run_program(*RUN, "--epochs", "3", "--mega-batch", "1", "-o", "pipe")
        result = json.loads(reader.communicate(timeout=60)[0])
        self.assertEqual(result["status"], "completed")
        self.assertGreater(len(result["curve"]), 3)

    def test_data_goes_to_a_pipe(self):
        done = self.run_program("data", "convert", "--to", "xc", "in.txt", "/dev/stdout")
        self.assertEqual(done.stdout.encode(), self.data)


class Names(FilesTest):
    NAME = b"caf\xe9\x1b[31m%41.txt"

    def setUp(self):
        super().setUp()
        self.path = os.fsencode(self.folder) + b"/" + self.NAME
        os.rename(self.folder / "in.txt", self.path)
        self.addCleanup(os.rename, self.path, self.folder / "in.txt")

    def test_a_name_of_any_bytes_reads_back(self):
        """data, cache folder, result, trace, straggler trace; then again from the result"""
        (self.folder / "delays.csv").write_text("rank,iteration,delay_s\n*,0,0.001\n")
        os.rename(self.folder / "delays.csv", os.fsencode(self.folder) + b"/d\xff.csv")
        env = {"HETSGD_CACHE_DIR": os.fsdecode(b"cache\xfe")}
        done = self.run_program("train", "--train", self.NAME, "--epochs", "1", "--straggler",
                                b"kind=trace,file=d\xff.csv", "-o", b"r\xfd.json", "--trace", b"t\xfc.json", env=env)
        self.assertIn(r"result: r\xfd.json", done.stderr)
        self.assertTrue(os.path.isdir(os.fsencode(self.folder) + b"/cache\xfe"))
        self.assertIn(rb"r\xfd.json: valid".decode(), self.run_program("validate", b"r\xfd.json").stdout)
        first = self.result(os.fsdecode(b"r\xfd.json"))
        self.assertEqual(first["config"]["train"], "bytes:caf%E9\x1b[31m%2541.txt")
        self.assertEqual(first["config"]["straggler"], ["bytes:kind=trace,file=d%FF.csv"])
        self.assertIn("bytes:r%FD.json", first["args"])
        self.result(os.fsdecode(b"t\xfc.json"))

        self.run_program("rerun", b"r\xfd.json", "-o", "again.json", "--trace", "again.trace", env=env)
        self.assertEqual(without_host(self.result("again.json")), without_host(first))
        self.assertIn("nothing to do", self.run_program(*self.arguments(first), "--resume", env=env).stderr)
        compared = self.run_program("compare", "--format", "json", b"r\xfd.json", "--target", "p1>=0.1").stdout
        self.assertIn("bytes:r%FD.json", compared)

    @staticmethod
    def arguments(result):
        def escaped(text):
            return re.sub(b"%([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]), text[6:].encode())
        return [escaped(each) if each.startswith("bytes:") else each for each in result["args"]]

    def test_tunings_and_tables(self):
        self.run_program("tune", "--train", self.NAME, "--epochs", "1", "--grid", "0.3,1", "-o", b"c\xfd.json")
        self.run_program("validate", b"c\xfd.json")
        self.run_program("train", "--train", self.NAME, "--validation", "0.1", "--epochs", "1", "--tuned",
                         b"c\xfd.json", "-o", "r.json")
        self.assertIn("bytes:c%FD.json", (self.folder / "r.json").read_text())
        self.run_program("validate", "r.json")
        self.run_program("train", "--train", self.NAME, "--epochs", "1", "--dry-run")
        summary = json.loads(self.run_program("data", "info", "--json", self.NAME).stdout)
        self.assertEqual(summary["path"], "bytes:caf%E9\x1b[31m%2541.txt")

    def test_no_name_commands_the_terminal(self):
        shown = r"caf\xe9\x1b[31m%41.txt"
        self.assertIn(shown, self.run_program("data", "info", self.NAME).stdout)
        self.assertIn(shown, self.run_program("data", "verify", self.NAME).stdout)
        for arguments in (["validate", self.NAME], ["compare", self.NAME], ["rerun", self.NAME],
                          ["train", "--epochs", "1", "--train", b"no" + self.NAME], ["train", "--config", b"no" + self.NAME],
                          [self.NAME], ["train", b"--" + self.NAME], ["data", "info", b"--x\x1b=1", "y"]):
            done = subprocess.run([BINARY, *arguments], cwd=self.folder, env=self.environment(), capture_output=True,
                                  check=False)
            self.assertIn(done.returncode, (2, 4), arguments)
            said = (done.stdout + done.stderr).decode()  # UTF-8
            self.assertRegex(said, r"\\x1b")
            self.assertNotRegex(said, "[\x00-\x09\x0b-\x1f\x7f-\x9f]")
        (self.folder / "c.json").write_text(json.dumps({"\x1b]0;x\x07\x9b": 1}))
        self.assertIn(r"c.json: \x1b]0;x\x07\u009b: unknown option",
                      self.error("train", "--config", "c.json", code=2))


if __name__ == "__main__":
    unittest.main()
