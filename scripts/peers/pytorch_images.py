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


def lenet_5():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                         nn.Linear(84, 10))


def lenet_002():
    return nn.Sequential(nn.Conv2d(1, 32, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1024, 1024), nn.ReLU(), nn.Dropout(0.5),
                         nn.Linear(1024, 10))


MODELS = {"lenet-5": lenet_5, "lenet-002": lenet_002}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=sorted(MODELS), default="lenet-5", help="network (default: lenet-5)")
    parser.add_argument("--batch-size", type=int, default=64, help="batch size (default: 64)")
    parser.add_argument("--threads", type=int, default=1, help="number of threads (default: 1)")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of the measurement (default: 5)")
    return parser.parse_args()


def samples_per_s(options, layout, seconds):
    torch.manual_seed(1)
    model = MODELS[options.model]().to(memory_format=layout).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    batches = [(torch.randn(options.batch_size, 1, 28, 28).to(memory_format=layout),
                torch.randint(10, (options.batch_size,))) for _ in range(20)]
    steps, start = 0, None
    while start is None or time.perf_counter() - start < seconds:
        for images, labels in batches:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            steps += start is not None
        start = start or time.perf_counter()  # the first pass over the batches is for warming up
    return steps * options.batch_size / (time.perf_counter() - start)


def main():
    options = parse_arguments()
    torch.set_num_threads(options.threads)
    layouts = {"plain": torch.contiguous_format, "channels last": torch.channels_last}
    trials = {name: samples_per_s(options, layout, 0.3) for name, layout in layouts.items()}
    best = max(trials, key=trials.get)
    json.dump({"samples_per_s": samples_per_s(options, layouts[best], options.seconds), "layout": best,
               "version": torch.__version__}, sys.stdout)


if __name__ == "__main__":
    main()
