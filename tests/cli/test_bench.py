"""bench: collectives with the columns of nccl-tests, and lookups in embedding tables."""

import csv
import io

from program import ProgramTest

COLUMNS = ["size(B)", "count", "type", "redop", "time(us)", "algbw(GB/s)", "busbw(GB/s)", "#wrong", "floor(us)", "time/floor"]


class BenchCollectives(ProgramTest):
    # Bus bandwidth over algorithm bandwidth with 4 workers, and the operator's name, as in nccl-tests.
    FACTORS = {"all_reduce": (6 / 4, "sum"), "all_gather": (3 / 4, "none"), "reduce_scatter": (3 / 4, "sum"),
               "broadcast": (1, "none"), "all_to_all": (3 / 4, "blocking")}
    ALL_TO_ALL = ["bench", "all_to_all", "-b", "64K", "-e", "64K", "-n", "3", "-w", "0", "--workers", "4", "--exchange"]
    SHORT = ["bench", "all_reduce", "-b", "4K", "-e", "64K", "-f", "4", "-n", "4", "-w", "1"]

    def rows(self, *arguments):
        return list(csv.DictReader(io.StringIO(self.run_program(*arguments, "--format", "csv").stdout)))

    def test_every_collective_has_the_same_columns(self):
        for collective, (factor, name) in self.FACTORS.items():
            with self.subTest(collective):
                command = ["bench", collective, "-b", "100", "-e", "4K", "-f", "8", "-n", "2", "-w", "0", "--workers", "4"]
                bench = self.json_of(*command, "--format", "json")
                self.assertEqual((bench["benchmark"], bench["workers"], bench["iterations"], bench["warmup"]), (collective, 4, 2, 0))
                self.assertEqual(bench["results"][0]["redop"], name)
                for row in bench["results"]:
                    self.assertEqual(row["wrong"], 0)
                    self.assertAlmostEqual(row["busbw_bytes_per_s"] / row["algbw_bytes_per_s"], factor)
                    times = [row["time_s"][key] for key in ("min", "median", "max")]
                    self.assertEqual(times, sorted(times))
                    self.assertAlmostEqual(row["algbw_bytes_per_s"] * times[1] / row["size_bytes"], 1)
                sizes = [row["size_bytes"] for row in bench["results"] if row["redop"] == name]
                # Parts of 4 workers are multiples of 16 bytes.
                self.assertEqual(sizes, [96, 800] if collective in ("all_gather", "all_to_all") else [100, 800])
                self.assertEqual(list(self.rows(*command)[0]), COLUMNS)

    def test_sizes_and_operators(self):
        rows = self.rows(*self.SHORT, "--op", "sum,ring,adasum")
        self.assertEqual([(row["size(B)"], row["redop"]) for row in rows],
                         [(size, op) for size in ("4096", "16384", "65536") for op in ("sum", "ring", "adasum")])
        for row in rows:
            self.assertEqual((row["#wrong"], int(row["count"]) * 4), ("0", int(row["size(B)"])))
            self.assertGreater(float(row["floor(us)"]), 0)
        self.assertEqual({row["#wrong"] for row in self.rows(*self.SHORT, "--no-check")}, {""})
        self.assertEqual({row["size(B)"] for row in self.rows(*self.SHORT, "-f", str(2**63))}, {"4096"})  # a large factor ends
        self.run_program(*self.SHORT, "--format", "json", "-o", "b.json")
        self.assertEqual(len(self.result("b.json")["results"]), 6)
        self.assertTrue(self.run_program(*self.SHORT, "--format", "markdown").stdout.startswith("| size"))
        self.assertIn("floor: ", self.run_program(*self.SHORT).stderr)

    # One of four is late by 1 to 2 ms: in a meeting the three others wait that long for it; of the scatters' receivers they
    # do so, too, but the late one finds all parts there. Its call is shorter than the transfer.
    def test_a_late_worker_finds_its_parts(self):
        command = [*self.ALL_TO_ALL, "blocking,scatter", "--cluster", "sim", "--straggler", "kind=uniform,worker=0,min=1ms,max=2ms"]
        blocking, scatter = self.json_of(*command, "--format", "json")["results"]
        self.assertEqual([(row["redop"], row["wrong"]) for row in (blocking, scatter)], [("blocking", 0), ("scatter", 0)])
        self.assertLess(scatter["in_call_s"], blocking["in_call_s"])
        self.assertAlmostEqual(scatter["time_s"]["max"], blocking["time_s"]["max"], places=12)
        self.assertIn("in call(us)", self.rows(*command)[0])

    def test_sim_is_the_network_model(self):
        """ethernet-1g: a ring over 4 workers takes 2 * 3 (latency + n / (4 bandwidth))."""
        network = self.json_of("devices", "ethernet-1g", "--json")
        for row in self.json_of(*self.SHORT, "--cluster", "sim", "--workers", "4", "--network", "ethernet-1g", "--op", "ring",
                                "--format", "json")["results"]:
            expected = 6 * (network["latency_s"] + row["size_bytes"] / 4 / network["bytes_per_s"])
            self.assertAlmostEqual(row["time_s"]["median"] / expected, 1)
            self.assertIsNone(row["floor_s"])

    def test_errors(self):
        self.refuse_all(["bench"], (
            ("broadcast --op sum", "--op"), ("all_to_all --exchange scater", ("--exchange", '"scater"')),
            ("all_reduce -b x", ("--min-bytes", '"x"')), ("all_reduce -b 2", ("--min-bytes", '"2"')),
            ("all_reduce -b 64K -e 4K", ("--max-bytes", '"4K"')), ("all_reduce -f 1", ("--factor", '"1"')),
            ("all_reduce --op sum,adasun", "--op", "adasum"), ("all_reduce --cluster cloud", ("--cluster", '"cloud"')),
            ("all_reduce --network fog", ("", "fog"))))
        many = "--cluster sim --workers 65536 -b 1G -e 1G"  # does not fit into memory
        self.refuse_all(["bench"], ((f"all_gather {many}", ("", "65536 workers"), True), (f"all_to_all {many}", ("", "65536 workers"), True),
                                    ("all_reduce -b 1T -e 1T", ("", "--max-bytes 1T"))), code=4)


class BenchLookup(ProgramTest):
    SMALL = ["bench", "lookup", "--rows", "20K", "--iterations", "3", "--batch-size", "64,256"]

    def test_every_batch_has_its_stages(self):
        result = self.json_of(*self.SMALL, "--format", "json")
        self.assertEqual([batch["lookups"] for batch in result["batches"]], [64 * 26, 256 * 26])
        self.assertGreater(result["random_read_bytes_per_s"], 0)
        for batch in result["batches"]:
            stages = [batch[f"{stage}_s"] for stage in ("request", "look_up", "spread", "sum", "update")]
            self.assertGreater(min(stages), 0)
            self.assertAlmostEqual(batch["samples_per_s"] * sum(stages) / batch["batch_size"], 1)
            self.assertGreater(min(batch["reads_share"], batch["copies_share"]), 0)
            self.assertLess(batch["entries"], batch["lookups"])
            # Gradients and numbers of the lookups, lines of the rows read and written: D = 16 lies in one line.
            self.assertAlmostEqual(batch["update_floor_s"] * result["random_read_bytes_per_s"],
                                   batch["lookups"] * (64 + 12) + 2 * 64 * batch["entries"], places=3)
        for batch in self.json_of(*self.SMALL, "--dedup=false", "--own-weight", "--format", "json")["batches"]:
            self.assertAlmostEqual(batch["entries"], batch["lookups"])
        self.assertRegex(self.run_program(*self.SMALL).stdout, r"^batch .*\n(.+\n){2}")

    def test_errors(self):
        self.refuse_all(["bench", "lookup"], (("--rows 10", "--rows"), ("--batch-size 9223372036854775807", "--batch-size")))
        self.run_program("bench", "lookup", "--rows", "20K", "--batch-size", "4M", "--fields", "4096", "--embedding-dim", "512", code=4)
