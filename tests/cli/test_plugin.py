"""Algorithms and models from outside the tree: the examples of their READMEs, built against an installed hetsgd."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from mpi_program import MpiTest, has_mpi, version
from program import BINARY, TINY, without_host

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ.get("HETSGD_BUILD_DIR", "")
COMPILER = os.environ.get("HETSGD_COMPILER", "c++")
RUN = ["--algorithm", "averaging", "--workers", "2", "--mega-batch", "5"]


def blocks(language, folder="algorithm"):
    """The fenced blocks of a folder's README in one language."""
    text = (ROOT / "lib" / folder / "README.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@unittest.skipUnless(BUILD and shutil.which("cmake"), "needs HETSGD_BUILD_DIR, the folder of a build, and cmake")
class Plugin(MpiTest):
    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="hetsgd-plugin-")))
        cls.prefix, source, build = (folder / name for name in ("prefix", "source", "build"))
        source.mkdir()
        scaled, = [block for block in blocks("cpp", "model") if "scaled-mlp" in block]
        files = {"scaled_mlp": scaled, "unregistered": "", "remembering": blocks("cpp")[1], "leaving": "#include <cstdlib>\nconst int value = (std::exit(0), 1);\n",
                 "throwing": '#include <stdexcept>\nconst int value = (throw std::runtime_error("no table"), 1);\n',
                 "unfinished": "void missing(int);\nconst int value = (missing(1), 1);\n"}
        if has_mpi():
            files["visiting"], = [block for block in blocks("cpp") if '"visiting"' in block]
            guard = "while (self.running()) {"
            uneven = f"{guard}\n      if (self.rank() == 1 && !self.running()) return;\n"
            files["uneven"] = blocks("cpp")[0].replace("averaging", "uneven").replace(guard, uneven)
        for name, text in {"averaging": blocks("cpp")[0], **files}.items():
            (source / f"{name}.cpp").write_text(text)
        (source / "CMakeLists.txt").write_text(blocks("cmake")[0] + "".join(f"hetsgd_add_plugin({name} {name}.cpp)\n" for name in files))
        for command in (["cmake", "--install", BUILD, "--prefix", cls.prefix],
                        ["cmake", "-G", "Ninja", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={cls.prefix}",
                         f"-DCMAKE_CXX_COMPILER={COMPILER}"],
                        ["cmake", "--build", build]):
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            if done.returncode != 0:
                raise AssertionError(f"{command}\n{done.stdout}")
        cls.built = build
        cls.plugin = build / "libaveraging.so"

    def copy(self, name, *replaced):
        """The plugin with other bytes: (old, new) of the same length."""
        data = self.plugin.read_bytes()
        for old, new in replaced:
            self.assertEqual((len(old), data.count(old)), (len(new), 1), old)
            data = data.replace(old, new)
        (self.folder / name).write_bytes(data)
        return name

    def refuse(self, file, names, code=2):
        self.refused(["train", *TINY, *RUN, "--epochs", "1", "--plugin", str(file)], names, code=code)

    def test_the_installed_program_runs(self):
        done = subprocess.run([self.prefix / "bin" / "hetsgd", "--version"], stdout=subprocess.PIPE, text=True, check=True)
        self.assertEqual(done.stdout, self.run_program("--version").stdout)

    def test_a_model_runs_as_one_of_the_tree_does(self):
        plugin = ["--plugin", str(self.built / "libscaled_mlp.so")]
        self.assertIn("--width-factor", self.run_program("models", "scaled-mlp", *plugin).stdout)
        run = ["--algorithm", "elastic", "--workers", "2", "--mega-batch", "5", *plugin, "--model", "scaled-mlp"]
        self.train("scaled.json", *run, "--width-factor", "2")
        self.run_program("validate", "scaled.json")
        result = self.result("scaled.json")
        self.assertEqual((result["config"]["model"], result["config"]["width_factor"]), ("scaled-mlp", 2))
        self.assertEqual([entry["name"] for entry in result["plugins"]], ["scaled_mlp"])

    def test_runs_as_an_algorithm_of_the_tree_does(self):
        plugin = ["--plugin", str(self.plugin)]
        self.train("sim.json", *plugin, *RUN, "--keep", "0.25")
        self.train("threads.json", *plugin, *RUN, "--cluster", "threads", "--devices", "cpu:1")
        self.train("environment.json", *RUN, "--keep", "0.25", env={"HETSGD_PLUGIN": str(self.plugin)})
        self.run_program("validate", "sim.json", "threads.json")
        result = self.result("sim.json")
        self.assertEqual((result["config"]["algorithm"], result["config"]["keep"]), ("averaging", 0.25))
        entry, = result["plugins"]
        self.assertEqual((entry["name"], entry["path"]), ("averaging", str(self.plugin)))
        self.assertRegex(entry["file_hash"], "^xxh3:[0-9a-f]{16}$")
        self.assertLess(result["curve"][-1]["test_loss"], result["curve"][0]["test_loss"])
        self.assertEqual(result["curve"], self.result("environment.json")["curve"])
        # a result as configuration brings the plugin along
        self.train("config.json", "--config", "sim.json")
        self.assertEqual(result["curve"], self.result("config.json")["curve"])

    def test_is_described_and_completed(self):
        plugin = ["--plugin", str(self.plugin)]
        self.assertRegex(self.run_program("algorithms", *plugin).stdout, "(?m)^averaging ")
        self.assertNotRegex(self.run_program("algorithms").stdout, "(?m)^averaging ")
        self.assertIn("--keep", self.run_program("algorithms", "averaging", *plugin).stdout)
        self.assertIn("--keep NUMBER", self.run_program("train", *plugin, *RUN, "--help").stdout)
        self.assertIn(" averaging ", self.run_program("completion", "bash", *plugin).stdout)
        self.refused(["train", *TINY, *RUN], ("--algorithm", '"averaging"'))

    @unittest.skipUnless(has_mpi(), "no mpirun, or built without MPI")
    def test_runs_under_mpirun(self):
        run = ["train", *TINY, *RUN[:2], "--mega-batch", "5", "--epochs", "1", "--plugin"]
        self.finished(self.mpirun(2, *run, str(self.plugin), "-o", "mpi.json"), 0)
        self.train("sim.json", *RUN, "--plugin", str(self.plugin))
        losses = [[point["test_loss"] for point in self.result(name)["curve"]] for name in ("mpi.json", "sim.json")]
        self.assertEqual(losses[0], losses[1])
        other = self.copy("other.so", (b"Workers step alone", b"Workers walk alone"))
        both = [BINARY, *run, str(self.plugin), ":", "-n", "1", BINARY, *run, other]
        self.assertRegex(self.finished(self.launch(1, both), 2),
                         r"the content of --plugin is averaging xxh3:\w+ on rank 0, averaging xxh3:\w+ on rank 1")
        none = [BINARY, *run, str(self.plugin), ":", "-n", "1", BINARY, *run[:-1]]
        self.finished(self.launch(1, none), 2)

    @unittest.skipUnless(has_mpi(), "no mpirun, or built without MPI")
    def test_workers_that_call_running_unequally_are_stopped(self):
        stderr = self.finished(self.mpirun(2, "train", *TINY, "--algorithm", "uneven", "--mega-batch", "5", "--epochs", "1",
                                           "--plugin", str(self.built / "libuneven.so")), 1)
        calls = re.search(r"running\(\) (\d+) times before evaluation 1, another one (\d+) times: all workers", stderr)
        self.assertTrue(calls, stderr)
        self.assertEqual(int(calls[2]), 2 * int(calls[1]))

    @unittest.skipUnless(has_mpi(), "no mpirun, or built without MPI")
    def test_a_service_is_made_in_another_process(self):
        plugin = ["--plugin", str(self.built / "libvisiting.so"), "--algorithm", "visiting"]
        self.train("sim.json", *plugin, "--workers", "2")
        run = ["train", *TINY, *plugin, "--epochs", "1", "--service-rank", "-o", "mpi.json"]
        self.finished(self.mpirun(3, *run), 0)
        for name in ("sim.json", "mpi.json"):
            curve = self.result(name)["curve"]
            self.assertLess(curve[-1]["test_loss"], curve[0]["test_loss"])

    def test_rerun_wants_the_same_file(self):
        self.copy("mine.so")
        self.train("first.json", *RUN, "--plugin", "mine.so")
        self.run_program("rerun", "first.json", "-o", "again.json")
        first, again = (without_host(self.result(name)) for name in ("first.json", "again.json"))
        self.assertEqual(first, again)
        other = self.copy("other.so", (b"Workers step alone", b"Workers walk alone"))
        (self.folder / "mine.so").rename(self.folder / "moved.so")
        self.refused(["rerun", "first.json", "-o", "r.json"], "first.json: plugins: mine.so", code=4)
        self.assertNotIn("warning", self.run_program("rerun", "first.json", "--plugin", "moved.so", "-o", "r.json").stderr)
        self.assertIn("first.json: the run used the plugin averaging",
                      self.run_program("rerun", "first.json", "--plugin", other, "-o", "r2.json").stderr)
        (self.folder / other).rename(self.folder / "mine.so")
        self.refused(["rerun", "first.json", "-o", "r3.json"], ("first.json: plugins: mine.so", "found xxh3:"))

    def test_is_tuned_and_compared(self):
        plugin = ["--plugin", str(self.plugin)]
        setup = ["--train", "generate:tiny", "--batch-size", "64", "--workers", "2", "--mega-batch", "5", "--epochs", "1"]
        self.run_program("tune", *setup, *plugin, "--algorithms", "averaging,ssgd", "--grid", "0.1,1", "-o", "t.json")
        for algorithm in ("averaging", "ssgd"):
            self.run_program("train", *setup, *plugin, "--test", "generate:tiny", "--algorithm", algorithm, "--tuned", "t.json",
                             "-o", f"{algorithm}.json")
        self.copy("copy.so")
        self.run_program("rerun", "averaging.json", "--plugin", "copy.so", "--seed", "2", "-o", "averaging2.json")
        table = self.run_program("compare", "averaging.json", "averaging2.json", "ssgd.json", "--target", "p1>=0.01").stdout
        self.assertEqual(len(re.findall(r"^(averaging|ssgd) ", table, re.MULTILINE)), 2, table)
        self.assertRegex(table, r"averaging +2/2")

    def test_what_is_no_plugin_for_this_program_is_refused_before_it_runs(self):
        revision = version()["git_revision"].encode()
        other = self.copy("revision.so", (b"revision: " + revision, b"revision: " + b"0" * len(revision)))
        self.refuse(other, ("--plugin", "revision.so", "averaging", "0" * len(revision)))
        self.refuse(self.copy("compiler.so", (b"\ncompiler: G", b"\ncompiler: X")), ("--plugin", "compiler.so", "compiler XNU"))
        self.refuse(self.write("text.so", "no library"), ("--plugin", "text.so", "ELF"))
        self.refuse(shutil.which("cmake"), ("--plugin", "cmake", "ELF"))
        self.refuse("none.so", ("--plugin", "none.so"), code=4)

    def test_a_plugin_that_was_cut_off_is_refused(self):
        data = self.plugin.read_bytes()
        for size in (4, 63, 64, 12000, len(data) // 2, len(data) - 4096, len(data) - 1):
            (self.folder / "cut.so").write_bytes(data[:size])
            with self.subTest(size=size, of=len(data)):
                self.refuse("cut.so", ("--plugin", "cut.so"))

    def test_a_plugin_is_not_replaced(self):
        """Nor is one that only the result names, which is run again."""
        self.copy("mine.so")
        self.train("first.json", *RUN, "--plugin", "mine.so")
        before = (self.folder / "mine.so").read_bytes()
        for arguments in (["train", *TINY, *RUN, "--epochs", "1", "--plugin", "mine.so"], ["rerun", "first.json"]):
            for option in ("--output", "--trace", "--dump-parameters"):
                self.refused([*arguments, option, "mine.so", "--overwrite"], (option, "mine.so"), "--overwrite")
        self.assertEqual((self.folder / "mine.so").read_bytes(), before)

    def test_what_cannot_be_used_says_why(self):
        for name, reason in (("unregistered", "registration"), ("unfinished", "missing(int)"), ("throwing", "no table"),
                             ("leaving", "the end of the process")):
            self.refuse(self.built / f"lib{name}.so", ("--plugin", f"lib{name}.so", reason))
        other = self.copy("other.so", (b"Workers step alone", b"Workers walk alone"))
        self.refused(["train", *TINY, *RUN, "--plugin", str(self.plugin), "--plugin", other], ("--plugin", "other.so", "averaging"))
        # the same file under two names is one plugin
        self.copy("same.so")
        self.train("r.json", *RUN, "--plugin", str(self.plugin), "--plugin", "same.so")
        self.assertEqual(len(self.result("r.json")["plugins"]), 1)
