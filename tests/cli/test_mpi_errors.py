"""mpirun hetsgd train: errors, silence and signals end all ranks, and leave a result that is valid."""

import os
import random
import signal
import time
import unittest

import mpi_cut
import mpi_standstill
from mpi_program import RUN, MpiTest, has_mpi
from program import BINARY, LIMIT_S


@unittest.skipUnless(has_mpi(), "no mpirun, or built without MPI")
class MpiErrors(MpiTest):
    def test_an_error_ends_all_ranks_with_its_exit_code_and_is_said_once(self):
        run = [*RUN, "--algorithm", "ssgd", "--epochs", "1"]
        for arguments, code, names in (
                (["train", "--algorithm", "ssgd", "--train", "missing.txt", "--epochs", "1"], 4, "missing.txt"),
                ([*run, "--workers", "3"], 2, ("--workers", "found 3", "2 ranks")),
                ([*run, "--bogus", "3"], 2, "--bogus"),
                ([*run, "-o", "no/such/folder.json"], 2, "no/such/folder.json"),
                ([*run, "--devices", "cpu:5000"], 5, ("", "5000")),
                ([*run, "--all-reduce", "mpi"], 2, "--all-reduce"),
                ([*run, "--all-reduce", "tree"], 2, "--all-reduce")):
            with self.subTest(names):
                # Nobody waits until a peer counts as lost: that takes longer here than finished() waits.
                self.check_refusal(self.finished(self.mpirun(2, *arguments, "--peer-timeout", "1h"), code), names)

    def test_an_error_of_one_rank_is_that_of_all(self):
        # Each rank reads a file of its own name: only rank 1's is broken.
        self.write("train.0", "0 1:1\n1 2:1\n")
        self.write("train.1", "0 1:1\n1 2:x\n")
        command = f"'{BINARY}' train --algorithm ssgd --train train.$OMPI_COMM_WORLD_RANK --epochs 1"
        self.check_refusal(self.finished(self.launch(2, ["sh", "-c", command]), 4), "rank 1: train.1:2:5")

    def test_a_silent_rank_is_named_within_the_peer_timeout(self):
        process = self.start_endless(2, "silent.json", "--algorithm", "asgd", "--peer-timeout", "2")
        begin = time.monotonic()
        os.kill(self.pid_of_rank(process, 1), signal.SIGSTOP)
        stderr = self.finished(process, 1)
        self.assertLess(time.monotonic() - begin, 25)
        self.check_refusal(stderr, "rank 1")
        self.check_cut("silent.json", "failed")

    def test_a_rank_that_stands_still_at_any_moment_hangs_nobody(self):
        """A few of the moments of mpi_standstill.py; a seed of its own each time."""
        failed = mpi_standstill.standstills(BINARY, 10, random.randrange(1 << 30))
        self.assertEqual(failed, [], "\n".join(failed))

    def test_a_cable_that_is_cut_ends_both_sides(self):
        """A few of the moments of mpi_cut.py; none where network namespaces are not permitted."""
        failed = mpi_cut.cuts(BINARY, 2, random.randrange(1 << 30))
        self.assertEqual(failed, [], "\n".join(failed))

    def start_endless(self, ranks, output, *more):
        process = self.mpirun(ranks, *RUN, "--epochs", "1000000", "-o", output, *more)
        self.wait_for_curve(output)
        return process

    def check_cut(self, output, status, reason=None):
        self.run_program("validate", output)
        result = self.result(output)
        self.assertEqual(result["status"], status)
        if reason:
            self.assertEqual(result["status_reason"], reason)
        self.assertGreater(len(result["curve"]), 0)
        self.assertGreater(result["summary"]["samples_count"], 0)
        self.assertGreater(min(worker["compute_s"] for worker in result["workers"]), 0)

    def test_a_signal_leaves_a_valid_result(self):
        process = self.start_endless(2, "cut.json", "--algorithm", "ssgd")
        os.kill(process.pid, signal.SIGTERM)
        process.communicate(timeout=LIMIT_S)
        self.assertNotEqual(process.returncode, 0)
        self.check_cut("cut.json", "aborted", f"signal {signal.SIGTERM.value}")

    def test_a_signal_to_one_rank_ends_all_with_it(self):
        for rank in (0, 1):
            process = self.start_endless(2, f"cut-{rank}.json", "--algorithm", "asgd")
            os.kill(self.pid_of_rank(process, rank), signal.SIGINT)
            self.finished(process, 128 + signal.SIGINT)
            self.check_cut(f"cut-{rank}.json", "aborted", f"signal {signal.SIGINT.value}")

    def test_a_killed_rank_leaves_a_valid_result(self):
        process = self.start_endless(3, "killed.json", "--algorithm", "ssgd")
        os.kill(self.pid_of_rank(process, 2), signal.SIGKILL)
        process.communicate(timeout=LIMIT_S)
        self.assertNotEqual(process.returncode, 0)
        # The launcher sees the end and sends rank 0 a signal.
        self.check_cut("killed.json", "aborted")
