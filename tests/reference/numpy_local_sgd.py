#!/usr/bin/env python3
"""Independent NumPy references for local-sgd: rounds of local steps, then the mean or an outer optimizer (DiLoCo).

    numpy_local_sgd.py HETSGD
"""
import numpy as np

from reference_support import Reference, axpy, main, weighted_sum

P, B, LR = 3, 16, 0.5


class LocalSgd(Reference):
    def check(self, h, outer, eta, beta, *options, inner_momentum=0.0, samples=1920):
        mlp, events = self.run_events("--algorithm", "local-sgd", "--workers", str(P), "--batch-size", str(B),
                                      "--learning-rate", str(LR), "--max-samples", str(samples), "--local-steps", str(h),
                                      "--outer-optimizer", outer, "--outer-learning-rate", str(eta), "--outer-momentum",
                                      str(beta), "--speed", "1,0.6,0.8", *options)
        zero = [np.zeros_like(p) for p in mlp.w0]
        x, v, inner = mlp.w0, zero, [zero] * P
        losses, begin, calls = {}, 0, 0
        while begin < samples:
            replicas, steps = [x] * P, min(h, -(-(samples - begin) // (P * B)))
            for step in range(steps):
                for i in range(P):
                    loss, g = mlp.loss_and_gradient(replicas[i], self.rows(begin, B))
                    begin += B
                    losses[calls, i] = loss
                    inner[i] = axpy(inner_momentum, inner[i], g)  # kept from round to round
                    replicas[i] = axpy(-LR, inner[i], replicas[i])
                calls += 1
            delta = axpy(-1, weighted_sum([1 / P] * P, replicas), x)
            if outer == "sgd":
                x = axpy(-eta, delta, x)
            else:
                v = axpy(beta, v, delta)
                x = axpy(-eta, v if outer == "momentum" else axpy(beta, v, delta), x)
        got = {(s["iteration"], s["rank"]): s["loss"] for s in events["step"]}
        self.assertEqual(sorted(got), sorted(losses))
        self.assert_losses([got[key] for key in sorted(got)], [losses[key] for key in sorted(losses)])

    def test_every_outer_optimizer(self):
        for h, outer, eta, beta in ((4, "sgd", 1.0, 0.9), (7, "sgd", 0.7, 0.9), (4, "momentum", 0.5, 0.8), (4, "nesterov", 0.7, 0.9)):
            with self.subTest(h=h, outer=outer):  # the last round of 7 steps ends with the budget
                self.check(h, outer, eta, beta)
        self.check(4, "nesterov", 0.7, 0.6, "--optimizer", "momentum", "--momentum", "0.5", inner_momentum=0.5)


if __name__ == "__main__":
    main()
