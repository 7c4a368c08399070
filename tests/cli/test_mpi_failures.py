"""Workers that are lost and return under mpirun: every method goes on without them, and no run hangs."""

import math
import unittest

from mpi_program import RUN, MpiTest, has_mpi

SHORT = [*RUN, "--mega-batch", "8", "--learning-rate", "0.1", "--detect", "5ms", "--quiet", "--overwrite", "-o", "r.json"]
# Steps have a delay: else the others may be through before a busy host lets the lost worker run and notice.
LONG = [*SHORT, "--max-samples", "96000", "--evaluate-every", "9600", "--straggler", "kind=uniform,min=0.2ms,max=0.3ms"]
SYNCHRONOUS = ("ssgd", "elastic", "adaptive", "local-sgd", "sma", "easgd", "esync")
ASYNCHRONOUS = ("asgd", "dc-asgd", "ssp", "adpsgd", "eager-solo", "eager-majority", "rna")


def fails(worker, at_ms, back_ms=None):
    """The options of a worker that is lost, and returns."""
    options = ["--straggler", f"kind=fail,worker={worker},at={at_ms}ms"]
    return options + (["--straggler", f"kind=return,worker={worker},at={back_ms}ms"] if back_ms is not None else [])


@unittest.skipUnless(has_mpi(), "no mpirun, or built without MPI")
class MpiFailures(MpiTest):
    def train(self, ranks, run, code=0):
        stderr = self.finished(self.mpirun(ranks, *run), code)
        self.run_program("validate", "r.json")
        return self.result("r.json"), stderr

    def expect_learnt(self, result):
        self.assertEqual(result["status"], "completed")
        self.assertGreaterEqual(result["curve"][-1]["samples_count"], 96000)
        self.assertTrue(math.isfinite(result["curve"][-1]["test_loss"]))
        losses = [point["test_loss"] for point in result["curve"]]
        self.assertLess(min(losses), losses[0])  # with a large batch the last ones rise again

    def test_every_method_goes_on_and_takes_the_worker_back(self):
        """Worker 0 lies beside the referee and the services, which go on without it."""
        for number, algorithm in enumerate(SYNCHRONOUS + ASYNCHRONOUS):
            worker = number % 2
            with self.subTest(algorithm=algorithm, worker=worker):
                result, _ = self.train(3, [*LONG, "--algorithm", algorithm, *fails(worker, 15, 45)])
                self.expect_learnt(result)
                self.assertEqual([failure["worker"] for failure in result["failures"]], [worker])
                self.assertGreaterEqual(result["failures"][0]["returned_s"], 0.045)

    def test_all_may_come_and_go(self):
        losses = [*fails(0, 15, 60), *fails(1, 30, 90), *fails(2, 75, 120), *fails(1, 100, 150)]
        for algorithm in ("ssgd", "adaptive", "esync", "ssp", "adpsgd", "rna"):
            with self.subTest(algorithm=algorithm):
                result, _ = self.train(3, [*LONG, "--algorithm", algorithm, *losses])
                self.expect_learnt(result)
                self.assertGreater(len(result["failures"]), 0)

    def test_orphans_are_shared_by_processes_that_have_all_rows(self):
        run = [*SHORT, "--max-samples", "640", "--algorithm", "ssgd", "--partition", "iid", "--orphans", "share"]
        self.train(2, run)  # nobody is lost
        self.check_refusal(self.finished(self.mpirun(2, *run, *fails(1, 5)), 2), "--orphans")

    def test_losing_the_last_at_the_start_is_having_one_less(self):
        for algorithm in SYNCHRONOUS:
            if algorithm in ("esync", "adaptive"):  # the steps of a round depend on times
                continue
            with self.subTest(algorithm=algorithm):
                run = [*SHORT, "--max-samples", "3840", "--evaluate-every", "960", "--mega-batch", "6", "--algorithm", algorithm]
                self.expect_same_curve([self.train(3, [*run, *fails(2, 0)])[0], self.train(2, run)[0]])

    def test_a_restart_begins_at_the_last_cut(self):
        for algorithm in ("elastic", "asgd"):
            with self.subTest(algorithm=algorithm):
                result, _ = self.train(3, [*LONG, "--algorithm", algorithm, *fails(0, 20, 30), "--on-loss", "restart",
                                           "--restart-time", "5ms", "--checkpoint-at", "960,1920"])
                self.expect_learnt(result)
                self.assertGreater(result["failures"][0]["returned_s"], 0.0349)
                self.assertEqual(result["failures"][0]["state_bytes"], 0)

    def test_a_run_that_cannot_go_on_ends_on_all_ranks(self):
        for text, options in (("worker 1 was lost", [*fails(1, 15), "--on-loss", "abort"]),
                              ("worker 1 was lost and never returns", [*fails(1, 15), "--on-loss", "restart"]),
                              ("all workers were lost", ["--straggler", "kind=fail,at=15ms"])):
            with self.subTest(options=options):
                result, stderr = self.train(2, [*LONG, "--algorithm", "ssgd", *options], code=1)
                self.assertIn(text, stderr)
                self.assertEqual(result["status"], "failed")

    def test_services_may_have_a_rank_of_their_own(self):
        result, _ = self.train(3, [*LONG, "--algorithm", "asgd", "--service-rank", *fails(0, 15, 45)])
        self.expect_learnt(result)

    def test_a_checkpoint_may_be_written_without_the_first_worker(self):
        run = [*LONG, "--algorithm", "elastic", *fails(0, 5), "--checkpoint-every", "2"]
        self.train(2, [*run, "--checkpoint", "run.checkpoint"])
        result, _ = self.train(2, [*run, "--resume-from", "run.checkpoint"])
        self.expect_learnt(result)
