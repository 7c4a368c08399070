#!/usr/bin/env python3
"""How often hash tables hold a row where a query near it looks, by Monte Carlo: slide_recall.py [--trials 40000] [--seed 1]

A row of d standard normal numbers; a query at a cosine of .9 to it; L tables of K densified winner-take-all codes
over bins of m of the d numbers, the bins cut from random permutations. Prints the share of trials in which row and
query have one bucket in some table, for the cases of LabelRecall.PlantedQueriesFindTheirRows
(tests/model/label_recall_test.cpp), whose expected numbers these are. Written from the definition in
arXiv 1612.01834 and 1903.03129, with numpy alone.
"""

import argparse
import math

import numpy

CASES = [  # d, K, L, m, the stride at which codes are packed into a bucket's number
    (128, 6, 10, 8, 4),
    (64, 3, 4, 8, 4),
    (64, 4, 6, 8, 8),
]


def places(vector, bins):
    """The place of each bin's largest number, and whether that is positive."""
    values = vector[bins]
    return values.argmax(axis=1), values.max(axis=1) > 0


def trial(random, d, K, L, m, stride):
    row = random.standard_normal(d)
    noise = random.standard_normal(d)
    noise -= row * (noise @ row) / (row @ row)
    noise *= math.sqrt(row @ row / (noise @ noise)) * math.sqrt(1 / .9**2 - 1)
    query = row + noise
    per_permutation = d // m
    bins = []
    while len(bins) < K * L:
        order = random.permutation(d)
        bins.extend(order[i * m:(i + 1) * m] for i in range(per_permutation))
    bins = numpy.array(bins[:K * L])
    of_row, _ = places(row, bins)
    of_query, is_full = places(query, bins)
    full = of_query[is_full].copy()
    of_query[~is_full] = random.choice(full, size=int((~is_full).sum()))  # an empty bin borrows a code
    weights = stride ** numpy.arange(K - 1, -1, -1)
    buckets = [codes.reshape(L, K) @ weights for codes in (of_row, of_query)]
    return bool((buckets[0] == buckets[1]).any())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=40000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    random = numpy.random.default_rng(arguments.seed)
    for case in CASES:
        found = sum(trial(random, *case) for _ in range(arguments.trials))
        share = found / arguments.trials
        error = math.sqrt(share * (1 - share) / arguments.trials)
        print("d {} K {} L {} m {} stride {}: {:.4f} +- {:.4f}".format(*case, share, error))


if __name__ == "__main__":
    main()
