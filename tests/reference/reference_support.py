"""Shared by the NumPy references of the algorithms: data, the model with its gradient, and runs of hetsgd.

For each case: `hetsgd train` runs in the simulator with sequential data order, recording every step; the reference starts
from the same initial parameters, computes in double precision from the formulas of the papers, and both loss sequences must
agree within TOLERANCE relative (float32 against float64 over some tens of steps). Nothing here shares code with hetsgd.
"""
import collections
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

TOLERANCE = 2e-5
HIDDEN = 16
hetsgd = "hetsgd"  # the program under test

def read_xc(path):
    """Dense X [n x features] and target T [n x labels], T_il = 1/|Y_i| on true labels."""
    with open(path) as file:
        n, features, labels = map(int, file.readline().split())
        x, t = np.zeros((n, features)), np.zeros((n, labels))
        for i, line in enumerate(file):
            head, *pairs = line.rstrip("\n").split(" ")
            true = [int(y) for y in head.split(",") if y]
            for y in true:
                t[i, y] = 1.0 / len(true)
            for pair in pairs:
                if pair:
                    index, value = pair.split(":")
                    x[i, int(index)] = np.float32(value)
    return x, t


class Mlp:
    """features -> HIDDEN ReLU -> softmax; parameters in the order of the file: W1, b1, W2 [labels x hidden], b2."""

    def __init__(self, x, t, flat):
        self.x, self.t = x, t
        f, l = x.shape[1], t.shape[1]
        self.shapes = [(f, HIDDEN), (HIDDEN,), (l, HIDDEN), (l,)]
        self.w0 = self.unpack(flat.astype(np.float64))

    def unpack(self, flat):
        parts, at = [], 0
        for shape in self.shapes:
            size = int(np.prod(shape))
            parts.append(flat[at:at + size].reshape(shape).copy())
            at += size
        assert at == len(flat), (at, len(flat))
        return parts

    def loss_and_gradient(self, w, rows):
        x, t = self.x[rows], self.t[rows]
        w1, b1, w2, b2 = w
        h = np.maximum(x @ w1 + b1, 0)
        z = h @ w2.T + b2
        z -= z.max(axis=1, keepdims=True)
        log_softmax = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
        labelled = t.sum(axis=1, keepdims=True)
        loss = -(t * log_softmax).sum() / len(rows)
        dz = (np.exp(log_softmax) * labelled - t) / len(rows)
        dh = (dz @ w2) * (h > 0)
        return loss, [x.T @ dh, dh.sum(axis=0), dz.T @ h, dz.sum(axis=0)]


def axpy(a, x, y):
    return [yi + a * xi for xi, yi in zip(x, y)]


def weighted_sum(weights, models):
    return [sum(a * m[i] for a, m in zip(weights, models)) for i in range(len(models[0]))]


def recorded(folder, *options):
    """The initial parameters of a run in the simulator, and its events by type."""
    out, initial = pathlib.Path(folder) / "out.json", pathlib.Path(folder) / "initial.bin"
    subprocess.run([hetsgd, "train", "--order", "sequential", "--record-steps", "--overwrite", "--quiet", "--dump-initial-parameters",
                    str(initial), "-o", str(out), *options], check=True)
    result = json.loads(out.read_text())
    assert result["status"] == "completed", result["status"]
    events = collections.defaultdict(list)
    for event in result["events"]:
        events[event["type"]].append(event)
    return np.fromfile(initial, dtype="<f4"), events


class Reference(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        subprocess.run([hetsgd, "data", "generate", "tiny", "--seed", "3", str(cls.path / "tiny")], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cls.train = str(next(cls.path.glob("tiny*train*")))
        cls.x, cls.t = read_xc(cls.train)

    def run_events(self, *options):
        """The model at its initial parameters, and the run's events by type."""
        initial, events = recorded(self.path, "--train", self.train, "--cluster", "sim", "--profile", "v100", "--network", "pcie3",
                                   "--hidden", str(HIDDEN), *options)
        return Mlp(self.x, self.t, initial), events

    def run_hetsgd(self, *options):
        mlp, events = self.run_events(*options)
        return mlp, events["step"], events["merge"]

    def rows(self, begin, count):
        return np.arange(begin, begin + count) % len(self.x)

    def assert_losses(self, got, expected):
        self.assertGreaterEqual(len(expected), 20)
        np.testing.assert_allclose(got, expected, rtol=TOLERANCE)
        self.assertGreater(abs(expected[-1] - expected[0]), 0.01, "the run must have learnt something")


def main():
    global hetsgd
    hetsgd = sys.argv.pop(1)
    unittest.main(module="__main__", verbosity=2)
