"""scripts/gpu-check.sh on a made-up build tree: every part is in the JSON, whatever becomes of the others."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "scripts"))
import gpu_check
HETSGD = os.environ["HETSGD_BINARY"]
KEYS = {"name", "command", "status", "reason", "exit_code", "seconds", "figures", "output"}


class GpuCheck(unittest.TestCase):
    def setUp(self):
        self.build = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.build / "apps" / "hetsgd").mkdir(parents=True)
        (self.build / "tests" / "some").mkdir(parents=True)
        (self.build / "apps" / "hetsgd" / "hetsgd").symlink_to(HETSGD)

    def add_test(self, name, script):
        path = self.build / "tests" / "some" / name
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)

    def check(self, code, *arguments):
        output = self.build / "check.json"
        done = subprocess.run([ROOT / "scripts" / "gpu-check.sh", "--build-dir", self.build, "-o", output, *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, code, done.stdout)
        return (json.loads(output.read_text()) if output.exists() else None), done.stdout

    def test_a_part_that_does_not_exist_is_refused(self):
        report, output = self.check(2, "--device", "cpu", "--only", "steptime")
        self.assertIsNone(report)
        for part in ("steptime", "step_time"):
            self.assertIn(f"'{part}'", output)

    def test_all_parts_run_and_a_failure_shows(self):
        self.add_test("a_cuda_test", "echo fine\n")
        self.add_test("b_cuda_test", "echo no such luck; exit 3\n")
        self.add_test("c_cuda_test", "echo 'skipped: no GPU'; exit 77\n")
        self.add_test("d_cuda_test", "sleep 60\n")
        self.add_test("unrelated_test", "exit 1\n")
        only = ("--only", "devices", "test", "memcheck", "racecheck", "all_reduce", "kernels")
        report, _ = self.check(1, "--device", "cpu", "--timeout", "10", *only)
        self.assertEqual(report["schema_version"], 1)
        self.assertEqual(report["status"], "failed")
        for part in report["parts"]:
            self.assertEqual(set(part), KEYS)
        parts = {part["name"]: part for part in report["parts"]}
        outcome = {name: part["status"] for name, part in parts.items()}
        self.assertEqual(outcome, {"devices": "passed", "devices/doctor": "passed", "test/a_cuda_test": "passed",
                                   "test/b_cuda_test": "failed", "test/c_cuda_test": "skipped",
                                   "test/d_cuda_test": "failed", "memcheck": "skipped", "racecheck": "skipped",
                                   "all_reduce": "passed", "kernels": "skipped"})
        self.assertEqual(parts["test/b_cuda_test"]["exit_code"], 3)
        self.assertEqual(parts["test/b_cuda_test"]["reason"], "exit code 3: no such luck")
        self.assertIn("took longer than 10 s", parts["test/d_cuda_test"]["reason"])
        self.assertIn("found no kernels_bench", parts["kernels"]["reason"])
        rows = parts["all_reduce"]["figures"]["results"]
        self.assertGreater(len(rows), 1)

    def test_sanitizers_may_find_nothing_to_check(self):
        said = {"a_cuda_test": "========= ERROR SUMMARY: 0 errors; exit 0",
                "b_cuda_test": "========= ERROR SUMMARY: 2 errors; exit 99",
                "c_cuda_test": "========= Error: Target application terminated before first instrumented API call; exit 255",
                "d_cuda_mpi_test": "========= ERROR SUMMARY: 0 errors; exit 0"}
        for name in said:
            self.add_test(name, "exit 0\n")
        tools = self.build / "tools"
        tools.mkdir()
        cases = "".join(f"*/{name}) echo '{text.split(';')[0]}';{text.split(';')[1]};;\n" for name, text in said.items())
        (tools / "compute-sanitizer").write_text(
            f'#!/bin/sh\ncase " $* " in *" --tool initcheck --report-api-errors no "*) ;; *) exit 1;; esac\n'
            f'for program; do :; done\ncase $program in\n{cases}esac\n')
        (tools / "compute-sanitizer").chmod(0o755)
        (tools / "mpirun").write_text('#!/bin/sh\n[ "$*" != "${*#--oversubscribe -n 2 }" ] || exit 1\nshift 3\n"$@"\n')
        (tools / "mpirun").chmod(0o755)
        options = types.SimpleNamespace(device="cuda", only=["initcheck"], timeout=10,
                                        output=str(self.build / "check.json"))
        check = gpu_check.Check(options)
        tests = [str(self.build / "tests" / "some" / name) for name in said]
        with unittest.mock.patch.dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}"), \
                contextlib.redirect_stdout(io.StringIO()):
            gpu_check.run_tests(check, tests, True)
        outcome = [(part["name"], part["status"], part["reason"]) for part in check.report["parts"]]
        self.assertEqual(outcome, [
            ("initcheck/a_cuda_test", "passed", None),
            ("initcheck/b_cuda_test", "failed", "exit code 99: ========= ERROR SUMMARY: 2 errors"),
            ("initcheck/c_cuda_test", "skipped", "calls no CUDA"),
            ("initcheck/d_cuda_mpi_test", "passed", None)])
        started = [os.path.basename(part["command"][0]) for part in check.report["parts"]]
        self.assertEqual(started, 3 * ["compute-sanitizer"] + ["mpirun"])

    def test_lookups_run_on_a_cpu(self):
        report, output = self.check(0, "--device", "cpu", "--only", "lookup")
        (part,) = report["parts"]
        self.assertEqual(part["status"], "passed", output)
        self.assertIsNone(part["figures"]["gpu"])
        self.assertGreater(part["figures"]["batches"][0]["update_share"], 0)

    def test_training_runs_on_a_cpu(self):
        report, output = self.check(0, "--device", "cpu", "--only", "training")
        self.assertEqual([part["name"].split("/")[0] for part in report["parts"]], 7 * ["training"])
        for part in report["parts"]:
            self.assertEqual(part["status"], "passed", output)
            self.assertGreater(part["figures"]["samples_per_s"], 0)
            self.assertLess(part["figures"]["final"]["test_loss"], 3)

    def check_prediction(self, part):
        """A part of sim compares the seconds of a step with the measured ones."""
        if part["name"].endswith("_sim"):
            figures = part["figures"]
            self.assertGreater(figures["simulated_step_s"], 0)
            self.assertAlmostEqual(figures["simulated_over_measured"] * figures["measured_step_s"], figures["simulated_step_s"])

    def test_learners_are_measured_and_predicted(self):
        report, output = self.check(0, "--device", "cpu", "--only", "learners")
        parts = {part["name"]: part for part in report["parts"]}
        for m in range(1, 5):
            self.assertGreater(parts[f"learners/mlp_{m}"]["figures"]["samples_per_s"], 0, output)
            self.check_prediction(parts[f"learners/mlp_{m}_sim"])
            self.assertGreater(parts[f"learners/mlp_{m}_sim_saturation"]["figures"]["simulated_over_measured"], 0)
        for name in ("learners/mlp_auto", "learners/mlp_auto_sim"):
            self.assertGreaterEqual(parts[name]["figures"]["chosen_learners"], 1, output)
            self.assertIn(parts[name]["figures"]["best_fixed_learners"], range(1, 5))

    def test_hogbatch_is_measured_beside_each_kind_alone(self):
        report, output = self.check(0, "--device", "cpu", "--only", "hogbatch")
        parts = {part["name"].split("/")[1]: part for part in report["parts"]}
        for name, workers in (("both", 2), ("both_fixed", 2), ("device_alone", 1), ("cores_alone", 1)):
            kind = parts[name]["figures"]["kinds"]["cpu"]
            self.assertEqual((kind["workers"], kind["samples"] > 0, kind["updates"] > 0), (workers, True, True), output)
            self.check_prediction(parts[name + "_sim"])

    def test_adaptive_sgd_is_measured_beside_others(self):
        report, output = self.check(0, "--device", "cpu", "--only", "adaptive")
        parts = {part["name"].split("/")[1]: part for part in report["parts"]}
        for name in ("adaptive", "adaptive_gamma_0", "elastic", "ssgd", "device_alone"):
            self.assertGreater(parts[name]["figures"]["samples_per_s"], 0, output)
            self.check_prediction(parts[name + "_sim"])
        self.assertEqual([len(sizes) for sizes in parts["adaptive"]["figures"]["batch_sizes_at_merges"]][:1], [2])

    def test_placements_are_compared(self):
        report, output = self.check(0, "--device", "cpu", "--only", "placement")
        names = [part["name"] for part in report["parts"]]
        predicted = [name for name in names if name.endswith("_sim")]
        self.assertEqual(len(names), 1 + 2 * 3 * 2 + len(predicted))
        self.assertEqual(len(predicted), 3 * 2)
        for part in report["parts"]:
            self.assertEqual(part["status"], "passed", output)
            self.assertEqual("hot_over_random_samples_per_s" in part["figures"], part["name"].endswith("_random"))
            self.check_prediction(part)

    def test_a_network_is_trained_in_less_memory_than_it_wants(self):
        report, output = self.check(0, "--device", "cpu", "--only", "network")
        parts = {part["name"].split("/")[1]: part for part in report["parts"]}
        self.assertEqual(list(parts), ["calibrate", "liveness", "least", "plan", "train", "sim"], output)
        figures = parts["train"]["figures"]
        self.assertLess(figures["minimum_bytes"], figures["capacity_bytes"])
        self.assertLess(figures["capacity_bytes"], figures["liveness_peak_bytes"])
        self.assertLessEqual(parts["plan"]["figures"]["peak_bytes"], figures["capacity_bytes"])
        self.assertAlmostEqual(figures["measured_over_planned"] * figures["planned_iteration_s"],
                               figures["measured_iteration_s"])
        self.check_prediction({**parts["sim"], "name": "network_sim"})

    def test_steps_of_click_through_models_stand_beside_pytorch(self):
        report, output = self.check(0, "--device", "cpu", "--only", "ctr_step")
        (part,) = report["parts"]
        self.assertEqual(part["status"], "passed", output)
        rows = part["figures"]["comparisons"]
        self.assertEqual([row["tables"] for row in rows], ["replicated", "sharded"])
        for row in rows:
            self.assertGreater(row["hetsgd_step_s"], 0)
            if row["pytorch_step_s"] is not None:
                self.assertAlmostEqual(row["speedup_over_pytorch"], row["pytorch_step_s"] / row["hetsgd_step_s"])

    def test_the_comparison_with_pytorch_runs_on_a_cpu(self):
        report, output = self.check(0, "--device", "cpu", "--only", "step_time")
        (part,) = report["parts"]
        self.assertEqual(part["status"], "passed", output)
        rows = part["figures"]["comparisons"]
        self.assertEqual([row["precision"] for row in rows], ["fp32", "bf16"])
        for row, score_bytes in zip(rows, (4, 2)):
            self.check_step_time(row, score_bytes)

    def check_step_time(self, row, score_bytes):
        self.assertGreater(row["hetsgd_step_s"], 0)
        stored, never_stored = row["floor"]["stored"], row["floor"]["never_stored"]
        self.assertAlmostEqual(never_stored["operations"] - stored["operations"], 2 * 32 * 128 * 6701, delta=1)
        self.assertAlmostEqual(stored["bytes"] - never_stored["bytes"], 2 * score_bytes * 32 * 6701, delta=1)
        self.assertGreater(never_stored["bytes"], 12 * 128 * 6701)
        self.assertIsNone(row["hetsgd_memory_bytes"])  # a CPU
        if row["pytorch_step_s"] is None:  # no PyTorch: says so
            self.assertIn("torch", row["pytorch"]["problem"])
            self.assertIsNone(row["floor_s"])
        else:
            self.assertAlmostEqual(row["speedup_over_pytorch"], row["pytorch_step_s"] / row["hetsgd_step_s"])
            self.assertAlmostEqual(row["floor_ratio"], row["floor_s"] / row["hetsgd_step_s"])
            self.assertEqual(row["floor_s"], min(stored["floor_s"], never_stored["floor_s"]))
            self.assertEqual(row["floor_s"], row["floor"][row["floor"]["plan"]]["floor_s"])
            compiled = row["pytorch"]["compiled"]
            self.assertTrue(compiled["step_s"] or compiled["problem"])

    def test_without_a_gpu_it_is_skipped_in_one_line(self):
        devices = subprocess.run([HETSGD, "devices", "--json"], stdout=subprocess.PIPE, check=True).stdout
        if json.loads(devices)["cuda"]["gpus"]:
            self.skipTest("there is a GPU")
        report, output = self.check(77)
        self.assertIsNone(report)
        self.assertEqual(output.count("\n"), 1)
        self.assertTrue(output.startswith("skipped: "))
