"""Fits of stragglers: what was injected is found again, also in noise, and p-values keep their promise."""

import collections
import json
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np
from scipy import stats

import package  # noqa: F401  # finds the package
from hetsgd import _errors, _fit, _program


def steps_of(times, delay=None, work=1.0):
    """Steps one after the other. Without delays they are those of another tool."""
    times = np.asarray(times, dtype=float)
    delay = np.zeros(len(times)) if delay is None else delay
    return {"begin_s": np.concatenate([[0], np.cumsum(times)[:-1]]), "own_s": times - delay, "delay_s": delay,
            "work_s": np.full(len(times), work)}


def drawn(kind, random, count):
    return {"uniform": lambda: random.uniform(0.005, 0.05, count), "lognormal": lambda: random.lognormal(np.log(0.01), 1, count),
            "pareto": lambda: 0.01 * random.pareto(2, count)}[kind]()


def stretched(random, count, step, phases, factor, noise=0.0):
    """Steps on a clock with slow phases. `phases` draws the lengths of the next slow and the next normal phase. Returns the times and
    the mean lengths of the phases that were over."""
    times, lengths, slow, now, begin = [], ([], []), False, 0.0, 0.0
    end = phases(random, slow)
    for work in step * (1 + noise * random.standard_normal(count)):
        time = 0.0
        while now + work * (factor if slow else 1) > end:
            time, work = time + end - now, work - (end - now) / (factor if slow else 1)
            lengths[slow].append(end - begin)
            now = begin = end
            slow, end = not slow, end + phases(random, not slow)
        now += work * (factor if slow else 1)
        times.append(time + work * (factor if slow else 1))
    return np.array(times), *(np.mean(each) for each in lengths)


def values_of(fit):
    return {each.key: each.value for each in fit.parameters}


class Kinds(unittest.TestCase):
    def test_delays_are_found_with_their_parameters(self):
        right = {"uniform": {"min": 0.005, "max": 0.05}, "lognormal": {"median": 0.01, "sigma": 1}, "pareto": {"scale": 0.01, "shape": 2}}
        for kind, parameters in right.items():
            inside, found = collections.Counter(), 0
            for seed in range(40):
                delay = drawn(kind, np.random.default_rng(seed), 1000)
                fit = _fit.fit_steps(steps_of(0.1 + delay, delay, 0.1))
                found += fit.kind == kind
                inside.update(each.key for each in fit.parameters if each.low <= parameters.get(each.key, -1) <= each.high)
            self.assertGreaterEqual(found, 38, kind)
            self.assertTrue(all(inside[key] >= 34 for key in parameters), (kind, inside))

    def test_phases_are_found_in_noise(self):
        def burst(random, slow):
            return random.exponential(0.02 if slow else 0.06)

        for noise in (0, 0.001, 0.05):
            for seed in range(10):
                times, off, on = stretched(np.random.default_rng(seed), 10000, 0.0005, burst, 3, noise)
                fit = _fit.fit_steps(steps_of(times), with_delays=False)
                self.assertEqual(fit.kind, "burst")
                for key, value, part in (("on", on, 0.25), ("off", off, 0.25), ("factor", 3, 0.05)):
                    self.assertAlmostEqual(values_of(fit)[key] / value, 1, delta=part)

    def test_one_phase_stays_one_and_three_stay_three(self):
        for phases in ([(80, 120)], [(20, 40), (80, 110), (150, 170)], [(160, 200)]):
            slow = np.zeros(200, dtype=bool)
            for begin, end in phases:
                slow[begin:end] = True
            for noise in (0.001, 0.02, 0.05):
                for seed in range(10):
                    times = 0.12 * (1 + noise * np.random.default_rng(seed).standard_normal(200)) * np.where(slow, 2.2, 1)
                    fit = _fit.fit_steps(steps_of(times), with_delays=False)
                    self.assertEqual(fit.kind, "burst")
                    self.assertAlmostEqual(values_of(fit)["on"], times[slow].sum() / len(phases), delta=0.3)
                    self.assertAlmostEqual(values_of(fit)["factor"], 2.2, delta=0.11)

    def test_equal_distances_are_periodic(self):
        for noise in (0, 0.02):
            times, _, _ = stretched(np.random.default_rng(1), 1000, 0.01, lambda _, slow: 0.2 if slow else 0.8, 3, noise)
            fit = _fit.fit_steps(steps_of(times), with_delays=False)
            self.assertEqual(fit.kind, "periodic")
            for key, value in (("period", 1), ("duration", 0.2), ("factor", 3)):
                self.assertAlmostEqual(values_of(fit)[key] / value, 1, delta=0.03)

    def test_plain_noise_is_called_so(self):
        for noise in (0.001, 0.01, 0.05):
            for seed in range(30):
                fit = _fit.fit_steps(steps_of(0.12 * (1 + noise * np.random.default_rng(seed).standard_normal(200))), with_delays=False)
                self.assertEqual(fit.kind, "noise")
                self.assertAlmostEqual(fit.factor, 0.12, delta=0.12 * noise / 3)
        self.assertEqual(_fit.fit_steps(steps_of([0.1] * 200), with_delays=False).kind, "none")

    def test_few_steps_are_a_trace(self):
        fits = _fit.fit_workers({"virtual": True, "of_hetsgd": False, "steps": [steps_of([1.0, 1.5, 2.0])]})
        self.assertEqual(fits[0].kind, "trace")
        self.assertEqual(_fit.trace_csv(fits), "rank,iteration,delay_s\n0,0,0.0\n0,1,0.5\n0,2,1.0\n")
        self.assertEqual(_fit.scenario_of(fits, {"of_hetsgd": False}, "t.csv"),
                         {"step_time": "1s", "straggler": ["kind=trace,file=t.csv,workers=0"]})
        with self.assertRaisesRegex(_errors.Error, "--trace-csv: found no file, expected one, because worker 0 has 3 steps"):
            _fit.scenario_of(fits, {"of_hetsgd": False})


class PValues(unittest.TestCase):
    def test_five_of_a_hundred_right_laws_are_below_five_percent(self):
        for kind in ("uniform", "lognormal", "pareto"):
            below = 0
            for seed in range(300):
                below += _fit.p_value_of(kind, np.sort(drawn(kind, np.random.default_rng(seed), 200))) < 0.05
            self.assertTrue(9 <= below <= 21, (kind, below))
        below = sum(_fit.p_value_of("shifted", np.sort(0.1 + drawn("lognormal", np.random.default_rng(seed), 200))) < 0.05
                    for seed in range(300))
        self.assertTrue(9 <= below <= 21, ("shifted", below))

    def test_wrong_laws_are_rejected(self):
        delay = np.random.default_rng(1).choice([0.001, 0.01, 0.05], 300)  # independent draws of three values
        fit = _fit.fit_steps(steps_of(0.1 + delay, delay, 0.1))
        self.assertTrue(fit.rejected, fit.kind)

    def test_the_laws_are_those_of_scipy(self):
        values = np.sort(drawn("pareto", np.random.default_rng(3), 500))
        scale, shape = _fit.pareto_fit(values)
        right_shape, _, right_scale = stats.lomax.fit(values, floc=0)
        self.assertAlmostEqual(float(scale) / right_scale, 1, delta=1e-3)
        self.assertAlmostEqual(float(shape) / right_shape, 1, delta=1e-3)
        self.assertAlmostEqual(float(_fit.distance(_fit.pareto_cdf(values, scale, shape))),
                               stats.kstest(values, stats.lomax(float(shape), scale=float(scale)).cdf).statistic, 9)
        uniform = np.sort(np.random.default_rng(4).random(100))
        inner = (uniform[1:-1] - uniform[0]) / (uniform[-1] - uniform[0])
        self.assertAlmostEqual(_fit.uniform_p(uniform), stats.kstest(inner, "uniform").pvalue, delta=0.01)


class Runs(unittest.TestCase):
    """Records of the program."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="hetsgd-fit-")))

    def train(self, *options):
        path = self.folder / "run.jsonl.zst"
        subprocess.run([_program.program(), "train", "--train", "generate:tiny", "--test", "generate:tiny", "--hidden", "8", "--batch-size",
                        "16", "--quiet", "--algorithm", "ssgd", "--workers", "3", "--max-samples", "12800", "--evaluate-every", "12800",
                        *options, "--record-timeline", str(path), "-o", str(self.folder / "run.json"), "--overwrite"], check=True,
                       capture_output=True)
        return str(path)

    def test_a_run_gives_its_scenario(self):
        fits, facts = _fit.fit(self.train("--straggler", "kind=constant,worker=1,factor=3", "--straggler",
                                          "kind=uniform,worker=2,min=1ms,max=5ms"))
        self.assertEqual([fit.kind for fit in fits], ["none", "none", "uniform"])
        self.assertEqual([round(fit.factor, 6) for fit in fits], [1, 3, 1])
        scenario = _fit.scenario_of(fits, facts)
        self.assertEqual((list(scenario), len(scenario["straggler"])), (["straggler"], 2))
        (self.folder / "scenario.json").write_text(json.dumps(scenario), encoding="utf-8")
        again, _ = _fit.fit(self.train("--config", str(self.folder / "scenario.json")))
        self.assertEqual([fit.kind for fit in again], ["none", "none", "uniform"])

    def test_a_scenario_of_another_tool_takes_its_time(self):
        lines = [f"{worker},{step},{120 * (1.5 if worker == 1 else 1)}\n" for step in range(200) for worker in range(3)]
        (self.folder / "steps.csv").write_text("rank,iteration,step_ms\n" + "".join(lines), encoding="utf-8")
        fits, facts = _fit.fit(str(self.folder / "steps.csv"), "rank,iteration,step_ms")
        self.assertEqual(_fit.scenario_of(fits, facts), {"step_time": "0.12s", "straggler": ["kind=constant,factor=1.5,workers=1"]})
        (self.folder / "scenario.json").write_text(json.dumps(_fit.scenario_of(fits, facts)), encoding="utf-8")
        self.train("--config", str(self.folder / "scenario.json"), "--max-samples", "9600")
        result = json.loads((self.folder / "run.json").read_text(encoding="utf-8"))
        self.assertAlmostEqual(result["curve"][-1]["time_s"] / (200 * 0.18), 1, delta=0.01)
