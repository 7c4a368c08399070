#!/usr/bin/python3
"""Independent NumPy references for the algorithms: the first losses of a run, and algorithms 1 and 2 of paper 000.

    numpy_reference.py HETSGD

For each case: `hetsgd train` runs in the simulator with sequential data order, recording every step; the reference starts
from the same initial parameters, computes in double precision from the formulas of the papers, and both loss sequences must
agree within TOLERANCE relative (float32 against float64 over some tens of steps). Nothing here shares code with hetsgd.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

HETSGD = "hetsgd"
TOLERANCE = 2e-5
HIDDEN = 16


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


class Reference(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        subprocess.run([HETSGD, "data", "generate", "tiny", "--seed", "3", "-o", str(cls.path / "tiny")], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cls.train = str(next(cls.path.glob("tiny*train*")))
        cls.x, cls.t = read_xc(cls.train)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_hetsgd(self, *options):
        out, initial = self.path / "out.json", self.path / "initial.bin"
        subprocess.run([HETSGD, "train", "--train", self.train, "--cluster", "sim", "--profile", "v100", "--network",
                        "pcie3", "--hidden", str(HIDDEN), "--order", "sequential", "--record-steps", "--overwrite",
                        "--quiet", "--dump-initial-parameters", str(initial), "-o", str(out), *options], check=True)
        result = json.loads(out.read_text())
        self.assertEqual(result["status"], "completed")
        steps = [e for e in result["events"] if e["type"] == "step"]
        merges = [e for e in result["events"] if e["type"] == "merge"]
        return Mlp(self.x, self.t, np.fromfile(initial, dtype="<f4")), steps, merges

    def rows(self, begin, count):
        return np.arange(begin, begin + count) % len(self.x)

    def assert_losses(self, got, expected):
        self.assertGreaterEqual(len(expected), 20)
        np.testing.assert_allclose(got, expected, rtol=TOLERANCE)
        self.assertGreater(abs(expected[-1] - expected[0]), 0.01, "the run must have learnt something")

    def test_sgd(self):
        mlp, steps, _ = self.run_hetsgd("--algorithm", "sgd", "--batch-size", "32", "--learning-rate", "0.5",
                                        "--max-samples", "960")
        w, losses = mlp.w0, []
        for k in range(30):
            loss, g = mlp.loss_and_gradient(w, self.rows(32 * k, 32))
            losses.append(loss)
            w = axpy(-0.5, g, w)
        self.assert_losses([s["loss"] for s in steps], losses)

    def check_ssgd(self, mu, decay, *options):
        mlp, steps, _ = self.run_hetsgd("--algorithm", "ssgd", "--workers", "3", "--batch-size", "32", "--learning-rate",
                                        "0.5", "--max-samples", "800", *options)
        parts = [11, 11, 10]  # 32 samples over 3 workers, larger parts first
        w, v, losses = mlp.w0, [np.zeros_like(p) for p in mlp.w0], []
        for k in range(25):
            g, begin = [np.zeros_like(p) for p in w], 32 * k
            for part in parts:
                loss, g_i = mlp.loss_and_gradient(w, self.rows(begin, part))
                begin += part
                losses.append(loss)
                g = axpy(part / 32, g_i, g)
            v = [mu * vi + gi + decay * wi for vi, gi, wi in zip(v, g, w)]
            w = axpy(-0.5, v, w)
        steps.sort(key=lambda s: (s["iteration"], s["rank"]))
        self.assert_losses([s["loss"] for s in steps], losses)

    def test_ssgd_mirrored(self):
        self.check_ssgd(0, 0)

    def test_ssgd_central(self):
        self.check_ssgd(0, 0, "--storage", "central")

    def test_ssgd_momentum_and_weight_decay(self):
        self.check_ssgd(0.9, 1e-3, "--optimizer", "momentum", "--momentum", "0.9",
                        "--weight-decay", "1e-3")

    def test_ssgd_central_momentum(self):
        self.check_ssgd(0.9, 1e-3, "--storage", "central", "--optimizer", "momentum", "--momentum", "0.9",
                        "--weight-decay", "1e-3")

    def test_elastic(self):
        p, b, k, gamma, lr = 3, 16, 4, 0.9, 0.5  # a mega-batch of 12 batches: 4 steps per worker
        mlp, steps, merges = self.run_hetsgd("--algorithm", "elastic", "--workers", "3", "--batch-size", "16",
                                             "--mega-batch", "12", "--learning-rate", "0.5", "--max-samples", "960",
                                             "--speed", "1,0.7,0.5")
        w = previous = mlp.w0
        losses, begin = {}, 0
        for merge in range(5):
            replicas = [w] * p
            for step in range(k):
                for i in range(p):
                    loss, g = mlp.loss_and_gradient(replicas[i], self.rows(begin, b))
                    begin += b
                    replicas[i] = axpy(-lr, g, replicas[i])
                    losses[merge * k + step, i] = loss
            mean = weighted_sum([1 / p] * p, replicas)
            w, previous = [m + gamma * (a - c) for m, a, c in zip(mean, w, previous)], w
        steps.sort(key=lambda s: (s["iteration"], s["rank"]))
        self.assert_losses([s["loss"] for s in steps], [losses[key] for key in sorted(losses)])
        self.assertEqual(len(merges), 5)

    def check_adaptive(self, rms):
        """Follows the recorded dispatch order; losses, weights, perturbation and batch sizes come from the papers' rules."""
        p, b_max, lr, gamma, delta, mega = 3, 32, 0.5, 0.9, 0.1, 12 * 32
        b_min, beta = b_max / 8, b_max / 16
        options = ["--pert-norm", "rms", "--pert-threshold", "0.25"] if rms else []
        threshold = 0.25 if rms else 0.1
        mlp, steps, merges = self.run_hetsgd("--algorithm", "adaptive", "--workers", "3", "--batch-size", "32",
                                             "--mega-batch", "12", "--learning-rate", "0.5", "--max-samples", "3200",
                                             "--speed", "1,0.8,0.5", *options)
        n = sum(part.size for part in mlp.w0)
        # Dispatch order: by start; ties at the start of a mega-batch: lowest rank.
        steps.sort(key=lambda s: (s["start_s"], s["rank"]))
        b, w, previous, begin, at = [b_max] * p, mlp.w0, mlp.w0, 0, 0
        got, expected, perturbed = [], [], []
        for number, merge in enumerate(merges):
            replicas, u, dispatched = [w] * p, [0] * p, 0
            budget = min(mega, max(1, 3200 - begin))
            while dispatched < budget:
                step = steps[at]
                i = step["rank"]
                self.assertEqual(step["samples"], b[i], f"merge {number}, step {at}")
                loss, g = mlp.loss_and_gradient(replicas[i], self.rows(begin, b[i]))
                replicas[i] = axpy(-lr * b[i] / b_max, g, replicas[i])
                got.append(step["loss"])
                expected.append(loss)
                u[i] += 1
                begin += b[i]
                dispatched += b[i]
                at += 1
            norms = [np.sqrt(sum((q ** 2).sum() for q in r)) / (np.sqrt(n) if rms else n) for r in replicas]
            equal = len(set(u)) == 1
            alpha = [x / sum(b) for x in b] if equal else [x / sum(u) for x in u]
            perturb = not equal and max(norms) < threshold
            if perturb:
                alpha[u.index(max(u))] *= 1 + delta
                alpha[u.index(min(u))] *= 1 - delta
            perturbed.append(perturb)
            self.assertEqual(merge["updates"], u)
            self.assertEqual(merge["batch_size"], b)
            self.assertEqual(merge["perturbed"], perturb)
            np.testing.assert_allclose(merge["weight"], alpha, rtol=1e-12)
            np.testing.assert_allclose(merge["norm"], norms, rtol=1e-5)
            np.testing.assert_allclose(merge["learning_rate"], [lr * x / b_max for x in b], rtol=1e-12)
            mean = weighted_sum(alpha, replicas)
            w, previous = [m + gamma * (a - c) for m, a, c in zip(mean, w, previous)], w
            mu = sum(u) / p
            for i in range(p):
                moved = b[i] + beta * (u[i] - mu)
                if p * u[i] != sum(u) and (moved <= b_max if u[i] > mu else moved >= b_min):
                    b[i] = max(1, int(np.floor(moved + 0.5)))
        self.assertEqual(at, len(steps))
        self.assert_losses(got, expected)
        self.assertNotEqual(b, [b_max] * p, "batch sizes must have moved")
        return perturbed

    def test_adaptive(self):
        self.assertTrue(any(self.check_adaptive(rms=False)), "some merge must have been perturbed")

    def test_adaptive_rms(self):
        self.check_adaptive(rms=True)


if __name__ == "__main__":
    HETSGD = sys.argv.pop(1)
    unittest.main(verbosity=2)
