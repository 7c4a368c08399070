"""Whatever the options, a run writes a result that validates, or says in words why it does not run."""

import random

from program import ProgramTest

ALGORITHMS = ["adaptive", "adpsgd", "asgd", "dc-asgd", "eager-majority", "eager-solo", "easgd", "elastic", "esync",
              "local-sgd", "rna", "sgd", "sma", "ssgd", "ssp"]
VALUES = {
    "--seed": ["0", str(2**63), str(2**64 - 1)],
    "--learning-rate": ["1e-300", "1e-30", "0.1", "1e30", "1e308"],
    "--init-std": ["0", "1e-300", "1e30"],
    "--batch-size": ["1", "3", "1000"],
    "--mega-batch": ["1", "2", "1000"],
    "--workers": ["1", "2", "5"],
    "--hidden": ["1", "3"],
    "--model": ["linear", "mlp"],
    "--optimizer": ["sgd", "adam", "lamb", "lars"],
    "--momentum": ["0", "0.9"],
    "--speed": ["1e-6", "1,1e6"],
    "--straggler": ["kind=constant,factor=1e6", "kind=pause,at=0s,duration=1000s", "kind=pareto,scale=1ms,shape=0.1"],
    "--max-time": ["1e-300", "1ns", "1e300"],
    "--evaluate-every": ["1", "7"],
    "--evaluate-samples": ["1", "3"],
    "--target": ["p1>=1e308", "accuracy>=0", "test_loss<=-1e308"],
    "--charge": ["amazon670k"],
    "--validation": ["1e-300", "0.5"],
}
FLAGS = ["--record-steps", "--stop-at-target", "--redact"]


class Extremes(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("one.txt", "12 1 2\n" + "".join(f"{i % 2} 0:{1 + i % 3}\n" for i in range(12)))
        self.write("huge.txt", "3 2 2\n0 0:1e38 1:1e-38\n1 1:-1e38\n0,1 0:3e38\n")

    def validated(self, arguments):
        """Whether the run wrote a result; then it is valid."""
        done = self.run_program(*arguments, "--overwrite", "--quiet", "-o", "r.json", code=(0, 1, 2, 4, 8))
        self.assertNotIn("bug", done.stderr, arguments)
        if (self.folder / "r.json").exists():
            self.run_program("validate", "r.json")
            (self.folder / "r.json").unlink()
            return True
        return False

    def test_every_result_validates(self):
        choices = random.Random(4)
        written = 0
        for number in range(60):
            arguments = ["train", "--train", choices.choice(["one.txt", "huge.txt"]), "--max-samples", "40",
                         "--algorithm", ALGORITHMS[number % len(ALGORITHMS)]]
            for option in choices.sample(sorted(VALUES), 5):
                arguments += [option, choices.choice(VALUES[option])]
            arguments += choices.sample(FLAGS, choices.choice([0, 0, 1]))
            written += self.validated(arguments)
        self.assertGreater(written, 20)

    def test_the_learning_rates_of_a_merge_may_overflow(self):
        for algorithm in ("adaptive", "elastic"):
            self.assertTrue(self.validated([
                "train", "--train", "one.txt", "--epochs", "3", "--algorithm", algorithm, "--workers", "3",
                "--batch-size", "4", "--mega-batch", "2", "--learning-rate", "1e308"]))

    def test_evaluations_of_free_threads_stay_in_order(self):
        for _ in range(6):
            self.assertTrue(self.validated([
                "train", "--train", "one.txt", "--epochs", "10", "--algorithm", "asgd", "--cluster", "threads",
                "--workers", "4", "--batch-size", "1", "--mega-batch", "1"]))
