#!/usr/bin/env python3
"""Independent NumPy references for sma and easgd: algorithm 1 of CROSSBOW, flat and hierarchical, with restarts and the tuner.

    numpy_crossbow.py HETSGD

From the record come only the learners that each device had (the tuner measures time) and when it restarted; the data that
each learner gets, alpha and all models follow from the rules.
"""
import numpy as np

from reference_support import Reference, axpy, main

B, LR = 16, 0.5


class Learner:
    def __init__(self, w):
        self.w, self.velocity = w, [np.zeros_like(p) for p in w]

    def step(self, g, lr, momentum):
        self.velocity = [momentum * v + gi for v, gi in zip(self.velocity, g)]
        self.w = axpy(-lr, self.velocity, self.w)


class Crossbow(Reference):
    def start(self, algorithm, workers, samples, *options):
        mlp, events = self.run_events("--algorithm", algorithm, "--workers", str(workers), "--batch-size", str(B),
                                      "--learning-rate", str(LR), "--max-samples", str(samples), "--speed",
                                      ",".join(["1", "0.6", "0.8"][:workers]), *options)
        self.losses = {r: [s["loss"] for s in sorted(events["step"], key=lambda s: s["iteration"]) if s["rank"] == r]
                       for r in range(workers)}
        return mlp, events

    def check(self, algorithm, workers, *options, per_device=1, mu=0.0, tau=1, hierarchical=False, alpha=None, momentum=0.0,
              samples=1920, tuned_every=None, rate=lambda epoch: LR, restart_at=()):
        mlp, events = self.start(algorithm, workers, samples, *options)
        decisions = [e["learners"] for e in events["learners"]][1:]
        self.assertEqual(events["learners"][0]["learners"], [per_device] * workers)
        devices = [[Learner(mlp.w0) for _ in range(per_device)] for _ in range(workers)]
        z, z_prev = mlp.w0, None  # "empty"
        got, expected, begin, at, done = [], [], 0, [0] * workers, 0
        restarts = [int(e["samples"]) for e in events["restart"]]
        self.assertEqual(len(restarts), len(restart_at))
        for at_epoch, at_samples in zip(restart_at, restarts):
            self.assertLess(0, at_samples / len(self.x) - at_epoch + 1e-12)
        while begin < samples:
            if begin in restarts:
                devices = [[Learner(z) for _ in d] for d in devices]
                z_prev = None
            k = sum(len(d) for d in devices)
            left = min(tau, -(-(samples - begin) // (k * B)))
            for iteration in range(left):
                lr = rate(begin / len(self.x))
                synchronise = iteration == left - 1
                before = [[learner.w for learner in d] for d in devices]
                for r, device in enumerate(devices):
                    for learner in device:
                        loss, g = mlp.loss_and_gradient(learner.w, self.rows(begin, B))
                        begin += B
                        got.append(self.losses[r][at[r]])
                        expected.append(loss)
                        at[r] += 1
                        learner.step(g, lr, momentum)
                done += 1
                if synchronise:
                    z, z_prev = self.average(devices, before, z, z_prev, mu, hierarchical, alpha), z
            if tuned_every and done >= tuned_every and decisions:
                done = 0
                for device, l in zip(devices, decisions.pop(0)):
                    self.assertLessEqual(abs(len(device) - l), 1)
                    if l > len(device):
                        device.append(Learner(z))
                    del device[l:]
        self.assertEqual(at, [len(self.losses[r]) for r in range(workers)])
        self.assertEqual(decisions, [])
        self.assert_losses(got, expected)
        return events

    @staticmethod
    def average(devices, before, z, z_prev, mu, hierarchical, alpha):
        """w_j <- w_j - c_j for all learners, and returns the next z. `before`: replicas before the iteration's gradients."""
        minus = lambda x, y: [a - b for a, b in zip(x, y)]
        total = [np.zeros_like(p) for p in z]
        averaged = len(devices) if hierarchical else sum(len(d) for d in devices)
        a = 1 / max(2, averaged) if alpha is None else alpha
        for device, old in zip(devices, before):
            local = 1 / (len(device) + 1) if alpha is None else alpha
            for j, learner in enumerate(device):
                if hierarchical and j > 0:
                    d = minus(old[j], old[0])
                    learner.w = axpy(-local, d, learner.w)
                    device[0].w = axpy(local, d, device[0].w)
                else:
                    c = minus(old[j], z)
                    learner.w = axpy(-a, c, learner.w)
                    total = axpy(a, c, total)
        step = axpy(1, total, z)
        return step if z_prev is None else axpy(mu, minus(z, z_prev), step)

    def test_every_way(self):
        two, four, hierarchical = ["--learners-per-device", "2"], ["--learners-per-device", "4"], ["--sma", "hierarchical"]
        for algorithm, workers, options, rules in (
                ("sma", 3, [], {}), ("sma", 1, [], {}), ("sma", 3, two, {"per_device": 2}),
                ("sma", 3, [*two, "--no-overlap"], {"per_device": 2}),
                ("sma", 2, ["--alpha", "0.2", "--sma-momentum", "0.5", "--tau", "2"], {"alpha": 0.2, "mu": 0.5, "tau": 2}),
                ("sma", 2, [*two, "--optimizer", "momentum", "--momentum", "0.6"], {"per_device": 2, "momentum": 0.6}),
                ("sma", 3, hierarchical, {"hierarchical": True}), ("sma", 3, hierarchical + two, {"per_device": 2, "hierarchical": True}),
                ("sma", 2, [*hierarchical, *four, "--alpha", "0.3"], {"per_device": 4, "hierarchical": True, "alpha": 0.3}),
                ("easgd", 3, [], {}), ("easgd", 3, ["--tau", "3"], {"tau": 3}),
                ("easgd", 2, ["--tau", "3", *two, "--alpha", "0.15"], {"per_device": 2, "tau": 3, "alpha": 0.15})):
            with self.subTest(algorithm=algorithm, workers=workers, options=options):
                self.check(algorithm, workers, *options, **{"mu": 0.9 if algorithm == "sma" else 0.0, **rules})

    def test_sma_tuner(self):
        for kind in "flat", "hierarchical":
            events = self.check("sma", 3, "--learners-per-device", "auto", "--tuner-every", "4", "--profile",
                                "titan-x-pascal", "--sma", kind, mu=0.9, tuned_every=4, hierarchical=kind == "hierarchical",
                                samples=4800)
            self.assertGreater(len({tuple(e["learners"]) for e in events["learners"]}), 2)
            for e in events["learners"]:
                k = 3 if kind == "hierarchical" else sum(e["learners"])
                self.assertAlmostEqual(e["alpha"], 1 / k, 12)

    def test_sma_restart(self):
        def rate(epoch):
            return LR * (0.5 if epoch >= 0.3 else 1) * (0.5 if epoch >= 0.6 else 1)

        events = self.check("sma", 3, "--restart", "always", "--schedule", "step", "--step-epochs", "0.3,0.6",
                            "--step-factor", "0.5", "--learners-per-device", "2", per_device=2, mu=0.9, rate=rate,
                            restart_at=(0.3, 0.6))
        self.assertEqual(len(events["restart"]), 2)


if __name__ == "__main__":
    main()
