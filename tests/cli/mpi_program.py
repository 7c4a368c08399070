"""The program under mpirun."""

import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

from program import BINARY, LIMIT_S, ProgramTest

MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
RUN = ["train", "--train", "generate:tiny", "--test", "generate:tiny", "--hidden", "32", "--batch-size", "32",
       "--mega-batch", "40", "--learning-rate", "0.3"]


def version():
    """The version that the program reports."""
    return json.loads(subprocess.run([BINARY, "--version", "--json"], stdout=subprocess.PIPE, check=True).stdout)


def has_mpi():
    return bool(shutil.which("mpirun")) and version()["features"]["mpi"]


def own_sessions(folder):
    """The variable that gives one mpirun a folder of its own below `folder` for its sessions. Of two that share one, the first to
    end may remove what the other has begun to make."""
    return {"TMPDIR": tempfile.mkdtemp(prefix="", dir=folder)}


class MpiTest(ProgramTest):
    def launch(self, ranks, command, env=None):
        return subprocess.Popen(["mpirun", "-n", str(ranks), *command], cwd=self.folder,
                                env=self.environment({**MPI, **own_sessions(self.sessions), **(env or {})}), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def mpirun(self, ranks, *arguments, env=None):
        return self.launch(ranks, [BINARY, *arguments], env)

    def finished(self, process, code):
        return self.said(process, code)[1]

    def said(self, process, code=0):
        """The two outputs of a process, when it has ended with this code."""
        stdout, stderr = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, code, stdout + stderr)
        return stdout, stderr

    def beside_sim(self, ranks, run, *more, env=None):
        """The results of a run under mpirun, which has `more` options there, and of the same run simulated."""
        self.finished(self.mpirun(ranks, *run, *more, "--overwrite", "-o", "mpi.json", env=env), 0)
        self.run_program(*run, "--workers", str(ranks), "--overwrite", "-o", "sim.json")
        return self.result("mpi.json"), self.result("sim.json")

    def expect_same_curve(self, results, keys=("samples_count", "test_loss", "p1", "updates")):
        """Whatever the timing, some runs make the same updates in the same order: the same bits."""
        curves = [[[point[key] for key in keys] for point in result["curve"]] for result in results]
        self.assertEqual(*curves)
        self.assertGreater(len(curves[0]), 1)

    @staticmethod
    def pid_of_rank(process, rank):
        """The process of a rank: the launcher starts them in the order of ranks."""
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        return sorted(int(pid) for pid in children.split())[rank]

    def wait_for_curve(self, output):
        self.wait_for((self.folder / output).exists, "the first evaluation")
        self.wait_for(lambda: len(self.result(output)["curve"]) > 1, "the second evaluation")


def search_main(description, search):
    """The command line of a script whose search(binary, runs, seed) makes random runs and returns the faults, as texts."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    found = search(os.environ.get("HETSGD_BINARY", "hetsgd"), options.runs, options.seed)
    print("\n".join(found + [f"{options.runs - len(found)} of {options.runs} runs ended well"]))
    sys.exit(1 if found else 0)
