#!/usr/bin/env python3
"""Loss of n-gram models of characters on the last tenth of a text, in nats per character: what a network has to beat.

    scripts/peers/ngram_loss.py kjv.txt

Interpolated Witten-Bell models, whose counts are those of the first nine tenths: with n(h) times the context h, followed by t(h)
different characters, p(c | h) = (n(h c) + t(h) p(c | h without its first character)) / (n(h) + t(h)). Order 1 has no context,
and falls back on equal shares.
"""
import collections
import math
import sys

ORDERS = 6


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    held_out = len(text) // 10
    training, kinds = text[:-held_out], len(set(text))
    follows = collections.defaultdict(collections.Counter)
    for order in range(ORDERS):
        for end in range(order, len(training)):
            follows[training[end - order:end]][training[end]] += 1
    facts = {context: (sum(counts.values()), len(counts)) for context, counts in follows.items()}
    losses = [0.0] * ORDERS
    for end in range(len(training), len(text)):
        p = 1 / kinds
        for order in range(ORDERS):
            context = text[end - order:end]
            if context in facts:
                n, t = facts[context]
                p = (follows[context][text[end]] + t * p) / (n + t)
            losses[order] -= math.log(p) / held_out
    for order, loss in enumerate(losses, 1):
        print(f"{order} characters: {loss:.3f}")


if __name__ == "__main__":
    main()
