#!/usr/bin/env python3
"""Click-through models against PyTorch: forward, loss and autograd's gradient in double, at dumped parameters.

    numpy_ctr.py HETSGD

Rows in Criteo's format are written here and their vocabulary is made here, by its definition; then every step of a run must
have the loss that the same updates have in PyTorch. Nothing here shares code with hetsgd. Skipped without PyTorch.
"""
import collections
import pathlib
import tempfile
import unittest

import numpy as np

from reference_support import TOLERANCE, main, recorded

try:
    import torch
except ImportError:
    torch = None

DENSE, FIELDS, MIN_FREQUENCY, ROWS = 13, 26, 10, 400
EMBEDDING, LAYERS = 5, 3


def write_rows(path):
    """The file, and what it says: labels, integers and categories, None where nothing stands."""
    random = np.random.default_rng(7)
    labels, integers, categories = [], [], []
    with open(path, "w", encoding="ascii") as file:
        for _ in range(ROWS):
            numbers = [None if random.random() < 0.1 else int(random.geometric(0.2)) - 2 for _ in range(DENSE)]
            values = [None if random.random() < 0.1 else int(random.geometric(0.3)) * 2654435761 % 2 ** 32
                      for _ in range(FIELDS)]
            click = sum(v is not None and v % 3 == 0 for v in values) + (numbers[0] or 0) > 11
            labels.append(float(click))
            integers.append(numbers)
            categories.append(values)
            file.write("\t".join([str(int(click))] + ["" if n is None else str(n) for n in numbers]
                                 + ["" if v is None else f"{v:08x}" for v in values]) + "\n")
    return labels, integers, categories


def rows_of_table(categories):
    """[rows x FIELDS] row numbers of one table: per field missing, rare, then values by descending count."""
    first, columns = 0, []
    for column in zip(*categories):
        counts = collections.Counter(v for v in column if v is not None)
        frequent = sorted((v for v in counts if counts[v] >= MIN_FREQUENCY), key=lambda v: (-counts[v], v))
        index = {v: 2 + i for i, v in enumerate(frequent)}
        columns.append([first + (0 if v is None else index.get(v, 1)) for v in column])
        first += 2 + len(frequent)
    return np.array(columns).T, first


class Model:
    """wide_deep, deepfm or dcn; parameters in the order of the file."""

    def __init__(self, kind, hidden, rows):
        self.kind, self.hidden = kind, hidden
        self.wide = kind != "dcn"
        self.embedding = 0 if kind == "wide_deep" and not hidden else EMBEDDING
        d = DENSE + FIELDS * self.embedding
        self.shapes = [("table", (rows, self.embedding + self.wide))]
        for i, (a, b) in enumerate(zip([d] + hidden, hidden)):
            self.shapes += [(f"w{i}", (b, a)), (f"b{i}", (b,))]
        inputs = hidden[-1] if hidden else 0
        if kind == "dcn":
            for i in range(LAYERS):
                self.shapes += [(f"cross_w{i}", (d,)), (f"cross_b{i}", (d,))]
            inputs += d
        if inputs:
            self.shapes.append(("output", (inputs,)))
        self.shapes.append(("bias", (1,)))
        if self.wide:
            self.shapes.append(("omega", (DENSE,)))

    def unpack(self, flat):
        parts, at = {}, 0
        for name, shape in self.shapes:
            size = int(np.prod(shape))
            parts[name] = torch.tensor(flat[at:at + size].reshape(shape).astype(np.float64), requires_grad=True)
            at += size
        assert at == len(flat), (at, len(flat))
        return parts

    def loss(self, p, dense, categories, labels):
        rows = p["table"][categories]  # [n x F x C]
        v = rows[:, :, :self.embedding]
        x0 = torch.cat([dense, v.reshape(len(dense), -1)], dim=1)
        z = p["bias"].expand(len(dense))
        if self.wide:
            z = z + dense @ p["omega"] + rows[:, :, self.embedding].sum(dim=1)
        if self.kind == "deepfm":
            pairs = torch.einsum("nfk,ngk->nfg", v, v)  # the double loop over fields
            z = z + torch.triu(pairs, diagonal=1).sum(dim=(1, 2))
        last = []
        if self.kind == "dcn":
            x = x0
            for i in range(LAYERS):
                x = x0 * (x @ p[f"cross_w{i}"]).unsqueeze(1) + p[f"cross_b{i}"] + x
            last.append(x)
        if self.hidden:
            h = x0
            for i in range(len(self.hidden)):
                h = torch.relu(h @ p[f"w{i}"].T + p[f"b{i}"])
            last.append(h)
        if last:
            z = z + torch.cat(last, dim=1) @ p["output"]
        return torch.nn.functional.binary_cross_entropy_with_logits(z, labels)


class Rule:
    """Updates from autograd's gradients; the table by a rule of its own, at `table_rate` times the learning rate."""

    def __init__(self, dense="sgd", table="sgd", table_rate=1.0, epsilon=1e-8):
        self.kinds, self.table_rate, self.epsilon = {"table": table}, table_rate, epsilon
        self.dense, self.t, self.state = dense, 0, {}

    def step(self, parameters, lr):
        self.t += 1
        for name, w in parameters.items():
            g = w.grad
            rate = lr * self.table_rate if name == "table" else lr
            kind = self.kinds.get(name, self.dense)
            state = self.state.setdefault(name, [torch.zeros_like(w), torch.zeros_like(w)])
            with torch.no_grad():
                if kind == "sgd":
                    w -= rate * g
                elif kind == "adagrad":
                    state[0] += g ** 2
                    w -= rate * g / (torch.sqrt(state[0]) + self.epsilon)
                else:
                    touched = (g != 0) if name == "table" else torch.ones_like(g, dtype=torch.bool)
                    m, v = state
                    m[touched] = 0.9 * m[touched] + 0.1 * g[touched]
                    v[touched] = 0.999 * v[touched] + 0.001 * g[touched] ** 2
                    move = m / (1 - 0.9 ** self.t) / (torch.sqrt(v / (1 - 0.999 ** self.t)) + self.epsilon)
                    w[touched] -= rate * move[touched]
            w.grad = None


@unittest.skipIf(torch is None, "PyTorch is not installed")
class ClickModels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        labels, integers, categories = write_rows(cls.path / "clicks.tsv")
        cls.labels = torch.tensor(labels, dtype=torch.float64)
        dense = [[np.log1p(max(n or 0, 0)) for n in row] for row in integers]
        cls.dense = torch.tensor(np.array(dense, dtype=np.float32).astype(np.float64))
        rows, cls.table_rows = rows_of_table(categories)
        cls.categories = torch.tensor(rows)

    def check(self, kind, hidden, rule, lr, *options):
        """30 updates of 32 samples each; the losses of PyTorch's from the same parameters."""
        data = str(self.path / "clicks.tsv")
        settings = ["--hidden", ",".join(map(str, hidden)) or "none", "--embedding-dim", str(EMBEDDING),
                    "--embedding-init-std", "0.2"] + (["--cross-layers", str(LAYERS)] if kind == "dcn" else [])
        initial, events = recorded(self.path, "--train", data, "--test", data, "--cache=false", "--model", kind, *settings, "--algorithm",
                                   "sgd", "--batch-size", "32", "--max-samples", "960", "--learning-rate", str(lr), *options)
        model = Model(kind, hidden, self.table_rows)
        parameters, expected = model.unpack(initial), []
        for k in range(30):
            rows = np.arange(32 * k, 32 * (k + 1)) % ROWS
            loss = model.loss(parameters, self.dense[rows], self.categories[rows], self.labels[rows])
            loss.backward()
            expected.append(float(loss))
            rule.step(parameters, lr)
        np.testing.assert_allclose([step["loss"] for step in events["step"]], expected, rtol=TOLERANCE)
        self.assertGreater(abs(expected[-1] - expected[0]), 0.01, "the run must have learnt something")

    def test_models(self):
        for kind in ("wide_deep", "deepfm", "dcn"):
            for hidden in ([], [8], [16, 6]):
                with self.subTest(kind, hidden=hidden):
                    self.check(kind, hidden, Rule(), 0.05)

    def test_row_rules(self):
        cases = [(Rule("adagrad", "adagrad", epsilon=1e-3), 0.05, "--optimizer adagrad --epsilon 1e-3"),
                 (Rule("adam", "adam", epsilon=1e-3), 0.02, "--optimizer adam --epsilon 1e-3"),
                 (Rule("sgd", "adagrad", 2.0, 1e-3), 0.05,
                  "--table-optimizer adagrad --table-learning-rate 0.1 --epsilon 1e-3"),
                 (Rule("adam", "sgd", 5.0, 1e-3), 0.02,
                  "--optimizer adam --table-optimizer sgd --table-learning-rate 0.1 --epsilon 1e-3"),
                 (Rule("sgd", "sgd", 3.0), 0.05, "--table-learning-rate 0.15")]
        for rule, lr, flags in cases:
            with self.subTest(flags):
                self.check("deepfm", [8], rule, lr, *flags.split())


if __name__ == "__main__":
    main()
