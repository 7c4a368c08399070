"""validate, compare, data, algorithms, models, devices, calibrate, doctor, --version."""

import json
import os
import subprocess
import sys

from program import TINY, ProgramTest


class Validate(ProgramTest):
    def test_the_schema_is_published(self):
        self.train("r.json", "--algorithm", "adaptive", "--workers", "2")
        self.check_schema(self.json_of("validate", "--schema"), self.result("r.json"))


class Compare(ProgramTest):
    """Files that the program has just made; judge/ has the rest."""

    def setUp(self):
        super().setUp()
        for seed in "12":
            self.train(f"a{seed}.json", "--epochs", "4", "--mega-batch", "5", "--seed", seed)
            self.train(f"b{seed}.json", "--epochs", "4", "--mega-batch", "5", "--seed", seed, "--algorithm", "ssgd", "--workers", "2")
        self.files = [f"{name}{seed}.json" for name in "ab" for seed in "12"]

    def compare(self, *arguments):
        return self.run_program("compare", *self.files, "--target", "p1>=0.2", *arguments)

    def test_times_are_those_of_the_curves(self):
        """The first of three evaluations in five that reach the target."""
        comparison = json.loads(self.compare("--format", "json", "--reference", "ssgd").stdout)
        self.assertEqual([(each["algorithm"], each["n"], each["reference"]) for each in comparison["groups"]],
                         [("sgd", 2, False), ("ssgd", 2, True)])
        times = []
        for file in self.files[:2]:
            values = [(p["time_s"], p["p1"] >= 0.2) for p in self.result(file)["curve"]]
            times.append(next(time_s for i, (time_s, reaches) in enumerate(values)
                              if reaches and sum(each for _, each in values[i:i + 5]) >= 3))
        self.assertEqual(comparison["groups"][0]["targets"][0]["times_s"], times)

    def test_other_files_of_ours_are_skipped(self):
        self.run_program("tune", "--train", "generate:tiny", "--grid", "1", "--epochs", "1", "-o", "choice.json")
        self.train("t.json", "--trace", "trace.json")
        self.write("comparison.json", self.compare("--format", "json").stdout)
        self.write("plan.json", self.json_of("train", "--train", "generate:tiny", "--epochs", "1", "--dry-run"))
        others = {"choice.json": "tuning", "trace.json": "trace", "comparison.json": "comparison", "plan.json": "plan"}
        alone = self.compare()
        self.files = [*others, *self.files]
        together = self.compare()
        self.assertEqual(together.stdout, alone.stdout)
        for path, kind in others.items():
            self.assertRegex(together.stderr, f"{path}: .*{kind}")
        self.refused(["rerun", "choice.json"], ("choice.json", "tuning"), code=4)
        self.refused(["compare", *others], "compare")


class Data(ProgramTest):
    def test_generate_info_convert_verify(self):
        self.run_program("data", "generate", "tiny", "t")
        self.refused(["data", "generate", "tiny", "t"], "t_train.txt", "--overwrite")
        info = self.json_of("data", "info", "--json", "t_train.txt")
        self.assertEqual(info["rows"], 2000)
        for to, name in (("libsvm", "t.svm"), ("hsgd", "t.hsgd"), ("xc", "t2.txt")):
            self.run_program("data", "convert", "--to", to, "t_train.txt", name)
            other = self.json_of("data", "info", "--json", name)
            for key in ("rows", "features", "labels", "features_per_row", "labels_per_row"):
                self.assertEqual(other[key], info[key], (to, key))
            self.run_program("data", "verify", name)
        self.assertIn("rows", self.run_program("data", "info", "t_train.txt").stdout)
        content = bytearray((self.folder / "t.hsgd").read_bytes())
        content[len(content) // 2] ^= 1
        (self.folder / "t.hsgd").write_bytes(content)
        self.refused(["data", "verify", "t.hsgd"], "t.hsgd", code=4)


class Descriptions(ProgramTest):
    def test_version(self):
        version = self.json_of("--version", "--json")
        self.assertLess({"version", "git_revision", "git_dirty", "build_type", "compiler", "march", "cuda_architectures", "libraries",
                         "features", "schema_version"}, set(version))
        text = self.run_program("--version").stdout
        self.assertTrue(text.startswith(f"hetsgd {version['version']} ({version['git_revision']}"))
        self.run_program("--version", "--xml", code=2)

    def test_algorithms_and_models(self):
        for command, some in (("algorithms", {"sgd", "ssgd", "elastic", "adaptive"}),
                              ("models", {"dcn", "deepfm", "fm", "lenet-5", "linear", "mlp", "resnet-50", "wide_deep"})):
            text = self.run_program(command).stdout
            listed = {one["name"]: one for one in self.json_of(command, "--format", "json")}
            self.assertLess(some, set(listed))
            for name, one in listed.items():
                self.assertIn(f"\n{name} ", "\n" + text)
                self.assertIn(f"({name})", self.run_program(command, name).stdout)
                self.assertEqual(self.json_of(command, name, "--format", "json"), one)
            self.run_program(command, "nothing-of-this-name", code=2)
        self.assertIn("--hidden", [option["flag"] for option in listed["mlp"]["options"]])

    def test_devices(self):
        devices = self.json_of("devices", "--json")
        self.assertIn("v100", [p["name"] for p in devices["profiles"]])
        self.assertIn("pcie3", [n["name"] for n in devices["networks"]])
        v100 = self.json_of("devices", "v100", "--json")
        self.assertEqual((v100["name"], v100["operations_per_s"]), ("v100", 1.1e13))
        self.assertRegex(self.run_program("devices", "pcie3").stdout, r"\nbytes_per_s +12000000000.0\n")
        self.refused(["devices", "v10"], ("devices", '"v10"'), "v100")
        # The GPUs, or why there are none.
        cuda, text = devices["cuda"], self.run_program("devices").stdout
        self.assertIn("cpu:N", text)
        self.assertIn(f"products: {self.products(devices['cpu']['products'])}\n", text)
        self.assertEqual(cuda["built_in"], self.json_of("--version", "--json")["features"]["cuda"])
        self.assertNotEqual(cuda["gpus"] == [], cuda["problem"] is None)
        for line in [cuda["problem"]] if cuda["problem"] else [gpu["name"] for gpu in cuda["gpus"]]:
            self.assertIn(line, text)

    def test_the_topology_is_that_of_hwloc(self):
        env = {"HWLOC_SYNTHETIC": "pack:2 core:4 pu:2"}
        topology = self.json_of("devices", "--json", env=env)["cpu"]["topology"]
        self.assertEqual({key: topology[key] for key in ("sockets", "cores", "threads_per_core", "kinds")},
                         {"sockets": 2, "cores": 8, "threads_per_core": 2, "kinds": []})
        self.assertIn("of another machine", topology["source"])
        line = "2 sockets, 1 NUMA node, 8 cores, 2 threads per core (hwloc"
        self.assertIn(line, self.run_program("devices", env=env).stdout)
        doctor = self.json_of("doctor", "--json", env=env)
        self.assertIn(line, {check["name"]: check["text"] for check in doctor["checks"]}["topology"])
        self.assertEqual(doctor["environment"]["topology"], topology)
        self.run_program("train", *TINY, "--hidden", "2", "--epochs", "1", "-o", "r.json", env=env)
        self.assertEqual(self.result("r.json")["environment"]["topology"], topology)
        self.run_program("validate", "r.json")

    def test_workers_on_one_physical_core_are_warned_of(self):
        first, second = self.two_cores()
        for machine, said in (("pack:1 core:1 pu:2", 1), ("pack:1 core:2 pu:1", 0)):
            self.train("r.json", "--algorithm", "ssgd", "--cluster", "threads", "--devices", "cpu:1,cpu:1", "--workers", "2", "--overwrite",
                       env={"HWLOC_SYNTHETIC": f"{machine}(indexes={first},{second})"})
            warnings = "\n".join(self.result("r.json")["warnings"])
            if "they take turns" in warnings:
                self.skipTest("a quota of less than two cores")
            self.assertEqual(warnings.count("2 of 2 workers share physical cores (1 in all)"), said, warnings)

    def test_doctor_sees_the_cache(self):
        self.write("file", "")
        for env, verdict in (({}, "ok"), ({"HETSGD_CACHE_DIR": str(self.folder / "file" / "x")}, "warning")):
            doctor = self.json_of("doctor", "--json", env=env)
            by_name = {check["name"]: check for check in doctor["checks"]}
            self.assertEqual([by_name[name]["verdict"] for name in ("cpu device", "data cache")], ["ok", verdict])
            self.assertEqual(by_name["products"]["text"], self.products(doctor["environment"]["products"]))
        self.run_program("doctor")

    def products(self, used):
        """The line that describes environment.products."""
        self.assertIn(used["bf16"], ("amx", "fma"))
        self.assertEqual(used["no_amx"] is None, used["bf16"] == "amx")
        return f"fp32 {used['fp32']} | bf16 {used['bf16']}" + (f" (no AMX: {used['no_amx']})" if used["no_amx"] else "")


class CalibrateNetwork(ProgramTest):
    def test_a_busy_host_is_said(self):
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() + 4)]
        for process in busy:
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
        said = self.run_program("calibrate", "network", "--workers", "2", "--sizes", "64,4K", "--point-time", "5ms").stderr
        self.assertRegex(said, "warning: other programs ran on this host: .* the times of this calibration are not valid")


class Calibrate(ProgramTest):
    SHORT = ["calibrate", "--point-time", "10ms", "--batch-size", "8,32", "--hidden", "16", "-o"]

    def test_writes_a_profile_that_train_takes(self):
        done = self.run_program(*self.SHORT, "here.json")
        profile = self.result("here.json")
        self.assertGreater(profile["operations_per_s"], 0)
        self.assertGreater(profile["bf16_operations_per_s"], 0)
        # Rows at random places; of a CPU the device's memory is the host's.
        self.assertGreater(profile["gather_bytes_per_s"], 0)
        self.assertEqual(profile["host_gather_bytes_per_s"], profile["gather_bytes_per_s"])
        self.assertIn("% in the median", profile["source"])
        self.assertIn("predicted_ms", done.stderr)
        for option, names in (("--profile", ("cpu:1", "xeon-e5-2650v4")), ("--server-profile", (None, "cpu:1"))):
            self.train("r.json", option, "here.json", "--overwrite")
            cluster = self.result("r.json")["cluster"]
            self.assertEqual(cluster["server_profile"]["name"], names[1])
            if names[0]:
                self.assertEqual(cluster["device_profile"]["name"], names[0])
        self.refused(["train", *TINY, "--epochs", "1", "--server-profile", "here"], ("--server-profile", '"here"'))
        self.refuse_all(["calibrate"], (("-o here.json", "here.json"), ("--device gpu", ("--device", '"gpu"'))))

    def test_measures_the_passes_of_a_click_model(self):
        done = self.run_program(*self.SHORT, "clicks.json", "--model", "deepfm")
        profile = self.result("clicks.json")
        self.assertGreater(profile["operations_per_s"], 0)
        self.assertIn("calibrate --device cpu:1 --model deepfm on ", profile["source"])
        self.assertIn(": 6 points", profile["source"])  # two batches: there, back, and the update
        self.assertIn("bf16: 4 points", profile["source"])  # the update has no products
        for words in ("deepfm forward", "deepfm backward", "deepfm update"):
            self.assertIn(words, done.stderr)
        self.refuse_all(["calibrate", "-o", "none.json", "--model"], (("deepfn", "--model", "deepfm"), ("resnet-50", "--model")))

    def test_network_writes_a_model_that_train_takes(self):
        measure = ["calibrate", "network", "--sizes", "64,256K", "--point-time", "5ms", "-o", "network.json"]
        done = self.run_program(*measure)
        self.assertGreater(self.result("network.json")["bytes_per_s"], 0)
        self.assertIn("predicted_us", done.stderr)
        self.train("r.json", "--network", "network.json")
        self.assertEqual(self.result("r.json")["cluster"]["network"]["name"], "threads 2 workers")
        self.refuse_all(["calibrate", "network"], ((measure[2:], "network.json"), ("--sizes 64", ("--sizes", '"64"')),
                                                   ("--workers 1", "--workers")))
