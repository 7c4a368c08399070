"""scripts/Dockerfile where no container engine is: its instructions are carried out in a folder for each stage.

setup-debian.sh, quickstart.sh and bundle.sh are those of the tree. Stand-ins take the place of what changes the machine
(apt-get, useradd) and of the compiler, whose program is there already.
"""

import fnmatch
import json
import os
import pathlib
import re
import shlex
import shutil
import string
import subprocess
import sys
import tempfile
import unittest

try:
    import matplotlib  # pylint: disable=unused-import
except ImportError as error:
    print(f"skipped: {error}; scripts/setup-debian.sh installs it")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = (ROOT / "scripts" / "Dockerfile").read_text()
LIMIT_S = 600  # when a command counts as hanging, on however busy a machine
STAND_INS = {
    "apt-get": 'echo "apt-get $*" >>"$LOG"; seq 1000',  # as noisy as the real one
    "useradd": 'echo "useradd $*" >>"$LOG"',
    "dpkg-query": "exit 1",  # nothing is installed
    "sudo": 'exec "$@"',
    "cmake": 'echo "cmake $*" >>"$LOG"; mkdir -p build/release/apps/hetsgd; ln -sf "$BUILT" build/release/apps/hetsgd/hetsgd'}
QUICKSTART_LINES = 60  # that quickstart.sh and the packages before it print at most


def instructions():
    """(word, arguments) of each instruction, continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", TEXT, flags=re.MULTILINE)
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.strip():
            word, _, arguments = line.strip().partition(" ")
            yield word, arguments.strip()


def left_out(path):
    """Whether .dockerignore keeps a file of the tree away from the image."""
    for pattern in (ROOT / ".dockerignore").read_text().split("\n"):
        if not pattern or pattern.startswith("#"):
            continue
        parts = pathlib.PurePath(path).parts
        names = parts if pattern.startswith("**/") else ["/".join(parts[:n]) for n in range(1, len(parts) + 1)]
        if any(fnmatch.fnmatchcase(name, pattern.removeprefix("**/")) for name in names):
            return True
    return False


class Image:
    """Carries out instructions: do_FROM, do_COPY, ... An instruction without such a function is an error."""

    def __init__(self, folder, tracked):
        self.folder, self.tracked = folder, tracked
        self.stages, self.users, self.said = {}, set(), {}
        self.log = folder / "log"
        self.log.touch()
        (folder / "bin").mkdir()
        for name, script in STAND_INS.items():
            (folder / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
            (folder / "bin" / name).chmod(0o755)

    def build(self):
        for word, arguments in instructions():
            getattr(self, f"do_{word}")(arguments)

    def inside(self, path):
        """The place of a path of the image."""
        return self.root / str(pathlib.PurePosixPath("/", self.directory, path)).lstrip("/")

    def run(self, command, **more):
        done = subprocess.run(command, cwd=self.inside("."), env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=LIMIT_S, check=False, **more)
        assert done.returncode == 0, f"{command}: exit code {done.returncode}\n{done.stdout}"
        return done.stdout

    def do_FROM(self, arguments):
        found = re.fullmatch(r"debian:12(?:-slim)?(?: AS (\w+))?", arguments)
        assert found, f"FROM: found {arguments}, expected Debian 12"
        self.root = self.folder / f"stage-{len(self.stages)}"
        self.root.mkdir()
        self.stages[found.group(1) or ""] = self.root
        self.directory, self.user, self.entrypoint, self.command = "/", "root", [], []
        self.environment = {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "HOME": str(self.folder), "LOG": str(self.log),
                            "BUILT": os.environ["HETSGD_BINARY"], "HETSGD_PYTHON": sys.executable}  # an image has Debian's

    def do_ARG(self, arguments):
        name, value = arguments.split("=")
        self.environment[name] = value

    def do_ENV(self, arguments):
        for each in shlex.split(arguments):
            name, value = each.split("=")
            value = re.sub(r"(^|:)/", rf"\1{self.root}/", value)
            self.environment[name] = string.Template(value).substitute(self.environment)

    def do_WORKDIR(self, arguments):
        self.directory = arguments
        self.inside(".").mkdir(parents=True, exist_ok=True)

    def do_USER(self, arguments):
        assert f" {arguments}\n" in self.log.read_text(), f"USER: nobody has made {arguments}"
        self.user = arguments

    def do_COPY(self, arguments):
        *sources, target = arguments.split()
        if sources[0].startswith("--from="):
            stage = self.stages[sources.pop(0).partition("=")[2]]
            for source in sources:
                shutil.copytree(stage / source.lstrip("/"), self.inside(target), symlinks=True)
            return
        for source in sources:
            files = [path for path in self.tracked if source in (".", path) or path.startswith(f"{source}/")]
            assert files, f"COPY: git has no {source}"
            assert source not in files or target.endswith("/"), f"COPY: expected a folder, which ends with /, found {target}"
            for path in files:
                assert not left_out(path), f"COPY: .dockerignore leaves {path} out"
                place = self.inside(target) / (pathlib.Path(path).name if path == source else os.path.relpath(path, source))
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / path, place, follow_symlinks=False)

    def do_RUN(self, arguments):
        command = re.sub(r"^(--mount=\S+\s+)*", "", arguments)
        # Here it would be a path of the machine.
        assert not re.search(r"(^|[\s=>])/", command), f"RUN: expected no absolute path, found {command}"
        print(f"RUN {command}", flush=True)
        self.said[command] = self.run(["/bin/sh", "-ec", command])

    def do_ENTRYPOINT(self, arguments):
        self.entrypoint = json.loads(arguments)

    def do_CMD(self, arguments):
        self.command = json.loads(arguments)


class Dockerfile(unittest.TestCase):
    def setUp(self):
        done = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            self.skipTest("no checkout of git")
        self.tracked = [path for path in done.stdout.split("\0") if (ROOT / path).is_file()]

    def test_what_is_left_out_is_what_git_ignores(self):
        self.assertEqual([path for path in [*self.tracked, ".git/HEAD"] if left_out(path)], [])
        for path in ("build/release/apps/hetsgd/hetsgd", "runs/first.json", "scripts/__pycache__/plot.pyc"):
            self.assertTrue(left_out(path), path)

    @unittest.skipUnless(all(map(shutil.which, ("patchelf", "file", "objdump"))), "bundle.sh lacks its tools")
    def test_it_builds_and_runs(self):
        with tempfile.TemporaryDirectory(prefix="hetsgd-image-") as folder:
            image = Image(pathlib.Path(folder), self.tracked)
            image.build()
            log = image.log.read_text().splitlines()
            self.assertEqual([line.split()[:2] for line in log if line.startswith("apt-get")],
                             2 * [["apt-get", "update"], ["apt-get", "install"]])
            self.assertLessEqual({"g++", "python3-matplotlib", "patchelf"}, set(" ".join(log).split()))
            quickstart = image.stages["build"] / "hetsgd" / "runs" / "quickstart"
            self.assertEqual(len(list(quickstart.glob("runs/*.json"))), 3 * 8)
            self.assertTrue(list(quickstart.glob("plots/*.png")))
            said = "".join(text for command, text in image.said.items() if re.search("setup-debian|quickstart", command))
            self.assertLessEqual(len(said.splitlines()), QUICKSTART_LINES, said)
            self.assertRegex(said, r"\nadaptive +8/8 ")
            self.assertNotIn("warning", said)
            # The image runs the program of its own as nobody special, also as the head of the file says.
            self.assertNotEqual(image.user, "root")
            self.assertEqual(shutil.which(image.entrypoint[0], path=image.environment["PATH"]), str(image.root / "opt/hetsgd/bin/hetsgd"))
            self.assertIn("Usage: hetsgd", image.run([*image.entrypoint, *image.command]))
            example, = re.findall(r"^#   docker run .* hetsgd (train .*)", TEXT, re.MULTILINE)
            image.run([*image.entrypoint, *shlex.split(example)])
            self.assertEqual(json.loads(image.inside("first.json").read_text())["status"], "completed")
            self.assertIn("first.json: valid", image.run([*image.entrypoint, "validate", "first.json"]))  # the image's own package
