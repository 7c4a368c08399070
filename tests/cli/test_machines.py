"""The machines of the papers (experiments/machines) are configurations that train takes."""

import json
import pathlib

from program import TINY, ProgramTest, without_host

MACHINES = sorted((pathlib.Path(__file__).resolve().parents[2] / "experiments" / "machines").glob("*.json"))


class Machines(ProgramTest):
    def test_train_runs_on_each(self):
        self.assertTrue(MACHINES)
        for path in MACHINES:
            machine = json.loads(path.read_text())
            with self.subTest(path.name):
                self.train(path.name, "--config", str(path), "--algorithm", "asgd", "--max-samples", "2048")
                result = self.result(path.name)
                self.assertEqual({key: result["config"][key] for key in machine}, machine)
                cluster = result["cluster"]
                self.assertEqual([cluster["server_profile"]["name"], cluster["network"]["name"]],
                                 [machine["server_profile"], machine["network"]])
                devices = [item.split("*") for item in machine["profile"].split(",")]
                self.assertEqual([worker["profile"] for worker in result["workers"]],
                                 [name for name, *count in devices
                                  for _ in range(int(*count or [machine["workers"]]))])
                self.assertEqual(len(result["workers"]), machine["workers"])

    def test_each_worker_has_the_profile_of_the_list(self):
        run = ["--algorithm", "asgd", "--workers", "4", "--max-samples", "2048"]
        self.train("mixed.json", *run, "--profile", "v100,k80*2,v100", "--speed", "1,1,0.5,1")
        result = self.result("mixed.json")
        self.assertEqual(result["config"]["profile"], "v100,k80*2,v100")
        self.assertEqual([worker["profile"] for worker in result["workers"]], ["v100", "k80", "k80", "v100"])
        self.assertEqual([worker["device"] for worker in result["workers"]], ["v100", "k80", "k80 x 0.5", "v100"])
        self.assertEqual([(profile["name"], profile["workers"]) for profile in result["cluster"]["device_profile"]],
                         [("v100", "0;3"), ("k80", "1-2")])
        steps = [worker["compute_s"] / worker["steps"] for worker in result["workers"]]
        self.assertGreater(steps[1], 1.1 * steps[0])
        self.assertGreater(steps[2], 1.5 * steps[1])
        self.run_program("validate", "mixed.json")
        self.run_program("rerun", "mixed.json", "-o", "again.json")
        self.assertEqual(without_host(self.result("again.json"))["curve"], result["curve"])

    def test_a_list_of_one_profile_is_that_profile_and_there_are_no_more_than_workers(self):
        run = ["--algorithm", "ssgd", "--workers", "2", "--max-samples", "1024"]
        self.train("one.json", *run, "--profile", "k80")
        self.train("list.json", *run, "--profile", "k80*2")
        one, listed = self.result("one.json"), self.result("list.json")
        for part in ("cluster", "curve", "workers", "summary"):
            self.assertEqual(one[part], listed[part])
        self.refused(["train", *TINY, *run, "--profile", "v100*3"], "--profile")
        # A plan says what the slowest device takes.
        step_s = {profile: self.json_of("train", *TINY, *run, "--profile", profile, "--dry-run")["estimate"]["step_s"]
                  for profile in ("v100", "k80", "v100,k80")}
        self.assertLess(step_s["v100"], step_s["k80"])
        self.assertEqual(step_s["v100,k80"], step_s["k80"])

    def test_a_network_of_nodes(self):
        network = {"name": "n", "latency_s": 1e-3, "bytes_per_s": 1e6, "server_latency_s": 1e-3, "server_bytes_per_s": 1e6}
        inside = {"name": "", "latency_s": 1e-5, "bytes_per_s": 1e9, "shared_bus": False}
        time = []
        for nodes in ({}, {"nodes": [{"workers": 4, "inside": inside}]}):
            self.write("network.json", network | nodes)
            self.train("r.json", "--algorithm", "ssgd", "--workers", "4", "--max-samples", "2048", "--network", "network.json", "--overwrite")
            self.run_program("validate", "r.json")
            time.append(self.result("r.json")["summary"]["elapsed_s"])
        self.assertLess(time[1], time[0] / 10)
        self.assertEqual(self.result("r.json")["cluster"]["network"]["nodes"], [{"times": 1, "workers": 4, "inside": inside}])
        self.write("broken.json", network | {"nodes": [{"workers": 2}]})
        self.refused(["train", *TINY, "--epochs", "1", "--network", "broken.json"], "broken.json: nodes[0].inside", code=4)
