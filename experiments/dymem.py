#!/usr/bin/env python3
"""Compares every table and figure of Dymem's chapter (Yang 2022, chapter 4) with plans of `hetsgd memory`, a page for each prefetch window.

    experiments/dymem.py            # a minute; writes the tables of results/dymem.md and results/dymem-window-1.md, pictures,
                                    # and results/dymem/verdicts.json, which scripts/reproduce.py counts

A plan is a pure function of its options, so the pages are the same on any machine. Each row says what the paper reports, what
counts as agreement, and why a number is out of reach. The machine is the profile titan-x-maxwell, and MB are MiB.
"""
import argparse
import json

import common
import dymem_memory
import dymem_plans
import dymem_times


def make_page(window):
    page = dymem_plans.Page(window)
    dymem_memory.inception_memory(page)
    dymem_memory.resnet_memory(page)
    dymem_memory.linear_memory(page)
    dymem_memory.memory_bars(page)
    dymem_times.convolution_speed(page)
    dymem_times.throughput(page)
    dymem_times.overlap(page)
    dymem_memory.resnet32_steps(page)
    dymem_memory.arenas_and_best_fit(page)
    dymem_times.failures(page)
    if window == 2:  # rows without a plan of Dymem
        dymem_times.block_times(page)
        dymem_times.layer_times(page)
        dymem_times.shares(page)
        dymem_times.totals(page)
    folder = dymem_plans.PICTURES[window]
    common.write_tables(f"{folder}.md", page.lines())
    if window == 2:  # the default; a claim is counted once
        (common.ROOT / "results" / folder / "verdicts.json").write_text(json.dumps(page.records(), indent=1, ensure_ascii=False) + "\n")


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    for window in dymem_plans.PICTURES:
        make_page(window)


if __name__ == "__main__":
    main()
