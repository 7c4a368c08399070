"""mpirun hetsgd train: every algorithm on several ranks, beside the same run simulated."""

import json
import os
import random
import re
import shutil
import socket
import subprocess
import unittest

import mpi_stress
from mpi_program import MPI, RUN, MpiTest, has_mpi
from program import BINARY, LIMIT_S

# Whatever the timing, these make the same updates in the same order: the same bits as in `sim`.
EXACT = {"ssgd", "elastic", "local-sgd", "sma", "easgd"}


@unittest.skipUnless(has_mpi(), "no mpirun, or built without MPI")
class Mpi(MpiTest):
    def algorithms(self):
        listed = self.json_of("algorithms", "--format", "json")
        return [each["name"] for each in listed if each["max_workers"] > 1 and not each["one_process_only"]
                and not each["sharded_tables_only"]]  # test_mpi_tables.py has these

    def test_every_algorithm_learns_as_it_does_in_sim(self):
        for number, name in enumerate(self.algorithms()):
            ranks = 2 + number % 3
            with self.subTest(algorithm=name, ranks=ranks):
                real, simulated = self.beside_sim(ranks, [*RUN, "--algorithm", name, "--epochs", "4"])
                self.assertEqual((real["status"], real["config"]["cluster"], len(real["workers"])), ("completed", "mpi", ranks))
                self.assertGreater(min(worker["steps"] for worker in real["workers"]), 0)
                last, expected = real["curve"][-1], simulated["curve"][-1]
                if name in EXACT:
                    self.expect_same_curve((real, simulated))
                else:  # not the same order of events, and so not the same model
                    self.assertGreater(last["p1"], expected["p1"] - 0.2)
                    self.assertGreater(last["p1"], real["curve"][0]["p1"] + 0.1)

    def test_networks_of_tokens_learn_as_they_do_in_sim(self):
        """A method of each kind of exchange; training/models has all of them, whose messages do not depend on the model."""
        text = "generate:language?vocabulary=8&steps=16&rows_train=300&rows_test=60"
        for number, name in enumerate(("ssgd", "elastic", "asgd", "adpsgd", "rna", "esync")):
            model = ("gpt", "bert")[number % 2] + "-micro?layers=1&width=16&block=16"
            with self.subTest(algorithm=name, model=model):
                # Merges with momentum diverge at larger rates.
                run = ["train", "--train", text, "--test", text, "--model", model, "--algorithm", name, "--batch-size", "8",
                       "--mega-batch", "8", "--learning-rate", "0.1", "--epochs", "3"]
                real, simulated = self.beside_sim(2, run)
                if name in EXACT:
                    self.expect_same_curve((real, simulated), ("samples_count", "test_loss", "accuracy", "updates"))
                self.assertLess(real["curve"][-1]["test_loss"], real["curve"][0]["test_loss"])

    def test_batches_of_unequally_many_targets_weigh_as_in_sim(self):
        text = "generate:language?vocabulary=8&steps=16&lengths=lognormal&median=6&rows_train=300&rows_test=60"
        run = ["train", "--train", text, "--test", text, "--model", "gpt-micro?layers=1&width=16&block=16", "--batch-size", "4",
               "--mega-batch", "8", "--epochs", "1", "--algorithm", "ssgd"]
        for more in ([], ["--partition", "iid"]):  # a rank with its shard alone knows of the other rows
            with self.subTest(more=more):
                self.expect_same_curve(self.beside_sim(2, [*run, *more]), ("samples_count", "test_loss", "train_loss"))

    def test_a_record_gives_its_own_times(self):
        for algorithm in ("ssgd", "elastic", "asgd", "adpsgd"):
            with self.subTest(algorithm=algorithm):
                self.finished(self.mpirun(3, *RUN, "--algorithm", algorithm, "--epochs", "1", "--straggler", "kind=uniform,min=1ms,max=3ms",
                                          "--record-timeline", "run.jsonl", "--overwrite", "-o", "run.json"), 0)
                calls = map(json.loads, (self.folder / "run.jsonl").read_text().splitlines()[1:-1])
                replayed = self.json_of("replay", "run.jsonl", "--json")
                self.assertAlmostEqual(replayed["time_s"], max(call["e"] for call in calls), delta=1e-6)
                self.assertEqual(len(replayed["workers"]), 3)

    def test_runs_have_the_bits_of_sim(self):
        images = "generate:images?size=28&channels=1&rows_train=300&rows_test=60"
        network = ["train", "--train", images, "--test", images, "--batch-size", "20", "--mega-batch", "5", "--learning-rate", "0.03",
                   "--epochs", "1", "--model"]
        short = [*RUN, "--epochs", "1", "--algorithm"]
        clicks = ["train", "--train", "generate:ctr-tiny", "--test", "generate:ctr-tiny", "--hidden", "16", "--batch-size", "64", "--mega-batch",
                  "10", "--learning-rate", "0.02", "--max-samples", "12800", "--evaluate-samples", "1000"]
        # A rank that mpirun binds to one core could not have two.
        two_cores = {"OMPI_MCA_hwloc_base_binding_policy": "none"}
        for ranks, run, more, env in (
                (2, [*network, "lenet-5", "--algorithm", "ssgd"], [], {}), (2, [*network, "lenet-5", "--algorithm", "elastic"], [], {}),
                (2, [*network, "lenet-001", "--algorithm", "sma"], [], {}),  # has dropout
                (3, [*short, "ssgd"], ["--overlap", "--bucket", "1"], {}), (3, [*short, "ssgd"], ["--overlap", "--bucket", "64MiB"], {}),
                (2, [*clicks, "--model", "deepfm", "--algorithm", "ssgd"], [], {}), (2, [*clicks, "--model", "dcn", "--algorithm", "elastic"], [], {}),
                (2, [*short, "elastic", "--precision", "bf16"], [], {}),
                (2, [*short, "sma", "--learners-per-device", "2"], ["--devices", "cpu:2"], two_cores)):
            with self.subTest(run=run, more=more):
                self.expect_same_curve(self.beside_sim(ranks, run, *more, env=env),
                                       ("samples_count", "updates", "test_loss", "auc" if run[2] == "generate:ctr-tiny" else "p1"))

    def test_ranks_that_load_their_shard_alone_learn_the_same(self):
        self.run_program("data", "generate", "tiny", "tiny")
        for partition, measured in (("iid", ["--test", "tiny_test.txt"]), ("iid", ["--validation", "0.2"]), ("iid", []), ("label_sorted", []),
                                    ("dirichlet", ["--validation", "0.2"])):
            with self.subTest(partition=partition, measured=measured):
                real, simulated = self.beside_sim(3, [*RUN[:1], "--train", "tiny_train.txt", *measured, *RUN[5:], "--algorithm", "elastic",
                                                      "--partition", partition, "--epochs", "1"])
                self.expect_same_curve((real, simulated))
                self.assertEqual(real["dataset"], simulated["dataset"])
                self.assertEqual(*([worker["shard_rows"] for worker in result["workers"]] for result in (real, simulated)))

    def test_services_in_a_rank_of_their_own(self):
        for name, more in (("asgd", []), ("ssgd", ["--storage", "central"]), ("adaptive", []), ("esync", []),
                           ("easgd", []), ("adpsgd", []), ("rna", ["--hierarchical", "--groups", "0:1"])):
            output = f"{name}.json"
            with self.subTest(algorithm=name):
                self.finished(self.mpirun(3, *RUN, "--algorithm", name, *more, "--epochs", "2", "--service-rank", "-o", output), 0)
                self.run_program("validate", output)
                result = self.result(output)
                self.assertEqual(len(result["workers"]), 2)
                self.assertEqual(result["config"]["workers"], 2)
                self.assertEqual(result["cluster"]["machine"]["service_rank"], 2)
                self.assertGreater(result["curve"][-1]["p1"], result["curve"][0]["p1"] + 0.1)
        stderr = self.finished(self.mpirun(1, *RUN, "--algorithm", "asgd", "--epochs", "1", "--service-rank"), 2)
        self.check_refusal(stderr, "--service-rank")

    def test_the_result_shows_where_ranks_ran_and_what_delayed_them(self):
        self.finished(self.mpirun(2, *RUN, "--algorithm", "ssgd", "--epochs", "2", "-o", "where.json", "--straggler",
                                  "kind=uniform,min=2ms,max=3ms,workers=1"), 0)
        self.run_program("validate", "where.json")
        result = self.result("where.json")
        machine = result["cluster"]["machine"]
        self.assertEqual([rank["rank"] for node in machine["nodes"] for rank in node["ranks"]], [0, 1])
        self.assertIn("MPI", machine["mpi_library"])
        self.assertIn(f"{result['environment']['topology']['cores']} core", machine["nodes"][0]["topology"])
        fast, slow = result["workers"]
        self.assertEqual(fast["host"], slow["host"])
        self.assertNotEqual(fast["pid"], slow["pid"])
        self.assertEqual(fast["delay_requested_s"], 0)
        self.assertGreaterEqual(slow["delay_requested_s"], 0.002 * slow["steps"])
        self.assertGreaterEqual(slow["delay_achieved_s"], 0.95 * slow["delay_requested_s"])
        self.assertGreater(fast["wait_s"], 0.5 * slow["delay_requested_s"])  # who waited for whom

    @unittest.skipUnless(shutil.which("taskset"), "no taskset")
    def test_ranks_that_share_a_core_are_no_measurement_and_no_secret(self):
        core = min(os.sched_getaffinity(0))
        run = [BINARY, *RUN, "--algorithm", "ssgd", "--epochs", "1", "--redact", "--log-dir", str(self.folder / "logs"), "-o", "r.json"]
        process = subprocess.Popen(["taskset", "-c", str(core), "mpirun", "-n", "2", *run], cwd=self.folder, text=True,
                                   env=self.environment({**MPI, "OMPI_MCA_hwloc_base_binding_policy": "none"}), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        host = re.escape(socket.gethostname())
        warning = "2 workers need 2 cores and may use 1, so they take turns, and the times of this run are not valid"
        self.assertEqual(len(re.findall(rf"^warning: {host}: {warning}$", self.finished(process, 0), re.M)), 1)
        self.assertIn(f"host 0: {warning}", self.result("r.json")["warnings"])
        # Variables that mpirun sets for every rank have addresses and folders in them.
        text = (self.folder / "r.json").read_text()
        for secret in (rf"\b{host}\b", "://", re.escape(str(self.folder)), "session_dir"):
            self.assertIsNone(re.search(secret, text), text)
        self.run_program("validate", "r.json")

    def test_doctor_shows_the_ranks_once(self):
        process = self.mpirun(3, "doctor", "--devices", "cpu:auto", "--json")
        stdout, stderr = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 0, stderr)
        checks = {check["name"]: check["text"] for check in json.loads(stdout)["checks"]}
        self.assertIn("MPI_THREAD_MULTIPLE", checks["mpi"])
        for rank in range(3):
            self.assertRegex(checks[f"rank {rank}"], rf"local rank {rank} of 3, process \d+, may use cores .*computes on cpu:\d")

    def test_ranks_on_one_physical_core_are_warned_of(self):
        first, second = self.two_cores()
        for machine, said in (("pack:1 core:2 pu:1", 0), ("pack:1 core:1 pu:2", 1)):
            topology = ["-x", f"HWLOC_SYNTHETIC={machine}(indexes={first},{second})"]
            self.finished(self.launch(2, [*topology, BINARY, *RUN, "--algorithm", "ssgd", "--epochs", "1", "--overwrite", "-o", "r.json"],
                                      env={"OMPI_MCA_hwloc_base_binding_policy": "none"}), 0)
            result = self.result("r.json")
            warnings = "\n".join(result["warnings"])
            if "they take turns" in warnings:
                self.skipTest("a quota of less than two cores")
            self.assertEqual([worker["cores"] for worker in result["workers"]], [[first], [second]])
            self.assertEqual(warnings.count("2 of 2 workers share physical cores"), said, warnings)

    def test_random_runs_end(self):
        """A few of those that mpi_stress.py makes; a seed of its own each time."""
        seed = random.randrange(1 << 30)
        failed = mpi_stress.stress(BINARY, 6, seed)
        self.assertEqual(failed, [], "\n".join(failed))

    def test_one_rank_is_a_run_like_any_other(self):
        self.expect_same_curve(self.beside_sim(1, [*RUN, "--algorithm", "sgd", "--epochs", "1"]))
        self.run_program("validate", "mpi.json")

    def test_each_rank_has_a_log(self):
        stderr = self.finished(self.mpirun(3, *RUN, "--algorithm", "asgd", "--epochs", "1", "--log-dir", "logs/of/run"), 0)
        self.assertEqual(stderr.count("completed"), 1, stderr)
        for rank in range(3):
            log = (self.folder / "logs/of/run" / f"rank_{rank}.log").read_text()
            self.assertIn("info: completed", log)
            if rank > 0:
                self.assertIn(f"rank {rank} of 3 on ", log)

    def test_one_trace_has_the_steps_of_all_ranks(self):
        self.finished(self.mpirun(2, *RUN, "--algorithm", "ssgd", "--epochs", "1", "--trace", "trace.json", "-o", "r.json"), 0)
        workers = self.result("r.json")["workers"]
        events = self.result("trace.json")["traceEvents"]
        self.assertEqual({e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"},
                         {0: "worker 0", 1: "worker 1"})
        for rank, worker in enumerate(workers):
            mine = [event for event in events if event["ph"] == "X" and event["tid"] == rank]
            self.assertEqual(sum(event["name"] == "step" for event in mine), worker["steps"])
            self.assertLessEqual({whom["rank"] for whom in worker["waited_for"]}, {1 - rank})
            self.assertNotIn(f"wait for worker {rank}", {event["name"] for event in mine})
        # In each collective one of the two came last, and the other has waited for it.
        self.assertTrue(any(worker["waited_for"] for worker in workers))

    def test_a_network_is_calibrated_and_kept(self):
        measure = ["calibrate", "network", "--sizes", "64,256K", "--point-time", "5ms", "-o", "network.json"]
        self.finished(self.mpirun(2, *measure), 0)
        self.assertEqual(self.result("network.json")["name"], "mpi 2 workers")
        self.check_refusal(self.finished(self.mpirun(2, *measure), 2), "network.json")

    def test_a_finished_result_is_kept_by_all_ranks(self):
        run = [*RUN, "--algorithm", "ssgd", "--epochs", "1", "-o", "kept.json"]
        self.finished(self.mpirun(2, *run), 0)
        before = (self.folder / "kept.json").read_bytes()
        self.finished(self.mpirun(2, *run), 2)
        self.finished(self.mpirun(2, *run, "--resume"), 0)
        self.assertEqual((self.folder / "kept.json").read_bytes(), before)
