#!/usr/bin/env python3
"""Independent NumPy reference for ssgd with --reduce adasum: losses and orthogonality, by Maleki et al. (Adasum).

    numpy_adasum.py HETSGD
"""
import numpy as np

from numpy_optimizers import Adam, Momentum, Sgd
from reference_support import Reference, axpy, main


def pair(a, b):
    """Equation 8 of one tensor."""
    ab, aa, bb = (a * b).sum(), (a * a).sum(), (b * b).sum()
    return (1 - ab / (2 * aa) if aa > 0 else 1) * a + (1 - ab / (2 * bb) if bb > 0 else 1) * b


def tree(g):
    """Equation 9; what exceeds a power of two is folded in pairs first."""
    q = 2 ** int(np.log2(len(g)))
    extra = len(g) - q
    g = [pair(g[2 * i], g[2 * i + 1]) for i in range(extra)] + list(g[2 * extra:])
    while len(g) > 1:
        g = [pair(g[i], g[i + 1]) for i in range(0, len(g), 2)]
    return g[0]


def linear(g):
    result = g[0]
    for other in g[1:]:
        result = pair(result, other)
    return result


class Adasum(Reference):
    def check(self, workers, options, *, lr=0.5, node=1, full=False, shape=tree, whole=False,
              optimizer=Sgd, iterations=25, **hyper):
        batch = 16 if full else 33
        total = batch * workers if full else batch
        mlp, events = self.run_events(
            "--algorithm", "ssgd", "--reduce", "adasum", "--workers", str(workers), "--batch-size",
            str(batch), "--learning-rate", str(lr), "--max-samples", str(iterations * total),
            "--orthogonality-every", "5", "--per-worker-batch", "full" if full else "split",
            "--node-size", str(node), *options)
        parts = [total // workers + (i < total % workers) for i in range(workers)]
        nodes = range(0, workers, node)
        node_batch = [sum(parts[k:k + node]) for k in nodes]
        optimizers = [optimizer(**hyper) for _ in nodes]
        w, losses, orthogonality = mlp.w0, [], []
        for k in range(iterations):
            begin, deltas = k * total, []
            for first, b, own in zip(nodes, node_batch, optimizers):
                mean = [np.zeros_like(p) for p in w]
                for part in parts[first:first + node]:
                    loss, g = mlp.loss_and_gradient(w, self.rows(begin, part))
                    begin += part
                    losses.append(loss)
                    mean = axpy(part / b, g, mean)
                deltas.append(axpy(-1, w, own.step(lr if full else lr * b / batch, w, mean)))
            if whole:
                flat = [np.concatenate([p.ravel() for p in d]) for d in deltas]
                step = mlp.unpack(shape(flat))
            else:
                step = [shape([d[t] for d in deltas]) for t in range(len(w))]
            if k % 5 == 0:
                orthogonality.append([(s ** 2).sum() / sum((d[t] ** 2).sum() for d in deltas)
                                      for t, s in enumerate(step)])
            w = axpy(1, step, w)
        steps = sorted(events["step"], key=lambda s: (s["iteration"], s["rank"]))
        self.assert_losses([s["loss"] for s in steps], losses)
        recorded = events["orthogonality"]
        self.assertEqual([e["iteration"] for e in recorded], list(range(0, iterations, 5)))
        for event in recorded:
            self.assertEqual(event["tensor"], ["layer0.weight", "layer0.bias", "layer1.weight", "layer1.bias"])
        np.testing.assert_allclose([e["value"] for e in recorded], orthogonality, rtol=1e-3)
        return np.array(orthogonality)

    def test_every_way(self):
        momentum, adam = ["--optimizer", "momentum"], ["--optimizer", "adam"]
        partitioned = ["--optimizer-state", "partitioned"]
        for workers, options, rules in (
                (2, [], {}), (3, momentum, {"optimizer": Momentum, "lr": 0.2}),
                (6, [*momentum, "--weight-decay", "1e-3"], {"optimizer": Momentum, "decay": 1e-3}),
                (4, ["--adasum-shape", "linear"], {"shape": linear}), (3, ["--adasum-scope", "model"], {"whole": True}),
                (4, adam, {"optimizer": Adam, "lr": 0.02}),
                (6, momentum, {"optimizer": Momentum, "node": 2, "lr": 0.2}), (6, momentum + partitioned, {"optimizer": Momentum, "node": 3, "lr": 0.2}),
                (4, adam + partitioned, {"optimizer": Adam, "node": 2, "full": True, "lr": 0.02})):
            with self.subTest(workers=workers, options=options, rules=rules):
                self.check(workers, options, **rules)

    def test_tree_of_four_full_batches(self):
        values = self.check(4, [], full=True, lr=0.2)
        self.assertTrue((values > 0.2).all() and (values < 1.2).all(), values)


if __name__ == "__main__":
    main()
