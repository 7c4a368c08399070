"""Tests of hetsgd._validate: each damage of a valid file is found at its place."""

import copy
import json
import math
import unittest

import package  # noqa: F401  # finds the package
import jsonschema
from hetsgd import _validate
from whole_results import document, tuning


def set_at(value, pointer, new):
    """Sets the value at a JSON pointer, or removes it (new is ...)."""
    *above, key = pointer.split("/")[1:]
    for part in above:
        value = value[int(part) if isinstance(value, list) else part]
    key = int(key) if isinstance(value, list) else key
    if new is ...:
        del value[key]
    else:
        value[key] = new


class Results(unittest.TestCase):
    def damaged(self, pointer, new, of=None):
        result = copy.deepcopy(of or document([0.1, 0.4, 0.5]))
        set_at(result, pointer, new)
        return _validate.validate_result(result)

    def test_whole_ones_are_valid(self):
        for p1 in ([0.1, 0.4, 0.5], [0.1, 0.6, 0.2, 0.6, 0.7, 0.6], [0.9], []):
            self.assertEqual(_validate.validate_result(document(p1)), [], p1)
        for status in ("running", "target_reached", "diverged", "aborted", "failed", "time_limit"):
            result = document([0.1, 0.4])
            result.update(status=status, status_reason="disk on fire", finished_at=None if status == "running" else result["finished_at"])
            self.assertEqual(_validate.validate_result(result), [], status)

    def test_the_schema_names_the_place(self):
        """(damage, its new value, the place of the finding, words of its sentence)."""
        for pointer, new, place, words in (
                ("/curve/1/time_s", "later", "/curve/1/time_s", 'found "later", expected a number'),
                ("/curve/2/p1", 1.5, "/curve/2/p1", "found 1.5, expected at most 1"),
                ("/curve/1/updates", ..., "/curve/1", 'found no "updates"'),
                ("/curve/1/updates", 3.0, "/curve/1/updates", "found 3.0, expected a whole number"),
                ("/workers/0/colour", "red", "/workers/0", 'found key "colour"'),
                ("/config", ..., "", 'found no "config"'), ("/surprise", 1, "", 'found key "surprise"'),
                ("/status", "fine", "/status", 'found "fine", expected "running" or "completed"'),
                ("/started_at", "yesterday", "/started_at", 'found "yesterday", expected a text like'),
                ("/events/0/weight", ..., "/events/0", 'found no "weight"'),
                ("/dataset/train/content_hash", "12", "/dataset/train/content_hash", 'found "12"'),
                ("/histograms/x", {"a": 1}, "/histograms/x", 'found "a"'),
                ("/tuning", {"trials": 3}, "/tuning", 'found no "grid"'),
                ("/survival", {"availability": 0.5, "resume_s": "x"}, "/survival/resume_s", "expected a number or null")):
            with self.subTest(place=pointer):
                found = [finding.text for finding in self.damaged(pointer, new) if finding.pointer == place]
                self.assertTrue(any(text.startswith(words) or text.endswith(words) for text in found), self.damaged(pointer, new))
        self.assertEqual(self.damaged("/config", ...)[0].line(), '/: found no "config", expected it')

    def test_what_a_schema_cannot_say(self):
        for pointer, new, place in (
                ("/curve/2/time_s", 0.5, ""), ("/curve/2/samples_count", 1, ""), ("/workers/1/rank", 0, ""),
                ("/workers/1/bytes_sent", 5, ""), ("/workers/1/waited_for", [{"rank": 1, "wait_s": 1.0}], ""),
                ("/events/0/norm", [1.0], ""), ("/events/0/norm", [1.0, None], "/1"),
                ("/curve/1/test_loss", None, ""), ("/time_to_accuracy/0/time_s", 3.5, ""), ("/time_to_accuracy/0/status", "reached", ""),
                ("/summary/samples_count", 7, ""), ("/summary/evaluations", 7, ""), ("/finished_at", None, ""), ("/wall/total_s", 9.0, "")):
            with self.subTest(place=pointer):
                self.assertIn(pointer + place, [finding.pointer for finding in self.damaged(pointer, new)])
        for pointer, new, place in (("/workers/0/samples", 7, "/summary/samples_count"), ("/status", "failed", "/status_reason"),
                                    ("/tuning", tuning(), "/tuning/learning_rate"), ("/summary/tokens", 7, "")):
            with self.subTest(place=pointer):
                self.assertEqual([finding.pointer for finding in self.damaged(pointer, new)], [place] if place else [])
        result = document([0.1, 0.4])
        result["dataset"]["train"].update(targets=3000)
        self.assertEqual([each.pointer for each in self.damaged("/summary/tokens", 7, result)], ["/summary/tokens"])

    def test_targets_are_judged_by_the_curve_and_the_clocks(self):
        held = document([0.1, 0.6, 0.7, 0.8])
        found = self.damaged("/time_to_accuracy/0/clocks/algoperf_s", 1.0, held)
        self.assertEqual([each.pointer for each in found], ["/time_to_accuracy/0/clocks"])
        for point in held["curve"]:
            point.update(wall_s=10.0, prepare_s=0.25)
        held["cluster"]["virtual_time"] = False
        held["wall"].update(load_s=1.0, init_s=2.0, total_s=3.0)
        clocks = {"algoperf_s": 1.25, "mlperf_s": 10.0, "dawnbench_s": 4.0}
        self.assertEqual(self.damaged("/time_to_accuracy/0/clocks", clocks, held), [])
        self.assertNotEqual(self.damaged("/time_to_accuracy/0/clocks", {**clocks, "mlperf_s": 9.0}, held), [])
        # In schema version 1.0 a target was reached at the first crossing.
        old = document([0.1, 0.6, 0.2, 0.2])
        entry = old["time_to_accuracy"][0]
        self.assertEqual(entry.pop("status"), "crossed")
        for key in ("first_crossing_s", "clocks"):
            del entry[key]
        entry.update(status="reached", time_s=1.0, samples_count=100, updates=10)
        self.assertEqual(_validate.validate_result(old), [])
        self.assertNotEqual(self.damaged("/time_to_accuracy/0/time_s", 2.0, old), [])

    def test_ranks_and_hosts_fit_together(self):
        result = document([0.1, 0.4])
        nodes = [{"host": host, "cores": 2, "ranks": [{"rank": rank, "local_rank": 0, "pid": 100 + rank, "cores": []} for rank in ranks]}
                 for host, ranks in (("red", [0, 2]), ("blue", [1]))]
        result["cluster"]["machine"] = {"mpi_library": "m", "thread_level": "t", "cuda_aware": False, "service_rank": 2, "nodes": nodes}
        for worker, host in zip(result["workers"], ("red", "blue")):
            worker["host"] = host
        self.assertEqual(_validate.validate_result(result), [])
        for pointer, new, words in (("/workers/1/host", "red", "/workers/1/host"), ("/cluster/machine/nodes/1/ranks/0/rank", 0, "twice"),
                                    ("/cluster/machine/service_rank", None, "expected 0 to 1")):
            self.assertIn(words, "\n".join(finding.line() for finding in self.damaged(pointer, new, result)))

    def test_lost_samples_count(self):
        """Each of the two workers learnt 100 samples; of those 40 were lost with one of them and 60 learnt again."""
        result = document([0.1, 0.4])
        for worker in result["workers"]:
            worker["samples"] = 100
        self.assertEqual([each.pointer for each in _validate.validate_result(result)], ["/summary/samples_count"])
        result["failures"] = [{"lost_samples": 40, "redone_samples": 60}]
        self.assertNotIn("/summary/samples_count", [each.pointer for each in _validate.check_samples(result)])


def tuning_of(goal, by_rate):
    """A tuning over the rates 0.1, 0.3, 1 whose trials have these (value, time)."""
    trials = [[{"id": f"{seed:016x}", "seed": seed, "status": "diverged" if value is None else "completed", "status_reason": None,
                "value": value, "time_to_target_s": time_s, "samples_count": 100, "train_s": 2.0, "wall_s": 0.5}
               for seed, (value, time_s) in enumerate(outcomes, 1)] for outcomes in by_rate]
    tried = [{"parameters": {"learning_rate": rate}, "trials": each} for rate, each in zip((0.1, 0.3, 1.0), trials)]
    sign = _validate.sign_of(goal)
    for each in tried:
        for key, of in (("value", sign), ("time_to_target_s", 1)):
            median = of * _validate.median_of(each["trials"], key, of)
            each[key] = median if math.isfinite(median) else None
    count = len(sum(trials, []))
    cost = {"trials": count, "samples_count": 100 * count, "train_s": 2.0 * count, "wall_s": 0.5 * count}
    place = _validate.choice_of(goal, tried)
    parts = {part: {"rows": 9, "content_hash": "xxh3:0000000000000001"} for part in ("train", "validation")}
    cell = {"setup": "", "case": "ssgd", "algorithm": "ssgd", "goal": goal, "seeds": list(range(1, len(by_rate[0]) + 1)), "config": {},
            "dataset": parts, "candidates": tried, "chosen": None if place is None else tried[place]["parameters"], "edges": [], "note": None,
            "warnings": [], "cost": cost}
    if place is not None:
        cell["note"] = {**_validate.note_of(cell, cell["chosen"]), "validation": 0.1, "validation_rows": 9, "train_s": cost["train_s"],
                        "file_hash": "xxh3:0000000000000001"}
    return {"schema_version": "2.0", "kind": "tuning", "tool": {"name": "hetsgd", "version": "1", "git_revision": "0", "git_dirty": False},
            "args": [], "cells": [cell], "cost": dict(cost)}


class Tunings(unittest.TestCase):
    def choice(self, goal, *by_rate):
        tuning = tuning_of(goal, by_rate)
        self.assertEqual(_validate.validate_tuning(tuning), [])
        return tuning["cells"][0]["chosen"] and tuning["cells"][0]["chosen"]["learning_rate"]

    def test_the_best_final_value(self):
        self.assertEqual(self.choice("p1", [(0.4, None)], [(0.6, None)], [(0.5, None)]), 0.3)
        self.assertEqual(self.choice("test_loss", [(4, None)], [(6, None)], [(5, None)]), 0.1)
        self.assertEqual(self.choice("p1", [(0.4, None)], [(0.4, None)]), 0.1)

    def test_the_earliest_time_then_the_best_value(self):
        self.assertEqual(self.choice("p1>=0.5", [(0.9, None)], [(0.6, 7.0)], [(0.5, 4.0)]), 1.0)
        self.assertEqual(self.choice("p1>=0.5", [(0.6, 4.0)], [(0.7, 4.0)], [(0.5, 4.0)]), 0.3)
        self.assertEqual(self.choice("p1>=0.9", [(0.4, None)], [(0.6, None)], [(0.5, None)]), 0.3)

    def test_a_diverged_trial_is_the_worst(self):
        good, bad, lost = (0.6, None), (0.2, None), (None, None)
        self.assertEqual(self.choice("p1", [bad] * 3, [good, lost, good]), 0.3)
        self.assertEqual(self.choice("p1", [bad] * 2, [good, lost]), 0.1)
        self.assertIsNone(self.choice("test_loss", [lost], [lost]))

    def test_damages_are_named(self):
        good = tuning_of("p1", [[(0.4, None)], [(0.6, None)]])
        cell = "/cells/0"
        for pointer, new, place in (
                ("/cells", ..., ""), (f"{cell}/seeds", [], f"{cell}/seeds"), (f"{cell}/goal", "speed", f"{cell}/goal"),
                (f"{cell}/candidates/1/trials/0/status", "fine", f"{cell}/candidates/1/trials/0/status"),
                (f"{cell}/candidates/1/trials/0/seed", 7, f"{cell}/candidates/1/trials"),
                (f"{cell}/candidates/1/trials/0", ..., f"{cell}/candidates/1/trials"),
                (f"{cell}/candidates/1/value", 0.7, f"{cell}/candidates/1/value"), (f"{cell}/chosen", {"learning_rate": 0.1}, f"{cell}/chosen"),
                (f"{cell}/note", None, f"{cell}/note"), (f"{cell}/note/learning_rate", 0.1, f"{cell}/note/learning_rate"),
                (f"{cell}/note/edge_of_grid", False, f"{cell}/note/edge_of_grid"), (f"{cell}/note/grid", [0.1], f"{cell}/note/grid"),
                (f"{cell}/cost/trials", 1, f"{cell}/cost"), ("/cost/train_s", 1, "/cost"),
                ("/schema_version", "1.0", "/schema_version"), ("/schema_version", ..., "")):
            bad = copy.deepcopy(good)
            set_at(bad, pointer, new)
            self.assertIn(place, [finding.pointer for finding in _validate.validate_tuning(bad)], pointer)

    def test_a_note_is_one_on_the_learning_rate_alone(self):
        tuning = tuning_of("p1", [[(0.4, None)], [(0.6, None)]])
        for each in tuning["cells"][0]["candidates"]:
            each["parameters"]["momentum"] = 0.9
        self.assertEqual([finding.pointer for finding in _validate.validate_tuning(tuning)], ["/cells/0/note"])
        tuning["cells"][0]["note"] = None
        self.assertEqual(_validate.validate_tuning(tuning), [])

    def test_the_schema_of_notes_is_that_of_results(self):
        notes = [json.loads(_validate.schema("tuning"))["definitions"]["cell"]["properties"]["note"],
                 json.loads(_validate.schema("result"))["properties"]["tuning"]]
        self.assertEqual({*notes[0]["required"], "differs"}, {*notes[1]["required"]})
        self.assertEqual({*notes[0]["properties"], "differs"}, {*notes[1]["properties"]})


class Specifications(unittest.TestCase):
    def test_the_schema_of_sweeps(self):
        for more, place in (({"seeds": "1:5"}, None), ({"name": "A"}, "/name"), ({"seeds": []}, "/seeds"), ({"cases": [{}]}, "/cases/0"),
                            ({"tuning": {"validation": 0}}, "/tuning/validation")):
            found = _validate.check_schema("sweep", {"name": "a6", **more})
            self.assertEqual([finding.pointer for finding in found], [place] if place else [])

    def test_every_schema_is_one(self):
        for name in ("result", "tuning", "sweep", "standing"):
            jsonschema.Draft7Validator.check_schema(json.loads(_validate.schema(name)))
