"""The program starts the package that judges results: from a build tree, an install and a hostile folder, and says what is missing."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("HETSGD_BINARY", "hetsgd")
COMMANDS = json.loads((ROOT / "scripts/hetsgd/commands.json").read_text(encoding="utf-8"))


class Program(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="hetsgd-judge-")))

    def run_program(self, *arguments, binary=BINARY, **variables):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("HETSGD_")}
        environment |= {"HETSGD_PYTHON": sys.executable, "HETSGD_CACHE_DIR": str(self.folder / "cache"), **variables}
        return subprocess.run([binary, *arguments], cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              check=False)

    def train(self):
        done = self.run_program("train", "--train", "generate:tiny", "--test", "generate:tiny", "--epochs", "1", "-o", "r.json")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_versions_are_one(self):
        init = (ROOT / "scripts/hetsgd/__init__.py").read_text(encoding="utf-8")
        version = re.search(r'__version__ = "([^"]+)"', init).group(1)
        self.assertEqual(json.loads(self.run_program("--version", "--json").stdout)["version"], version)

    def test_help_needs_no_python(self):
        for command in COMMANDS:
            done = self.run_program(command["name"], "--help", HETSGD_PYTHON="/nowhere")
            self.assertEqual(done.returncode, 0, done.stderr)
            for option in command["options"]:
                self.assertIn("--" + option["name"].replace("_", "-"), done.stdout)
        done = self.run_program("compare", "r.json", "--referense", "x", HETSGD_PYTHON="/nowhere")
        self.assertEqual((done.returncode, "did you mean --reference?" in done.stderr), (2, True), done.stderr)

    def test_a_folder_of_modules_is_not_searched(self):
        self.train()
        (self.folder / "hetsgd").mkdir()
        for name in ("json.py", "numpy.py", "argparse.py", "hetsgd/__init__.py", "hetsgd/cli.py"):
            (self.folder / name).write_text("raise SystemExit('a file of this folder was run')\n", encoding="utf-8")
        for command in ("compare", "validate"):
            done = self.run_program(command, "r.json")
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_is_missing_is_said(self):
        self.train()
        done = self.run_program("compare", "r.json", HETSGD_PYTHON="/nowhere/python3")
        self.assertEqual(done.returncode, 1)
        self.assertIn("error: /nowhere/python3: cannot start it", done.stderr)
        self.assertIn("HETSGD_PYTHON", done.stderr)
        bare = self.folder / "bare"
        bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n', encoding="utf-8")  # without the modules of the site
        bare.chmod(0o755)
        done = self.run_program("compare", "r.json", HETSGD_PYTHON=str(bare))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"^error: Python \(.*\) has no module numpy: .* -m pip install numpy, or apt-get install python3-numpy")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_an_install_has_the_package(self):
        build = os.environ.get("HETSGD_BUILD_DIR")
        if not build:
            self.skipTest("HETSGD_BUILD_DIR names no build")
        prefix = self.folder / "prefix"
        subprocess.run(["cmake", "--install", build, "--prefix", prefix], stdout=subprocess.DEVNULL, check=True)
        self.train()
        installed = str(prefix / "bin" / "hetsgd")
        for arguments in (["compare", "r.json"], ["report", "r.json"], ["validate", "r.json"], ["score", "--schema"]):
            done = self.run_program(*arguments, binary=installed)
            self.assertEqual(done.returncode, 0, done.stderr)
        shutil.rmtree(prefix / "share")
        done = self.run_program("compare", "r.json", binary=installed)
        self.assertEqual(done.returncode, 1)
        self.assertIn("error: found no package hetsgd", done.stderr)

    def test_another_version_is_refused(self):
        self.train()
        done = subprocess.run([sys.executable, "-m", "hetsgd", "compare", "r.json"], cwd=self.folder, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "PYTHONPATH": str(ROOT / "scripts"), "HETSGD_VERSION": "9.9.9"}, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("expected 9.9.9, the version of the program", done.stderr)

    def test_a_pipe_that_closes_ends_it_quietly(self):
        self.train()
        environment = {**os.environ, "HETSGD_PYTHON": sys.executable}
        done = subprocess.run(f"{BINARY} compare {'r.json ' * 200} --runs | head -n 1", shell=True, cwd=self.folder, env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        self.assertNotIn("Traceback", done.stderr)
