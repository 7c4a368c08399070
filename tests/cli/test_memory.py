"""memory: table, JSON with its schema, trace, curve, network files good and broken."""

import json
import pathlib
import unittest

from program import ProgramTest

SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "lib" / "memory" / "memory_schema.json"
POLICIES = "none,shared,liveness,vdnn-all,vdnn-conv,vdnn,sequential,superneurons,dymem"


class Memory(ProgramTest):
    def test_all_policies(self):
        done = self.run_program("memory", "lenet-5", "resnet-20", "--batch", "8", "--policy", POLICIES, "-o", "m.json",
                                "--trace", "t.json", "--memory-curve", "3")
        self.assertEqual(done.stdout.count("dymem"), 2)
        text = (self.folder / "m.json").read_text()
        document = json.loads(text)
        self.assertEqual([len(one["policies"]) for one in document["networks"]], [9, 9])
        for one in document["networks"]:
            for policy in one["policies"]:
                self.assertEqual(policy["status"], "fits")
                self.assertGreater(policy["largest_batch"], 8)
                self.assertEqual(len(policy["steps"]), one["network"]["steps"])
                self.assertEqual(len(policy["curve"]), 3)
        try:
            import jsonschema
        except ImportError:
            jsonschema = None
        if jsonschema:
            jsonschema.Draft7Validator(json.loads(SCHEMA.read_text())).validate(document)
        events = json.loads((self.folder / "t.json").read_text())["traceEvents"]
        self.assertEqual({event["name"] for event in events if event["ph"] == "C"}, {"live", "used", "gap"})
        places = [event["args"]["bytes"] * (1 if event["name"].startswith("allocate") else -1) for event in events if event["ph"] == "i"]
        self.assertEqual(sum(places), 0)
        self.run_program("memory", "lenet-5", "resnet-20", "--batch", "8", "--policy", POLICIES, "-o", "n.json",
                         "--memory-curve", "3")
        self.assertEqual(json.loads((self.folder / "n.json").read_text())["networks"], document["networks"])

    def test_network_files(self):
        text = self.run_program("memory", "lenet-5", "--print-network").stdout
        (self.folder / "mine.json").write_text(text)
        self.assertEqual(self.run_program("memory", "mine.json", "--print-network").stdout, text)
        (self.folder / "bad.json").write_text(text.replace('"kernel": 5', '"kernel": 50', 1))
        self.assertIn('node "conv_1": found a kernel of height 50', self.error("memory", "bad.json", code=4))
        self.assertIn('did you mean "lenet-5"?', self.error("memory", "lenet5", code=2))
        self.assertIn("found \"dynem\"", self.error("memory", "lenet-5", "--policy", "dynem", code=2))

    def test_what_does_not_fit_says_where(self):
        self.run_program("memory", "lenet-5", "--batch", "64", "--memory", "100K", "-o", "m.json")
        policy = json.loads((self.folder / "m.json").read_text())["networks"][0]["policies"][0]
        self.assertEqual(policy["status"], "fails")
        self.assertEqual(policy["shortage"]["node"], "conv_1")

    def test_dymem_finds_its_size(self):
        self.run_program("memory", "resnet-20", "--batch", "8", "--policy", "dymem,vdnn-all", "--main-initial", "1G", "--beta", "1M",
                         "--on-shortage", "restart", "--jitter", "0.1", "--iterations", "5", "-o", "m.json")
        dymem, vdnn = json.loads((self.folder / "m.json").read_text())["networks"][0]["policies"]
        self.assertLess(dymem["capacity_bytes"], 2 ** 30)
        self.assertGreater(dymem["capacity_bytes"], dymem["minimum_bytes"])
        self.assertGreater(vdnn["capacity_bytes"], 2 ** 30)  # has no arenas to size
        self.assertEqual(dymem["iterations"]["iterations"], 5)
        self.assertLessEqual(dymem["iterations"]["failed"], dymem["iterations"]["restarts"])

    def test_forks_may_be_copies(self):
        steps = []
        for fork in ("share", "copy"):
            self.run_program("memory", "resnet-32?bn=0&shortcut=A", "--fork", fork, "--batch", "2", "-o", "m.json", "--overwrite")
            steps.append(json.loads((self.folder / "m.json").read_text())["networks"][0]["network"]["steps"])
        self.assertEqual(steps[1] - steps[0], 30)

    def test_superneurons_cache_moves_less(self):
        options = ["memory", "resnet-20", "--batch", "8", "--policy", "superneurons", "--memory", "60M"]
        moved = []
        for more in ([], ["--tensor-cache", "lru"]):
            self.run_program(*options, *more, "-o", "m.json", "--overwrite")
            moved.append(json.loads((self.folder / "m.json").read_text())["networks"][0]["policies"][0]["offloaded_bytes"])
        self.assertGreater(moved[0], moved[1])

    def test_superneurons_computes_again_what_it_dropped(self):
        found = []
        for recompute in ("none", "cost"):
            self.run_program("memory", "alexnet", "--batch", "20", "--policy", "superneurons", "--recompute", recompute,
                             "--no-largest-batch", "--trace", f"{recompute}.json", "-o", "m.json", "--overwrite")
            found.append(json.loads((self.folder / "m.json").read_text())["networks"][0]["policies"][0])
        self.assertEqual(found[0]["recomputed_operations"], 0)
        self.assertGreater(found[1]["recomputed_operations"], 0)
        self.assertLess(found[1]["peak_live_bytes"], found[0]["peak_live_bytes"])
        self.assertGreater(found[1]["compute_s"], found[0]["compute_s"])
        self.assertNotIn("lrn_3 again", (self.folder / "none.json").read_text())
        self.assertEqual((self.folder / "cost.json").read_text().count('"lrn_3 again"'), 3)

    def test_plans_are_for_one_number_of_steps(self):
        network = "lstm-video?size=16&units=8&classes=5"
        done = self.run_program("memory", network, "--steps", "40", "--batch", "2", "--policy", "none", "-o", "m.json")
        self.assertIn("sequences of 40 steps: Dymem plans fixed shapes", done.stdout + done.stderr)
        other = "lstm-video?size=16&units=8&classes=5&steps=40"
        self.run_program("memory", other, "--batch", "2", "--policy", "none", "-o", "n.json")
        of_steps, built = (json.loads((self.folder / name).read_text())["networks"][0] for name in ("m.json", "n.json"))
        self.assertEqual(of_steps["policies"], built["policies"])
        self.assertIn("--steps: found 40, but node input of lenet-5", self.error("memory", "lenet-5", "--steps", "40", code=2))


if __name__ == "__main__":
    unittest.main()
