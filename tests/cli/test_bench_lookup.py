"""hetsgd bench lookup."""

import json
import unittest

from program import ProgramTest

SMALL = ["bench", "lookup", "--rows", "20K", "--iterations", "3", "--batch-size", "64,256"]


class BenchLookup(ProgramTest):
    def test_every_batch_has_its_stages(self):
        result = json.loads(self.run_program(*SMALL, "--format", "json").stdout)
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

    def test_without_deduplication_every_lookup_is_a_row(self):
        result = json.loads(self.run_program(*SMALL, "--dedup=false", "--own-weight", "--format", "json").stdout)
        for batch in result["batches"]:
            self.assertAlmostEqual(batch["entries"], batch["lookups"])

    def test_people_read_it_too(self):
        header, *rows = [line.split("  ") for line in self.run_program(*SMALL).stdout.splitlines()]
        self.assertEqual(header[0], "batch")
        self.assertGreaterEqual(len(rows), 2)
        self.assertIn("--rows: found 10, expected at least one for each of 26 fields",
                      self.error("bench", "lookup", "--rows", "10", code=2))

    def test_sizes_have_bounds(self):
        self.assertIn("--batch-size", self.error("bench", "lookup", "--batch-size", "9223372036854775807", code=2))
        self.assertIn("needs at least", self.error("bench", "lookup", "--rows", "20K", "--batch-size", "4M", "--fields",
                                                   "4096", "--embedding-dim", "512", code=4))


if __name__ == "__main__":
    unittest.main()
