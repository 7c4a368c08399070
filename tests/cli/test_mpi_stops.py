"""A run ends by the same rule on every cluster (lib/training/referee.hpp)."""


from mpi_program import MpiTest, has_mpi
from program import TINY

WORKERS = 3
BATCH = 64
SYNCHRONOUS = ["ssgd", "local-sgd"]
ASYNCHRONOUS = ["asgd"]
NO_EVALUATION = ["--evaluate-every", "1G"]  # but for those at time 0 and at the end of the budget


class StopRules(MpiTest):
    def clusters(self):
        return ["sim", "threads"] + (["mpi"] if has_mpi() else [])

    def start_on(self, cluster, algorithm, *options):
        """The process, and where its result will be."""
        output = f"{cluster}-{algorithm}.json"
        arguments = ["train", *TINY, "--batch-size", str(BATCH), "--hidden", "8", "--algorithm", algorithm,
                     "--cluster", cluster, *options, "-o", output, "--overwrite"]
        if cluster == "mpi":
            return self.mpirun(WORKERS, *arguments, "--devices", "cpu:1"), output
        devices = ["--devices", ",".join(["cpu:1"] * WORKERS)] if cluster == "threads" else []
        return self.start(*arguments, "--workers", str(WORKERS), *devices), output

    def results(self, algorithms, *options, code=0):
        """(cluster, algorithm, result) of each."""
        found = []
        for cluster in self.clusters():
            for algorithm in algorithms:
                process, output = self.start_on(cluster, algorithm, *options)
                self.finished(process, code)
                found.append((cluster, algorithm, self.result(output)))
        return found

    @staticmethod
    def steps(result):
        return [worker["steps"] for worker in result["workers"]]

    def test_a_diverged_run_ends_at_once_and_is_not_measured_again(self):
        diverging = ["--learning-rate", "1e30", "--max-samples", "100M", *NO_EVALUATION]
        for cluster, algorithm, result in self.results(SYNCHRONOUS + ASYNCHRONOUS, *diverging, code=8):
            with self.subTest(cluster=cluster, algorithm=algorithm):
                self.assertEqual(result["status"], "diverged")
                self.assertIn("the loss of worker", result["status_reason"])
                self.assertEqual(len(result["curve"]), 1)
                self.assertLess(sum(self.steps(result)), 100_000)
                if algorithm in SYNCHRONOUS:
                    self.assertEqual(len(set(self.steps(result))), 1, "workers left at different points")

    def test_a_target_that_the_initial_model_reaches_is_held_at_the_third_evaluation(self):
        reached = ["--target", "test_loss<=100", "--stop-at-target", "--epochs", "10"]
        for cluster, algorithm, result in self.results(SYNCHRONOUS + ASYNCHRONOUS, *reached):
            with self.subTest(cluster=cluster, algorithm=algorithm):
                self.assertEqual(result["status"], "target_reached")
                self.assertEqual(len(result["curve"]), 3)
                self.assertEqual(result["time_to_accuracy"][0]["time_s"], 0)

    def test_synchronous_runs_are_measured_and_stopped_at_the_same_samples(self):
        for options, status in [(["--max-samples", "2000", "--evaluate-every", "640"], "completed"),
                                (["--epochs", "10", "--evaluate-every", "640", "--learning-rate", "1", "--target",
                                  "p1>=0.2", "--stop-at-target"], "target_reached")]:
            points = {}
            for cluster, algorithm, result in self.results(SYNCHRONOUS, *options):
                self.assertEqual(result["status"], status)
                points.setdefault(algorithm, {})[cluster] = [point["samples_count"] for point in result["curve"]]
            for algorithm, by_cluster in points.items():
                for cluster, samples in by_cluster.items():
                    self.assertEqual(samples, by_cluster["sim"], (algorithm, cluster))

    def test_a_run_ends_measured_when_its_budget_is_used_up(self):
        for _, _, result in self.results(ASYNCHRONOUS, "--max-samples", "2000", *NO_EVALUATION):
            self.assertEqual((result["status"], len(result["curve"])), ("completed", 2))
            self.assertGreaterEqual(result["curve"][-1]["samples_count"], 2000)
        for _, _, result in self.results(["ssgd", "asgd"], "--max-time", "200ms", *NO_EVALUATION):
            self.assertEqual((result["status"], len(result["curve"])), ("completed", 2))
            self.assertGreaterEqual(result["curve"][-1]["time_s"], 0.2)
        for _, _, result in self.results(["esync"], "--rounds", "3", "--max-samples", "100M", *NO_EVALUATION):
            self.assertEqual((result["status"], len(result["curve"])), ("completed", 2))

    def test_the_host_time_limit_ends_a_run_with_exit_code_6(self):
        for _, _, result in self.results(["ssgd"], "--time-limit", "300ms", "--max-samples", "1G", code=6):
            self.assertEqual(result["status"], "time_limit")
            self.run_program("validate", self.write("limited.json", result))
