"""The examples of scripts/examples: those for one machine run, also those in Python, the others are at least what a shell can read."""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "scripts" / "examples"
HETSGD = os.environ["HETSGD_BINARY"]
LIMIT_S = 600  # when a command counts as hanging, on however busy a machine
RUN = ["--train", "generate:tiny", "--test", "generate:tiny", "--hidden", "8", "--epochs", "1", "--batch-size", "32",
       "--mega-batch", "10", "--quiet"]


def has_mpi():
    version = subprocess.run([HETSGD, "--version", "--json"], stdout=subprocess.PIPE, check=True).stdout
    return shutil.which("mpirun") and json.loads(version)["features"]["mpi"]


class Examples(unittest.TestCase):
    def test_the_fair_comparison_of_the_readme(self):
        with tempfile.TemporaryDirectory() as folder:
            for command in (["sweep", EXAMPLES / "fair.toml", "-o", folder],
                            ["report", folder, "-o", pathlib.Path(folder) / "report.html"]):
                done = subprocess.run([HETSGD, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S,
                                      check=False)
                self.assertEqual(done.returncode, 0, done.stdout)
            results = [json.loads(path.read_text()) for path in pathlib.Path(folder, "runs").glob("*.json")]
        runs = sorted((result["config"]["algorithm"], result["config"]["seed"]) for result in results)
        self.assertEqual(runs, [(algorithm, seed) for algorithm in ("adaptive", "asgd", "elastic", "ssgd") for seed in range(1, 11)])
        for result in results:
            self.assertEqual((result["status"], len(result["tuning"]["grid"])), ("completed", 5))

    def test_shells_can_read_all(self):
        examples = sorted(path for path in EXAMPLES.iterdir() if path.suffix in (".sh", ".sbatch"))
        self.assertEqual(len(examples), 7)
        for example in examples:
            subprocess.run(["bash", "-n", example], check=True)

    def run_python(self, name, *arguments):
        done = subprocess.run([sys.executable, EXAMPLES / name, *arguments], env={**os.environ, "PYTHONPATH": str(ROOT / "scripts")},
                              capture_output=True, text=True, timeout=LIMIT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    @unittest.skipUnless(importlib.util.find_spec("pandas") and importlib.util.find_spec("matplotlib"), "no pandas, or no Matplotlib")
    def test_the_notebook(self):
        with tempfile.TemporaryDirectory() as folder:
            said = self.run_python("notebook.py", folder)
            self.assertEqual(len(list(pathlib.Path(folder).glob("*.json"))), 12)
            self.assertEqual(sorted(path.name for path in pathlib.Path(folder, "plots").iterdir()),
                             ["accuracy_over_time.svg", "time_to_target.svg", "utilisation.svg"])
        # All six pairs of seeds have one sign.
        self.assertRegex(said, r"asgd +6 +6 .* 0\.03125\n")

    @unittest.skipUnless(importlib.util.find_spec("optuna"), "no Optuna")
    def test_the_study_of_optuna(self):
        self.assertRegex(self.run_python("optuna_study.py", "3"), r"^best: \{'learning_rate': .*\}; on test data .* s\n$")


@unittest.skipUnless(has_mpi(), "no mpirun, or built without MPI")
class UnderMpirun(unittest.TestCase):
    def run_example(self, name, ranks, algorithm, **more):
        environment = {**os.environ, "HETSGD": HETSGD, "RANKS": str(ranks), "OMPI_ALLOW_RUN_AS_ROOT": "1",
                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **more}
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            output = pathlib.Path(folder) / "result.json"
            # TMPDIR: two mpirun that share a folder of sessions may fail, where one begins as the other ends.
            done = subprocess.run([EXAMPLES / name, *RUN, "--algorithm", algorithm, "-o", output], env={**environment, "TMPDIR": folder},
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, check=False)
            self.assertEqual(done.returncode, 0, done.stdout)
            result = json.loads(output.read_text())
        self.assertEqual(result["status"], "completed")
        self.assertEqual(result["config"]["cluster"], "mpi")
        self.assertEqual(len(result["workers"]), ranks)

    def test_one_node(self):
        self.run_example("one-node.sh", min(2, os.cpu_count()), "esync")
        self.run_example("oversubscribe.sh", 5, "asgd")

    def test_several_nodes_with_this_one_as_the_only_node(self):
        with tempfile.NamedTemporaryFile("w", suffix=".hosts") as hosts:
            hosts.write("localhost slots=2\n")
            hosts.flush()
            self.run_example("several-nodes.sh", 2, "ssgd", HOSTFILE=hosts.name, USER="tester",
                             OMPI_MCA_hwloc_base_binding_policy="none")

    def test_two_kinds_are_one_world_in_the_order_of_kinds(self):
        # An srun that does with mpirun what Slurm does: each component, parted by a colon, has its ranks, in this order.
        with tempfile.TemporaryDirectory() as folder:
            srun = pathlib.Path(folder, "srun")
            srun.write_text("""#!/usr/bin/env bash
args=(--oversubscribe -n 1) group=0
for word in "$@"; do
  case "$word" in
    --mpi=*|--cpu-bind=*) ;;
    --het-group=*) [[ $word == --het-group=$group ]] || exit 9; group=$((group + 1)) ;;
    :) args+=(: -n 2) ;;
    cuda:auto) args+=(cpu:1) ;;
    *) args+=("$word") ;;
  esac
done
exec mpirun "${args[@]}"
""")
            srun.chmod(0o755)
            self.run_example("slurm-two-kinds.sbatch", 3, "asgd", PATH=f"{folder}:{os.environ['PATH']}", USER="tester", SLURM_SUBMIT_DIR=folder)
