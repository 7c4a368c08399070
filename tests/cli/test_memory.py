"""memory: table, JSON with its schema, trace, curve, network files good and broken."""

import json
import pathlib

from program import ProgramTest

SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "lib" / "memory" / "memory_schema.json"
POLICIES = "none,shared,liveness,vdnn-all,vdnn-conv,vdnn,sequential,superneurons,dymem"


class Memory(ProgramTest):
    def networks(self, *arguments):
        """The JSON of hetsgd memory for each network."""
        self.run_program("memory", *arguments, "-o", "m.json", "--overwrite")
        return self.result("m.json")["networks"]

    def policies(self, *arguments):
        return self.networks(*arguments)[0]["policies"]

    def test_all_policies(self):
        run = ["lenet-5", "resnet-20", "--batch", "8", "--policy", POLICIES, "--memory-curve", "3"]
        done = self.run_program("memory", *run, "-o", "m.json", "--trace", "t.json")
        self.assertEqual(done.stdout.count("dymem"), 2)
        self.assertIn("\n| dymem ", self.run_program("memory", "lenet-5", "--format", "markdown").stdout)
        document = self.result("m.json")
        self.assertEqual([len(one["policies"]) for one in document["networks"]], [9, 9])
        for one in document["networks"]:
            for policy in one["policies"]:
                self.assertEqual(policy["status"], "fits")
                self.assertGreater(policy["largest_batch"], 8)
                self.assertEqual((len(policy["steps"]), len(policy["curve"])), (one["network"]["steps"], 3))
        events = self.result("t.json")["traceEvents"]
        self.assertEqual({event["name"] for event in events if event["ph"] == "C"}, {"live", "used", "gap"})
        places = [event["args"]["bytes"] * (1 if event["name"].startswith("allocate") else -1) for event in events if event["ph"] == "i"]
        self.assertEqual(sum(places), 0)
        self.assertEqual(self.networks(*run), document["networks"])
        self.check_schema(json.loads(SCHEMA.read_text()), document)

    def test_network_files(self):
        text = self.run_program("memory", "lenet-5", "--print-network").stdout
        self.write("mine.json", text)
        self.assertEqual(self.run_program("memory", "mine.json", "--print-network").stdout, text)
        self.write("bad.json", text.replace('"kernel": 5', '"kernel": 50', 1))
        self.refused(["memory", "bad.json"], ("bad.json", "conv_1"), code=4)
        self.refuse_all(["memory"], (("lenet5", ("", "lenet5"), "lenet-5"), ("lenet-5 --policy dynem", ("--policy", '"dynem"')),
                                     ("lenet-5 --steps 40", "--steps")))

    def test_what_does_not_fit_says_where(self):
        policy = self.policies("lenet-5", "--batch", "64", "--memory", "100K")[0]
        self.assertEqual((policy["status"], policy["shortage"]["node"]), ("fails", "conv_1"))

    def test_dymem_finds_its_size(self):
        dymem, vdnn = self.policies("resnet-20", "--batch", "8", "--policy", "dymem,vdnn-all", "--main-initial", "1G", "--beta", "1M",
                                    "--on-shortage", "restart", "--jitter", "0.1", "--iterations", "5")
        self.assertLess(dymem["capacity_bytes"], 2 ** 30)
        self.assertGreater(dymem["capacity_bytes"], dymem["minimum_bytes"])
        self.assertGreater(vdnn["capacity_bytes"], 2 ** 30)  # has no arenas to size
        self.assertEqual(dymem["iterations"]["iterations"], 5)
        self.assertLessEqual(dymem["iterations"]["failed"], dymem["iterations"]["restarts"])

    def test_options_of_policies(self):
        shared, copied = (self.networks("resnet-32?bn=0&shortcut=A", "--fork", fork, "--batch", "2")[0]["network"]["steps"]
                          for fork in ("share", "copy"))
        self.assertEqual(copied - shared, 30)
        superneurons = ["resnet-20", "--batch", "8", "--policy", "superneurons", "--memory", "60M"]
        moved = [self.policies(*superneurons, *more)[0]["offloaded_bytes"] for more in ([], ["--tensor-cache", "lru"])]
        self.assertGreater(moved[0], moved[1])
        none, cost = (self.policies("alexnet", "--batch", "20", "--policy", "superneurons", "--recompute", recompute, "--no-largest-batch",
                                    "--trace", f"{recompute}.json")[0] for recompute in ("none", "cost"))
        self.assertEqual(none["recomputed_operations"], 0)
        self.assertGreater(cost["recomputed_operations"], 0)
        self.assertLess(cost["peak_live_bytes"], none["peak_live_bytes"])
        self.assertGreater(cost["compute_s"], none["compute_s"])
        self.assertEqual([(self.folder / f"{name}.json").read_text().count('"lrn_3 again"') for name in ("none", "cost")], [0, 3])

    def test_plans_are_for_one_number_of_steps(self):
        plan = ["--batch", "2", "--policy", "none"]
        self.assertEqual(self.policies("lstm-video?size=16&units=8&classes=5", "--steps", "40", *plan),
                         self.policies("lstm-video?size=16&units=8&classes=5&steps=40", *plan))
