#!/usr/bin/env python3
"""Independent NumPy references for asgd, dc-asgd and ssp: losses, staleness, and who may go on when.

    numpy_parameter_server.py HETSGD

The reference follows the recorded order in which the server applied the gradients (events "push"): the k-th step of a worker
was computed at the version that its (k-1)-th push pulled.
"""
import collections
import itertools

import numpy as np

from reference_support import Reference, axpy, main

P, B, LR, SAMPLES = 3, 16, 0.3, 16 * 60


class ParameterServer(Reference):
    def check(self, update, *options):
        """update(server, g, pulled model, worker) changes server["w"]. Returns the pushes in order."""
        mlp, events = self.run_events("--workers", str(P), "--batch-size", str(B), "--learning-rate", str(LR), "--speed",
                                      "1,0.7,0.3", "--straggler", "kind=uniform,min=0ms,max=1ms", "--max-samples",
                                      str(SAMPLES), *options)
        # The pool is dealt in order of starts; at the start of the run in rank order.
        steps = sorted(events["step"], key=lambda s: (s["start_s"], s["rank"]))
        starts = [s["start_s"] for s in steps if s["start_s"] > 0]
        self.assertEqual(len(starts), len(set(starts)), "the order of equal starts is unknown")
        own = collections.defaultdict(list)
        for number, step in enumerate(steps):
            own[step["rank"]].append((step, self.rows(B * number, B)))
        pushes = sorted(events["push"], key=lambda e: e["version"])
        self.assertEqual([e["version"] for e in pushes], list(range(1, len(pushes) + 1)))

        models = [mlp.w0]  # by version
        server = {"w": mlp.w0, "before": mlp.w0, "mean_square": [np.zeros_like(x) for x in mlp.w0]}
        pulled, done = [0] * P, [0] * P
        got, expected = [], []
        for push in pushes:
            r = push["rank"]
            step, rows = own[r][done[r]]
            done[r] += 1
            loss, g = mlp.loss_and_gradient(models[pulled[r]], rows)
            got.append(step["loss"])
            expected.append(loss)
            self.assertEqual(push["staleness"], push["version"] - 1 - pulled[r])
            update(server, g, models[pulled[r]])
            models.append(server["w"])
            pulled[r] = push["pulled"]
        self.assert_losses(got, expected)
        self.assertGreaterEqual(len(expected), SAMPLES // B - P)
        self.assertGreater(max(e["staleness"] for e in pushes), P, "the run must have had stale gradients")
        return pushes

    @staticmethod
    def plain(server, g, _):
        server["w"] = axpy(-LR, g, server["w"])

    def test_asgd(self):
        for push in self.check(self.plain, "--algorithm", "asgd"):
            self.assertEqual(push["pulled"], push["version"], "the answer holds the parameters after the push")

    def test_asgd_momentum(self):
        velocity = {}

        def momentum(server, g, _):
            v = velocity.get("v", [np.zeros_like(x) for x in g])
            velocity["v"] = [0.5 * vi + gi + 1e-3 * wi for vi, gi, wi in zip(v, g, server["w"])]
            server["w"] = axpy(-LR, velocity["v"], server["w"])

        self.check(momentum, "--algorithm", "asgd", "--optimizer", "momentum", "--momentum", "0.5", "--weight-decay", "1e-3")

    def check_dc(self, adaptive, one_backup, *options):
        lam, decay = (2.0, 0.95) if adaptive else (300.0, None)

        def compensated(server, g, w_pulled):
            backup = server["before"] if one_backup else w_pulled
            strength = [lam] * len(g)
            if adaptive:
                server["mean_square"] = [decay * m + (1 - decay) * x * x for m, x in zip(server["mean_square"], g)]
                strength = [lam / np.sqrt(m + 1e-7) for m in server["mean_square"]]
            g = [x + s * x * x * (w - b) for x, s, w, b in zip(g, strength, server["w"], backup)]
            server["before"], server["w"] = server["w"], axpy(-LR, g, server["w"])

        flags = ["--dc", "adaptive", "--lambda", "2"] if adaptive else ["--lambda", "300"]
        self.check(compensated, "--algorithm", "dc-asgd", *flags, "--dc-backup", "server" if one_backup else "worker")

    def test_dc_asgd(self):
        for adaptive, one_backup in itertools.product((False, True), repeat=2):
            with self.subTest(adaptive=adaptive, one_backup=one_backup):
                self.check_dc(adaptive, one_backup)

    def test_ssp(self):
        s = 2
        pushes = self.check(self.plain, "--algorithm", "ssp", "--staleness", str(s))
        clocks = [[0] * P]  # by version
        for push in pushes:
            clocks.append([c + (push["rank"] == r) for r, c in enumerate(clocks[-1])])

        def may_go(version, clock):
            return min(clocks[version]) >= clock - s

        waited = 0
        for push in pushes:
            clock, pulled = clocks[push["version"]][push["rank"]], push["pulled"]
            if pulled == len(pushes) and not may_go(pulled, clock):
                continue  # let go at the end, because the slowest worker has left
            self.assertTrue(may_go(pulled, clock), push)
            if pulled > push["version"]:
                waited += 1
                self.assertFalse(may_go(pulled - 1, clock), "must not wait longer than needed")
        self.assertGreater(waited, 5, "fast workers must have waited")


if __name__ == "__main__":
    main()
