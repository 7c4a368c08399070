"""Rows of dymem.py about memory: figures 4.4a and 4.7."""
import math
import statistics

from dymem_plans import INCEPTION, MANY_ORDERS, MIB, ORDERS, RESNET32, RESNETS, between, draw, mib, percent, plan, plans, verdict, window

import plot_memory


def inception_memory(page):
    dymem = {w: plan(INCEPTION, 128, "dymem", *window(w)) for w in (1, 2)}
    vdnn = plan(INCEPTION, 128, "vdnn-all")
    again = plan(INCEPTION, 128, "superneurons", "--recompute", "cost")
    peaks = sorted(plan(INCEPTION, 128, "vdnn-all", "--allocation-order", seed)["peak_bytes"] / MIB for seed in MANY_ORDERS)
    found = (f"vdnn-all: peak {peaks[0]:,.0f} to {peaks[-1]:,.0f} over 300 orders, median {statistics.median(peaks):,.0f}, "
             f"minimum {mib(vdnn['minimum_bytes'])}; dymem, window 1: peak {mib(dymem[1]['peak_bytes'])}, "
             f"minimum {mib(dymem[1]['minimum_bytes'])}; window 2: "
             f"{mib(dymem[2]['peak_bytes'])}, {mib(dymem[2]['minimum_bytes'])}, without a gap from "
             f"{mib(gapless_capacity(INCEPTION, 128, *window(2)))}")
    holds = (between(peaks[0], 3650, peaks[-1]) and between(dymem[1]["minimum_bytes"], 2527 * MIB, dymem[1]["peak_bytes"])
             and dymem[1]["minimum_bytes"] < vdnn["minimum_bytes"] and dymem[1]["peak_bytes"] < vdnn["peak_bytes"])
    page.add("m-44a", "Inception-v4 without bn, 128", "vDNN 3,650, Dymem 2,527 (-31 %)", found,
             "3,650 among vDNN's orders; 2,527 between window 1's minimum and peak, both below vDNN's", holds,
             "the paper's -31 % is a peak of Dymem beside the worst of vDNN's orders; like for like it is "
             f"{percent(dymem[1]['peak_bytes'] / vdnn['peak_bytes'] - 1)} (peak) and "
             f"{percent(dymem[1]['minimum_bytes'] / vdnn['minimum_bytes'] - 1)} (minimum). {sum(peak >= 3600 for peak in peaks)} of the 300 orders "
             "take 3,600 and more; the first 25 do not. With window 2, what suffices is no interval: iterations complete from 2,067 to about "
             "2,130, from 2,435 to 2,560, and at every capacity only from 2,785 on, which an independent calculation had as the minimum. In "
             "between, the prefetches that then fit leave conv_8 or relu_6 without a hole of 675 MiB. A jitter of 1 % changes that at none of "
             "11 capacities (30 draws each), and at 2,067 nothing is dropped. SuperNeurons' 3,510 is out of reach: the "
             "outputs of conv alone move, and what stays is 13 GiB; with --recompute cost, which the paper leaves out, its peak is "
             f"{mib(again['peak_bytes'])}.")


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
    entries = {w: plans(RESNETS, 100, "dymem,vdnn-all", *window(w), "--memory-curve", 8)[0] for w in (1, 2)}
    minima = {(policy, w): [entries[w][name, policy]["minimum_bytes"] for name in RESNETS]
              for policy in ("dymem", "vdnn-all") for w in (1, 2)}
    shares = [d / v - 1 for d, v in zip(minima["dymem", 1], minima["vdnn-all", 1])]
    spread = max(minima["dymem", 1]) / min(minima["dymem", 1]) - 1
    shown = ", ".join(map(mib, minima["dymem", 1]))
    page.add("m-44a", "ResNet-50, 101, 152, 100: memory", "Dymem least, flat in depth",
             f"minima: dymem, window 1: {shown}; window 2: {', '.join(map(mib, minima['dymem', 2]))}; vdnn-all: "
             f"{', '.join(map(mib, minima['vdnn-all', 1]))}; window 1 {percent(min(shares))} to {percent(max(shares))}",
             "window 1 5 to 10 % below vDNN, spread over depth below 10 %",
             verdict(all(between(-0.10, share, -0.05) for share in shares) and spread < 0.1, max(shares) < 0),
             "the bound is 1,225 MiB in all three: a gradient that waits for the shortcut, beside the three maps of a bn's backward "
             "step. How much more a plan needs is a question of places, and best fit's depend on the order of requests.")
    faster = {w: [curve_gain(entries[w][name, "dymem"], entries[w][name, "vdnn-all"]) for name in RESNETS] for w in (1, 2)}
    page.add("m-44a", "ResNet-50, 101, 152, 100: time", "-",
             "; ".join(f"window {w}: {percent(1 / (1 + min(g for g, _ in faster[w])) - 1)} to "
                       f"{percent(1 / (1 + max(g for _, g in faster[w])) - 1)} seconds" for w in (1, 2)),
             "at every capacity, window 1 15 to 20 %, window 2 25 to 30 % less time than vDNN",
             verdict(all(saved_share(gain, 0.15, 0.20) for gain in faster[1]) and all(saved_share(gain, 0.25, 0.30) for gain in faster[2]),
                     0 < min(faster[1])[0] < min(faster[2])[0]))
    draw("resnet_capacity", plot_memory.iteration_over_capacity,
         [plot_memory.Plan(name, 100, entries[w][name, policy], label)
          for name in RESNETS for w, policy, label in ((1, "dymem", "dymem, window 1"), (2, "dymem", "dymem, window 2"),
                                                       (1, "vdnn-all", "vdnn-all"))])


def curve_gain(dymem, vdnn):
    """Smallest and largest speed-up of dymem at its capacities over vdnn-all, whose time does not depend on them."""
    other = vdnn["iteration_s"]
    gains = [other / point["iteration_s"] - 1 for point in dymem["curve"] if point["status"] == "fits"]
    return min(gains), max(gains)


def saved_share(gains, low, high):
    """Whether both speed-ups save so much time, to the whole percent."""
    return all(round(low, 2) <= round(1 - 1 / (1 + gain), 2) <= round(high, 2) for gain in gains)


def linear_memory(page):
    found, near = [], True
    for batch in (64, 128):
        entries = plans(["vgg-16"], batch, "dymem,vdnn-all")[0]
        dymem, vdnn = (entries["vgg-16", policy]["minimum_bytes"] for policy in ("dymem", "vdnn-all"))
        near = near and abs(dymem / vdnn - 1) <= 0.05
        found.append(f"at {batch} {mib(dymem)} beside {mib(vdnn)}")
    page.add("m-44a", "VGG-16", "no difference", "minima: " + ", ".join(found), "within 5 %", near)
    entries = {w: plans(["alexnet"], 256, "dymem,vdnn-all", *window(w))[0] for w in (1, 2)}
    dymem, vdnn = entries[2]["alexnet", "dymem"], entries[2]["alexnet", "vdnn-all"]
    page.add("m-44a", "AlexNet, 256", "Dymem + 250",
             f"minimum {mib(dymem['minimum_bytes'])} beside {mib(vdnn['minimum_bytes'])}; peak {mib(dymem['peak_bytes'])} (window 1: "
             f"{mib(entries[1]['alexnet', 'dymem']['peak_bytes'])}) beside {mib(vdnn['peak_bytes'])}",
             "direction",
             verdict(False, dymem["minimum_bytes"] > vdnn["minimum_bytes"] and dymem["peak_bytes"] > vdnn["peak_bytes"]))


def memory_bars():
    networks = [(INCEPTION, 128), ("resnet-50", 100), ("vgg-16", 64), ("alexnet", 256)]
    found = []
    for network, batch in networks:
        entries = {w: plans([network], batch, "dymem,vdnn-all,superneurons,liveness", *window(w))[0] for w in (1, 2)}
        found += [plot_memory.Plan(network, batch, entries[w][network, "dymem"], f"dymem, window {w}") for w in (1, 2)]
        found += [plot_memory.Plan(network, batch, entries[2][network, policy]) for policy in ("vdnn-all", "superneurons", "liveness")]
    draw("memory", plot_memory.peak_and_minimum, found)


def resnet32_steps(page):
    options = ("--memory", "12G")
    entries = {w: plans([RESNET32], 100, "dymem,vdnn-all", *window(w), *options) for w in (1, 2)}
    parts = entries[1][1][RESNET32]
    dymem = {w: entries[w][0][RESNET32, "dymem"] for w in (1, 2)}
    vdnn = entries[1][0][RESNET32, "vdnn-all"]
    size = 306.25 * MIB
    copied = plans([RESNET32 + "&shortcut=A"], 100, "dymem", "--fork", "copy")[1]
    first = next(step for step in dymem[1]["steps"] if step["used_bytes"] == dymem[1]["peak_bytes"])
    page.add("m-47", "ResNet-32, 224, 100: peak", "vDNN about 2,500, Dymem 1,854, in the first block; 190 steps",
             f"dymem, window 1: {mib(dymem[1]['peak_bytes'])} = {dymem[1]['peak_bytes'] / size:.1f} S, at step {first['step']} "
             f"({first['node']}, {first['pass']}); window 2: {dymem[2]['peak_bytes'] / size:.1f} S; vdnn-all: "
             f"{vdnn['peak_bytes'] / size:.1f} S; minima {dymem[1]['minimum_bytes'] / size:.1f}, "
             f"{vdnn['minimum_bytes'] / size:.1f} S; {parts['steps']} steps, with --fork copy {copied[RESNET32 + '&shortcut=A']['steps']}",
             "window 1: 2 % on 1,854", abs(dymem[1]["peak_bytes"] / (1854 * MIB) - 1) <= 0.02,
             "S = 306.25 MiB is one map of the first stage. vDNN's 8 S are not reached. The paper's 190 steps count a copy at each "
             "fork; here are four more, two nodes that pad shortcuts.")
    draw("resnet32_steps", plot_memory.used_over_steps,
         [plot_memory.Plan(RESNET32, 100, dymem[w], f"dymem, window {w}") for w in (1, 2)] + [plot_memory.Plan(RESNET32, 100, vdnn)])


def arenas_and_best_fit(page):
    """Backward peaks of one schedule with arenas and with best fit, whose places depend on the order of requests."""
    found, better = [], []
    for name, network, batch in (("Inception", INCEPTION, 128), ("ResNet-50", "resnet-50?stride=1x1", 100), ("ResNet-32", RESNET32, 100)):
        arenas = plan(network, batch, "dymem", *window(1))["backward_peak_bytes"]
        others = [plan(network, batch, "dymem", *window(1), "--best-fit", "--allocation-order", seed)["backward_peak_bytes"]
                  for seed in ORDERS]
        shares = [arenas / other - 1 for other in others]
        better.append(statistics.median(shares))
        found.append(f"{name} {percent(statistics.median(shares))} ({percent(min(shares))} to {percent(max(shares))})")
    page.add("m-47", "arenas against best fit, backward peak, window 1, median of 25 orders", "joins cost best fit most",
             ", ".join(found), "less memory with arenas where networks branch", better[0] < 0 and better[1] < 0)
