"""Runs the program under test, in a folder of its own and without the caller's HETSGD_ variables.

What it refuses is judged by exit code, by the option or place that it names and by whether there is a hint (`refused`).
The words of a message are pinned beside the code that makes it, in the unit tests.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

os.environ.setdefault("HETSGD_PYTHON", sys.executable)  # of the commands that judge results
BINARY = os.environ.get("HETSGD_BINARY", "hetsgd")
TINY = ["--train", "generate:tiny", "--test", "generate:tiny", "--batch-size", "64"]
# When a command or a wait counts as hanging, on however busy a machine: far beyond the seconds that any of them takes.
LIMIT_S = 600
# Keys that depend on the host and its load; all others are a function of options and seed.
HOST_KEYS = ("environment", "wall", "started_at", "finished_at")


class ProgramTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="hetsgd-cli-")))
        # Open MPI has its sessions there (own_sessions() of mpi_program.py).
        self.sessions = self.enterContext(tempfile.TemporaryDirectory(prefix="hetsgd-mpi-", ignore_cleanup_errors=True))

    def environment(self, extra=None):
        kept = {k: v for k, v in os.environ.items() if not k.startswith("HETSGD_")}
        return {**kept, "HETSGD_PYTHON": sys.executable, "HETSGD_CACHE_DIR": str(self.folder / "cache"), "TMPDIR": self.sessions, **(extra or {})}

    def start(self, *arguments, env=None):
        process = subprocess.Popen([BINARY, *arguments], cwd=self.folder, env=self.environment(env),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        return process

    def run_program(self, *arguments, code=0, env=None, **more):
        """`code`: the exit code that is expected, or several. `more` goes to subprocess.run()."""
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **more}
        done = subprocess.run([BINARY, *arguments], cwd=self.folder, env=self.environment(env), timeout=LIMIT_S, check=False,
                              **streams)
        self.assertIn(done.returncode, (code,) if isinstance(code, int) else code,
                      f"{arguments}\nstdout: {done.stdout}\nstderr: {done.stderr}")
        return done

    def json_of(self, *arguments, env=None):
        """The standard output of the program."""
        return json.loads(self.run_program(*arguments, env=env).stdout)

    def refused(self, arguments, names, hint=None, code=2, env=None):
        """The program ends with `code` and says so once, by `names`: the option or place at fault, and more that stands in
        its line. hint: True if there has to be one, a text if it has to hold that. Returns all that was said."""
        said = self.run_program(*arguments, code=code, env=env).stderr
        self.check_refusal(said, names, hint)
        return said

    def check_refusal(self, said, names, hint=None):
        lines = [line for line in said.splitlines() if line.startswith("error: ")]
        self.assertEqual(len(lines), 1, said)
        self.assertNotRegex(said, "a bug in .*hetsgd")
        first, *others = (names,) if isinstance(names, str) else names
        self.assertRegex(lines[0], rf"^error: {re.escape(first)}" + (r"(?![\w-])" if first else ""))
        for each in others:
            self.assertIn(each, lines[0])
        if hint is not None:
            self.assertIn("" if hint is True else hint, said.partition("\nhint: ")[2])
            self.assertIn("\nhint: ", said)

    def refuse_all(self, base, cases, code=2, env=None):
        """refused() of `base` with the options of each case (options, names, hint); the options may be one text."""
        for options, *expected in cases:
            with self.subTest(options):
                self.refused([*base, *(options.split() if isinstance(options, str) else options)], *expected, code=code, env=env)

    def train(self, output, *more, code=0, env=None):
        arguments = ["train", *TINY, "-o", output, *more]
        if not any(flag in more for flag in ("--epochs", "--max-samples", "--max-time")):
            arguments += ["--epochs", "1"]
        return self.run_program(*arguments, code=code, env=env)

    def two_cores(self):
        """Two cores, to which the programs of this test are bound from now on."""
        cores = os.sched_getaffinity(0)
        if len(cores) < 2:
            self.skipTest("one core")
        self.addCleanup(os.sched_setaffinity, 0, cores)
        os.sched_setaffinity(0, sorted(cores)[:2])
        return sorted(cores)[:2]

    def write(self, name, content):
        """A file of this text, or of this JSON. Its name."""
        (self.folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
        return name

    def result(self, name):
        return json.loads((self.folder / name).read_text())

    def commands(self):
        """All that the program can do, by its own help."""
        listed = self.run_program("--help").stdout.split("\nUsage: ")[1]
        return re.findall(r"^  ([a-z][\w-]*(?: [a-z][\w-]*)?)(?:  |$)", listed, re.M)

    def wait_for(self, condition, what):
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(0.05)
        self.fail(f"waited {LIMIT_S} s for {what}")

    def check_schema(self, schema, document):
        """`schema` is one of draft 7 and describes the document."""
        try:
            import jsonschema
        except ImportError:
            self.skipTest("python3-jsonschema is not installed")
        jsonschema.Draft7Validator.check_schema(schema)
        jsonschema.Draft7Validator(schema).validate(document)


def without_host(result):
    return {key: value for key, value in result.items() if key not in HOST_KEYS}
