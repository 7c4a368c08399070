"""The program under mpirun."""

import json
import pathlib
import shutil
import subprocess

from program import BINARY, LIMIT_S, ProgramTest

MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
RUN = ["train", "--train", "generate:tiny", "--test", "generate:tiny", "--hidden", "32", "--batch-size", "32",
       "--mega-batch", "40", "--learning-rate", "0.3"]


def version():
    """What the program says of itself."""
    return json.loads(subprocess.run([BINARY, "--version", "--json"], stdout=subprocess.PIPE, check=True).stdout)


def has_mpi():
    return bool(shutil.which("mpirun")) and version()["features"]["mpi"]


class MpiTest(ProgramTest):
    def launch(self, ranks, command, env=None):
        return subprocess.Popen(["mpirun", "-n", str(ranks), *command], cwd=self.folder,
                                env=self.environment({**MPI, **(env or {})}), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def shell(self, ranks, command):
        return self.launch(ranks, ["sh", "-c", command])

    def mpirun(self, ranks, *arguments, env=None):
        return self.launch(ranks, [BINARY, *arguments], env)

    def finished(self, process, code):
        stdout, stderr = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, code, stdout + stderr)
        return stderr

    @staticmethod
    def pid_of_rank(process, rank):
        """The process of a rank: the launcher starts them in the order of ranks."""
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        return sorted(int(pid) for pid in children.split())[rank]

    def wait_for_curve(self, output):
        self.wait_for((self.folder / output).exists, "the first evaluation")
        self.wait_for(lambda: len(self.result(output)["curve"]) > 1, "the second evaluation")
