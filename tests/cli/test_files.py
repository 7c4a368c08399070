"""The files that a command reads and writes: none is lost, and their names may be any bytes."""

import json
import os
import re
import resource
import struct
import subprocess

from program import LIMIT_S, TINY, ProgramTest, without_host

# Options that name files, by what is done with them. A new one belongs here and needs its role
# (OptionRefiner::reads_file, writes_file), or the tests below find it.
READ = {"--train", "--test", "--config", "--tuned", "--charge", "--profile", "--server-profile", "--network", "--straggler",
        "--vocabulary", "--from", "--replay", "--resume-from"}
WRITTEN = {"--output", "--trace", "--mllog", "--dump-parameters", "--dump-initial-parameters", "--record-timeline",
           "--checkpoint"}
WRITTEN_BY_OTHERS = {"--trace-csv"}  # than train
NO_FILES = {"--log-dir", "--tensorboard", "--reference"}  # folders; one of the operands
RUN = ["train", "--train", "in.txt", "--epochs", "1", "--quiet"]
KEPT = "--overwrite"  # which the hint names: no input is ever replaced, not even with it


class FilesTest(ProgramTest):
    """Has in.txt, which no test may change."""

    def setUp(self):
        super().setUp()
        self.run_program("data", "convert", "--to", "xc", "generate:tiny?rows_train=200", "in.txt")
        self.data = (self.folder / "in.txt").read_bytes()
        self.addCleanup(lambda: self.assertEqual((self.folder / "in.txt").read_bytes(), self.data))


class Inputs(FilesTest):
    """No output option replaces any kind of input, of whatever command and by whatever name, --overwrite or not."""

    def test_every_option_that_names_a_file_is_known_here(self):
        for command in self.commands():
            text = self.run_program(*command.split(), "--help-all").stdout
            for option, about in re.findall(r"^ +(?:-\w, )?(--[a-z-]+) TEXT(.*(?:\n {20,}.*)*)", text, re.M):
                if re.search(r"\bfile\b|\bwrite\b|\bdirectory\b", about, re.I):
                    self.assertIn(option, READ | WRITTEN | WRITTEN_BY_OTHERS | NO_FILES, f"{command}: {about}")

    def test_by_other_names(self):
        os.link(self.folder / "in.txt", self.folder / "hard.txt")
        (self.folder / "link.txt").symlink_to("in.txt")
        (self.folder / "here").symlink_to(".")
        for option in sorted(WRITTEN):
            self.refuse_all([*RUN, "--overwrite", option], (
                ([name], (option, name, "--train"), KEPT) for name in ("in.txt", "./here/in.txt", "hard.txt", "link.txt")))
        (self.folder / "logs").mkdir()
        (self.folder / "logs" / "rank_0.log").symlink_to("../in.txt")
        self.refused([*RUN, "--log-dir", "logs"], ("--log-dir", "--train"))
        self.refused(["train", "--epochs", "1", "-o", "in.txt", "--overwrite"], ("--output", "HETSGD_TRAIN"), env={"HETSGD_TRAIN": "in.txt"})

    def prepare(self):
        self.run_program("train", *TINY, "--epochs", "1", "-o", "r.json")
        self.write("net.json", self.run_program("memory", "lenet-5", "--print-network").stdout)
        self.write("c.json", {"epochs": 1})
        self.write("any.json", "{}")
        pixels, labels = struct.pack(">BBBB3I", 0, 0, 8, 3, 2, 4, 4) + bytes(32), struct.pack(">BBBB1I2B", 0, 0, 8, 1, 2, 0, 1)
        for name in ("a", "b"):
            (self.folder / f"{name}-images-idx3-ubyte").write_bytes(pixels)
            (self.folder / f"{name}-labels-idx1-ubyte").write_bytes(labels)
        self.fetch()
        return {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file() and "cache" not in path.parts}

    def fetch(self):
        (self.folder / "source").mkdir()
        for name in ("tr", "te"):
            (self.folder / "source" / name).write_text("1 1:1 2:1\n0 3:1\n")
        part = {"address": None, "sha256": None, "bytes": None, "rows": 2, "nonzeros": None}
        self.write("set.json", {"name": "mine", "title": "t", "task": "binary", "features": 3, "labels": 1, "format": "libsvm", "split": "s",
             "page": "p", "preparation": "none", "licence": "l", "paper": "p",
             "train": {"name": "tr", **part}, "test": {"name": "te", **part}})
        self.run_program("data", "fetch", "set.json", "--from", "source")

    def environment(self, extra=None):
        return {**super().environment(extra), "HETSGD_DATASETS_DIR": str(self.folder / "sets")}

    # Runs: the arguments, and each file that they make the run read.
    TINY_RUN = ["--train", "generate:tiny", "--epochs", "1"]
    RUNS = [(["--train", "a-images-idx3-ubyte", "--test", "b-images-idx3-ubyte", "--model", "net.json", "--epochs", "1"],
             ["a-images-idx3-ubyte", "a-labels-idx1-ubyte", "b-images-idx3-ubyte", "b-labels-idx1-ubyte", "net.json"]),
            (["--train", "set.json", "--test", "set.json", "--epochs", "1"], ["set.json", "sets/mine/tr", "sets/mine/te"]),
            ([*TINY_RUN, "--network", "any.json", "--straggler", "kind=trace,file=in.txt"], ["any.json", "in.txt"]),
            ([*TINY_RUN, "--profile", "any.json"], ["any.json"]), ([*TINY_RUN, "--replay", "any.json"], ["any.json"]), ([*TINY_RUN, "--server-profile", "any.json"], ["any.json"]),
            ([*TINY_RUN, "--charge", "any.json"], ["any.json"]), ([*TINY_RUN, "--config", "c.json"], ["c.json"])]

    def test_of_every_kind(self):
        before = self.prepare()
        outputs = sorted(WRITTEN)
        for arguments, inputs, options in (
                *((["train", *run], inputs, outputs) for run, inputs in self.RUNS),
                *((["tune", *run, "--grid", "0.1,1"], inputs, ["-o"]) for run, inputs in self.RUNS),
                (["train", *self.TINY_RUN, "--tuned", "any.json"], ["any.json"], outputs),
                (["train", *self.TINY_RUN, "--resume-from", "any.json"], ["any.json"], sorted(WRITTEN - {"--checkpoint"})),
                (["rerun", "r.json"], ["r.json", "./r.json"], outputs),
                (["rerun", "r.json", "--network", "any.json"], ["any.json"], ["-o"]),
                (["memory", "net.json"], ["net.json"], ["-o", "--trace"]),
                (["memory", "lenet-5", "--profile", "any.json"], ["any.json"], ["-o", "--trace"]),
                (["data", "convert", "a-images-idx3-ubyte"], ["a-images-idx3-ubyte", "a-labels-idx1-ubyte"], [None]),
                (["data", "convert", "set.json"], ["set.json", "sets/mine/tr"], [None]),
                (["data", "convert", "--vocabulary", "in.txt", "source/tr"], ["in.txt", "source/tr"], [None]),
                (["fit", "any.json"], ["any.json"], ["-o", "--trace-csv"]),
                (["report", "r.json"], ["r.json"], ["-o"]),
                (["bench", "all_reduce", "--cluster", "sim", "--profile", "any.json"], ["any.json"], ["-o"]),
                (["bench", "all_reduce", "--cluster", "sim", "--network", "any.json"], ["any.json"], ["-o"])):
            self.refuse_all([*arguments, "--overwrite"], (
                ([*filter(None, [option]), name], ("", f"found {name}"), KEPT) for name in inputs for option in options))
        self.assertEqual({path: path.read_bytes() for path in before}, before)


class Pipes(FilesTest):
    def test_no_input_waits_for_a_writer_without_end(self):
        os.mkfifo(self.folder / "pipe")
        special = {"--train": ["data", "info", "pipe"], "--vocabulary": ["data", "convert", "--vocabulary", "pipe", "in.txt", "out"],
                   "--from": ["data", "fetch", "a9a", "--from", "pipe"], "--straggler": [*RUN, "--straggler", "kind=trace,file=pipe"],
                   "--test": [*RUN, "--test", "pipe"]}
        started = {option: self.start(*special.get(option, [*RUN, option, "pipe"])) for option in READ | {"--plugin", "--model"}}
        for option, process in started.items():
            with self.subTest(option):
                said = process.communicate(timeout=LIMIT_S)[1]
                self.assertIn(process.returncode, (2, 4), said)
                self.assertIn("pipe", said)


class ForeignResults(FilesTest):
    """A result that somebody else has written decides what a run computes, not what it writes."""

    def test_a_result_names_no_outputs(self):
        self.train("a.json")
        self.write("precious", "precious")
        (self.folder / "folder").mkdir()
        before = {}
        for option in sorted({*WRITTEN, "--tensorboard", "--log-dir"}):
            key = option[2:].replace("-", "_")
            evil = self.result("a.json")
            evil["config"].update({key: "folder" if option in NO_FILES else "precious", "overwrite": True, "resume": True})
            self.write("evil.json", evil)
            before = before or sorted({*os.listdir(self.folder)})
            for arguments in (["rerun", "evil.json"], ["train", "--config", "evil.json"]):
                with self.subTest(option=option, command=arguments[0]):
                    said = self.run_program(*arguments, "--quiet").stderr
                    self.assertIn("evil.json: left out", said)
                    self.assertIn(key, said)
        self.assertEqual((self.folder / "precious").read_text(), "precious")
        self.assertEqual(os.listdir(self.folder / "folder"), [])
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_flags_still_do(self):
        self.train("a.json")
        self.run_program("rerun", "a.json", "-o", "b.json", "--mllog", "m.log")
        self.assertTrue((self.folder / "m.log").exists())
        self.write("own.json", {"train": "generate:tiny", "epochs": 1, "output": "own-result.json"})
        self.run_program("train", "--config", "own.json")
        self.assertEqual(self.result("own-result.json")["status"], "completed")


class Limits(FilesTest):
    """A refusal of the system is said in words, and nothing is left behind."""

    def limited(self, limit, value, *arguments, code=0):
        return self.run_program(*arguments, code=code, preexec_fn=lambda: resource.setrlimit(limit, (value, value)))

    def test_a_limit_on_the_size_of_files(self):
        for arguments in ([*RUN, "-o", "r.json"], [*RUN, "--dump-parameters", "p.bin"], [*RUN, "--trace", "t.json"],
                          ["data", "convert", "in.txt", "out.hsgd"]):
            done = self.limited(resource.RLIMIT_FSIZE, 100, *arguments, *(["--cache", "off"] if arguments[0] == "data" else []), code=1)
            self.assertIn("File too large", done.stderr)
            self.assertEqual([name for name in os.listdir(self.folder) if name != "cache"], ["in.txt"], arguments)

    def test_a_limit_on_threads(self):
        """A stack larger than the address space: no thread can be made."""
        no_threads = 1 << 50
        self.limited(resource.RLIMIT_STACK, no_threads, "data", "info", "--cache", "off", "in.txt")
        for arguments in (RUN, [*RUN, "--host-threads", "1"], [*RUN, "--cluster", "threads", "--devices", "cpu:1"],
                          [*RUN, "--cluster", "threads", "--devices", "cpu:2"],
                          ["bench", "all_reduce", "--cluster", "threads", "--workers", "2", "-n", "1"]):
            done = self.limited(resource.RLIMIT_STACK, no_threads, *arguments, code=(1, 5))
            self.check_refusal(done.stderr, ("", "thread"), "ulimit -u")

    def test_a_limit_on_memory(self):
        """The whole memory of a generator is counted before any of it is made."""
        limit = 4 << 30
        if self.limited(resource.RLIMIT_AS, limit, "data", "info", "generate:tiny", code=range(-99, 99)).returncode:
            self.skipTest("the program itself takes more, as under a sanitizer")
        for spec in ("images?classes=65536&size=1024&channels=64&rows_train=1", "images?size=1&classes=2&channels=1&rows_train=4294967295",
                     "images?size=1024&channels=64&rows_train=100", "video?size=8192&classes=65536", "video?clips=4294967295&frames=drawn",
                     "video?clips=1000000&shortest=100&longest=100&size=100", "tiny?features=4294967295", "tiny?labels=2147483648",
                     "tiny?rows_train=4294967295", "criteo", "criteo-terabyte", "amazon670k?scale=50"):
            with self.subTest(spec=spec):
                done = self.limited(resource.RLIMIT_AS, limit, "data", "info", "generate:" + spec, code=4)
                self.check_refusal(done.stderr, ("", "of memory"), True)
        self.limited(resource.RLIMIT_AS, limit, "data", "info", "--image", "64x1024x1024", "in.txt", code=4)


class Outputs(FilesTest):
    def test_two_outputs_never_share_a_file(self):
        (self.folder / "dangling").symlink_to("t.json")
        self.refuse_all([*RUN, "--overwrite"], (
            *((["--trace", first, "-o", second], ("", first)) for first, second in
              (("t.json", "./t.json"), ("t.json", "dangling"), ("-", "-"), ("-", "/dev/stdout"))),
            ("--dump-parameters x --dump-initial-parameters x", ("--dump-parameters", "--dump-initial-parameters"))))
        self.assertFalse((self.folder / "t.json").exists())

    def test_nothing_that_exists_is_replaced_unasked(self):
        self.write("old", "precious")
        for command in (*([*RUN, option] for option in sorted(WRITTEN - {"--checkpoint"})), [*RUN, "-o", "new.json", "--resume", "--trace"],
                        ["tune", *RUN[1:], "-o"], ["calibrate", "-o"], ["calibrate", "network", "-o"], ["bench", "all_reduce", "-o"],
                        ["data", "convert", "in.txt"]):
            self.refused([*command, "old"], "old", "--overwrite")
        self.assertEqual((self.folder / "old").read_text(), "precious")
        self.run_program(*RUN, "--trace", "old", "--overwrite")
        self.assertIn("traceEvents", self.result("old"))

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
        run = ["--train", "none.txt", "--epochs", "1"]
        for command in (*(["train", *run, option] for option in sorted(WRITTEN)), ["tune", *run, "-o"], ["data", "convert", "none.txt"],
                        ["calibrate", "-o"], ["calibrate", "network", "-o"], ["bench", "all_reduce", "-o"]):
            self.refuse_all(command, ((["nope/x"], ("nope/x", "No such file or directory")), (["folder"], ("folder", "Is a directory"))))
        self.refused(["data", "generate", "tiny", "nope/x"], "nope/x_train.txt")
        self.refused(["train", *run, "--log-dir", "in.txt"], ("--log-dir", "in.txt"), code=1)

    def test_of_two_runs_with_one_output_none_is_lost(self):
        """Whichever comes later is refused at its start, or keeps its result under another name and says so."""
        runs = [self.start(*RUN, "--epochs", "8", "--seed", str(seed), "-o", "same.json") for seed in (1, 2)]
        ended = [(run.communicate(timeout=LIMIT_S)[1], run.returncode) for run in runs]
        codes = sorted(code for _, code in ended)
        self.assertIn(codes, ([0, 1], [0, 2]), ended)
        kept = [json.loads(path.read_text())["config"]["seed"] for path in self.folder.glob("same*.json")]
        self.assertEqual(sorted(kept), [1, 2] if codes[1] == 1 else [kept[0]])
        said = next(text for text, code in ended if code != 0)
        self.assertIn("another process" if codes[1] == 1 else "the file exists", said)

    def test_a_model_that_cannot_be_kept_costs_no_result(self):
        self.run_program(*RUN, "-o", "r.json", "--dump-parameters", "/dev/full", code=1)
        self.assertEqual(self.result("r.json")["status"], "completed")


class Checkpoints(FilesTest):
    """All files of a checkpoint are outputs: those before the last, and those of ranks."""
    CUT = [*RUN, "--batch-size", "16", "--mega-batch", "1", "--checkpoint-every", "1"]

    def test_what_lies_where_older_ones_go_stays(self):
        os.link(self.folder / "in.txt", self.folder / "in.1")
        (self.folder / "q.1").mkdir()
        self.write("k.3", "precious")
        self.refuse_all([*self.CUT, "--overwrite", "--checkpoint"], (
            ("in", ("--checkpoint", "in.1", "--train"), KEPT), ("q", ("q.1", "Is a directory")),
            ("r --output r.1", ("--output", "r.1", "--checkpoint")), ("r --record-timeline r.1", ("--checkpoint", "r.1"))))
        for more in (["--overwrite"], []):
            self.refused([*self.CUT, *more, "--checkpoint", "k", "--checkpoint-keep", "5"], ("--checkpoint", "k.3"), code=4)
        self.assertEqual((self.folder / "k.3").read_text(), "precious")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir() if path.name != "cache"), ["in.1", "in.txt", "k.3", "q.1"])

    def test_older_ones_are_replaced_on_demand_only(self):
        self.run_program(*self.CUT, "--checkpoint", "c")
        (self.folder / "c").rename(self.folder / "kept")
        self.refused([*self.CUT, "--checkpoint", "c"], "c.1", "--resume-from")
        self.run_program(*self.CUT, "--checkpoint", "c", "--overwrite")
        for source in ("c", "./c.1"):
            self.run_program(*self.CUT, "--checkpoint", "c", "--overwrite", "--resume-from", source)
        self.refused([*self.CUT, "--checkpoint", "kept", "--overwrite", "--resume-from", "kept.1"], "kept.1: cannot open", code=4)

    def test_neither_streams_nor_pipes(self):
        os.mkfifo(self.folder / "pipe")
        for name in ("-", "/dev/null", "/dev/fd/1", "pipe"):
            self.refused([*self.CUT, "--overwrite", "--checkpoint", name], ("--checkpoint", name))
        self.assertFalse(os.path.exists("/dev/null.1"))
        self.refused([*self.CUT, "--resume-from", "pipe"], "pipe", code=4)
        for option, name in (("--tensorboard", "events.out.tfevents.hetsgd"), ("--log-dir", "rank_0.log")):
            (self.folder / option).mkdir()
            os.mkfifo(self.folder / option / name)
            self.refused([*RUN, option, f"./{option}"], (option, name))

    def test_a_rerun_is_cut_for_the_same_reasons(self):
        for more in (["--checkpoint-every", "2"], ["--checkpoint-every", "never", "--checkpoint-at", "40"]):
            self.run_program(*self.CUT, *more, "--checkpoint", "c", "-o", "a.json", "--overwrite")
            self.run_program("rerun", "a.json", "-o", "b.json", "--overwrite")
            a, b = self.result("a.json"), self.result("b.json")
            self.assertGreater(len(a["segments"]), 0)
            self.assertEqual(without_host(a), without_host(b))


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
        with open(self.folder / "three.json", "wb") as file:
            self.run_program(*RUN, "-o", f"/dev/fd/{file.fileno()}", pass_fds=[file.fileno()])
        self.run_program("validate", "three.json")
        self.refused([*RUN, "-o", "/dev/fd/77"], ("/dev/fd/77", "Bad file descriptor"))

    def test_a_pipe_gets_one_document(self):
        os.mkfifo(self.folder / "pipe")
        reader = subprocess.Popen(["cat", "pipe"], cwd=self.folder, stdout=subprocess.PIPE)
        self.addCleanup(reader.stdout.close)
        self.run_program(*RUN, "--epochs", "3", "--mega-batch", "1", "-o", "pipe")
        result = json.loads(reader.communicate(timeout=LIMIT_S)[0])
        self.assertEqual(result["status"], "completed")
        self.assertGreater(len(result["curve"]), 3)

    def test_a_pipe_without_a_reader_does_not_hold_the_program(self):
        os.mkfifo(self.folder / "pipe")
        for arguments in ([*RUN, "-o", "pipe"], [*RUN, "-o", "pipe", "--resume"], [*RUN, "--trace", "pipe"],
                          ["data", "convert", "--to", "xc", "in.txt", "pipe"]):
            self.refused(arguments, "pipe", code=1)

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
        self.write("delays.csv", "rank,iteration,delay_s\n*,0,0.001\n")
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
        summary = self.json_of("data", "info", "--json", self.NAME)
        self.assertEqual(summary["path"], "bytes:caf%E9\x1b[31m%2541.txt")

    def test_no_name_commands_the_terminal(self):
        shown = r"caf\xe9\x1b[31m%41.txt"
        self.assertIn(shown, self.run_program("data", "info", self.NAME).stdout)
        self.assertIn(shown, self.run_program("data", "verify", self.NAME).stdout)
        for arguments in (["validate", self.NAME], ["compare", self.NAME], ["rerun", self.NAME],
                          ["train", "--epochs", "1", "--train", b"no" + self.NAME], ["train", "--config", b"no" + self.NAME],
                          [self.NAME], ["train", b"--" + self.NAME], ["data", "info", b"--x\x1b=1", "y"]):
            done = self.run_program(*arguments, code=(2, 4), text=False)
            said = (done.stdout + done.stderr).decode()  # UTF-8
            self.assertRegex(said, r"\\x1b")
            self.assertNotRegex(said, "[\x00-\x09\x0b-\x1f\x7f-\x9f]")
        self.refused(["train", "--config", self.write("c.json", {"\x1b]0;x\x07\x9b": 1})], r"c.json: \x1b]0;x\x07\u009b")
