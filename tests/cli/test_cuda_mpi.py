"""mpirun hetsgd train on emulated GPUs: the ways of device buffers between processes, and how runs end that fail."""

import json
import os
import re
import signal
import time
import unittest

from mpi_program import MpiTest, has_mpi
from program import LIMIT_S

# Gradients of 36 KB: smaller ones go through the host.
RUN = ["train", "--train", "generate:tiny", "--test", "generate:tiny", "--hidden", "32", "--batch-size", "32",
       "--mega-batch", "4", "--learning-rate", "0.3", "--evaluate-samples", "64", "--overwrite"]
# These make the same updates in the same order on every cluster.
SYNCHRONOUS = {"ssgd": [], "elastic": [], "adasum": ["--algorithm", "ssgd", "--reduce", "adasum"]}
# Sums in float32 on a GPU, in another order than on a CPU.
TOLERANCE = 1e-6


def gpus(count, **more):
    return {"CUDA_EMULATION_GPUS": str(count), **{f"CUDA_EMULATION_{name}": str(value) for name, value in more.items()}}


@unittest.skipUnless(has_mpi(), "no mpirun, or built without MPI")
class GpusOfRanks(MpiTest):
    def run_ranks(self, ranks, name, *more, devices="cuda:auto", env):
        """Trains as `name` of SYNCHRONOUS says, beside the same in sim. The result."""
        run = [*RUN, "--max-samples", "384", *(SYNCHRONOUS[name] or ["--algorithm", name]), *more]
        real, simulated = self.beside_sim(ranks, run, "--devices", devices, env=env)
        self.run_program("validate", "mpi.json")
        self.assertGreater(len(real["curve"]), 2)
        for point, known in zip(real["curve"], simulated["curve"], strict=True):
            self.assertEqual(point["samples_count"], known["samples_count"])
            self.assertAlmostEqual(point["test_loss"], known["test_loss"], delta=TOLERANCE * known["test_loss"])
        return real

    def gpus_of(self, result):
        return [re.match(r"(cuda:\d+|cpu:\d+)", worker["device"])[1] for worker in result["workers"]]

    def check_way(self, result, way):
        """All buffers of each rank travelled by `way`."""
        for worker in result["workers"]:
            taken = {name for name, count in worker["gpu_buffers"].items() if count > 0}
            self.assertEqual(taken, {way}, worker)

    def test_ranks_with_a_gpu_each_use_nccl(self):
        for name, ranks, streams in (("ssgd", 2, "lazy"), ("elastic", 3, "random"), ("ssgd", 4, "eager")):
            with self.subTest(algorithm=name, ranks=ranks):
                result = self.run_ranks(ranks, name, env=gpus(4, STREAMS=streams))
                self.assertEqual(self.gpus_of(result), [f"cuda:{rank}" for rank in range(ranks)])
                self.check_way(result, "nccl")

    def test_ranks_that_share_a_gpu_go_through_the_host(self):
        for name, ranks, there, expected in (("ssgd", 3, 2, ["cuda:0", "cuda:1", "cuda:0"]),
                                             ("elastic", 2, 1, ["cuda:0", "cuda:0"])):
            with self.subTest(algorithm=name, ranks=ranks):
                result = self.run_ranks(ranks, name, env=gpus(there, STREAMS="random"))
                self.assertEqual(self.gpus_of(result), expected)
                self.check_way(result, "host")

    def test_a_cuda_aware_library_takes_their_pointers(self):
        for name, ranks, there, more in (("ssgd", 2, 1, ["--all-reduce", "mpi"]), ("adasum", 4, 4, []),
                                         ("elastic", 3, 2, ["--all-reduce", "mpi"])):
            with self.subTest(algorithm=name, ranks=ranks):
                result = self.run_ranks(ranks, name, *more, env=gpus(there, MPI=1, STREAMS="random"))
                self.check_way(result, "mpi")
                self.assertTrue(result["cluster"]["machine"]["cuda_aware"])

    def test_the_way_can_be_chosen(self):
        self.check_way(self.run_ranks(2, "ssgd", "--all-reduce", "host", env=gpus(2, MPI=1)), "host")
        self.check_way(self.run_ranks(2, "ssgd", "--all-reduce", "mpi", env=gpus(2, MPI=1)), "mpi")
        run = [*RUN, "--algorithm", "ssgd", "--epochs", "1", "--devices", "cuda:auto"]
        for way, env, code, text in (("nccl", gpus(1), 5, "ranks 0 and 1 share a GPU"),
                                     ("mpi", gpus(2), 5, "--all-reduce mpi")):
            self.check_refusal(self.finished(self.mpirun(2, *run, "--all-reduce", way, env=env), code), ("", text))

    def test_doctor_shows_the_gpu_of_each_rank(self):
        stdout, _ = self.said(self.mpirun(3, "doctor", "--devices", "cuda:auto", "--json", env=gpus(2)))
        checks = {check["name"]: check["text"] for check in json.loads(stdout)["checks"]}
        for rank in range(3):
            self.assertIn(f"computes on cuda:{rank % 2} (Emulated GPU)", checks[f"rank {rank}"])

    def test_ranks_on_cpus_and_gpus_learn_the_same(self):
        result = self.run_ranks(3, "elastic", devices="cpu,cuda:0,cuda:1", env=gpus(2))
        self.assertEqual(self.gpus_of(result), ["cpu:1", "cuda:0", "cuda:1"])
        self.assertEqual(["gpu_buffers" in worker for worker in result["workers"]], [False, True, True])

    def test_asynchronous_algorithms_learn(self):
        for name, way in (("asgd", "host"), ("adpsgd", "mpi")):  # services compute on the host
            with self.subTest(algorithm=name):
                run = [*RUN, "--algorithm", name, "--max-samples", "1280", "--devices", "cuda:auto", "-o", "r.json"]
                self.finished(self.mpirun(3, *run, env=gpus(4, MPI=1)), 0)
                result = self.result("r.json")
                self.assertLess(result["curve"][-1]["test_loss"], result["curve"][0]["test_loss"] - 0.1)
                self.assertEqual(self.gpus_of(result), ["cuda:0", "cuda:1", "cuda:2"])
                self.check_way(result, way)

    def test_every_way_reduces_right(self):
        bench = ["bench", "all_reduce", "--devices", "cuda:auto", "--op", "nccl,gpu-mpi,gpu-host", "-b", "40004", "-e", "40004", "-n", "2",
                 "-w", "1"]
        stdout, _ = self.said(self.mpirun(3, *bench, env=gpus(3, MPI=1, STREAMS="random")))
        rows = [line.split() for line in stdout.splitlines() if line.startswith("40004")]
        self.assertEqual([(row[3], row[7]) for row in rows], [("nccl", "0"), ("gpu-mpi", "0"), ("gpu-host", "0")])

    def test_a_killed_rank_ends_the_run(self):
        process = self.mpirun(3, *RUN, "--algorithm", "ssgd", "--epochs", "1000000", "--devices", "cuda:auto", "-o", "endless.json",
                              env=gpus(4))
        self.wait_for_curve("endless.json")
        os.kill(self.pid_of_rank(process, 2), signal.SIGKILL)
        begin = time.monotonic()
        process.communicate(timeout=LIMIT_S)
        self.assertLess(time.monotonic() - begin, 20)
        self.assertNotEqual(process.returncode, 0)
        self.run_program("validate", "endless.json")

    def test_a_gpu_that_is_missing_ends_all_ranks_with_one_message(self):
        run = [*RUN, "--algorithm", "ssgd", "--epochs", "1", "--devices", "cuda:0,cuda:2"]
        self.check_refusal(self.finished(self.mpirun(2, *run, env=gpus(2)), 5), ("", "cuda:2"))
