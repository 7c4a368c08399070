#!/usr/bin/env python3
"""Times hetsgd's networks of images in PyTorch, as the yardstick of compare_images.py.

Random images that are in memory before the clock starts, SGD with momentum: what is timed is forward,
backward and update. Channels-last and plain layouts are tried briefly, the faster one counts.
Runs with Debian's python3-torch, or with a newer PyTorch by another --python of compare_images.py.
"""

import argparse
import json
import sys
import time

import torch
from torch import nn

import torch_options


def lenet_5():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                         nn.Linear(84, 10))


def lenet_002():
    return nn.Sequential(nn.Conv2d(1, 32, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1024, 1024), nn.ReLU(), nn.Dropout(0.5),
                         nn.Linear(1024, 10))


class Block(nn.Module):
    """A basic block of a CIFAR ResNet, whose shortcut has no parameters (He et al. 2016, option A)."""

    def __init__(self, inputs, channels):
        super().__init__()
        self.stride, self.more = channels // inputs, channels - inputs
        self.main = nn.Sequential(nn.Conv2d(inputs, channels, 3, self.stride, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
                                  nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        shortcut = nn.functional.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, 0, self.more))
        return torch.relu(shortcut + self.main(x))


def resnet_20():
    widths = [16] * 4 + [32] * 3 + [64] * 3
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
                         *(Block(a, b) for a, b in zip(widths, widths[1:])), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


# The network, and the shape of an image.
MODELS = {"lenet-5": (lenet_5, (1, 28, 28)), "lenet-002": (lenet_002, (1, 28, 28)), "resnet-20": (resnet_20, (3, 32, 32))}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=sorted(MODELS), default="lenet-5", help="network (default: lenet-5)")
    parser.add_argument("--batch-size", type=int, default=64, help="batch size (default: 64)")
    parser.add_argument("--threads", type=int, default=1, help="number of threads (default: 1)")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of the measurement (default: 5)")
    torch_options.add_to(parser)
    return parser.parse_args()


def trainer(options, layout):
    """A function that trains for so many seconds and returns the samples per second."""
    torch.manual_seed(1)
    network, shape = MODELS[options.model]
    model = network().to(memory_format=layout).train()
    scores_of = torch_options.compiled(model, options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    batches = [(torch.randn(options.batch_size, *shape).to(memory_format=layout),
                torch.randint(10, (options.batch_size,))) for _ in range(20)]

    def samples_per_s(seconds):
        steps, start = 0, None
        while start is None or time.perf_counter() - start < seconds:
            for images, labels in batches:
                optimizer.zero_grad()
                with torch_options.autocast(options):
                    scores = scores_of(images)
                nn.functional.cross_entropy(scores.float(), labels).backward()
                optimizer.step()
                steps += start is not None
            start = start or time.perf_counter()  # the first pass over the batches is for warming up
        return steps * options.batch_size / (time.perf_counter() - start)
    return samples_per_s


def main():
    options = parse_arguments()
    torch.set_num_threads(options.threads)
    layouts = {"plain": torch.contiguous_format, "channels last": torch.channels_last}
    trainers = {name: trainer(options, layout) for name, layout in layouts.items()}
    best = max(trainers, key=lambda name: trainers[name](0.3))
    json.dump({"samples_per_s": trainers[best](options.seconds), "layout": best, "version": torch.__version__}, sys.stdout)


if __name__ == "__main__":
    main()
