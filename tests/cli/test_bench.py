"""bench: every collective, its operators and exchanges, with the columns of nccl-tests."""

import csv
import io
import json
import unittest

from program import ProgramTest


class BenchCollectives(ProgramTest):
    # Bus bandwidth over algorithm bandwidth with 4 workers, and the operator's name, as in nccl-tests.
    FACTORS = {"all_reduce": (6 / 4, "sum"), "all_gather": (3 / 4, "none"), "reduce_scatter": (3 / 4, "sum"),
               "broadcast": (1, "none"), "all_to_all": (3 / 4, "blocking")}

    def test_every_collective_has_the_same_columns(self):
        for collective, (factor, name) in self.FACTORS.items():
            with self.subTest(collective):
                command = ["bench", collective, "-b", "100", "-e", "4K", "-f", "8", "-n", "2", "-w", "0", "--workers", "4"]
                bench = json.loads(self.run_program(*command, "--format", "json").stdout)
                self.assertEqual(bench["benchmark"], collective)
                self.assertEqual(bench["results"][0]["redop"], name)
                for row in bench["results"]:
                    self.assertEqual(row["wrong"], 0)
                    self.assertAlmostEqual(row["busbw_bytes_per_s"] / row["algbw_bytes_per_s"], factor)
                sizes = [row["size_bytes"] for row in bench["results"] if row["redop"] == name]
                # Parts of 4 workers are multiples of 16 bytes.
                self.assertEqual(sizes, [96, 800] if collective in ("all_gather", "all_to_all") else [100, 800])
                columns = self.run_program(*command, "--format", "csv").stdout.splitlines()[0]
                self.assertEqual(columns, "size(B),count,type,redop,time(us),algbw(GB/s),busbw(GB/s),#wrong,floor(us),time/floor")

    def test_operators_are_those_of_all_reduce(self):
        self.assertIn("error: --op: unknown option", self.error("bench", "broadcast", "--op", "sum", code=2))

    def test_exchanges_of_all_to_all(self):
        command = ["bench", "all_to_all", "-b", "64K", "-e", "64K", "-n", "3", "-w", "0", "--workers", "4", "--exchange"]
        bench = json.loads(self.run_program(*command, "blocking,scatter", "--format", "json").stdout)
        self.assertEqual([(row["redop"], row["wrong"]) for row in bench["results"]], [("blocking", 0), ("scatter", 0)])
        self.assertIn("--exchange: found \"scater\", expected one of ", self.error(*command, "scater", code=2))

    # One of four is late by 1 to 2 ms: in a meeting the three others wait that long for it; of the scatters' receivers they
    # do so, too, but the late one finds all parts there. Its call is shorter than the transfer.
    def test_a_late_worker_finds_its_parts(self):
        command = ["bench", "all_to_all", "-b", "64K", "-e", "64K", "-n", "3", "-w", "0", "--workers", "4", "--cluster", "sim",
                   "--straggler", "kind=uniform,worker=0,min=1ms,max=2ms", "--exchange", "blocking,scatter"]
        bench = json.loads(self.run_program(*command, "--format", "json").stdout)
        blocking, scatter = bench["results"]
        self.assertLess(scatter["in_call_s"], blocking["in_call_s"])
        self.assertAlmostEqual(scatter["time_s"]["max"], blocking["time_s"]["max"], places=12)
        self.assertIn("in call(us)", self.run_program(*command, "--format", "csv").stdout.splitlines()[0])


class BenchAllReduce(ProgramTest):
    SHORT = ["-b", "4K", "-e", "64K", "-f", "4", "-n", "4", "-w", "1"]

    def bench(self, *arguments, code=0):
        return self.run_program("bench", "all_reduce", *arguments, code=code)

    def test_columns_and_sizes_are_those_of_nccl_tests(self):
        done = self.bench(*self.SHORT, "--op", "sum,ring,adasum", "--format", "csv")
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual(list(rows[0]), ["size(B)", "count", "type", "redop", "time(us)",
                                         "algbw(GB/s)", "busbw(GB/s)", "#wrong", "floor(us)",
                                         "time/floor"])
        self.assertEqual([(row["size(B)"], row["redop"]) for row in rows],
                         [(size, op) for size in ("4096", "16384", "65536")
                          for op in ("sum", "ring", "adasum")])
        for row in rows:
            self.assertEqual(row["#wrong"], "0")
            self.assertEqual(int(row["count"]) * 4, int(row["size(B)"]))
            self.assertGreater(float(row["floor(us)"]), 0)
        self.assertIn("floor: ", self.bench(*self.SHORT).stderr)
        self.assertTrue(self.bench(*self.SHORT, "--format", "markdown").stdout.startswith("| size"))

    def test_json(self):
        self.bench(*self.SHORT, "--workers", "3", "--format", "json", "-o", "b.json")
        bench = self.result("b.json")
        self.assertEqual((bench["workers"], bench["iterations"], bench["warmup"]), (3, 4, 1))
        self.assertEqual(len(bench["results"]), 6)
        for row in bench["results"]:
            time_s = row["time_s"]
            self.assertLessEqual(time_s["min"], time_s["median"])
            self.assertLessEqual(time_s["median"], time_s["max"])
            self.assertAlmostEqual(row["algbw_bytes_per_s"] * time_s["median"] / row["size_bytes"], 1)
            self.assertAlmostEqual(row["busbw_bytes_per_s"] / row["algbw_bytes_per_s"], 4 / 3)
            self.assertEqual(row["wrong"], 0)
        self.assertEqual(self.bench("-o", "b.json", code=2).stderr,
                         "error: b.json: the file exists\nhint: --overwrite replaces it\n")

    def test_sim_is_the_network_model(self):
        """ethernet-1g: a ring over 4 workers takes 2 * 3 (latency + n / (4 bandwidth))."""
        devices = json.loads(self.run_program("devices", "--json").stdout)
        network = next(n for n in devices["networks"] if n["name"] == "ethernet-1g")
        done = self.bench(*self.SHORT, "--cluster", "sim", "--workers", "4", "--network",
                          "ethernet-1g", "--op", "ring", "--format", "json")
        for row in json.loads(done.stdout)["results"]:
            expected = 6 * (network["latency_s"] +
                            row["size_bytes"] / 4 / network["bytes_per_s"])
            self.assertAlmostEqual(row["time_s"]["median"] / expected, 1)
            self.assertIsNone(row["floor_s"])

    def test_what_does_not_fit_into_memory_is_refused(self):
        for collective in ("all_gather", "all_to_all"):
            said = self.error("bench", collective, "--cluster", "sim", "--workers", "65536", "-b", "1G", "-e", "1G", code=4)
            self.assertIn("65536 workers", said)
            self.assertIn("hint: ", said)

    def test_no_check(self):
        done = self.bench(*self.SHORT, "--no-check", "--format", "csv")
        self.assertEqual({row["#wrong"] for row in csv.DictReader(io.StringIO(done.stdout))}, {""})

    def test_errors(self):
        for arguments, message in (
                (["-b", "x"], 'error: --min-bytes: found "x", expected a size in bytes'),
                (["-b", "2"], 'error: --min-bytes: found "2", expected at least one number'),
                (["-b", "64K", "-e", "4K"], 'error: --max-bytes: found "4K", expected between'),
                (["-f", "1"], 'error: --factor: found "1"'),
                (["--op", "sum,adasun"], 'hint: did you mean "adasum"?\n'),
                (["--cluster", "cloud"], 'error: --cluster: found "cloud"'),
                (["--network", "fog"], 'fog')):
            with self.subTest(arguments):
                self.assertIn(message, self.bench(*arguments, code=2).stderr)
        self.assertIn("--max-bytes 1T", self.bench("-b", "1T", "-e", "1T", code=4).stderr)

    def test_a_large_factor_ends(self):
        done = self.bench("-b", "4K", "-e", "64K", "-f", str(2**63), "-n", "4", "-w", "1", "--format", "csv")
        self.assertEqual({row["size(B)"] for row in csv.DictReader(io.StringIO(done.stdout))}, {"4096"})


if __name__ == "__main__":
    unittest.main()
