"""The machines of the papers (experiments/machines) are configurations that train takes."""

import json
import pathlib
import unittest

from program import ProgramTest

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
                self.assertEqual([cluster["device_profile"]["name"], cluster["server_profile"]["name"],
                                  cluster["network"]["name"]],
                                 [machine["profile"], machine["server_profile"], machine["network"]])
                self.assertEqual(len(result["workers"]), machine["workers"])

    def test_mixed_speeds_are_the_ratios_of_the_profiles(self):
        profiles = {p["name"]: p for p in json.loads(self.run_program("devices", "--json").stdout)["profiles"]}
        machine = json.loads(next(path for path in MACHINES if path.stem == "rna-mixed").read_text())
        fastest = profiles[machine["profile"]]["operations_per_s"]
        ratios = [round(profiles[name]["operations_per_s"] / fastest, 2)
                  for name, count in (("rtx-2080ti", 8), ("gtx-1080ti", 16), ("k80", 8)) for _ in range(count)]
        self.assertEqual(machine["speed"], ratios)


if __name__ == "__main__":
    unittest.main()
