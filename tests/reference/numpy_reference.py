#!/usr/bin/env python3
"""Independent NumPy references for elastic and adaptive: their losses, and algorithms 1 and 2 of Adaptive SGD.

    numpy_reference.py HETSGD
"""
import numpy as np

from reference_support import Reference, axpy, main, weighted_sum


class PaperZero(Reference):
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

    def check_adaptive(self, rms, scaling_every=1, warm_up_samples=0):
        """Follows the recorded dispatch order; losses, weights, perturbation and batch sizes come from the papers' rules."""
        p, b_max, lr, gamma, delta, mega = 3, 32, 0.5, 0.9, 0.1, 12 * 32
        b_min, beta = b_max / 8, b_max / 16
        options = ["--pert-threshold", "0.25"] if rms else ["--pert-norm", "l2_over_n"]
        options += ["--scaling-every", str(scaling_every)]
        if warm_up_samples:
            options += ["--adaptive-warmup-epochs", str(warm_up_samples / 2000)]
        threshold = 0.25 if rms else 0.1
        mlp, steps, merges = self.run_hetsgd("--algorithm", "adaptive", "--workers", "3", "--batch-size", "32",
                                             "--mega-batch", "12", "--learning-rate", "0.5", "--max-samples", "3200",
                                             "--speed", "1,0.8,0.5", *options)
        n = sum(part.size for part in mlp.w0)
        # Dispatch order: by start; ties at the start of a mega-batch: lowest rank.
        steps.sort(key=lambda s: (s["start_s"], s["rank"]))
        b, w, previous, begin, at = [b_max] * p, mlp.w0, mlp.w0, 0, 0
        got, expected, perturbed, adapted = [], [], [], 0
        for number, merge in enumerate(merges):
            warm_up = begin < warm_up_samples
            adapted += not warm_up
            if warm_up:
                b = [int(b_min)] * p
            elif adapted == 1:
                b = [b_max] * p
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
            perturb = not equal and max(norms) < threshold and not warm_up
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
            if warm_up or adapted % scaling_every:
                continue
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

    def test_adaptive_scaling_every_other_merge_after_a_warm_up(self):
        self.assertTrue(any(self.check_adaptive(rms=False, scaling_every=2, warm_up_samples=800)))

    def test_adaptive_rms(self):
        self.check_adaptive(rms=True)


if __name__ == "__main__":
    main()
