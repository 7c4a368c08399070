#!/usr/bin/env python3
"""Independent NumPy references for AD-PSGD, eager-SGD and RNA, flat and hierarchical.

    numpy_decentralised.py HETSGD

Who contributed what to which round, and who averaged with whom when, is taken from the recorded events; losses, models,
weights and means come from the papers' formulas.
"""
import collections
import json

import numpy as np

import reference_support
from reference_support import axpy, weighted_sum

B, LR = 32, 0.5
STRAGGLERS = ["--straggler", "kind=uniform,min=0ms,max=1ms", "--straggler", "kind=constant,worker=1,factor=8"]


class Decentralised(reference_support.Reference):
    def start(self, algorithm, workers, *options):
        """Runs it with label-sorted shards: the rows of every step follow from its rank and iteration alone."""
        mlp, events = self.run_events("--algorithm", algorithm, "--workers", str(workers), "--batch-size", str(B),
                                      "--learning-rate", str(LR), "--max-samples", "2560", "--partition",
                                      "label_sorted", *STRAGGLERS, *options)
        by_label = np.argsort([np.flatnonzero(t)[0] if t.any() else -1 for t in self.t], kind="stable")
        cuts = [len(by_label) * rank // workers for rank in range(workers + 1)]
        self.shards = [by_label[cuts[rank]:cuts[rank + 1]] for rank in range(workers)]
        self.loss = {(s["rank"], s["iteration"]): s["loss"] for s in events["step"]}
        self.got, self.expected = [], []
        self.local_training, self.copies = "--local-training" in options, {}  # by rank: round and copy of the model
        return mlp, events

    def gradient(self, mlp, rank, iteration, model):
        shard = self.shards[rank]
        loss, g = mlp.loss_and_gradient(model, shard[np.arange(B * iteration, B * (iteration + 1)) % len(shard)])
        self.got.append(self.loss[rank, iteration])
        self.expected.append(loss)
        return g

    def gradients(self, mlp, models, c, workers):
        """The gradients of one contribution. With local training a worker goes on at its own copy of a model, moved by LR / P times
        each gradient, until it has another one."""
        for iteration, age in zip(c["iterations"], c["staleness"]):
            at = c["round"] - age
            if not self.local_training or self.copies.get(c["rank"], (None,))[0] != at:
                self.copies[c["rank"]] = at, models[at]
            g = self.gradient(mlp, c["rank"], iteration, self.copies[c["rank"]][1])
            self.copies[c["rank"]] = at, axpy(-LR / workers, g, self.copies[c["rank"]][1])
            yield g

    def update(self, mlp, models, contributions, workers, weighted, momentum=0.0):
        """One round: models[k] is the common model after k rounds; appends the next. Algorithm 5: the mean of the
        contributions at the rate LR times the contributors' share; without momentum eager does the same."""
        k, total = len(models) - 1, [np.zeros_like(p) for p in models[0]]
        for c in contributions:
            self.assertEqual(c["round"], k)
            gradients = list(self.gradients(mlp, models, c, workers))
            self.assertEqual(sorted(c["staleness"], reverse=True), c["staleness"])
            if weighted:
                weight = [c["staleness"][0] - age + 1 for age in c["staleness"]]
                weight = [w / sum(weight) for w in weight]
            else:
                weight = [1.0] * len(gradients)
            total = axpy(1.0, weighted_sum(weight, gradients), total)
        if not contributions:
            models.append(models[k])
            return
        mean = [p / len(contributions) for p in total]
        self.velocity = axpy(momentum, self.velocity, mean) if momentum else mean
        models.append(axpy(-LR * len(contributions) / workers, self.velocity, models[k]))

    def check_rounds(self, weighted, *arguments, momentum=0.0):
        workers = 4
        if momentum:
            arguments += ("--optimizer", "momentum", "--momentum", str(momentum))
        mlp, events = self.start(*arguments[:1], workers, *arguments[1:])
        contributions = events["contribution"]
        models = [mlp.w0]
        self.velocity = [np.zeros_like(p) for p in mlp.w0]
        for k in range(max(c["round"] for c in contributions) + 1):
            self.update(mlp, models, [c for c in contributions if c["round"] == k], workers, weighted, momentum)
        self.assert_losses(self.got, self.expected)
        return contributions

    def test_eager_solo(self):
        contributions = self.check_rounds(False, "eager-solo")
        self.assertTrue(any(len(c["iterations"]) > 1 for c in contributions), "late gradients must have been added")

    def test_eager_solo_drops_late_gradients(self):
        contributions = self.check_rounds(False, "eager-solo", "--late", "drop")
        self.assertEqual({age for c in contributions for age in c["staleness"]}, {0})

    def test_eager_majority(self):
        contributions = self.check_rounds(False, "eager-majority")
        self.assertTrue(any(max(c["staleness"]) > 0 for c in contributions))

    def test_rna(self):
        contributions = self.check_rounds(True, "rna")
        self.assertTrue(any(len(set(c["staleness"])) > 1 for c in contributions), "weights must have differed")

    def test_rna_with_momentum(self):
        contributions = self.check_rounds(True, "rna", momentum=0.6)
        of_round = collections.Counter(c["round"] for c in contributions)
        self.assertTrue(any(n < 4 for n in of_round.values()), "some must have been missing")

    def test_rna_sums_local_gradients(self):
        contributions = self.check_rounds(False, "rna", "--local", "sum", "--ahead", "3", "--probes", "1")
        self.assertTrue(any(len(c["iterations"]) > 2 for c in contributions))

    def test_rna_trains_locally(self):
        contributions = self.check_rounds(False, "rna", "--local-training", "--local", "sum", "--ahead", "3", "--eta", "100",
                                          "--probes", "1")
        self.assertTrue(any(len(c["iterations"]) - len(set(c["staleness"])) > 1 for c in contributions))

    def test_rna_ahead(self):
        contributions = self.check_rounds(True, "rna", "--ahead", "0", "--eta", "3", "--probes", "1")
        self.assertEqual(max(len(c["iterations"]) for c in contributions), 3)

    def check_hierarchical(self, every, rule="increment"):
        mlp, events = self.start("rna", 5, "--hierarchical", "--groups", "0-2:3;4", "--exchange-every", str(every),
                                 *(["--group-server", rule] if rule != "increment" else []))
        groups, = events["groups"]
        self.assertEqual(groups["groups"], [[0, 1, 2], [3, 4]])
        models = [[mlp.w0], [mlp.w0]]  # of each group, by round
        server = mlp.w0
        pulled = [mlp.w0, mlp.w0]      # by each group, last
        last = [mlp.w0, mlp.w0]        # what each group pushed last
        for exchange in events["exchange"]:
            group = exchange["group"]
            members, mine = groups["groups"][group], models[group]
            self.assertIn(exchange["rank"], members)
            self.assertEqual(exchange["round"], len(mine) - 1 + every - 1)
            for k in range(exchange["round"] + 1 - every, exchange["round"] + 1):
                self.update(mlp, mine, [c for c in events["contribution"] if c["rank"] in members and c["round"] == k],
                            len(members), True)
            last[group] = mine[-1]
            if rule == "last":
                server = weighted_sum([3 / 5, 2 / 5], last)
            else:
                share = len(members) / 5
                server = weighted_sum([1, share, -share], [server, mine[-1], pulled[group]])
            mine[-1] = pulled[group] = server
        self.assertGreater(len(models[0]), 5)
        self.assertGreater(len(models[1]), 5)
        self.assert_losses(self.got, self.expected)

    def test_rna_hierarchical(self):
        for every, rule in ((1, "increment"), (3, "increment"), (1, "last")):
            with self.subTest(every=every, rule=rule):
                self.check_hierarchical(every, rule)

    def check_adpsgd(self, workers):
        mlp, _ = self.start("adpsgd", workers)
        x, read = [mlp.w0] * workers, [None] * workers
        averagings = 0
        for event in json.loads((self.path / "out.json").read_text())["events"]:
            if event["type"] == "read":
                read[event["rank"]] = x[event["rank"]]
            elif event["type"] == "average":
                a, p = event["active"], event["passive"]
                self.assertEqual((a % 2, p % 2), (0, 1))
                x[a] = x[p] = weighted_sum([0.5, 0.5], [x[a], x[p]])
                averagings += 1
            elif event["type"] == "apply":
                i = event["rank"]
                x[i] = axpy(-LR, self.gradient(mlp, i, event["iteration"], read[i]), x[i])
        self.assertGreater(averagings, 20)
        self.assert_losses(self.got, self.expected)

    def test_adpsgd(self):
        for workers in (4, 5):
            with self.subTest(workers=workers):
                self.check_adpsgd(workers)


if __name__ == "__main__":
    reference_support.main()
