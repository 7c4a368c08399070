"""hetsgd report: where its page goes, and whose numbers it has. judge/ has the files that it reads, test_report_page.py opens the page."""


from program import ProgramTest


class Report(ProgramTest):
    def setUp(self):
        super().setUp()
        (self.folder / "runs" / "deep").mkdir(parents=True)
        for seed in "12":
            self.train(f"runs/a{seed}.json", "--seed", seed, "--epochs", "2", "--target", "p1>=0.2")
            self.train(f"runs/deep/b{seed}.json", "--seed", seed, "--epochs", "2", "--target", "p1>=0.2",
                       "--learning-rate", "0.05")

    def test_the_numbers_are_those_of_compare(self):
        data = self.json_of("report", "runs", "--format", "json", "-o", "-")
        files = ["runs/a1.json", "runs/a2.json", "runs/deep/b1.json", "runs/deep/b2.json"]
        compared = self.json_of("compare", *files, "--format", "json")
        workload, = data["workloads"]
        self.assertEqual([run["file"] for run in workload["runs"]], files)
        for ours, theirs in zip(workload["groups"], compared["groups"], strict=True):
            self.assertEqual({key: ours[key] for key in theirs}, theirs)
        self.assertEqual(workload["warnings"], compared["warnings"])

    def test_nothing_is_replaced_unasked(self):
        self.run_program("report", "runs")
        page = self.folder / "report.html"
        first = page.read_text()
        self.refused(["report", "runs", "--target", "p1>=0.5"], "report.html", "--overwrite")
        self.assertEqual(page.read_text(), first)
        self.run_program("report", "runs", "--overwrite")
        self.assertEqual(page.read_text(), first)  # the same results make the same page
        self.run_program("report", "missing", "-o", "r.html", code=4)
        self.assertFalse((self.folder / "r.html").exists())
