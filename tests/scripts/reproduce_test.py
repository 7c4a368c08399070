"""experiments/*.toml and scripts/reproduce.py: claims name what there is, runs are shared, verdicts follow their rules, pages and
plots come from an index of runs."""
import contextlib
import io
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts")]
# Popped: the program takes HETSGD_... for its options.
os.environ["HETSGD"] = os.environ.pop("HETSGD_BINARY", str(ROOT / "build/release/apps/hetsgd/hetsgd"))
try:
    import reproduce_plots
    import reproduce_runs
    import reproduce_sven
    import reproduce_verdicts
    import reproduce
except ImportError as error:
    print(f"skipped: {error}; scripts/setup-debian.sh installs it")
    sys.exit(77)

NOWHERE = pathlib.Path("/nonexistent")
FIGURES = {name: reproduce_runs.Figure(path, NOWHERE) for name, path in reproduce.specifications(ROOT / "experiments").items()}
WANTED = "a6 a8 a9 a10 a11 a12 d1 d2 d4 c2 c3 c12 c13 c14 c15 c16 c17 e3 e4 e5 r3 r5 r6 r7".split()


def ratio(low, median, high):
    return {"median": median, "low": low, "high": high}


class Specifications(unittest.TestCase):
    def test_every_figure_is_there_and_says_what_it_is(self):
        self.assertLessEqual(set(WANTED), set(FIGURES))
        for name, figure in FIGURES.items():
            self.assertEqual(figure.id, name)
            self.assertIn(figure.spec["paper"], reproduce.PAPERS, name)
            texts = [figure.spec["about"], figure.spec["expectation"], *map(figure.figure.get, ("finding", "number", "machine", "takes"))]
            self.assertTrue(all(texts), name)

    def test_claims_name_what_there_is(self):
        for figure in FIGURES.values():
            reproduce_verdicts.check(figure)
        claims = [claim for figure in FIGURES.values() for claim in figure.claims]
        self.assertEqual(len({(claim["claim"], claim["figure"]) for claim in claims}), len(claims))

    def test_a_claim_about_what_there_is_not_is_refused(self):
        figure = reproduce_runs.Figure(ROOT / "experiments" / "r7.toml", NOWHERE)
        figure.claims[0]["case"] = "rna probes 3"
        with self.assertRaises(SystemExit) as refusal:
            reproduce_verdicts.check(figure)
        self.assertIn("found no case rna probes 3 under a setup probes", str(refusal.exception))

    def test_a_key_that_decides_nothing_is_refused(self):
        for change, word in (({"at_least": 1.4}, "at_least"), ({"side": "at_most"}, "at_most"), ({"tested": "r5"}, "without a cause")):
            figure = reproduce_runs.Figure(ROOT / "experiments" / "r3.toml", NOWHERE)
            figure.claims[6] |= change
            with self.assertRaises(SystemExit) as refusal:
                reproduce_verdicts.check(figure)
            self.assertIn(word, str(refusal.exception))

    def test_tests_have_seeds_that_can_show_a_difference(self):
        for name, figure in FIGURES.items():
            tests = [claim for claim in figure.claims if "measure" in claim and "bench" not in figure.spec]
            self.assertTrue(not tests or figure.seeds >= 6, name)

    def test_equal_names_are_equal_runs(self):
        seen = {}
        for figure in FIGURES.values():
            spec = figure.spec
            for setup in spec.get("setups", []):
                parts = [{**spec.get(key, {}), **setup.get(key, {})} for key in ("settings", "metric", "tuning")]
                first = seen.setdefault(("setup", setup["name"]), (figure.id, parts))
                self.assertEqual(first[1], parts, f"setup {setup['name']} of {first[0]} and {figure.id}")
            for case in spec.get("cases", []):
                first = seen.setdefault(("case", case["name"]), (figure.id, case))
                self.assertEqual(first[1], case, f"case of {first[0]} and {figure.id}")

    def test_plots_tables_and_rates_name_what_there_is(self):
        for name, figure in FIGURES.items():
            cases = {case for each in figure.pairs.values() for case in each}
            self.assertEqual(cases, {case["name"] for case in figure.spec.get("cases", [])}, name)
            self.assertLessEqual(set(figure.labels), set(figure.pairs), name)
            self.assertLessEqual(set(figure.figure.get("readings", [])), set(reproduce_runs.READINGS), name)
            if cases:
                self.assertIn(figure.figure["reference"], cases, name)
            for plot in figure.figure["plots"]:
                self.assertIn(plot["kind"], reproduce_plots.KINDS, name)
                series = plot.get("series", [])
                points = [point for each in series for point in each.get("points", [])]
                self.assertTrue(all(case in figure.pairs[setup] for setup, case in points), name)
                drawn = [case for each in [plot, *series] for case in each.get("cases", [])]
                self.assertLessEqual(set(drawn), cases, name)
            for case in figure.spec.get("cases", []):
                if "rate_from" in case:
                    self.assertIn(case["rate_from"]["case"], figure.pairs[case["rate_from"]["setup"]], name)


class Runs(unittest.TestCase):
    def test_two_cases_may_share_a_run(self):
        with tempfile.TemporaryDirectory() as folder:
            line = {"id": "aa", "setup": "two", "seed": 3, "stage": "final", "status": "completed", "file": "aa.json"}
            pathlib.Path(folder, "aa.json").write_text("{}")
            path = pathlib.Path(folder, "x1.index.jsonl")
            path.write_text("".join(json.dumps({**line, "case": case, **more}) + "\n" for case, more in
                                    (("one", {}), ("other", {}), ("trial", {"stage": "tuning"}), ("failed", {"status": "failed"}),
                                     ("gone", {"file": "bb.json"}))))
            file = os.path.join(folder, "aa.json")
            self.assertEqual(reproduce_runs.read_index(path), {("two", "one"): {3: file}, ("two", "other"): {3: file}})


class Readings(unittest.TestCase):
    # 100 samples of 4 fields ask for half as many rows: 200. 30 of them came and went, 10 are there at the end.
    def test_hits_of_tables_under_a_capacity(self):
        result = {"tables": {"distinct_share": 0.5, "evicted": 30}, "config": {"table_capacity": 10},
                  "dataset": {"train": {"fields": 4}}, "summary": {"samples_count": 100}}
        self.assertAlmostEqual(reproduce_runs.table_hit_share(result), 1 - 40 / 200)
        self.assertIsNone(reproduce_runs.table_hit_share({**result, "config": {"table_capacity": "all"}}))
        self.assertIsNone(reproduce_runs.table_hit_share({**result, "tables": None}))


class Sven(unittest.TestCase):
    """results/sven.md: fitted, derived and real rows are told apart."""

    def test_every_row_says_what_its_numbers_are(self):
        for name, figure in FIGURES.items():
            if figure.spec["paper"] == reproduce_sven.PAPER:
                self.assertIn(reproduce_sven.kind_of(figure), reproduce_sven.KINDS, name)
                # A fitted figure has a charge that says so; a derived or real one has none.
                self.assertEqual(reproduce_sven.fitted(figure), reproduce_sven.kind_of(figure) == "F", name)

    def test_a_page_has_found_beside_expected_and_the_causes_of_what_does_not_hold(self):
        figure = FIGURES["v-7"]
        records = [{"id": "v-7", "figure": "6.7", "claim": claim["claim"], "expected": claim["expected"], "of": "", "p_value": None,
                    "asked": reproduce_verdicts.asked(claim), "found": ratio(1.125, 1.125, 1.125), "verdict": "holds",
                    "cause": "none"} for claim in figure.claims]
        records[0] |= {"found": ratio(1, 1.25, 2), "p_value": 0.5, "verdict": "does not hold (x)", "cause": "the reason"}
        page = reproduce_sven.page(list(FIGURES.values()), lambda name: records if name == "v-7" else None)
        self.assertIn("| 11 % less time (1.12) | 1.25 [1, 2], p 0.5 | 1.12, within 2 % | does not hold (x) |", page)
        self.assertIn(f"- **v-7, {records[0]['claim']}**: not tested: the reason", page)
        self.assertNotIn(": none", page)
        self.assertIn("[v-7](v-7/README.md) | F |", page)


class Scripts(unittest.TestCase):
    def test_those_beside_the_specifications_start(self):
        for script in sorted((ROOT / "experiments").glob("*.py")):
            done = subprocess.run([sys.executable, "-B", script, "--help"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)


def said(claim, found, p=None, effect=None):
    return reproduce_verdicts.verdict({"measure": "speedup", **claim}, ratio(*found), p, effect)


def kind_of(*arguments):
    return said(*arguments).split(" (")[0]


class Verdicts(unittest.TestCase):
    ABOVE, EQUAL = {"side": "above"}, {"side": "equal"}

    def check(self, *rows):
        for claim, found, p, verdict in rows:
            with self.subTest(claim=claim, found=found, p=p):
                self.assertEqual(kind_of(claim, found, p), verdict)

    def test_a_difference_is_shown_by_p_or_by_the_whole_interval(self):
        self.check((self.ABOVE, (0.9, 1.5, 2.0), 0.06, "no difference shown"), (self.ABOVE, (0.9, 1.5, 2.0), 0.05, "holds"),
                   (self.ABOVE, (0.9, 1.5, 2.0), None, "no difference shown"), (self.ABOVE, (1.1, 1.5, 2.0), None, "holds"),
                   (self.ABOVE, (0.7, 0.8, 0.9), None, "does not hold"), (self.ABOVE, (None, None, None), 1.0, "does not hold"))
        self.assertEqual(said(self.ABOVE, (0.7, 0.8, 0.9), 0.01), "does not hold (the opposite)")
        self.assertEqual(said(self.ABOVE, (None, None, None), 1.0), "does not hold (neither reaches the target)")

    def test_a_number_of_the_paper_has_two_sides(self):
        number, less, several = ({"side": "above", "paper": 1.4}, {"side": "below", "paper": 0.5}, {"side": "above", "paper": [2, 27]})
        self.check((number, (1.2, 1.3, 1.5), 0.01, "holds"), (number, (1.1, 1.2, 1.3), 0.01, "in direction"),
                   (number, (1.6, 1.8, 2.0), 0.01, "holds"), (number, (1.76, 1.8, 2.0), 0.01, "beyond"),
                   (less, (0.6, 0.7, 0.8), 0.01, "in direction"), (less, (0.4, 0.45, 0.6), 0.01, "holds"),
                   (less, (0.3, 0.35, 0.39), 0.01, "beyond"), (less, (1.1, 1.2, 1.3), 0.01, "does not hold"),
                   (several, (20, 28, 40), 0.01, "holds"), (several, (34, 40, 50), 0.01, "beyond"),
                   (several, (1.2, 1.5, 1.9), 0.01, "in direction"))

    def test_a_case_that_misses_the_target_meets_no_number(self):
        never, more, slower = (math.inf,) * 3, {"side": "above", "measure": "updates"}, {"side": "below", "measure": "speedup"}
        faster = {"side": "above", "measure": "speedup", "paper": 1.4}  # infinitely fast beside a reference that misses
        self.check((more, never, 0.01, "holds"), ({**more, "paper": 1.2}, never, 0.01, "does not hold"), (faster, never, 0.01, "beyond"),
                   ({**slower, "paper": 0.5}, (0, 0, 0), 0.01, "does not hold"), (slower, (0, 0, 0), 0.01, "holds"))

    def test_a_limit_is_judged_by_the_whole_interval(self):
        limit = {"side": "below", "bound": 1.31}
        self.check((limit, (1.1, 1.2, 1.3), 0.9, "holds"), (limit, (1.1, 1.3, 1.5), 0.01, "no difference shown"),
                   (limit, (1.4, 1.5, math.inf), 0.01, "does not hold"), (limit, (1.30, 1.305, 1.309), None, "holds"),
                   ({"side": "above", "bound": 0}, (0.1, 0.2, 0.3), None, "holds"),
                   ({**limit, "paper": 1.3}, (0.1, 0.2, 0.3), None, "beyond"))

    def test_equality(self):
        percent10 = {**self.EQUAL, "within": 0.1}
        self.check((self.EQUAL, (0.97, 1.0, 1.04), 0.5, "holds"), (self.EQUAL, (0.90, 1.0, 1.04), 0.5, "no difference shown"),
                   (self.EQUAL, (0.96, 0.97, 0.98), 0.01, "holds"),  # shown, but within what is claimed
                   (percent10, (0.91, 1.0, 1.09), 0.5, "holds"), (self.EQUAL, (1.1, 1.2, 1.3), 0.01, "does not hold"),
                   ({**self.EQUAL, "paper": 200}, (191, 200, 209), None, "holds"),
                   ({**self.EQUAL, "paper": 200}, (150, 160, 170), None, "does not hold"),
                   ({**self.EQUAL, "paper": 200}, (180, 200, 215), None, "no difference shown"))
        self.assertEqual(said(self.EQUAL, (1.1, 1.2, 1.3), 0.01), "does not hold (they differ)")
        self.assertEqual(said(self.EQUAL, (0.9, 1.0, 1.1), 0.5, 1.2),
                         "no difference shown (nor equality within 5 %; the seeds would have shown 1.2 times)")

    def test_less_than_one_percent_is_never_shown(self):
        below = {"side": "below"}
        self.assertEqual(said(below, (0.999996, 0.999997, 0.999998), 0.0002), "no difference shown (below 1 %)")
        self.check((below, (0.98, 0.985, 0.99), 0.001, "holds"), (self.ABOVE, (1.008, 1.009, 1.0095), None, "no difference shown"))
        # A number of the paper that is smaller asks for half of its effect.
        auc = {"side": "above", "paper": [1.0032, 1.024]}
        self.check((auc, (1.001, 1.0017, 1.004), 0.01, "holds"), (auc, (1.001, 1.0015, 1.004), 0.01, "no difference shown"))

    def test_the_least_effect_stands_beside_what_is_not_shown(self):
        found = (0.9, 1.1, 1.3)
        self.assertEqual(said(self.ABOVE, found, 0.3, 1.234), "no difference shown (the seeds would have shown 1.23 times)")
        self.assertEqual(said(self.ABOVE, found, 0.3, math.inf), "no difference shown (so few seeds can show none)")
        self.assertEqual(said(self.ABOVE, found, 0.3), "no difference shown")

    def test_one_seed_shows_nothing(self):
        row = {"test": "signed_rank", "n": 1, "speedup": ratio(1.5, 1.5, 1.5), "p_value": None, "least_effect": math.inf}
        figure = types.SimpleNamespace(spec={}, row=lambda own, base: row)
        found = reproduce_verdicts.found(figure, {"setup": "s", "case": "a", "reference": "b", "measure": "speedup", "side": "above"})
        self.assertEqual(reproduce_verdicts.verdict(self.ABOVE, found["found"], found["p_value"], found["least_effect"]),
                         "no difference shown (so few seeds can show none)")

    def test_each_word_has_a_column_of_the_counts(self):
        for verdict in reproduce_verdicts.VERDICTS:
            self.assertIn(reproduce.column_of({"verdict": verdict}), reproduce.COUNTED)
        self.assertEqual(reproduce.column_of({"verdict": "does not hold (they differ)"}), "do not hold otherwise")
        self.assertEqual(reproduce.column_of({"verdict": "does not hold (the opposite)"}), "opposite shown")

    def test_reasons_say_whether_they_were_tested(self):
        reason = reproduce_verdicts.reason
        self.assertEqual(reason({"cause": "the copies"}), "not tested: the copies")
        self.assertEqual(reason({"cause": "the copies", "tested": "r5"}), "the copies (tested: r5)")
        self.assertEqual(reason({"fitted": "an input"}), "fitted: an input")
        self.assertEqual(reason({"untestable": "no data"}), "no data")
        self.assertEqual(reason({}), "")

    def test_options_that_differ(self):
        record = {"options": {"batch_size": [16, 32], "learning_rate": [0.1, 1.0], "gamma": [0.9, None], "staleness": [None, 4]}}
        self.assertEqual(reproduce.options_text(record), "batch_size 16 : 32; learning_rate 0.1 : 1.0; of the case alone: gamma 0.9; "
                                                         "of the reference alone: staleness 4")

    def test_the_change_of_batches_late_in_a_run(self):
        sizes = [[64, 32], [64, 40], [64, 48], [60, 48], [64, 48], [64, 48], [60, 48], [64, 48]]
        result = {"events": [{"type": "merge", "batch_size": each} for each in sizes]}
        self.assertAlmostEqual(reproduce_runs.late_batch_change(result), 4 / 64)
        self.assertIsNone(reproduce_runs.late_batch_change({"events": []}))

    def test_steps_of_batches(self):
        result = {"histograms": {"steps": {"10": 3, "20": 1}}}
        found = {name: reproduce_runs.READINGS[f"steps_{name}"](result) for name in ("mean", "deviation", "least", "most")}
        self.assertEqual(found, {"mean": 12.5, "deviation": math.sqrt(18.75), "least": 10, "most": 20})

    def test_quotients_have_the_ends_of_both(self):
        self.assertEqual(reproduce_runs.quotient(ratio(1, 2, 3), ratio(4, 5, 8)), ratio(1 / 8, 2 / 5, 3 / 4))


SPEC = """
name = "x1"
about = "two methods"
paper = "RNA"
seeds = "1:6"
expectation = "less waiting"
[figure]
number = "figure 1"
finding = "It waits less."
machine = "simulated"
takes = "1 s"
reference = "one"
readings = ["computing_ratio"]
[[figure.plots]]
kind = "curves"
name = "curve"
x = "time_s"
y = "p1"
[[figure.plots]]
kind = "bars"
name = "bar"
y = "samples_per_s"
[[figure.plots]]
kind = "lines"
name = "line"
x = "workers"
y = "final"
[[setups]]
name = "two"
[[setups]]
name = "four"
[[cases]]
name = "one"
[[cases]]
name = "other"
[[claims]]
figure = "1"
claim = "without waiting there are more samples per second"
expected = "more"
setup = "two"
case = "other"
reference = "one"
measure = "samples_per_s"
side = "above"
[[claims]]
figure = "1"
claim = "four workers make more samples per second than two"
headline = true
expected = "2"
setup = "four"
case = "other"
reference_setup = "two"
reference = "other"
measure = "samples_per_s"
side = "above"
paper = 1.5
[[claims]]
figure = "-"
claim = "what no paper says"
expected = "-"
finding = true
setup = "two"
case = "other"
reference = "one"
measure = "samples_per_s"
side = "above"
cause = "no waiting"
tested = "the computing ratio of this page"
[[claims]]
figure = "1"
claim = "what was put in comes out"
expected = "1"
fitted = "an input of the clock"
setup = "two"
case = "other"
reference = "one"
measure = "samples_per_s"
side = "above"
[[claims]]
figure = "1"
claim = "a case that has not run"
expected = "-"
setup = "four"
case = "one"
reference = "other"
measure = "final"
side = "above"
"""


def train(folder, workers, algorithm, seed):
    file = folder / "runs" / f"{workers}{algorithm}{seed}.json"
    options = ("--train generate:tiny --test generate:tiny --epochs 1 --cluster sim --batch-size 32 --mega-batch 8 --speed 1,0.3 --learning-rate 0.5 "
               f"--target p1>=0.1 --workers {workers} --algorithm {algorithm} --seed {seed}").split()
    subprocess.run([os.environ["HETSGD"], "train", "--quiet", *options, "-o", file], check=True, capture_output=True)
    return file.relative_to(folder)


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """ssgd waits for the slow worker, asgd does not; four workers and `one` have not run. The index has the cases in another
        order than the specification: pages go by names."""
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        (cls.folder / "runs").mkdir()
        (cls.folder / "experiments").mkdir()
        (cls.folder / "experiments" / "x1.toml").write_text(SPEC)
        runs = [("two", "other", 2, "asgd"), ("two", "one", 2, "ssgd"), ("four", "other", 4, "asgd")]
        lines = [{"id": f"{setup}{case}{seed}", "setup": setup, "case": case, "seed": seed, "stage": "final",
                  "status": "completed", "file": str(train(cls.folder, workers, algorithm, seed))}
                 for setup, case, workers, algorithm in runs for seed in range(1, 7) if (setup, seed) != ("four", 6)]
        lines[0], first = {**lines[0], "file": "runs/gone.json"}, lines[0]
        text = "".join(json.dumps(line) + "\n" for line in [*lines, first])
        (cls.folder / "x1.index.jsonl").write_text(text + '{"id": "cut off')
        (cls.folder / "results").mkdir()
        (cls.folder / "results" / "README.md").write_text("before\n" + "\nstale row\n".join(reproduce.INDEX) + "\nafter\n")
        (cls.folder / "results" / "fidelity.md").write_text("by hand\n" + reproduce.FIDELITY)
        sys.argv = ["reproduce.py", "show", "--experiments", str(cls.folder / "experiments"), "--runs", str(cls.folder),
                    "--results", str(cls.folder / "results")]
        cls.talk = io.StringIO()
        with contextlib.redirect_stdout(cls.talk):
            reproduce.main()
        cls.records = json.loads((cls.folder / "results" / "x1" / "verdicts.json").read_text())

    def test_pages_take_their_verdicts_from_those_that_are_stored(self):
        path = self.folder / "results" / "x1" / "README.md"
        page = path.read_text()
        path.write_text(page.replace("holds", "does not hold").replace("## Claims\n", "## Claims\n\nof an older rule\n"))
        figure = reproduce.reproduce_runs.Figure(self.folder / "experiments" / "x1.toml", self.folder)
        reproduce.renew_claims(figure, path, self.records)
        self.assertEqual(path.read_text(), page)

    def test_pages_say_when_their_specification_asks_for_other_runs(self):
        path = self.folder / "results" / "x1" / "README.md"
        page = path.read_text()
        figure = reproduce.reproduce_runs.Figure(self.folder / "experiments" / "x1.toml", self.folder)
        self.assertNotIn("- Runs:", page)
        figure.claims = figure.spec["claims"] = []  # decides no run
        self.assertEqual(reproduce.earlier_line(figure, self.records), "")
        figure.spec["seeds"] = "1:7"
        reproduce.renew_claims(figure, path, self.records)
        self.assertIn("- Runs: of an earlier specification or program; `scripts/reproduce.sh x1` makes them again\n\n##", path.read_text())
        self.assertTrue(reproduce.index_table([figure], self.folder / "results").endswith("1 finding of our own; earlier runs |"))
        counted = reproduce.both_counts(reproduce.of_papers(self.records), lambda record: record["verdict"] == "holds")
        self.assertTrue(counted.endswith("| all | 3 | 2 | 1 | 1 | 2 |"), counted)
        figure.spec["seeds"] = "1:6"
        reproduce.renew_claims(figure, path, self.records)
        self.assertEqual(path.read_text(), page)

    def test_verdicts(self):
        self.assertEqual([record["verdict"] for record in self.records], ["holds", "holds", "holds", "fitted (holds)", "not run"])
        first, between = self.records[:2]
        self.assertGreater(first["found"]["median"], 1)
        # Six seeds of one sign are pairs; between two setups there are six seeds and five, which are none.
        self.assertEqual((first["test"], first["p_value"]), ("signed_rank", 2 / 64))
        self.assertGreaterEqual(first["least_effect"], 1)
        self.assertEqual((between["test"], between["p_value"]), ("mann_whitney", 0.004329))
        self.assertIn("paper's 1.5", between["asked"])
        self.assertIn("workers", between["options"])
        self.assertIn("[holds] without waiting", self.talk.getvalue())

    def test_pages(self):
        page = (self.folder / "results" / "x1" / "README.md").read_text()
        self.assertIn("- Not run: four: one, four: other (5 of 6 seeds)\n", page)
        self.assertIn("| 1 | four workers make more samples per second than two | 2 | above 1; the paper's 1.5 | ", page)
        self.assertIn("| workers 4 : 2 |\n", page)
        self.assertIn("of Wilcoxon's signed-rank test of runs that are paired by seed", page)
        self.assertIn("| holds | no waiting (tested: the computing ratio of this page) | ", page.partition("## Findings of our own")[2])
        self.assertIn("- Verdicts: 2 hold, 1 fitted, 1 not run, 1 finding of our own\n", page)
        readme = (self.folder / "results" / "README.md").read_text()
        self.assertTrue(readme.startswith("before\n") and readme.endswith("\nafter\n"), readme)
        self.assertIn("| [x1](x1/README.md) | RNA, figure 1 | two methods | 2 hold, 1 fitted, 1 not run, 1 finding of our own |", readme)
        self.assertNotIn("stale", readme)

    def test_claims_of_papers_and_findings_have_pages_of_their_own(self):
        fidelity = (self.folder / "results" / "fidelity.md").read_text()
        self.assertTrue(fidelity.startswith("by hand\n"), fidelity)
        headlines = fidelity.partition(reproduce.HEADLINES[0])[2].partition(reproduce.HEADLINES[1])[0].splitlines()
        self.assertEqual(len(headlines), 4, headlines)
        self.assertTrue(headlines[3].startswith("| RNA (Yang 2022, chapter 5) | four workers make more samples per second than two | 2 |"))
        self.assertTrue(headlines[3].endswith("| holds | 1.01 times | [x1](x1/README.md) |"), headlines[3])
        self.assertIn("| paper | claims | hold | not run | fitted (not counted) |\n|", fidelity)
        self.assertIn("| RNA (Yang 2022, chapter 5) | 3 | 2 | 1 | 1 |\n| all | 3 | 2 | 1 | 1 |", fidelity)
        self.assertIn("| samples or iterations per second | 2 | 2 | 0 | 1 |\n", fidelity.partition("| what is compared | claims |")[2])
        self.assertIn("| [x1](x1/README.md) |\n<!-- end of claims -->", fidelity)
        self.assertNotIn("what no paper says", fidelity)
        findings = (self.folder / "results" / "findings.md").read_text()
        self.assertEqual(findings.count("[x1](x1/README.md)"), 1)
        self.assertIn("| - | what no paper says | - | above 1 | ", findings)

    def test_claims_about_plans_of_memory_stand_beside_those_of_runs(self):
        records = json.loads((ROOT / "results" / reproduce.PLANS / "verdicts.json").read_text())
        text = reproduce.tables_by_paper(records)
        self.assertIn("### Dymem (Yang 2022, chapter 4)\n", text)
        self.assertEqual(text.count("| [dymem](dymem.md) |"), len(records))
        self.assertIn(f"| {records[0]['found_text']} |", text)
        self.assertTrue(reproduce.both_counts(records, lambda record: reproduce_verdicts.is_earlier(record, None)).startswith("| paper | claims | hold |"))

    def test_the_list_ends_with_the_time_of_all(self):
        self.assertEqual((reproduce.minutes_of("2 min"), reproduce.minutes_of("30 s")), (2, 0.5))
        rows, talk = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(rows), contextlib.redirect_stderr(talk), \
                unittest.mock.patch.object(sys, "argv", ["reproduce.py", "list", "c10", "c12"]):
            reproduce.main()
        self.assertEqual([row.split()[0] for row in rows.getvalue().splitlines()], ["c10", "c12"])  # reproduce.sh takes them
        hours = sum(reproduce.minutes_of(FIGURES[name].figure["takes"]) for name in ("c10", "c12")) / 60
        self.assertTrue(talk.getvalue().endswith(f"2 specifications, {hours:.1f} h on two idle cores, less what they share\n"), talk.getvalue())

    def test_plots(self):
        for name in ("curve", "bar", "line"):
            self.assertGreater((self.folder / "results" / "x1" / f"{name}.svg").stat().st_size, 1000)


BENCH = """
name = "x2"
about = "an exchange"
paper = "Sven"
expectation = "less"
[figure]
kind = "real"
number = "figure 1"
finding = "It takes less."
machine = "here"
takes = "1 s"
[[figure.plots]]
kind = "bench"
name = "calls"
y = "in_call"
[bench]
collective = "all_to_all"
workers = 2
straggler = ["kind=none", "kind=other"]
[[setups]]
name = "two ranks"
settings = {exchange = "blocking,scatter", launch = "mpirun -n 2"}
[[setups]]
name = "threads"
settings = {exchange = "blocking"}
[[claims]]
figure = "1"
claim = "shorter calls"
expected = "-"
setup = "two ranks"
case = "scatter"
reference = "blocking"
measure = "in_call"
side = "below"
[[claims]]
figure = "1"
claim = "where it was not measured"
expected = "-"
setup = "threads"
case = "scatter"
reference = "blocking"
measure = "latency"
side = "below"
"""


class Looks(unittest.TestCase):
    """Eight looks, of which the ninth case would have the first."""

    def test_no_two_cases_of_a_panel_look_alike(self):
        figure = types.SimpleNamespace(spec={"cases": [{"name": f"case {i}"} for i in range(20)]})
        self.assertEqual(reproduce_plots.numbers_of(figure, ["case 1", "case 5"]), {"case 1": 1, "case 5": 5})
        self.assertEqual(reproduce_plots.numbers_of(figure, {"case 8", "case 1", "case 0"}), {"case 0": 0, "case 1": 1, "case 8": 10})
        nine = reproduce_plots.numbers_of(figure, [f"case {i}" for i in range(11, 20)])
        self.assertEqual(len({number % 8 for number in nine.values()}), 8)


class Benchmarks(unittest.TestCase):
    """A figure whose numbers are those of `hetsgd bench`, by setup."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "x2.toml").write_text(BENCH)
        self.figure = reproduce_runs.Figure(self.folder / "x2.toml", self.folder)
        rows = [{"redop": name, "size_bytes": size, "time_s": {"median": 1.0}, "in_call_s": seconds}
                for name, size, seconds in (("blocking", 4, 1), ("scatter", 4, 0.5), ("blocking", 8, 2), ("scatter", 8, 1.8))]
        self.figure.bench_file("two ranks").write_text(json.dumps({"results": rows}))

    # The ratios over the sizes: 1/2 and 9/10.
    def test_verdicts_are_of_their_setup_and_measure(self):
        here, elsewhere = reproduce_verdicts.decide_all(self.figure)
        self.assertEqual((here["found"], here["verdict"]), (ratio(0.5, 0.7, 0.9), "holds"))
        self.assertEqual(elsewhere["verdict"], "not run")

    def test_the_page_has_all_that_was_measured(self):
        page = reproduce.page(self.figure, [], [])
        self.assertIn("two ranks, time in the call, all sizes:", page)
        self.assertIn("| 8 | 2000 | 1800 |", page)
        self.assertNotIn("threads", page)
        self.assertEqual(reproduce_plots.draw(self.figure, self.folder), ["calls"])
        self.assertEqual(reproduce_sven.kind_of(self.figure), "real")

    def test_options_are_those_of_the_command_line(self):
        calls = []
        with unittest.mock.patch.object(reproduce_runs, "hetsgd", lambda *words, launch="": calls.append((launch, words))):
            reproduce.run_bench(self.figure)
        self.assertEqual([launch for launch, _ in calls], ["mpirun -n 2", ""])
        words = calls[0][1]
        self.assertEqual(words[:7], ("bench", "all_to_all", "--workers", 2, "--straggler", "kind=none", "--straggler"))
        self.assertNotIn("--launch", words)


class Tiny(unittest.TestCase):
    def test_ranks_are_launched_here_whatever_the_machine(self):
        self.assertEqual(reproduce.tiny(FIGURES["v-7r"])["launch"], "mpirun --oversubscribe -n {ranks}")
        bench = reproduce.tiny(FIGURES["v-6r"])
        self.assertEqual((bench["bench"]["max_bytes"], bench["bench"]["workers"]), ("16K", 2))
        self.assertTrue(reproduce.needs_ranks(bench))
        self.assertFalse(reproduce.needs_ranks(FIGURES["d1"].spec))

    def test_it_shrinks_everything_and_finds_files_from_anywhere(self):
        spec = reproduce.tiny(FIGURES["a6"])
        setup = {each["name"]: {**spec["settings"], **each["settings"]} for each in spec["setups"]}["server"]
        self.assertEqual((spec["seeds"], setup["train"], setup["epochs"]), ([1], "generate:tiny", 0.5))
        self.assertTrue(pathlib.Path(setup["config"]).is_absolute() and pathlib.Path(setup["config"]).exists())
        self.assertEqual(spec["cases"], FIGURES["a6"].spec["cases"])

    def test_videos_stay_videos(self):
        settings = reproduce.tiny(FIGURES["r-2-9"])["settings"]
        self.assertIn("generate:video", settings["train"])
        self.assertIn("lstm-video", settings["model"])

    def test_sentences_stay_sentences(self):
        settings = reproduce.tiny(FIGURES["r8"])["settings"]
        self.assertIn("generate:language", settings["train"])
        self.assertEqual(settings["model"], "gpt-micro")
