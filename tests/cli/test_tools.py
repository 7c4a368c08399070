"""validate, compare, data, algorithms, devices, calibrate, doctor, --version."""

import csv
import io
import json
import unittest

from program import ProgramTest


class Validate(ProgramTest):
    def test_good_and_damaged_files(self):
        self.train("r.json")
        self.assertEqual(self.run_program("validate", "r.json").stdout, "r.json: valid\n")
        text = (self.folder / "r.json").read_text()
        (self.folder / "cut.json").write_text(text[: len(text) // 2])
        self.assertIn("found the end of the file, expected more JSON",
                      self.error("validate", "cut.json", code=4))
        result = json.loads(text)
        result["curve"][-1]["time_s"] = -1
        (self.folder / "bad.json").write_text(json.dumps(result))
        done = self.run_program("validate", "r.json", "bad.json", code=4)
        self.assertIn("r.json: valid\n", done.stdout)
        self.assertRegex(done.stdout, r"bad\.json: /curve/\d+/time_s: ")
        self.assertEqual(done.stderr, "error: 1 of 2 files is not valid\n")

    def test_the_schema_is_published(self):
        schema = json.loads(self.run_program("validate", "--schema").stdout)
        self.assertEqual(schema["$schema"], "http://json-schema.org/draft-07/schema#")
        try:
            import jsonschema
        except ImportError:
            self.skipTest("python3-jsonschema is not installed")
        self.train("r.json", "--algorithm", "adaptive", "--workers", "2")
        jsonschema.Draft7Validator.check_schema(schema)
        jsonschema.Draft7Validator(schema).validate(self.result("r.json"))


class Compare(ProgramTest):
    def setUp(self):
        super().setUp()
        for seed in "12":
            self.train(f"a{seed}.json", "--epochs", "4", "--mega-batch", "5", "--seed", seed)
            self.train(f"b{seed}.json", "--epochs", "4", "--mega-batch", "5", "--seed", seed,
                       "--algorithm", "ssgd", "--workers", "2")
        self.files = [f"{name}{seed}.json" for name in "ab" for seed in "12"]

    def compare(self, *arguments, code=0):
        return self.run_program("compare", *self.files, "--target", "p1>=0.2", *arguments, code=code)

    def test_json_csv_and_text_agree(self):
        comparison = json.loads(self.compare("--format", "json").stdout)
        groups = {group["algorithm"]: group for group in comparison["groups"]}
        self.assertEqual(comparison["reference"], "sgd")
        self.assertEqual([groups[a]["n"] for a in ("sgd", "ssgd")], [2, 2])
        # the times are those of the curves
        times = []
        for seed in "12":
            values = [(p["time_s"], p["p1"] >= 0.2) for p in self.result(f"a{seed}.json")["curve"]]
            times.append(next(time_s for i, (time_s, reaches) in enumerate(values)
                              if reaches and sum(each for _, each in values[i:i + 5]) >= 3))
        target = groups["sgd"]["targets"][0]
        self.assertEqual(target["times_s"], times)
        self.assertAlmostEqual(target["time_s"]["median"], sum(times) / 2)
        # the two factors multiply to the speed-up
        other = groups["ssgd"]["targets"][0]
        self.assertAlmostEqual(other["speedup"]["median"], target["time_s"]["median"] /
                               other["time_s"]["median"])
        self.assertAlmostEqual(other["statistical_efficiency_ratio"] *
                               other["hardware_efficiency_ratio"], other["speedup"]["median"])
        self.assertGreaterEqual(other["p_value"], 1 / 3)  # of two against two there are six orders

        rows = list(csv.DictReader(io.StringIO(self.compare("--format", "csv").stdout)))
        self.assertEqual([g["algorithm"] for g in comparison["groups"]], ["sgd", "ssgd"])
        self.assertEqual({row["algorithm"] for row in rows}, {"sgd", "ssgd"})
        seconds = [float(row["time_s"]) for row in rows]
        self.assertEqual(seconds, sorted(seconds))  # the fastest first
        ratios = {row["algorithm"]: row["ratio"] for row in rows}
        self.assertEqual(ratios["sgd"], "1.0000")
        text = self.compare().stdout
        self.assertLess(max(map(len, text.splitlines())), 132)
        self.assertRegex(text, r"\nspeedup over sgd = ")
        self.assertTrue(self.compare("--format", "markdown").stdout.startswith("| algorithm"))
        self.assertEqual(len(self.compare("--runs", "--format", "csv").stdout.splitlines()), 5)

    def test_a_diverged_run_does_not_stop_the_comparison(self):
        self.train("d.json", "--epochs", "4", "--mega-batch", "5", "--learning-rate", "1e30",
                   "--algorithm", "asgd", "--workers", "2")
        self.files.append("d.json")
        done = self.compare("--format", "json")
        self.assertIn("warning: asgd: 1 of 1 runs diverged\n", done.stderr)
        last = json.loads(done.stdout)["groups"][-1]
        self.assertEqual((last["algorithm"], last["diverged"]), ("asgd", 1))
        self.assertEqual(last["targets"][0]["reached"], 0)
        self.assertEqual(last["targets"][0]["time_s"]["median_reason"], "inf")

    def test_a_target_that_a_result_cannot_show_is_an_error(self):
        message = self.error("compare", "a1.json", "b1.json", "--target", "auc>=0.5", code=2)
        self.assertIn("error: a1.json: the target is auc>=0.5, but auc was not measured, expected one of p1, p3, p5, "
                      "test_loss, train_loss\nhint: --target names another", message)

    def test_other_files_of_ours_are_skipped(self):
        self.run_program("tune", "--train", "generate:tiny", "--grid", "1", "--epochs", "1", "-o", "choice.json")
        self.train("t.json", "--trace", "trace.json")
        (self.folder / "comparison.json").write_text(self.compare("--format", "json").stdout)
        (self.folder / "plan.json").write_text(
            self.run_program("train", "--train", "generate:tiny", "--epochs", "1", "--dry-run").stdout)
        others = {"choice.json": "tuning", "trace.json": "trace", "comparison.json": "comparison", "plan.json": "plan"}
        alone = self.compare()
        self.files = [*others, *self.files]
        together = self.compare()
        self.assertEqual(together.stdout, alone.stdout)
        for path, kind in others.items():
            self.assertIn(f"{path}: skipped, it is a {kind} and no result\n", together.stderr)
        self.assertIn("error: choice.json: found a tuning, expected a result of hetsgd train\n",
                      self.error("rerun", "choice.json", code=4))
        self.assertIn("error: compare: found no result", self.error("compare", *others, code=2))
        (self.folder / "broken.json").write_text('{"curve": [], "kind": "tuning"}')
        self.assertIn("error: broken.json: not a valid result", self.error("compare", *self.files, "broken.json", code=4))

    def test_the_gate_keeps_the_first_file_as_reference(self):
        slow = self.result("a1.json")
        for point in slow["curve"]:
            point["p1"] = 0.0
        slow["summary"]["final"]["p1"] = 0.0
        (self.folder / "missed.json").write_text(json.dumps(slow))
        gate = ["compare", "missed.json", "b1.json", "--target", "p1>=0.2"]
        self.run_program(*gate, "--fail-if-slower", "1.05")
        self.assertIn("warning: the reference is ssgd", self.run_program(*gate).stderr)

    def test_the_reference_may_be_an_algorithm(self):
        comparison = json.loads(self.compare("--reference", "ssgd", "--format", "json").stdout)
        self.assertEqual([g["label"] for g in comparison["groups"] if g["reference"]], ["ssgd"])

    def test_warnings(self):
        message = self.compare().stderr
        self.assertRegex(message, r"warning: fewer than 5 seeds \((sgd 2, ssgd 2|ssgd 2, sgd 2)\)")
        self.assertIn("warning: different workloads: a1.json and b1.json differ in "
                      "the number of workers", message)

    def test_fail_if_slower(self):
        self.compare("--fail-if-slower", "1e9")
        slow = self.result("b1.json")
        for point in slow["curve"]:
            point["time_s"] *= 1000
        slow["summary"]["elapsed_s"] *= 1000
        (self.folder / "slow.json").write_text(json.dumps(slow))
        done = self.run_program("compare", "b2.json", "slow.json", "--target", "p1>=0.2",
                                "--fail-if-slower", "1.05", code=0)
        self.assertIn("ssgd", done.stdout)  # one group with its own seed: no regression
        slow["config"]["learning_rate"] = 0.5
        (self.folder / "slow.json").write_text(json.dumps(slow))
        done = self.run_program("compare", "b2.json", "slow.json", "--target", "p1>=0.2",
                                "--fail-if-slower", "1.05", code=7)
        self.assertIn("(--fail-if-slower 1.05)", done.stderr)

    def test_errors(self):
        self.assertIn("error: compare: expected FOLDER|INDEX|RESULT...", self.error("compare", code=2))
        self.assertIn("none.json: cannot open the file", self.error("compare", "none.json", code=4))
        message = self.compare("--reference", "x", code=2).stderr
        self.assertIn('error: --reference: found "x"', message)
        self.assertIn('hint: the groups are "sgd", "ssgd"', message)
        (self.folder / "odd.json").write_text("{}")
        self.assertIn("odd.json: not a valid result: ", self.error("compare", "odd.json", code=4))
        odd = self.result("a1.json")
        odd["config"]["stop_at_target"] = 3
        (self.folder / "odd.json").write_text(json.dumps(odd))
        self.assertIn("odd.json: not a valid result: /config/stop_at_target", self.error("compare", "odd.json", code=4))
        self.error("validate", "odd.json", code=4)


class CompareSweep(ProgramTest):
    """Two machines, three cases, of which two have the same algorithm; one has a parameter."""
    SPECIFICATION = """
        name = "cases"
        seeds = [1]
        [settings]
        train = "generate:tiny"
        epochs = 1
        workers = 2
        target = ["p1>=0.1"]
        [[setups]]
        name = "heavy"
        settings = {straggler = "kind=constant,worker=0,factor=3"}
        [[setups]]
        name = "calm"
        settings = {}
        [[cases]]
        name = "mean"
        settings = {algorithm = "ssgd"}
        [[cases]]
        name = "central"
        settings = {algorithm = "ssgd", storage = "central"}
        [[cases]]
        name = "local"
        settings = {algorithm = "local-sgd"}
        [parameters.local_steps]
        values = [4, 16]
    """

    def setUp(self):
        super().setUp()
        (self.folder / "s.toml").write_text(self.SPECIFICATION)
        self.run_program("sweep", "s.toml", "-o", "out", "--quiet")

    def test_a_folder_an_index_and_its_files_are_the_same(self):
        files = sorted(str(path) for path in (self.folder / "out" / "runs").glob("*.json"))
        compared = [json.loads(self.run_program("compare", *operands, "--format", "json").stdout)
                    for operands in (["out"], ["out/cases.index.jsonl"], files)]
        names = [[(each["workload"], each["reference"], sorted(group["label"] for group in each["groups"]))
                  for each in one["comparisons"]] for one in compared]
        labels = ["central", "local (local_steps=16)", "local (local_steps=4)", "mean"]
        self.assertEqual(names, 3 * [[("heavy", "mean", labels), ("calm", "mean", labels)]])

    def test_no_number_relates_two_machines(self):
        done = self.run_program("compare", "out")
        self.assertNotIn("different workloads", done.stderr)
        self.assertEqual(done.stdout.count("speedup over mean"), 2)
        self.assertRegex(done.stdout, r"^heavy\n(.*\n)+\ncalm\n")

    def test_a_reference_is_a_case(self):
        for case in ("mean", "central", "local-sgd (local_steps=4)".replace("local-sgd", "local")):
            compared = json.loads(self.run_program("compare", "out", "--reference", case, "--format", "json").stdout)
            self.assertEqual([each["reference"] for each in compared["comparisons"]], [case, case])
        message = self.error("compare", "out", "--reference", "ssgd", code=2)
        self.assertIn('"mean", "central"', message)


class Data(ProgramTest):
    def test_generate_info_convert_verify(self):
        self.run_program("data", "generate", "tiny", "t")
        self.assertEqual(self.error("data", "generate", "tiny", "t", code=2),
                         "error: t_train.txt: the file exists\nhint: --overwrite replaces it\n")
        info = json.loads(self.run_program("data", "info", "--json", "t_train.txt").stdout)
        self.assertEqual(info["rows"], 2000)
        for to, name in (("libsvm", "t.svm"), ("hsgd", "t.hsgd"), ("xc", "t2.txt")):
            self.run_program("data", "convert", "--to", to, "t_train.txt", name)
            other = json.loads(self.run_program("data", "info", "--json", name).stdout)
            for key in ("rows", "features", "labels", "features_per_row", "labels_per_row"):
                self.assertEqual(other[key], info[key], (to, key))
            self.run_program("data", "verify", name)
        self.assertIn("rows", self.run_program("data", "info", "t_train.txt").stdout)

    def test_a_damaged_binary_file_is_refused(self):
        self.run_program("data", "generate", "tiny", "t")
        self.run_program("data", "convert", "t_train.txt", "t.hsgd")
        content = bytearray((self.folder / "t.hsgd").read_bytes())
        content[len(content) // 2] ^= 1
        (self.folder / "t.hsgd").write_bytes(content)
        self.assertIn("t.hsgd", self.error("data", "verify", "t.hsgd", code=4))


class Descriptions(ProgramTest):
    def test_version(self):
        version = json.loads(self.run_program("--version", "--json").stdout)
        for key in ("version", "git_revision", "git_dirty", "build_type", "compiler", "march",
                    "cuda_architectures", "libraries", "features", "schema_version"):
            self.assertIn(key, version)
        text = self.run_program("--version").stdout
        self.assertTrue(text.startswith(f"hetsgd {version['version']} ({version['git_revision']}"))
        self.error("--version", "--xml", code=2)

    def test_algorithms(self):
        text = self.run_program("algorithms").stdout
        names = [one["name"] for one in
                 json.loads(self.run_program("algorithms", "--format", "json").stdout)]
        for name in ("sgd", "ssgd", "elastic", "adaptive"):
            self.assertIn(name, names)
        for name in names:
            self.assertIn(f"\n{name} ", text)
            self.assertIn(f"({name})", self.run_program("algorithms", name).stdout)
        self.error("algorithms", "nothing-of-this-name", code=2)

    def test_models(self):
        text = self.run_program("models").stdout
        listed = json.loads(self.run_program("models", "--format", "json").stdout)
        names = [one["name"] for one in listed]
        self.assertEqual(names, sorted(names))
        self.assertLess({"dcn", "deepfm", "fm", "lenet-5", "linear", "mlp", "resnet-50", "wide_deep"}, set(names))
        for one in listed:
            self.assertIn(f"{one['name']} ", text)
            self.assertIn(f"({one['name']})", self.run_program("models", one["name"]).stdout)
            self.assertEqual(json.loads(self.run_program("models", one["name"], "--format", "json").stdout), one)
        by_name = {one["name"]: one for one in listed}
        self.assertIn("--hidden", [option["flag"] for option in by_name["mlp"]["options"]])
        self.error("models", "nothing-of-this-name", code=2)
        self.assertIn("hint: --hidden is an option of dcn, deepfm, mlp, wide_deep, not of linear\n",
                      self.error("train", "--train", "generate:tiny", "--model", "linear", "--hidden", "8", code=2))

    def test_devices(self):
        devices = json.loads(self.run_program("devices", "--json").stdout)
        self.assertIn("v100", [p["name"] for p in devices["profiles"]])
        self.assertIn("pcie3", [n["name"] for n in devices["networks"]])
        self.assertIn("cpu:N", self.run_program("devices").stdout)

    def test_devices_shows_one_profile_or_network(self):
        v100 = json.loads(self.run_program("devices", "v100", "--json").stdout)
        self.assertEqual((v100["name"], v100["operations_per_s"]), ("v100", 1.1e13))
        text = self.run_program("devices", "pcie3").stdout
        self.assertRegex(text, r"\nbytes_per_s +12000000000.0\n")
        self.assertIn("\nGPUs of one server on PCIe 3.0", text)
        self.assertIn('error: devices: found "v10", expected a simulated device or network\nhint: did you mean "v100"?',
                      self.error("devices", "v10", code=2))

    def test_compare_as_latex(self):
        self.train("r.json", "--target", "p1>=0.02")
        lines = self.run_program("compare", "r.json", "--format", "latex").stdout.splitlines()
        self.assertEqual(lines[:2], [r"\begin{tabular}{lrrrrrrrrr}", r"\toprule"])
        self.assertEqual(lines[2], r"algorithm & reached & time\_s to p1$\geq$0.02 & crossed & speedup & stat & hw & p & samples/s & final p1 \\")
        self.assertTrue(all(line.startswith("% ") for line in lines[lines.index(r"\end{tabular}") + 2:]), lines)

    def test_devices_lists_the_gpus_or_says_why_there_are_none(self):
        cuda = json.loads(self.run_program("devices", "--json").stdout)["cuda"]
        features = json.loads(self.run_program("--version", "--json").stdout)["features"]
        self.assertEqual(cuda["built_in"], features["cuda"])
        self.assertNotEqual(cuda["gpus"] == [], cuda["problem"] is None)
        text = self.run_program("devices").stdout
        for line in [cuda["problem"]] if cuda["problem"] else [gpu["name"] for gpu in cuda["gpus"]]:
            self.assertIn(line, text)

    def test_doctor(self):
        checks = json.loads(self.run_program("doctor", "--json").stdout)["checks"]
        by_name = {check["name"]: check for check in checks}
        self.assertEqual(by_name["cpu device"]["verdict"], "ok")
        self.assertEqual(by_name["data cache"]["verdict"], "ok")
        self.run_program("doctor")

    def test_doctor_sees_a_cache_that_cannot_be(self):
        (self.folder / "file").write_text("")
        checks = json.loads(self.run_program(
            "doctor", "--json", env={"HETSGD_CACHE_DIR": str(self.folder / "file" / "x")}).stdout)
        cache = [c for c in checks["checks"] if c["name"] == "data cache"][0]
        self.assertEqual(cache["verdict"], "warning")

    def test_calibrate_writes_a_profile_that_train_takes(self):
        done = self.run_program("calibrate", "--point-time", "10ms", "--batch-size", "8,32",
                                "--hidden", "16", "-o", "here.json")
        profile = self.result("here.json")
        self.assertGreater(profile["operations_per_s"], 0)
        # Rows at random places; of a CPU the device's memory is the host's.
        self.assertGreater(profile["gather_bytes_per_s"], 0)
        self.assertEqual(profile["host_gather_bytes_per_s"], profile["gather_bytes_per_s"])
        self.assertIn("% in the median", profile["source"])
        self.assertIn("predicted_ms", done.stderr)
        self.train("r.json", "--profile", "here.json")
        cluster = self.result("r.json")["cluster"]
        self.assertEqual(cluster["device_profile"]["name"], "cpu:1")
        self.assertEqual(cluster["server_profile"]["name"], "xeon-e5-2650v4")
        self.train("s.json", "--server-profile", "here.json")
        self.assertEqual(self.result("s.json")["cluster"]["server_profile"]["name"], "cpu:1")
        self.assertIn("error: --server-profile: found \"here\", expected ",
                      self.train("t.json", "--server-profile", "here", code=2).stderr)
        self.error("calibrate", "-o", "here.json", code=2)
        self.error("calibrate", "--device", "gpu", code=2)

    def test_calibrate_measures_the_passes_of_a_click_model(self):
        done = self.run_program("calibrate", "--model", "deepfm", "--point-time", "10ms", "--batch-size", "8,32",
                                "--hidden", "16", "-o", "clicks.json")
        profile = self.result("clicks.json")
        self.assertGreater(profile["operations_per_s"], 0)
        self.assertIn("calibrate --device cpu:1 --model deepfm on ", profile["source"])
        self.assertIn(": 6 points", profile["source"])  # two batches: there, back, and the update
        for words in ("deepfm forward", "deepfm backward", "deepfm update"):
            self.assertIn(words, done.stderr)
        self.assertIn("did you mean deepfm?", self.error("calibrate", "--model", "deepfn", "-o", "none.json", code=2))
        self.assertIn("expected mlp or a model of click data",
                      self.error("calibrate", "--model", "resnet-50", "-o", "none.json", code=2))

    def test_calibrate_network_writes_a_model_that_train_takes(self):
        measure = ["calibrate", "network", "--sizes", "64,256K", "--point-time", "5ms"]
        done = self.run_program(*measure, "-o", "network.json")
        self.assertGreater(self.result("network.json")["bytes_per_s"], 0)
        self.assertIn("predicted_us", done.stderr)
        self.train("r.json", "--network", "network.json")
        self.assertEqual(self.result("r.json")["cluster"]["network"]["name"], "threads 2 workers")
        self.error(*measure, "-o", "network.json", code=2)
        self.assertIn("--sizes: found \"64\", expected at least two",
                      self.error("calibrate", "network", "--sizes", "64", code=2))
        self.error("calibrate", "network", "--workers", "1", code=2)


if __name__ == "__main__":
    unittest.main()
