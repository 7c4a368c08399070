"""Rows of dymem.py about memory: figures 4.4a and 4.7."""
import math
import statistics

from dymem_plans import INCEPTION, MANY_ORDERS, MIB, ORDERS, RESNET32, RESNETS, between, mib, percent, plan, plans, verdict

import plot_memory


def inception_memory(page):
    dymem = plan(INCEPTION, 128, "dymem", *page.dymem())
    vdnn = plan(INCEPTION, 128, "vdnn-all")
    again = plan(INCEPTION, 128, "superneurons", "--recompute", "cost")
    peaks = sorted(plan(INCEPTION, 128, "vdnn-all", "--allocation-order", seed)["peak_bytes"] / MIB for seed in MANY_ORDERS)
    median = statistics.median(peaks)
    share = dymem["peak_bytes"] / MIB / median - 1
    found = (f"vdnn-all: peak {peaks[0]:,.0f} to {peaks[-1]:,.0f} over 300 orders, median {median:,.0f}, minimum {mib(vdnn['minimum_bytes'])}; "
             f"dymem: peak {mib(dymem['peak_bytes'])} ({percent(share)}), minimum {mib(dymem['minimum_bytes'])}, without a gap from "
             f"{mib(gapless_capacity(INCEPTION, 128, *page.dymem()))}")
    page.add("m-44a", "memory in MiB, Inception-v4 without batch normalisation, batch 128", "vDNN 3,650, Dymem 2,527 (-31 %)", found,
             "the peak, against the median of vDNN's orders: -31 +- 8 points",
             verdict(between(-0.39, share, -0.23), share < 0 and dymem["minimum_bytes"] < vdnn["minimum_bytes"]),
             f"{sum(peak >= 3600 for peak in peaks)} of vDNN's 300 orders take 3,600 and more, so the paper's -31 % may be a peak of Dymem "
             f"beside the worst of them. Dymem's minimum is {percent(dymem['minimum_bytes'] / vdnn['minimum_bytes'] - 1)} of vDNN's. "
             "SuperNeurons' 3,510 is out of reach: the outputs of conv alone move, and what stays is 13 GiB; with --recompute cost, "
             f"which the paper leaves out, its peak is {mib(again['peak_bytes'])}.")


def gapless_capacity(network, batch, *options):
    """The first of the capacities lower bound x 1.01^j from which on all complete, up to the peak of a roomy plan."""
    entries, networks = plans([network], batch, "dymem", *options)
    found, capacity = None, networks[network]["lower_bound_bytes"]
    while capacity < 1.01 * entries[network, "dymem"]["peak_bytes"]:
        fits = plan(network, batch, "dymem", "--memory", math.ceil(capacity / 512) * 512, *options)["status"] == "fits"
        found = (found or capacity) if fits else None
        capacity *= 1.01
    return found


def resnet_memory(page):
    entries = plans(RESNETS, 100, "dymem,vdnn-all", *page.dymem(), "--memory-curve", 8)[0]
    dymem, vdnn = ([entries[name, policy]["minimum_bytes"] for name in RESNETS] for policy in ("dymem", "vdnn-all"))
    shares = [d / v - 1 for d, v in zip(dymem, vdnn)]
    spread = max(dymem) / min(dymem) - 1
    page.add("m-44a", "memory in MiB, ResNet-50, 101 and 152, batch 100", "Dymem least, flat in depth",
             f"minima: dymem {', '.join(map(mib, dymem))}; vdnn-all {', '.join(map(mib, vdnn))}; {percent(min(shares))} to "
             f"{percent(max(shares))}",
             "below vDNN, spread over depth below 10 %", max(shares) < 0 and spread < 0.1,
             "the bound is 1,225 MiB in all three: a gradient that waits for the shortcut, beside the three maps of a bn's backward "
             "step. How much more a plan needs is a question of places, and best fit's depend on the order of requests.")
    page.draw("resnet_capacity", plot_memory.iteration_over_capacity,
              [plot_memory.Plan(name, 100, entries[name, policy], policy) for name in RESNETS for policy in ("dymem", "vdnn-all")])


def linear_memory(page):
    found, near = [], True
    for batch in (64, 128):
        entries = plans(["vgg-16"], batch, "dymem,vdnn-all", *page.dymem())[0]
        dymem, vdnn = (entries["vgg-16", policy]["minimum_bytes"] for policy in ("dymem", "vdnn-all"))
        near = near and abs(dymem / vdnn - 1) <= 0.05
        found.append(f"at {batch} {mib(dymem)} beside {mib(vdnn)}")
    page.add("m-44a", "VGG-16", "no difference", "minima: " + ", ".join(found), "within 5 %", near)
    entries = plans(["alexnet"], 256, "dymem,vdnn-all", *page.dymem())[0]
    dymem, vdnn = entries["alexnet", "dymem"], entries["alexnet", "vdnn-all"]
    page.add("m-44a", "AlexNet, 256", "Dymem + 250",
             f"minimum {mib(dymem['minimum_bytes'])} beside {mib(vdnn['minimum_bytes'])}; peak {mib(dymem['peak_bytes'])} beside "
             f"{mib(vdnn['peak_bytes'])}",
             "direction",
             verdict(False, dymem["minimum_bytes"] > vdnn["minimum_bytes"] and dymem["peak_bytes"] > vdnn["peak_bytes"]))


def memory_bars(page):
    found = []
    for network, batch in [(INCEPTION, 128), ("resnet-50", 100), ("vgg-16", 64), ("alexnet", 256)]:
        entries = plans([network], batch, "dymem,vdnn-all,superneurons,liveness", *page.dymem())[0]
        found += [plot_memory.Plan(network, batch, entries[network, policy]) for policy in ("dymem", "vdnn-all", "superneurons", "liveness")]
    page.draw("memory", plot_memory.peak_and_minimum, found)


def resnet32_steps(page):
    entries, networks = plans([RESNET32], 100, "dymem,vdnn-all", *page.dymem(), "--memory", "12G")
    dymem, vdnn = entries[RESNET32, "dymem"], entries[RESNET32, "vdnn-all"]
    size = 306.25 * MIB
    share = dymem["peak_bytes"] / vdnn["peak_bytes"] - 1
    copied = plans([RESNET32 + "&shortcut=A"], 100, "dymem", "--fork", "copy")[1]
    first = next(step for step in dymem["steps"] if step["used_bytes"] == dymem["peak_bytes"])
    page.add("m-47", "ResNet-32, 224, 100: peak", "vDNN about 2,500, Dymem 1,854 (-26 %), in the first block; 190 steps",
             f"dymem {mib(dymem['peak_bytes'])} = {dymem['peak_bytes'] / size:.1f} S, at step {first['step']} ({first['node']}, "
             f"{first['pass']}); vdnn-all {mib(vdnn['peak_bytes'])} = {vdnn['peak_bytes'] / size:.1f} S; {percent(share)}; minima "
             f"{dymem['minimum_bytes'] / size:.1f}, {vdnn['minimum_bytes'] / size:.1f} S; {networks[RESNET32]['steps']} steps, with --fork copy "
             f"{copied[RESNET32 + '&shortcut=A']['steps']}",
             "Dymem's peak, against vDNN's: -26 +- 8 points", verdict(between(-0.34, share, -0.18), share < 0),
             "S = 306.25 MiB is one map of the first stage. vDNN's plan here has a lower peak than the paper's 8 S, and lower than "
             "Dymem's, which keeps the maps that it has fetched ahead. The paper's 190 steps count a copy at each fork; here are four "
             "more, two nodes that pad shortcuts.")
    page.draw("resnet32_steps", plot_memory.used_over_steps, [plot_memory.Plan(RESNET32, 100, entry) for entry in (dymem, vdnn)])


def arenas_and_best_fit(page):
    """Backward peaks of one schedule with arenas and with best fit, whose places depend on the order of requests."""
    found, better = [], []
    for name, network, batch in (("Inception", INCEPTION, 128), ("ResNet-50", "resnet-50?stride=1x1", 100), ("ResNet-32", RESNET32, 100)):
        arenas = plan(network, batch, "dymem", *page.dymem())["backward_peak_bytes"]
        others = [plan(network, batch, "dymem", *page.dymem(), "--best-fit", "--allocation-order", seed)["backward_peak_bytes"]
                  for seed in ORDERS]
        shares = [arenas / other - 1 for other in others]
        better.append(statistics.median(shares))
        found.append(f"{name} {percent(statistics.median(shares))} ({percent(min(shares))} to {percent(max(shares))})")
    page.add("m-47", "arenas against best fit, backward peak, median of 25 orders", "joins cost best fit most",
             ", ".join(found), "less memory with arenas where networks branch", better[0] < 0 and better[1] < 0)
