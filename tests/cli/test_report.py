"""hetsgd report: which files it reads, what it says, what it refuses. test_report_page.py opens the page."""

import json
import unittest

from program import ProgramTest


class Report(ProgramTest):
    def setUp(self):
        super().setUp()
        (self.folder / "runs" / "deep").mkdir(parents=True)
        for seed in "12":
            self.train(f"runs/a{seed}.json", "--seed", seed, "--epochs", "2", "--target", "p1>=0.2")
            self.train(f"runs/deep/b{seed}.json", "--seed", seed, "--epochs", "2", "--target", "p1>=0.2",
                       "--learning-rate", "0.05")

    def data(self, *arguments):
        return self.json_of("report", *arguments, "--format", "json", "-o", "-")

    def test_the_numbers_are_those_of_compare(self):
        data = self.data("runs")
        files = ["runs/a1.json", "runs/a2.json", "runs/deep/b1.json", "runs/deep/b2.json"]
        compared = self.json_of("compare", *files, "--format", "json")
        workload, = data["workloads"]
        self.assertEqual([run["file"] for run in workload["runs"]], files)
        for ours, theirs in zip(workload["groups"], compared["groups"], strict=True):
            self.assertEqual({key: ours[key] for key in theirs}, theirs)
        self.assertEqual(workload["warnings"], compared["warnings"])
        self.assertEqual(data["title"], "runs")
        self.assertEqual(self.data(*files)["title"], "runs/a1.json and 3 others")
        self.assertEqual(self.data(*files[:2])["title"], "runs/a1.json, runs/a2.json")

    def test_files_that_are_no_results_are_left_out(self):
        self.run_program("tune", "--train", "generate:tiny", "--batch-size", "64", "--epochs", "1", "--grid", "0.1",
                         "--goal", "p1", "-o", "runs/choice.json")
        for name, text in (("broken.json", "{"), ("other.json", '{"name": "nothing of ours"}'), ("page.html", "<p>")):
            self.write(f"runs/{name}", text)
        odd = self.result("runs/a1.json")
        odd["config"]["stop_at_target"] = 3
        self.write("runs/odd.json", odd)
        done = self.run_program("report", "runs", "--format", "json", "-o", "-")
        data = json.loads(done.stdout)
        self.assertEqual(data["runs"], 4)
        self.assertEqual(sorted(note.split(":")[0] for note in data["notes"]), ["runs/broken.json", "runs/odd.json", "runs/other.json"])
        self.assertRegex(done.stderr, "choice.json: .*tuning")
        self.refused(["report", "runs/broken.json"], "runs/broken.json", code=4)  # a file that was named is meant

    def test_a_sweeps_index_names_its_runs(self):
        (self.folder / "runs" / "runs").mkdir()
        (self.folder / "runs" / "trials").mkdir()
        (self.folder / "runs" / "a1.json").rename(self.folder / "runs" / "runs" / "0123.json")
        (self.folder / "runs" / "a2.json").rename(self.folder / "runs" / "trials" / "4567.json")
        run = {"stage": "final", "status": "completed", "seed": 1, "case": ""}
        lines = [{**run, "id": "0123", "setup": "fast", "case": "two", "file": None},
                 {**run, "id": "1", "file": "deep/b1.json", "setup": "slow"}, {**run, "id": "2", "file": "deep/b2.json", "setup": "slow"}]
        index = self.folder / "runs" / "rates.index.jsonl"
        index.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"cut')
        workload, = self.data("runs")["workloads"]
        self.assertEqual({run["file"]: run["label"] for run in workload["runs"]},
                         {"runs/runs/0123.json": "fast, two", "runs/deep/b1.json": "slow", "runs/deep/b2.json": "slow"})
        index.write_text('["no run"]\n')
        self.refused(["report", "runs"], "runs/rates.index.jsonl:1", "remove", code=4)

    def test_nothing_is_replaced_unasked(self):
        self.run_program("report", "runs")
        page = self.folder / "report.html"
        first = page.read_text()
        self.refused(["report", "runs", "--target", "p1>=0.5"], "report.html", "--overwrite")
        self.assertEqual(page.read_text(), first)
        self.run_program("report", "runs", "--overwrite")
        self.assertEqual(page.read_text(), first)  # the same results make the same page

    def test_mistakes(self):
        (self.folder / "empty").mkdir()
        self.refuse_all(["report", "-o", "r.html"], (
            ("empty", "report"), ("runs --reference ssp", ("--reference", '"ssp"'), '"'), ("runs --target auc>=0.9", ("", "auc"))))
        self.run_program("report", "missing", "-o", "r.html", code=4)
        self.assertFalse((self.folder / "r.html").exists())
        self.run_program("report", "runs", "--format", "json", "-o", "r.json")
        self.run_program("report", "r.json", "runs", "-o", "r.html")  # other files of ours are passed over


if __name__ == "__main__":
    unittest.main()
