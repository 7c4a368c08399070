"""mpirun hetsgd train --tables sharded: every rank has its own rows, and the numbers are those of sim."""

import os
import signal
import unittest

from mpi_program import MpiTest, has_mpi
from program import LIMIT_S

CLICKS = ["train", "--train", "generate:ctr-tiny", "--test", "generate:ctr-tiny", "--model", "deepfm", "--hidden", "16",
          "--embedding-init-std", "0.1", "--batch-size", "64", "--learning-rate", "0.2", "--evaluate-every", "1280",
          "--tables", "sharded", "--quiet", "--overwrite"]


@unittest.skipUnless(has_mpi(), "no mpirun, or built without MPI")
class ShardedTables(MpiTest):
    def expect_same(self, ranks, *options):
        with self.subTest(ranks=ranks, options=options):
            run = [*CLICKS, "--max-samples", "2560", *options, "--dump-parameters"]
            self.finished(self.mpirun(ranks, *run, "mpi.f32", "-o", "mpi.json"), 0)
            self.run_program(*run, "sim.f32", "--workers", str(ranks), "-o", "sim.json")
            real, simulated = self.result("mpi.json"), self.result("sim.json")
            self.expect_same_curve((real, simulated), ("samples_count", "test_loss", "auc", "updates"))
            self.assertLess(real["curve"][-1]["test_loss"], real["curve"][0]["test_loss"])
            self.assertEqual((self.folder / "mpi.f32").read_bytes(), (self.folder / "sim.f32").read_bytes())
            self.assertEqual(real["tables"], simulated["tables"])
            self.assertGreater(real["tables"]["distinct_share"], 0)

    def test_bench_has_the_library_beside_the_own_exchange(self):
        bench = ["bench", "all_to_all", "-b", "6K", "-e", "6K", "-n", "2", "-w", "0", "--format", "json", "-o"]
        self.finished(self.mpirun(3, *bench, "bench.json"), 0)
        self.assertEqual([(row["redop"], row["wrong"]) for row in self.result("bench.json")["results"]],
                         [("blocking", 0), ("mpi", 0)])
        self.refused([*bench, "none.json", "--exchange", "mpi"], "--exchange")

    def test_ranks_learn_the_bits_of_sim(self):
        self.expect_same(1, "--algorithm", "sgd")
        self.expect_same(3, "--algorithm", "ssgd")
        self.expect_same(4, "--algorithm", "ssgd", "--sharding", "column:2", "--optimizer", "adagrad", "--learning-rate", "0.05")
        self.expect_same(2, "--algorithm", "local-sgd", "--sharding", "table", "--dedup=false")

    def test_sven_learns_the_bits_of_sim(self):
        self.expect_same(3, "--algorithm", "sven")
        self.expect_same(2, "--algorithm", "sven", "--join", "data", "--exchange", "blocking", "--lookahead", "4")
        self.expect_same(3, "--algorithm", "sven", "--pipeline", "none")
        stages = self.result("mpi.json")["workers"][0]["stages"]
        self.assertGreater(stages["f_exchange_s"], 0)
        self.assertEqual(stages["stall_s"], 0)

    def test_ranks_keep_and_lose_the_rows_of_sim(self):
        self.expect_same(3, "--algorithm", "ssgd", "--per-worker-batch", "split", "--min-frequency", "1",
                         "--table-capacity", "300")
        self.assertGreater(self.result("mpi.json")["tables"]["evicted"], 0)
        self.expect_same(2, "--algorithm", "ssgd", "--table-storage", "hybrid", "--hot-fraction", "0.1",
                         "--hot-replace-every", "5")
        self.assertGreater(self.result("mpi.json")["tables"]["device_hit_share"], 0.1)

    def test_ranks_that_load_their_shard_alone_learn_the_same(self):
        self.expect_same(3, "--algorithm", "ssgd", "--partition", "iid")
        error = self.finished(self.mpirun(2, *CLICKS, "--max-samples", "2560", "--algorithm", "ssgd", "--partition", "iid",
                                          "--sharding", "auto"), 2)
        self.check_refusal(error, ("--sharding", "auto"))

    def test_one_rank_that_is_served_learns_the_bits_of_sim(self):
        self.expect_same(1, "--algorithm", "sgd", "--table-exchange", "served")
        self.expect_same(1, "--algorithm", "local-sgd", "--table-exchange", "served", "--optimizer", "adagrad", "--learning-rate",
                         "0.05")

    def test_every_algorithm_learns_on_served_tables(self):
        listed = self.json_of("algorithms", "--format", "json")
        names = [each["name"] for each in listed if each["max_workers"] > 1
                 and not each["replicated_tables_only"] and not each["sharded_tables_only"]]
        self.assertIn("asgd", names)
        for number, name in enumerate(names):
            self.finished(self.mpirun(2 + number % 2, *CLICKS, "--max-samples", "2560", "--mega-batch", "8", "--algorithm", name,
                                      "--table-exchange", "served", "-o", "served.json"), 0)
            result = self.result("served.json")
            with self.subTest(algorithm=name):
                self.assertEqual((result["status"], result["tables"]["exchange"]), ("completed", "served"))
                self.assertLess(result["curve"][-1]["test_loss"], result["curve"][0]["test_loss"])
                self.assertTrue(result["histograms"]["row_staleness"])

    def test_a_rank_that_is_lost_ends_the_run_by_its_name(self):
        for algorithm in ("ssgd", "asgd"):
            process = self.mpirun(3, *CLICKS, "--max-samples", "1G", "--algorithm", algorithm, "-o", f"{algorithm}.json")
            self.wait_for_curve(f"{algorithm}.json")
            os.kill(self.pid_of_rank(process, 2), signal.SIGKILL)
            process.communicate(timeout=LIMIT_S)
            with self.subTest(algorithm=algorithm):
                self.assertNotEqual(process.returncode, 0)
                self.run_program("validate", f"{algorithm}.json")
