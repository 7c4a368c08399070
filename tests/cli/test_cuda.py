"""GPUs from outside, on a build with the emulated CUDA runtime (HETSGD_CUDA=EMULATED); else skipped."""

import json
import pathlib
import unittest

from mpi_program import version
from program import ProgramTest


TWO_WORKERS = ["--algorithm", "ssgd", "--cluster", "threads", "--devices", "cuda:0,cuda:1"]


@unittest.skipUnless("emulated" in (version()["libraries"]["cuda"] or ""), "this binary has no emulated GPUs")
class EmulatedGpus(ProgramTest):
    def devices(self, **env):
        return self.json_of("devices", "--json", env=env)["cuda"]

    def test_devices_show_clocks_peers_and_libraries(self):
        cuda = self.devices()
        self.assertEqual([gpu["device"] for gpu in cuda["gpus"]], ["cuda:0", "cuda:1"])
        first = cuda["gpus"][0]
        self.assertEqual((first["name"], first["pci_bus_id"], first["peers"]),
                         ("Emulated GPU", "0000:01:00.0", ["cuda:1"]))
        self.assertEqual((first["sm_clock_mhz"], first["sm_clock_max_mhz"]), (600, 1000))
        self.assertEqual((first["memory_clock_mhz"], first["memory_clock_max_mhz"]), (1500, 1500))
        files = {library["name"]: library["file"] for library in cuda["libraries"]}
        for name, file in (("cuBLAS", "libcublas.so.13"), ("NCCL", "libnccl.so.2"),
                           ("NVML", "libnvidia-ml.so.1")):
            self.assertTrue(files[name].endswith("cuda_emulation/" + file), files)
        self.assertEqual([gpu["peers"] for gpu in self.devices(CUDA_EMULATION_PEERS="off")["gpus"]],
                         [[], []])
        text = self.run_program("devices").stdout
        self.assertIn("SM 600 of 1000 MHz, memory 1500 of 1500 MHz", text)
        self.assertRegex(text, r"cuda:0 +- +yes\ncuda:1 +yes +-\n")

    def test_doctor_tries_each_gpu(self):
        def verdicts(code=0, **env):
            done = self.run_program("doctor", "--json", code=code, env=env)
            return {c["name"]: (c["verdict"], c["text"]) for c in json.loads(done.stdout)["checks"]}

        good = verdicts()
        for name in ("cuda:0", "cuda:1", "gpu peers", "cuBLAS", "NCCL"):
            self.assertEqual(good[name][0], "ok", good[name])
        self.assertIn("matrix product right", good["cuda:1"][1])
        self.assertIn("SM clock 600 of 1000 MHz", good["cuda:1"][1])
        self.assertEqual(verdicts(CUDA_EMULATION_PEERS="off")["gpu peers"],
                         ("warning",
                          "copies between these GPUs go through the host: cuda:0 to cuda:1, cuda:1 to cuda:0"))
        broken = verdicts(code=5, CUDA_EMULATION_CODE="missing")
        self.assertEqual(broken["cuda:0"][0], "broken")

    def test_no_gpu_no_driver_and_an_old_driver(self):
        for env, problem in (({"CUDA_EMULATION_GPUS": "0"}, "the driver shows no GPU"),
                             ({"CUDA_EMULATION_DRIVER": "0"}, "there is no NVIDIA driver"),
                             ({"CUDA_EMULATION_DRIVER": "12040"},
                              "the driver knows CUDA 12.4 at most, this binary needs 13.0")):
            cuda = self.devices(**env)
            self.assertEqual(cuda["gpus"], [])
            self.assertIn(problem, cuda["problem"])
            self.assertIn(problem, self.run_program("devices", env=env).stdout)
            done = self.train("r.json", "--cluster", "threads", "--devices", "cuda:0", code=5,
                              env=env)
            self.check_refusal(done.stderr, ("", problem), True)

    def test_a_gpu_that_is_not_there_and_one_without_code(self):
        for devices, env, names, hint in (("cuda:2", {}, ("--devices", "cuda:2"), "cuda:0 (Emulated GPU, 2 GiB), cuda:1 "),
                                          ("cuda:0,cuda:1", {"CUDA_EMULATION_CODE": "missing"}, ("", "cudaErrorNoKernelImageForDevice"), "emulated")):
            done = self.train("r.json", "--algorithm", "ssgd", "--cluster", "threads", "--devices", devices, code=5, env=env)
            self.check_refusal(done.stderr, names, hint)
        self.run_program("calibrate", "--device", "cuda:2", code=5)

    def test_results_name_the_emulated_gpu(self):
        self.train("r.json", *TWO_WORKERS, "--hidden", "8", "--max-samples", "256")
        result = self.result("r.json")
        for rank, worker in enumerate(result["workers"]):
            self.assertTrue(worker["device"].startswith(f"cuda:{rank} (Emulated GPU)"))
        self.assertEqual(len(result["workers"]), 2)
        self.assertIn("emulated", result["environment"]["build"]["libraries"]["cuda"])

    def lenet(self, output, *more, code=0, **env):
        images = "generate:images?size=28&channels=1&rows_train=32&rows_test=16"
        return self.run_program("train", "--train", images, "--test", images, "--model", "lenet-5",
                                "--cluster", "threads", "--devices", "cuda:0", "--batch-size", "16",
                                "--max-samples", "32", "-o", output, *more, code=code, env=env)

    def cudnn(self):
        """The folder of the emulated cuDNN, where nobody looks by default."""
        files = {library["name"]: library["file"] for library in self.devices()["libraries"]}
        return str(pathlib.Path(files["cuBLAS"]).parent / "cudnn")

    def test_convolutions_by_cudnn_where_it_is_asked_for(self):
        found = {"LD_LIBRARY_PATH": self.cudnn()}
        self.lenet("own.json", **found)
        self.lenet("cudnn.json", "--convolution-library", "cudnn", **found)
        libraries = [self.result(name)["environment"]["convolution_library"]
                     for name in ("own.json", "cudnn.json")]
        self.assertEqual(libraries, ["own, cuBLAS 13.0.0", "cuDNN 9.6.0"])
        self.run_program("validate", "own.json", "cudnn.json")
        done = self.lenet("old.json", "--convolution-library", "cudnn", code=5,
                          CUDA_EMULATION_CUDNN="7605", **found)
        self.check_refusal(done.stderr, ("", "7605"))
        self.train("sparse.json", "--cluster", "threads", "--devices", "cuda:0")
        self.assertNotIn("convolution_library", self.result("sparse.json")["environment"])

    def test_cudnn_that_is_missing(self):
        for name in ("libcudnn.so.9", "libcudnn.so.8"):  # before those of a machine that has it
            (self.folder / name).touch()
        empty = {"LD_LIBRARY_PATH": str(self.folder)}
        done = self.lenet("r.json", "--convolution-library", "cudnn", code=5, **empty)
        self.check_refusal(done.stderr, ("--convolution-library", "libcudnn.so.9: file too short", "libcudnn.so.8: file too short"),
                           "LD_LIBRARY_PATH")
        libraries = {library["name"]: library for library in self.devices(**empty)["libraries"]}
        self.assertIsNone(libraries["cuDNN"]["file"])
        self.assertIn("libcudnn.so.9: file too short", libraries["cuDNN"]["problem"])

    def test_calibrate_writes_a_profile_that_train_takes(self):
        self.run_program("calibrate", "--device", "cuda:1", "--hidden", "4", "--batch-size", "4,8",
                         "--point-time", "1ms", "-o", "gpu.json")
        profile = json.loads((self.folder / "gpu.json").read_text())
        self.assertEqual((profile["name"], profile["memory_bytes"]), ("cuda:1", 2 ** 31))
        self.assertIn("on Emulated GPU: 8 points", profile["source"])
        self.assertGreater(profile["host_link_bytes_per_s"], 1e6)
        self.assertGreater(profile["host_link_latency_s"], 0)
        self.train("r.json", "--cluster", "sim", "--profile", "gpu.json")
