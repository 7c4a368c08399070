#!/usr/bin/env python3
"""Trains hetsgd's GPT networks in PyTorch: the yardstick of compare_transformer.py, and of losses on a text.

    pytorch_transformer.py --model gpt-tiny --rows 12 --seconds 3 --compile     # speed, on random tokens in memory
    pytorch_transformer.py --text kjv.txt --model gpt-tiny --rows 64 --steps 2000 --seed 1     # loss on held-out text

Pre-norm blocks without biases, tied weights, scaled_dot_product_attention, fused AdamW (betas 0.9 and 0.99, decay 0.1 of
matrices), gradients clipped to norm 1. On a text: its characters, the last tenth held out, rows of one block each at a random
offset, a cosine from --learning-rate to 0 after 100 steps of warm-up; the loss is over all whole blocks of the held-out part.
"""

import argparse
import json
import math
import resource
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

import torch_options

# layers, heads, width, block, vocabulary
NETWORKS = {"gpt-micro": (2, 2, 64, 64, 32), "gpt-tiny": (4, 4, 128, 64, 62), "nanogpt-char": (6, 6, 384, 256, 65)}


class Block(nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        rows, steps, width = x.shape
        q, k, v = (part.view(rows, steps, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm_1(x)).split(width, 2))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(o.transpose(1, 2).reshape(rows, steps, width))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Gpt(nn.Module):
    def __init__(self, layers, heads, width, block, vocabulary):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(block, width)
        self.blocks = nn.ModuleList(Block(heads, width) for _ in range(layers))
        self.norm = nn.LayerNorm(width, bias=False)
        for name, p in self.named_parameters():
            if p.dim() > 1:
                last = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * layers) if last else 0.02)

    def forward(self, x, y):
        h = self.tokens(x) + self.positions(torch.arange(x.shape[1]))
        for block in self.blocks:
            h = block(h)
        scores = F.linear(self.norm(h), self.tokens.weight)
        return F.cross_entropy(scores.float().view(-1, scores.shape[-1]), y.reshape(-1))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=sorted(NETWORKS), default="gpt-tiny", help="network (default: gpt-tiny)")
    parser.add_argument("--rows", type=int, default=12, help="rows of a batch (default: 12)")
    parser.add_argument("--threads", type=int, default=1, help="number of threads (default: 1)")
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds of the measurement (default: 3)")
    torch_options.add_to(parser)
    parser.add_argument("--text", help="file to learn; without it, speed is measured")
    parser.add_argument("--steps", type=int, default=2000, help="steps on the text (default: 2000)")
    parser.add_argument("--learning-rate", type=float, default=3e-3, help="largest learning rate (default: 3e-3)")
    parser.add_argument("--seed", type=int, default=1, help="seed (default: 1)")
    return parser.parse_args()


def stepper(model, learning_rate, options):
    """A function that makes one step with a batch and returns nothing."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                  lr=learning_rate, betas=(0.9, 0.99), fused=True)
    loss_of = torch_options.compiled(model, options)

    def step(x, y, rate=learning_rate):
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad(set_to_none=True)
        with torch_options.autocast(options):
            loss = loss_of(x, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return step


def measure_speed(options):
    block, vocabulary = NETWORKS[options.model][3:]
    step = stepper(Gpt(*NETWORKS[options.model]), 1e-3, options)
    batches = [torch.randint(vocabulary, (options.rows, block + 1)) for _ in range(8)]
    steps, start = 0, None
    while start is None or time.perf_counter() - start < options.seconds:
        for batch in batches if start else batches[:3]:
            step(batch[:, :-1], batch[:, 1:])
            steps += start is not None
            if start and time.perf_counter() - start > options.seconds:
                break
        start = start or time.perf_counter()  # the first three steps compile and warm up
    tokens = steps * options.rows * block
    return {"tokens_per_s": tokens / (time.perf_counter() - start),
            "peak_resident_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, "version": torch.__version__}


def learn(options):
    layers, heads, width, block, _ = NETWORKS[options.model]
    with open(options.text, encoding="utf-8") as file:
        text = file.read()
    ids = {character: number for number, character in enumerate(sorted(set(text)))}
    tokens = torch.tensor([ids[character] for character in text])
    held_out = len(tokens) // 10
    training, test = tokens[:-held_out], tokens[-held_out:]
    model = Gpt(layers, heads, width, block, len(ids))
    step = stepper(model, options.learning_rate, options)
    warmup, start = 100, time.perf_counter()
    for number in range(options.steps):
        progress = max(0, number - warmup) / max(1, options.steps - warmup)
        rate = options.learning_rate * (min(1, (number + 1) / warmup) * (1 + math.cos(math.pi * progress)) / 2)
        at = torch.randint(len(training) - block - 1, (options.rows, 1)) + torch.arange(block + 1)
        step(training[at][:, :-1], training[at][:, 1:], rate)
    seconds = time.perf_counter() - start
    rows = (len(test) - 1) // block
    x, y = test[:rows * block].view(rows, block), test[1:rows * block + 1].view(rows, block)
    with torch.no_grad():
        losses = [model(a, b).item() * len(a) for a, b in zip(x.split(64), y.split(64))]
    return {"test_loss": sum(losses) / rows, "steps": options.steps, "rows": options.rows, "seed": options.seed,
            "seconds": seconds, "version": torch.__version__}


def main():
    options = parse_arguments()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    json.dump(learn(options) if options.text else measure_speed(options), sys.stdout)


if __name__ == "__main__":
    main()
