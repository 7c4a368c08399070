#!/usr/bin/env python3
"""Compares every table and figure of Dymem's chapter (Yang 2022, chapter 4) with plans of `hetsgd memory`, a page for each prefetch window.

    experiments/dymem.py            # a minute; writes results/dymem.md, results/dymem-window-1.md and their pictures,
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

HEADS = {2: """# Dymem (Yang 2022, chapter 4), planned

With a prefetch window of two convolutions Dymem (Yang 2022, chapter 4) is as much faster than vDNN as the paper says, and it does not
save the peak memory that the paper reports. Its plans for ResNet-50 make 38 % more images/s than vDNN's, where the paper has 42 %. Its
peaks for Inception-v4 and ResNet-32 are 20 and 60 % above vDNN's, where the paper has 31 and 26 % below.

![Peak and least memory](dymem/memory.png)

## How

`experiments/dymem.py` plans every table and figure of the chapter with `hetsgd memory` on the profile `titan-x-maxwell` and writes this
page. Nothing runs on a GPU: a plan is a pure function of its options. All plans of Dymem on this page have a prefetch window of two
convolutions (`--prefetch-convs 2`, the default); [the other page](dymem-window-1.md) has those of one. MB are MiB. "In
direction" means that the sign is the paper's and the size is not. The pool's pictures (4.1, 4.3, 2.6, 2.7) and the order of figure 4.2
are tests (`tests/memory`), to the byte.

## Numbers

""", 1: """# Dymem (Yang 2022, chapter 4), planned with a prefetch window of one convolution

With a prefetch window of one convolution Dymem (Yang 2022, chapter 4) saves less memory than the paper reports, and gains less speed. Its
peak for Inception-v4 is 13 % below the median of vDNN's, where the paper has 31 %, and that for ResNet-32 is 20 % above it, where the
paper has 26 % below. Its plans for ResNet-50 make 23 % more images/s than vDNN's; the paper has 42 %.

![Peak and least memory](dymem-window-1/memory.png)

## How

`experiments/dymem.py` writes this page and [the one of the default window](dymem.md), which says how and has the rows that no window
changes. All plans of Dymem on this page have `--prefetch-convs 1`.

## Numbers

"""}
PICTURES = """
## More pictures

![Time over memory](FOLDER/resnet_capacity.png)

![Used memory over steps](FOLDER/resnet32_steps.png)

![Images per second](FOLDER/images_per_s.png)

![Parts of an iteration](FOLDER/times.png)
"""


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
    results = common.ROOT / "results"
    (results / f"{folder}.md").write_text(HEADS[window] + page.text() + PICTURES.replace("FOLDER", folder))
    if window == 2:  # the default; a claim is counted once
        (results / folder / "verdicts.json").write_text(json.dumps(page.records(), indent=1, ensure_ascii=False) + "\n")


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    for window in HEADS:
        make_page(window)


if __name__ == "__main__":
    main()
