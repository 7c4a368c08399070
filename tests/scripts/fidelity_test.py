#!/usr/bin/python3
"""experiments/fidelity.py: its claims name what there is, verdicts follow their rules, its page has no empty figures."""
import contextlib
import io
import json
import math
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "experiments")]
import fidelity  # noqa: E402
import fidelity_page  # noqa: E402
from fidelity_settings import CARRIED_RATES, METHODS, PARTS, SETUPS  # noqa: E402

CLAIMS = fidelity_page.read_claims(ROOT / "experiments" / "fidelity_claims.toml", PARTS)


def ratio(low, median, high):
    return {"median": median, "low": low, "high": high}


def verdict(value, p=0.01, **claim):
    return fidelity_page.verdict({"measure": "speedup", **claim}, value, p).split(" (")[0]


class Settings(unittest.TestCase):
    def test_parts_name_setups_and_methods(self):
        for name, part in PARTS.items():
            self.assertLessEqual(set(part.setups), set(SETUPS), name)
            self.assertLessEqual({*part.methods, part.reference}, set(METHODS), name)
            self.assertIn(part.reference, part.methods, name)
            self.assertLessEqual(set(part.readings), set(fidelity.READINGS), name)

    def test_every_part_and_setup_is_used(self):
        setups = {setup for part in PARTS.values() for setup in part.setups} | {base[0] for base in CARRIED_RATES.values()}
        self.assertEqual(setups, set(SETUPS))
        methods = {method for part in PARTS.values() for method in part.methods} | {base[1] for base in CARRIED_RATES.values()}
        self.assertEqual(methods, set(METHODS))

    def test_a_setup_repeats_no_flag_with_another_value_by_mistake(self):
        for name, setup in SETUPS.items():
            flags = [str(option) for option in setup.options if str(option).startswith("--")]
            twice = {flag for flag in flags if flags.count(flag) > 1} - {"--straggler", "--profile", "--network"}
            self.assertEqual(twice, set(), name)

    def test_rates_are_carried_after_they_are_tuned(self):
        first, carried = fidelity.pairs(["adasum"])
        self.assertIn(("adasum-1", "sgd"), first)
        self.assertTrue(carried)
        self.assertFalse(set(first) & set(carried))


class Claims(unittest.TestCase):
    def test_every_figure_of_the_papers_has_a_claim(self):
        wanted = {"000": ["6", "7", "8", "9", "10a", "10b", "11a", "11b", "12a", "12b"], "001": ["2", "4"],
                  "002": ["10", "11", "12", "13", "14", "15", "16", "17"], "003": ["3", "4", "5", "table 1"],
                  "004": ["5.3", "5.4", "5.5", "5.6", "5.7", "table 5.3", "table 5.4", "table 5.5"]}
        for paper, figures in wanted.items():
            there = [claim["figure"] for claim in CLAIMS if claim["paper"] == paper]
            for figure in figures:
                self.assertTrue(any(figure in each for each in there), f"{paper} {figure}")

    def test_every_claim_has_one_way_to_be_decided(self):
        for claim in CLAIMS:
            self.assertEqual(("untestable" in claim) + ("measure" in claim) + ("reading" in claim), 1, claim["claim"])
            if "measure" in claim:
                self.assertIn(claim["measure"], fidelity_page.MEASURES, claim["claim"])
                self.assertNotEqual(claim["method"], claim["reference"], claim["claim"])
            if claim.get("side") == "at_most":
                self.assertIn("at_most", claim, claim["claim"])


class Verdicts(unittest.TestCase):
    def test_a_figure_of_the_paper(self):
        # the paper: at least 1.4 times as fast
        claim = {"side": "above", "at_least": 1.4}
        self.assertEqual(verdict(ratio(1.2, 1.3, 1.5), **claim), "holds")
        self.assertEqual(verdict(ratio(2.0, 2.1, 2.2), **claim), "holds")
        self.assertEqual(verdict(ratio(1.1, 1.2, 1.3), **claim), "holds in direction")
        self.assertEqual(verdict(ratio(0.7, 0.8, 0.9), **claim), "does not hold")

    def test_no_difference_is_claimed_above_the_limit_of_p(self):
        self.assertEqual(verdict(ratio(0.9, 1.5, 2.0), p=0.06, side="above"), "does not hold")
        self.assertEqual(verdict(ratio(0.9, 1.5, 2.0), p=0.05, side="above"), "holds")

    def test_equality_and_upper_limits(self):
        self.assertEqual(verdict(ratio(0.97, 1.0, 1.04), p=0.5, side="equal"), "holds")
        self.assertEqual(verdict(ratio(0.90, 1.0, 1.04), p=0.5, side="equal"), "does not hold")
        limit = {"side": "at_most", "at_most": 1.31}
        self.assertEqual(verdict(ratio(1.1, 1.2, 1.3), **limit), "holds")
        self.assertEqual(verdict(ratio(0.8, 0.9, 1.0), p=0.5, **limit), "holds")
        self.assertEqual(verdict(ratio(1.1, 1.3, 1.5), **limit), "holds in direction")
        self.assertEqual(verdict(ratio(1.3, 1.5, math.inf), **limit), "does not hold")

    def test_nobody_reaches_the_target(self):
        self.assertEqual(verdict(ratio(None, None, None), p=1.0, side="above"), "does not hold")


class Page(unittest.TestCase):
    PARTS = {"p": PARTS["rna-probes"]}
    CLAIM = {"paper": "004", "figure": "5.7", "claim": "shorter rounds", "number": "2.4", "part": "p", "setup": "probes",
             "method": "rna probes 2", "reference": "rna probes 1", "measure": "updates_per_s", "side": "above", "at_least": 2.4}

    def write(self, folder, claims):
        talk = io.StringIO()
        with contextlib.redirect_stderr(talk), contextlib.redirect_stdout(io.StringIO()):
            fidelity_page.write_page(folder, self.PARTS, claims)
        return talk.getvalue()

    def test_it_waits_for_its_parts(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            self.assertIn("waits for the parts p", self.write(folder, [self.CLAIM]))
            self.assertFalse((folder / "fidelity.md").exists())

    def test_a_claim_becomes_a_row(self):
        relation = {"ratio": ratio(1.2, 1.3, math.inf), "p_value": 0.00001}
        document = {"about": "rounds", "reference": "rna probes 1",
                    "setups": {"probes": {"rna probes 1": {"rna probes 2": {"updates_per_s_relation": relation}}}}}
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "fidelity").mkdir()
            (folder / "fidelity" / "p.json").write_text(json.dumps(fidelity_page.writable(document), allow_nan=False))
            self.write(folder, [self.CLAIM])
            page = (folder / "fidelity.md").read_text()
        self.assertIn("| 5.7 | shorter rounds | 2.4 | 1.3 [1.2, never], p < 0.0001 (iterations/s, rna probes 2 over rna probes 1; "
                      "[p](fidelity/p.md), probes) | holds |", page)
        self.assertIn("1 holds", page)

    def test_ratios_of_readings_have_the_ends_of_both(self):
        self.assertEqual(fidelity_page.quotient(ratio(1, 2, 3), ratio(4, 5, 8)), ratio(1 / 8, 2 / 5, 3 / 4))


if __name__ == "__main__":
    unittest.main()
