"""mpirun with ranks that are not alike: another program, command or option; and what mpirun does when its reader is gone."""

import json
import os
import shlex
import signal
import time
import unittest

from mpi_program import MpiTest, has_mpi
from program import BINARY, LIMIT_S

RUN = ["train", "--train", "generate:tiny", "--test", "generate:tiny", "--hidden", "8", "--batch-size", "32",
       "--mega-batch", "40", "--algorithm", "ssgd", "--epochs", "1"]


@unittest.skipUnless(has_mpi(), "no mpirun, or built without MPI")
class Start(MpiTest):
    def side_by_side(self, pairs, code):
        """Checks the refusal when one rank runs the first command of a pair and another the second, for all pairs at a time."""
        processes = [self.launch(1, [*first, ":", "-n", "1", *second]) for first, second in pairs]
        texts = [self.finished(process, code) for process in processes]
        for text in texts:
            self.check_refusal(text, "")
        return texts

    def test_who_does_not_come_to_the_start_is_named(self):
        run = [BINARY, *RUN, "--peer-timeout", "2"]

        def after(file):
            return ["sh", "-c", f"until [ -e {file} ]; do sleep 0.1; done; sleep 0.5; exec {shlex.join(run)}"]

        cases = ((run, ["sleep", "100"], 'rank 1 runs "sleep 100"'),
                 (["sleep", "100"], run, 'rank 0 runs "sleep 100"'),
                 # Where it has not ended yet when rank 0 comes, mpirun itself ends them all.
                 (after("true"), ["sh", "-c", "touch true"], "rank 1 has ended"),
                 (after("help"), ["sh", "-c", f"'{BINARY}' train --help && touch help"], "rank 1 has ended"),
                 (run, ["sh", "-c", "sleep 100; exec true"], "rank 1 runs "),
                 (run, ["sh", "-c", "kill -STOP $$"], "rank 1 is stopped"))
        for (_, _, missing), text in zip(cases, self.side_by_side([case[:2] for case in cases], 1)):
            self.assertIn(missing, text)
            self.assertIn("--peer-timeout", text)

    def test_ranks_that_differ_say_in_what(self):
        run = [BINARY, *RUN]
        cases = ((run, [*run, "--print-config"], "--print-config is false on rank 0, true on rank 1"),
                 ([*run, "--dry-run"], run, "--dry-run is true on rank 0, false on rank 1"),
                 (run, [BINARY, "doctor"], "the command is train on rank 0, doctor on rank 1"),
                 ([*run, "--seed", "8"], [*run, "--seed", "9"], "--seed is 8 on rank 0, 9 on rank 1"),
                 (run, ["env", "HETSGD_SEED=9", *run], "--seed is 1 on rank 0, 9 on rank 1"),
                 (run, [*run, "--algorithm", "asgd"], "--algorithm is ssgd on rank 0, asgd on rank 1"),
                 (run, [*run, "--peer-timeout", "3"], "--peer-timeout is 60s on rank 0, 3s on rank 1"))
        for (_, _, what), text in zip(cases, self.side_by_side([case[:2] for case in cases], 2)):
            self.assertIn(f": {what}\n", text)

    def test_ranks_may_have_their_own_copy_of_the_data_but_not_other_data(self):
        for name, value in (("a", 1), ("b", 1), ("c", 2)):
            self.write(name, f"0 1:1\n1 2:{value}\n")
        data = [BINARY, "train", *RUN[5:], "--train"]
        self.finished(self.launch(1, [*data, "a", ":", "-n", "1", *data, "b"]), 0)
        text, = self.side_by_side([([*data, "a"], [*data, "c"])], 2)
        self.assertRegex(text, r"the content of --train is xxh3:\w+ on rank 0, xxh3:\w+ on rank 1; the content of --test")

    def test_ranks_read_the_same_files(self):
        net = json.loads(self.run_program("memory", "lenet-5", "--print-network").stdout)
        delays = "rank,iteration,delay_s\n*,1,0.001\n"
        for folder, text in (("one", delays), ("other", delays + "*,2,0.001\n")):
            (self.folder / folder).mkdir()
            net["name"] = folder
            (self.folder / folder / "net.json").write_text(json.dumps(net))
            (self.folder / folder / "late.csv").write_text(text)
        images = ["train", "--train", "generate:images?size=28&channels=1&rows_train=64&rows_test=8", "--epochs", "1"]
        cases = ((["--model", "net.json"], images), (["--straggler", "kind=trace,file=late.csv"], RUN))
        processes = [self.launch(1, ["-wdir", "one", BINARY, *run, *option, ":", "-n", "1", "-wdir", "other", BINARY,
                                     *run, *option]) for option, run in cases]
        for (option, _), process in zip(cases, processes):
            self.assertRegex(self.finished(process, 2), rf"the content of {option[0]} is xxh3:")
        same = ["-wdir", "one", BINARY, *images, "--model", "net.json", "--algorithm", "ssgd"]
        self.finished(self.launch(1, [*same, ":", "-n", "1", *same]), 0)

    def ranks_end(self, ranks):
        self.wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in ranks), f"the end of {ranks}")

    def start_endless(self, ranks, output):
        process = self.mpirun(ranks, *RUN, "--epochs", "1000000", "--progress-every", "0.05s", "-o", output)
        self.wait_for_curve(output)
        return process, [self.pid_of_rank(process, rank) for rank in range(ranks)]

    def test_ranks_end_when_nobody_reads_what_mpirun_says(self):
        # Writing into a pipe that nobody reads is a SIGPIPE to mpirun.
        process, ranks = self.start_endless(2, "unread.json")
        process.stdout.close()
        process.stderr.close()
        self.ranks_end(ranks)
        process.wait(60)
        self.run_program("validate", "unread.json")

    def test_sigpipe_to_mpirun_changes_nothing_until_it_gives_up(self):
        # Open MPI's mpirun passes over ten of them, and ends its ranks at the next.
        process, ranks = self.start_endless(2, "pipe.json")
        before = len(self.result("pipe.json")["curve"])
        process.send_signal(signal.SIGPIPE)
        self.wait_for(lambda: len(self.result("pipe.json")["curve"]) > before + 1, "the run to go on")
        for _ in range(200):
            if process.poll() is not None or not all(os.path.exists(f"/proc/{pid}") for pid in ranks):
                break
            process.send_signal(signal.SIGPIPE)
            time.sleep(0.02)
        process.communicate(timeout=LIMIT_S)
        self.ranks_end(ranks)
        self.run_program("validate", "pipe.json")
