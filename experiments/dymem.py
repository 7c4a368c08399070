#!/usr/bin/python3
"""Compares every table and figure of Dymem's chapter (Yang 2022, chapter 4) with plans of `hetsgd memory`, with both prefetch windows.

    experiments/dymem.py            # half a minute; writes results/dymem.md and the pictures of results/dymem/

A plan is a pure function of its options, so the page is the same on any machine. Each row says what the paper reports, what
counts as agreement, and why a number is out of reach. The machine is the profile titan-x-maxwell, and MB are MiB.
"""
import common
import dymem_memory
import dymem_plans
import dymem_times

HEAD = """# Dymem (Yang 2022, chapter 4), planned

All 18 numbers of Dymem (Yang 2022, chapter 4) that were tried hold, six of them in direction only. With the larger prefetch window its
plans for ResNet-50 make 38 % more images/s than vDNN's, where the paper has 42 %. The 31 % less memory that the paper reports for
Inception-v4 compare a peak with the worst of vDNN's orders; like for like it is 11 % less at the peak and 6 % at the minimum.

![Peak and least memory](dymem/memory.png)

## How

`experiments/dymem.py` plans every table and figure of the chapter with `hetsgd memory` on the profile `titan-x-maxwell` and writes this
page. Nothing runs on a GPU: a plan is a pure function of its options. MB are MiB, and a window is `--prefetch-convs`. "Holds in direction"
means that the sign is the paper's and the size is not. The pool's pictures (4.1, 4.3, 2.6, 2.7) and the order of figure 4.2 are tests
(`tests/memory`), to the byte.

## Numbers

"""
PICTURES = """
## More pictures

![Time over memory](dymem/resnet_capacity.png)

![Used memory over steps](dymem/resnet32_steps.png)

![Images per second](dymem/images_per_s.png)

![Parts of an iteration](dymem/times.png)
"""


def main():
    page = dymem_plans.Page()
    dymem_times.block_times(page)
    dymem_memory.inception_memory(page)
    dymem_memory.resnet_memory(page)
    dymem_memory.linear_memory(page)
    dymem_memory.memory_bars()
    dymem_times.convolution_speed(page)
    dymem_times.throughput(page)
    dymem_times.overlap(page)
    dymem_memory.resnet32_steps(page)
    dymem_memory.arenas_and_best_fit(page)
    dymem_times.failures(page)
    dymem_times.layer_times(page)
    dymem_times.shares(page)
    dymem_times.totals(page)
    (common.ROOT / "results" / "dymem.md").write_text(HEAD + page.text() + PICTURES)


if __name__ == "__main__":
    main()
