#!/usr/bin/env python3
"""Every optimizer against independent formulas in NumPy: in sgd, in ssgd (mirrored and central), and as the server's in asgd.

    numpy_optimizers.py HETSGD

The formulas themselves are held against torch.optim where PyTorch is installed.
"""
import unittest

import numpy as np

from reference_support import Reference, main

try:
    import torch
except ImportError:
    torch = None


class Sgd:
    """w <- w - lr g (and the base: decay, clipping)."""

    def __init__(self, decay=0.0, clip=0.0, mu=0.9):
        self.decay, self.clip, self.mu, self.t, self.state = decay, clip, mu, 0, {}

    def step(self, lr, w, g):
        """The new parameters, a list of tensors."""
        self.t += 1
        norm = np.sqrt(sum((x ** 2).sum() for x in g))
        if 0 < self.clip < norm:
            g = [x * (self.clip / norm) for x in g]
        return [self.tensor(i, lr, wi, gi) for i, (wi, gi) in enumerate(zip(w, g))]

    def moving(self, name, i, like):
        return self.state.setdefault((name, i), np.zeros_like(like))

    def tensor(self, i, lr, w, g):
        return w - lr * (g + self.decay * w)


class Momentum(Sgd):
    def tensor(self, i, lr, w, g):
        v = self.moving("v", i, w)
        v *= self.mu
        v += g + self.decay * w
        return w - lr * v


class Nesterov(Sgd):
    def tensor(self, i, lr, w, g):
        v = self.moving("v", i, w)
        u = g + self.decay * w
        v *= self.mu
        v += u
        return w - lr * (u + self.mu * v)


class AdaGrad(Sgd):
    def __init__(self, epsilon=1e-8, **more):
        super().__init__(**more)
        self.epsilon = epsilon

    def tensor(self, i, lr, w, g):
        h, u = self.moving("h", i, w), g + self.decay * w
        h += u ** 2
        return w - lr * u / (np.sqrt(h) + self.epsilon)


class Adam(Sgd):
    def __init__(self, beta1=0.9, beta2=0.999, epsilon=1e-8, decoupled=False, **more):
        super().__init__(**more)
        self.beta1, self.beta2, self.epsilon, self.decoupled = beta1, beta2, epsilon, decoupled

    def direction(self, i, w, g):
        m, v = self.moving("m", i, w), self.moving("v", i, w)
        m += (1 - self.beta1) * (g - m)
        v += (1 - self.beta2) * (g ** 2 - v)
        return m / (1 - self.beta1 ** self.t) / (np.sqrt(v / (1 - self.beta2 ** self.t)) + self.epsilon)

    def tensor(self, i, lr, w, g):
        if self.decoupled:
            return w - lr * (self.direction(i, w, g) + self.decay * w)
        return w - lr * self.direction(i, w, g + self.decay * w)


class Lars(Sgd):
    def __init__(self, trust=0.001, **more):
        super().__init__(**more)
        self.trust = trust

    def tensor(self, i, lr, w, g):
        w_norm, g_norm = np.linalg.norm(w), np.linalg.norm(g)
        ratio = self.trust * w_norm / (g_norm + self.decay * w_norm) if w_norm > 0 and g_norm > 0 else 1.0
        v = self.moving("v", i, w)
        v *= self.mu
        v += lr * ratio * (g + self.decay * w)
        return w - v


class Lamb(Adam):
    def tensor(self, i, lr, w, g):
        r = self.direction(i, w, g) + self.decay * w
        w_norm, r_norm = np.linalg.norm(w), np.linalg.norm(r)
        return w - lr * (w_norm / r_norm if w_norm > 0 and r_norm > 0 else 1.0) * r


# Name of a case -> reference, learning rate, flags. Where a quotient of two moments is taken, epsilon is large enough for
# gradients that are all rounding error (a part in 1e7 of the largest) not to decide a direction.
CASES = {
    "sgd": (lambda: Sgd(decay=0.01, clip=0.5), 0.5, "--optimizer sgd --weight-decay 0.01 --clip-norm 0.5"),
    "momentum": (lambda: Momentum(decay=0.01, mu=0.8), 0.2, "--optimizer momentum --momentum 0.8 --weight-decay 0.01"),
    "nesterov": (lambda: Nesterov(decay=0.01, mu=0.8, clip=0.4), 0.2,
                 "--optimizer nesterov --momentum 0.8 --weight-decay 0.01 --clip-norm 0.4"),
    "adagrad": (lambda: AdaGrad(epsilon=1e-3, decay=0.01), 0.05, "--optimizer adagrad --epsilon 1e-3 --weight-decay 0.01"),
    "adam": (lambda: Adam(epsilon=1e-4), 0.01, "--optimizer adam --epsilon 1e-4"),
    "adam decayed": (lambda: Adam(beta1=0.8, beta2=0.99, epsilon=1e-4, decay=0.01), 0.01,
                     "--optimizer adam --beta1 0.8 --beta2 0.99 --epsilon 1e-4 --weight-decay 0.01"),
    "adamw": (lambda: Adam(epsilon=1e-4, decay=0.1, decoupled=True, clip=0.3), 0.01,
              "--optimizer adam --epsilon 1e-4 --weight-decay 0.1 --decoupled-weight-decay --clip-norm 0.3"),
    "lars": (lambda: Lars(trust=0.02, mu=0.8, decay=0.01), 2.0,
             "--optimizer lars --lars-trust 0.02 --momentum 0.8 --weight-decay 0.01"),
    "lamb": (lambda: Lamb(epsilon=1e-4, decay=0.01), 0.02, "--optimizer lamb --epsilon 1e-4 --weight-decay 0.01"),
}


class Optimizers(Reference):
    def check(self, iterations, parts, *options):
        """`iterations` updates of 32 samples each, of which every worker takes its part."""
        for name, (make, lr, flags) in CASES.items():
            with self.subTest(name):
                mlp, steps, _ = self.run_hetsgd(*options, *flags.split(), "--learning-rate", str(lr), "--batch-size", "32",
                                                "--max-samples", str(32 * iterations))
                optimizer, w, losses, begin = make(), mlp.w0, [], 0
                for _ in range(iterations):
                    g = [np.zeros_like(x) for x in w]
                    for part in parts:
                        loss, g_i = mlp.loss_and_gradient(w, self.rows(begin, part))
                        begin += part
                        losses.append(loss)
                        g = [a + part / 32 * b for a, b in zip(g, g_i)]
                    w = optimizer.step(lr, w, g)
                steps.sort(key=lambda s: (s["iteration"], s["rank"]))
                self.assert_losses([s["loss"] for s in steps], losses)

    def test_each_algorithm(self):
        split = ["--algorithm", "ssgd", "--per-worker-batch", "split", "--workers", "3"]
        self.check(30, [32], "--algorithm", "sgd")
        self.check(25, [11, 11, 10], *split)  # 32 samples over 3 workers, larger parts first
        self.check(25, [11, 11, 10], *split, "--storage", "central")
        self.check(20, [32], "--algorithm", "asgd", "--workers", "1")  # whose server has the state


@unittest.skipIf(torch is None, "PyTorch is not installed")
class TorchFormulas(unittest.TestCase):
    """25 updates of two tensors in float64 with random gradients: the same parameters as torch.optim's."""

    def check(self, reference, make):
        random = np.random.default_rng(5)
        w = [random.normal(size=(4, 3)), random.normal(size=3)]
        theirs = [torch.nn.Parameter(torch.tensor(x)) for x in w]
        optimizer = make(theirs)
        for _ in range(25):
            g = [random.normal(size=x.shape) for x in w]
            w = reference.step(0.1, w, g)
            for parameter, gradient in zip(theirs, g):
                parameter.grad = torch.tensor(gradient)
            optimizer.step()
        for mine, parameter in zip(w, theirs):
            np.testing.assert_allclose(mine, parameter.detach().numpy(), rtol=1e-12, atol=1e-14)

    def test_each(self):
        for reference, theirs, options in (
                (Momentum(decay=0.1, mu=0.8), torch.optim.SGD, {"momentum": 0.8}),
                (Nesterov(decay=0.1, mu=0.8), torch.optim.SGD, {"momentum": 0.8, "nesterov": True}),
                (AdaGrad(decay=0.1), torch.optim.Adagrad, {"eps": 1e-8}), (Adam(decay=0.1), torch.optim.Adam, {}),
                (Adam(decay=0.1, decoupled=True), torch.optim.AdamW, {})):
            with self.subTest(theirs=theirs, options=options):
                self.check(reference, lambda p: theirs(p, lr=0.1, weight_decay=0.1, **options))


if __name__ == "__main__":
    main()
