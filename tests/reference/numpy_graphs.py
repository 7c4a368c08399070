#!/usr/bin/env python3
"""Networks of images against PyTorch: forward, loss and autograd's gradient in double, at dumped parameters.

    numpy_graphs.py HETSGD

Images are written here as libSVM rows; then every step of a run must have the loss that the same updates have in PyTorch.
The networks are read from the files that hetsgd reads, node by node. Nothing here shares code with hetsgd. Skipped without
PyTorch.
"""
import json
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np

import reference_support
from reference_support import TOLERANCE, main, recorded

try:
    import torch
    from torch.nn import functional as F
except ImportError:
    torch = None

ROWS, CLASSES, BATCH, STEPS = 96, 5, 16, 18

# One small network with every node of the built-in networks, and their attributes.
EVERYTHING = [
    {"name": "a", "type": "conv", "channels": 8, "kernel": 3, "padding": 1, "bias": True},
    {"name": "b", "type": "bn"},
    {"name": "r", "type": "relu"},
    {"name": "n", "type": "lrn", "alpha": 0.1},
    {"name": "left", "type": "conv", "from": ["n"], "channels": 4, "kernel": [1, 3], "padding": [0, 1]},
    {"name": "left2", "type": "conv", "channels": 8, "kernel": 3, "padding": 1, "groups": 2},
    {"name": "right", "type": "pool", "from": ["n"], "kind": "average", "kernel": 3, "stride": 1, "padding": 1},
    {"name": "joined", "type": "concat", "from": ["left2", "right"]},
    {"name": "strided", "type": "conv", "channels": 16, "kernel": 3, "padding": 1, "stride": 2},
    {"name": "b2", "type": "bn"},
    {"name": "short", "type": "conv", "from": ["joined"], "channels": 16, "kernel": 1, "stride": 2},
    {"name": "sum", "type": "add", "from": ["b2", "short"]},
    {"name": "r2", "type": "relu"},
    {"name": "p", "type": "pool", "kernel": 3, "stride": 2, "padding": 1},
    {"name": "g", "type": "pool", "kind": "average", "global": True},
    {"name": "f", "type": "fc", "units": CLASSES, "bias": True},
    {"name": "s", "type": "softmax"}]


def write_images(path, shape):
    """libSVM rows of bytes; returns the images in normal form and their labels."""
    random = np.random.default_rng(5)
    templates = random.integers(0, 256, size=(CLASSES,) + shape)
    labels = np.arange(ROWS) % CLASSES
    noise = random.integers(-60, 61, size=(ROWS,) + shape)
    pixels = np.clip(templates[labels] + noise, 1, 255).astype(np.int64)
    with open(path, "w", encoding="ascii") as file:
        for label, image in zip(labels, pixels):
            values = " ".join(f"{i + 1}:{v}" for i, v in enumerate(image.reshape(-1)))
            file.write(f"{label} {values}\n")
    mean = pixels.mean(axis=(0, 2, 3), keepdims=True)
    deviation = pixels.std(axis=(0, 2, 3), keepdims=True)
    return torch.tensor((pixels - mean) / deviation), torch.tensor(labels)


class Network:
    """A network file; parameters in the order of its nodes."""

    def __init__(self, document):
        self.nodes, before = [], "input"
        for number, node in enumerate(document["nodes"]):
            node = dict(node)
            node.setdefault("name", f"{node['type']}_{number + 1}")
            node.setdefault("from", [before])
            before = node["name"]
            self.nodes.append(node)
        self.channels = document["input"][0]
        self.size = document["input"]

    def shapes(self):
        """The shapes of each node's parameters, found by running the network on one image of zeros."""
        self.found, zero = {}, torch.zeros([1] + self.size, dtype=torch.float64)
        self.run(zero, None)
        return self.found

    def unpack(self, flat):
        parameters, at = {}, 0
        for name, shapes in self.shapes().items():
            parameters[name] = []
            for shape in shapes:
                size = int(np.prod(shape))
                values = flat[at:at + size].reshape(shape).astype(np.float64)
                parameters[name].append(torch.tensor(values, requires_grad=True))
                at += size
        assert at == len(flat), (at, len(flat))
        return parameters

    def of(self, parameters, node, shapes):
        if parameters is not None:
            return parameters[node["name"]]
        self.found[node["name"]] = shapes
        return [torch.zeros(shape, dtype=torch.float64) for shape in shapes]

    def run(self, x, parameters):
        values = {"input": x}
        for node in self.nodes:
            inputs = [values[name] for name in node["from"]]
            values[node["name"]] = self.node(node, inputs, parameters)
        return values[self.nodes[-1]["name"]]

    def node(self, node, inputs, parameters):
        x, kind = inputs[0], node["type"]
        pair = lambda value: tuple(value) if isinstance(value, list) else (value, value)
        kernel, padding = pair(node.get("kernel", 1)), pair(node.get("padding", 0))
        stride, bias = node.get("stride", 1), node.get("bias", kind == "fc")
        if kind == "conv":
            shape = (node["channels"], x.shape[1] // node.get("groups", 1)) + kernel
            w, *b = self.of(parameters, node, [shape] + [(node["channels"],)] * bias)
            return F.conv2d(x, w, b[0] if b else None, stride, padding, groups=node.get("groups", 1))
        if kind == "fc":
            w, *b = self.of(parameters, node, [(node["units"], x[0].numel())] + [(node["units"],)] * bias)
            return F.linear(x.flatten(1), w, b[0] if b else None)[:, :, None, None]
        if kind == "lstm":
            return self.lstm(node, x, parameters)
        if kind == "bn":
            scale, shift = self.of(parameters, node, [(x.shape[1],)] * 2)
            if parameters is None:
                return x
            return F.batch_norm(x, None, None, scale, shift, training=True, eps=node.get("eps", 1e-5))
        if kind == "pool":
            if node.get("global"):
                return x.mean(dim=(2, 3), keepdim=True)
            if node.get("kind", "max") == "max":
                return F.max_pool2d(x, kernel, stride, padding)
            return F.avg_pool2d(x, kernel, stride, padding, count_include_pad=False)
        if kind == "lrn":
            return F.local_response_norm(x, 5, node.get("alpha", 1e-4), 0.75, 2)
        if kind == "concat":
            return torch.cat(inputs, dim=1)
        return {"relu": F.relu, "add": lambda _: inputs[0] + inputs[1], "softmax": lambda z: z.flatten(1)}[kind](x)


    def lstm(self, node, x, parameters):
        """By the cell's equations, gates in the order input, forget, cell, output."""
        units, (n, numbers, steps, _) = node["units"], x.shape
        w, b = self.of(parameters, node, [(4 * units, numbers + units), (4 * units,)])
        h = c = torch.zeros((n, units), dtype=torch.float64)
        seen = []
        for t in range(steps):
            z = torch.cat([x[:, :, t, 0], h], dim=1) @ w.T + b
            i, f, g, o = z.split(units, dim=1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            seen.append(h)
        if node.get("output") == "all":
            return torch.stack(seen, dim=2)[:, :, :, None]
        return h[:, :, None, None]


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Graphs(unittest.TestCase):
    def check(self, model, shape, lr, tolerance=5 * TOLERANCE):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            if isinstance(model, list):
                document = {"name": "everything", "input": list(shape), "nodes": model}
                (path / "net.json").write_text(json.dumps(document))
                model = str(path / "net.json")
            else:
                text = subprocess.run([reference_support.hetsgd, "memory", model, "--print-network"], check=True, capture_output=True,
                                      text=True).stdout
                document = json.loads(text)
            images, labels = write_images(path / "images.txt", shape)
            data = str(path / "images.txt")
            initial, events = recorded(path, "--model", model, "--train", data, "--test", data, "--cache=false", "--format", "libsvm", "--image",
                                       "x".join(map(str, shape)), "--algorithm", "sgd", "--batch-size", str(BATCH), "--max-samples",
                                       str(BATCH * STEPS), "--learning-rate", str(lr))
            network = Network(document)
            parameters, expected = network.unpack(initial), []
        for k in range(STEPS):
            rows = np.arange(BATCH * k, BATCH * (k + 1)) % ROWS
            loss = F.cross_entropy(network.run(images[rows], parameters), labels[rows])
            loss.backward()
            expected.append(float(loss))
            for each in parameters.values():
                for w in each:
                    with torch.no_grad():
                        w -= lr * w.grad
                    w.grad = None
        np.testing.assert_allclose([step["loss"] for step in events["step"]], expected, rtol=tolerance)
        self.assertGreater(abs(expected[-1] - expected[0]), 0.01, "the run must have learnt something")

    def test_every_node(self):
        self.check(EVERYTHING, (3, 11, 12), 0.05)

    def test_lstm(self):
        self.check([{"name": "a", "type": "lstm", "units": 12, "output": "all"},
                    {"name": "b", "type": "lstm", "units": 10},
                    {"name": "f", "type": "fc", "units": CLASSES}, {"name": "s", "type": "softmax"}], (7, 5, 1), 0.3)

    def test_lenet(self):
        self.check(f"lenet-5?classes={CLASSES}", (1, 28, 28), 0.05)

    # Twenty layers of bn and ReLU magnify float32's rounding: in double the same steps agree to 3e-8.
    def test_resnet(self):
        self.check(f"resnet-20?size=16&classes={CLASSES}", (3, 16, 16), 0.02, tolerance=0.03)


if __name__ == "__main__":
    main()
