"""Runs the program under test, in a folder of its own and without the caller's HETSGD_ variables."""

import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

BINARY = os.environ.get("HETSGD_BINARY", "hetsgd")
TINY = ["--train", "generate:tiny", "--test", "generate:tiny", "--batch-size", "64"]
# When a command or a wait counts as hanging, on however busy a machine: far beyond the seconds that any of them takes.
LIMIT_S = 600
# What depends on the host and its load; all other keys are a function of options and seed.
HOST_KEYS = ("environment", "wall", "started_at", "finished_at")


class ProgramTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="hetsgd-cli-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def environment(self, extra=None):
        kept = {k: v for k, v in os.environ.items() if not k.startswith("HETSGD_")}
        return {**kept, "HETSGD_CACHE_DIR": str(self.folder / "cache"), **(extra or {})}

    def start(self, *arguments, env=None):
        return subprocess.Popen([BINARY, *arguments], cwd=self.folder, env=self.environment(env),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run_program(self, *arguments, code=0, env=None, stdout=subprocess.PIPE):
        done = subprocess.run([BINARY, *arguments], cwd=self.folder, env=self.environment(env),
                              stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S,
                              check=False)
        self.assertEqual(done.returncode, code,
                         f"{arguments}\nstdout: {done.stdout}\nstderr: {done.stderr}")
        return done

    def error(self, *arguments, code, env=None):
        """What the program says on stderr when it fails with `code`."""
        return self.run_program(*arguments, code=code, env=env).stderr

    def train(self, output, *more, code=0, env=None):
        arguments = ["train", *TINY, "-o", output, *more]
        if not any(flag in more for flag in ("--epochs", "--max-samples", "--max-time")):
            arguments += ["--epochs", "1"]
        return self.run_program(*arguments, code=code, env=env)

    def result(self, name):
        return json.loads((self.folder / name).read_text())

    def wait_for(self, condition, what):
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(0.05)
        self.fail(f"waited {LIMIT_S} s for {what}")


def without_host(result):
    return {key: value for key, value in result.items() if key not in HOST_KEYS}
