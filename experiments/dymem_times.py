"""Rows of dymem.py about times, failures and shares: tables 4.1 and 4.2, figures 2.1, 2.5, 2.8, 4.4b, 4.5, 4.6, chapter 1."""
import json

import common
from dymem_plans import GIB, INCEPTION, MIB, RESNET32, RESNETS, between, percent, plan, plans, verdict, written

import plot_memory

DEVICE = ("--memory", "12G")
ROOM = ("--memory", "4096G")  # what is about convolutions alone


def block_times(page):
    """The first block of ResNet-32 that widens, both passes."""
    steps = plan(RESNET32, 100, "vdnn-all")["steps"]
    expected = {"conv_31": ("1x1", 25), "conv_28": ("3x3", 76), "add_32": ("join", 3)}
    found = {node: 1e3 * sum(step["seconds"] for step in steps if step["node"] == node) for node in expected}
    page.add("m-t41", "residual block, ms", "1x1 25, 3x3 76, join 3",
             ", ".join(f"{name} {found[node]:.1f}" for node, (name, _) in expected.items()), "3 %, fitted: the join is the check",
             all(abs(found[node] / ms - 1) <= 0.03 for node, (_, ms) in expected.items()))


def convolution_speed(page):
    """Time of the fastest algorithms over the time of the plan's, conv steps alone."""
    cases = [("vgg-16", 64), ("resnet-50", 32), ("resnet-50", 100), (INCEPTION, 32), (INCEPTION, 128), ("alexnet", 256), ("vgg-16", 256)]
    speeds, lines = {}, []
    for network, batch in cases:
        fastest = plan(network, batch, "liveness", "--convolution", "performance", *ROOM)["convolution_s"]
        entries = {"memory": plan(network, batch, "dymem", "--convolution", "memory", *page.dymem(), *DEVICE),
                   "Dymem": plan(network, batch, "dymem", "--convolution", "dynamic", *page.dymem(), *DEVICE),
                   "vDNN": plan(network, batch, "vdnn", *DEVICE)}
        speeds[network, batch] = {name: fastest / entry["convolution_s"] if entry["status"] == "fits" else 0
                                  for name, entry in entries.items()}
        lines.append(f"{network} {batch}: " + ", ".join(f"{name} {100 * speed:.0f} %" for name, speed in speeds[network, batch].items()))
    optimal = [each["memory"] for each in speeds.values()]
    small = [each["Dymem"] for key, each in speeds.items() if key[1] < 128]
    large = speeds["vgg-16", 256]
    page.add("m-44b", "speed of conv against the fastest", "memory-optimal 40 %; Dymem 95, vDNN 97 %; VGG-16 at 256: 72, 84 %",
             "; ".join(lines), "memory-optimal 40 +- 15 %; dynamic at least 90 % at small batches, less at 256, Dymem not above vDNN there",
             verdict(all(between(0.25, speed, 0.55) for speed in optimal) and min(small) >= 0.9
                     and large["Dymem"] < min(small) and large["Dymem"] <= large["vDNN"],
                     max(optimal) < min(small) and large["Dymem"] < min(small)),
             "at 256 images vDNN's dynamic policy lowers whole convolutions until the plan fits, where Dymem decides at each step by what "
             "is free then.")


def throughput(page):
    batches = "32,64,100,128,160,192,256"
    gains, fails, found = {}, {}, []
    for network, batch in ((RESNETS[0], 100), (RESNETS[1], 100), (RESNETS[2], 100), (INCEPTION, 128), ("vgg-16", 128), ("alexnet", 256)):
        dymem = plan(network, batch, "dymem", *page.dymem(), *DEVICE)
        vdnn = plan(network, batch, "vdnn-all", *DEVICE)
        gains[network] = dymem["images_per_s"] / vdnn["images_per_s"] - 1
        found.append(f"{network} {percent(gains[network])}")
    page.add("m-45", "images/s over vDNN", "ResNet-50 +42 %; Inception, 101, 152 lead; VGG, AlexNet about equal", ", ".join(found),
             "+42 +- 8 points; the networks with joins gain most",
             verdict(between(0.34, gains["resnet-50"], 0.50) and min(gains[name] for name in RESNETS) > gains[INCEPTION]
                     > max(gains["vgg-16"], gains["alexnet"]), gains["resnet-50"] > gains["vgg-16"] > 0),
             "VGG-16 and AlexNet gain too: the model has vDNN wait after every step, also where a relu or a pool could hide a transfer.")
    drawn = []
    for network in (RESNETS[0], INCEPTION, "vgg-16"):
        these = plot_memory.plans_of(written([network], batches, "dymem,vdnn-all,superneurons,liveness", *page.dymem(), *DEVICE))
        drawn += these
        fails[network] = min((each.batch for each in these if each.label == "superneurons" and not each.fits), default=None)
    page.add("m-45", "SuperNeurons fails at large batches", "fails", ", ".join(f"{name} from {batch}" for name, batch in fails.items()),
             "Inception from 128, ResNet-50 from 160, VGG-16 from 192",
             verdict(fails == {"resnet-50": 160, INCEPTION: 128, "vgg-16": 192}, all(fails.values())))
    page.draw("images_per_s", plot_memory.images_over_batch, drawn)


def overlap(page):
    found, drawn, near, least = [], [], True, 0
    for network, batch, paper in ((INCEPTION, 128, -0.18), (RESNET32, 100, -0.12), ("resnet-50", 100, None)):
        entries = plans([network], batch, "sequential,vdnn-all,dymem", *page.dymem(), *DEVICE)[0]
        base = entries[network, "sequential"]["iteration_s"]
        share = {policy: entries[network, policy]["iteration_s"] / base - 1 for policy in ("vdnn-all", "dymem")}
        if paper is not None:
            near = near and abs(share["vdnn-all"] - paper) <= 0.05
        found.append(f"{network}: vdnn-all {percent(share['vdnn-all'])}, dymem {percent(share['dymem'])}")
        least = min(least, share["dymem"])
        drawn += [plot_memory.Plan(network, batch, entries[network, policy]) for policy in ("sequential", "vdnn-all", "dymem")]
    page.add("m-46", "time over sequential", "vDNN: Inception -18 %, ResNet-32 -12 %; Dymem up to -46 %", "; ".join(found),
             "both within 5 points", verdict(near and abs(least + 0.46) <= 0.05, near and least < 0),
             "-46 % of a sequential time is in reach only where computing takes as long as the transfers, of which it hides all.")
    page.draw("times", plot_memory.stacked_times, drawn)


def failures(page):
    rates = {}
    for jitter in (0.1, 0.07):
        for beta in (100, 300, 500):
            entry = plan("resnet-101", 100, "dymem", *page.dymem(), "--main-initial", "10G", "--beta", f"{beta}M", "--jitter", jitter, "--on-shortage",
                         "restart", "--iterations", 1000)
            rates[jitter, beta] = entry["iterations"]["failed"] / 1000
    values = [rates[0.1, beta] for beta in (100, 300, 500)]
    page.add("m-t42", "failures over beta, ResNet-101, 1,000 iterations", "100: 5, 300: 0.9, 500: 0 %",
             "; ".join(f"jitter {jitter}: " + ", ".join(f"{100 * rates[jitter, beta]:.1f}" for beta in (100, 300, 500)) + " %"
                       for jitter in (0.1, 0.07)), "falls in beta; 0 at 500",
             verdict(values[0] > values[1] > values[2] == 0, values[0] > values[1] > values[2]),
             "the peak is the forward pass's, whose maps wait for the link, and it varies with the times. An iteration that outgrows its "
             "space fails here, as the paper's; one that may wait for an offload under way (--on-shortage cancel) never does, since the "
             "backward pass needs far less. The sigma of the times is not in the paper: 0.07 gives about its first number.")


def layer_times(page):
    """Computing of a forward step beside the transfer of what it offloads, with vDNN's barrier."""
    trace = written([INCEPTION], 128, "vdnn-all", "--memory", "64G", option="--trace")
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    graph = json.loads(common.hetsgd("memory", [INCEPTION, "--print-network"]))["nodes"]
    kind = {node["name"]: node for node in graph}
    computing = {}
    for event in events:
        if event["tid"] == 0 and event["name"] not in computing:  # forward comes first
            computing[event["name"]] = event
    ratios = {}  # kind of node: transfer over computing
    for event in events:
        if event["tid"] != 1:
            continue
        # With the barrier, the step that computes is the last one that began.
        name = max((step["ts"], each) for each, step in computing.items() if step["ts"] <= event["ts"] + 1e-6)[1]
        ratios.setdefault(group_of(kind[name]), []).append(event["dur"] / computing[name]["dur"])
    median = {name: sorted(values)[len(values) // 2] for name, values in ratios.items()}
    page.add("m-25", "transfer over computing by layer, Inception-v4", "more than 1 for pool, less for conv",
             ", ".join(f"{name} {value:.1f}" for name, value in sorted(median.items())),
             "above 1 for pool, relu, 1x1; below 1 for kernels of 9 and more",
             all(median[name] > 1 for name in ("pool", "relu", "conv 1x1")) and median["conv of 9 and more"] < 1)


def group_of(node):
    if node["type"] != "conv":
        return node["type"]
    kernel = node.get("kernel", 1)
    size = kernel[0] * kernel[1] if isinstance(kernel, list) else kernel * kernel
    return "conv 1x1" if size == 1 else "conv of 9 and more" if size >= 9 else "conv of 7 and less"


def shares(page):
    batches = {"vgg-16": 128, "resnet-50": 100, "inception-v4": 128, "alexnet": 256}
    networks = list(batches)
    parts = {name: plans([name], batch, "none")[1][name] for name, batch in batches.items()}
    found, head, good = [], [], True
    for name in networks:
        by_type = {each["type"]: each["feature_bytes"] for each in parts[name]["by_type"]}
        total = sum(by_type.values())
        share = {key: sum(by_type.get(each, 0) for each in types) / total
                 for key, types in (("fc", ("fc", "softmax", "dropout")), ("main", ("conv", "relu", "bn", "pool")),
                                    ("joins", ("add", "concat", "lrn")))}
        maps = 2 * parts[name]["feature_bytes"]  # with a gradient for each
        features = maps / (maps + 8 * parts[name]["parameters"])
        head.append(f"{name} {100 * features:.0f} %")
        found.append(f"{name}: fc group {100 * share['fc']:.1f} %, conv to pool {100 * share['main']:.1f} %, with joins and lrn "
                     f"{100 * (share['main'] + share['joins']):.1f} %")
        good = good and share["fc"] <= 0.011 and share["main"] + share["joins"] > 0.9
    found_shares = {each.split()[0]: float(each.split()[-2]) for each in head}
    page.add("m-21", "share of maps and their gradients, with those of the parameters", "more than 90 % (Inception)", ", ".join(head),
             "1 point on 99 % (Inception), 89 % (AlexNet)",
             abs(found_shares["inception-v4"] - 99) <= 1 and abs(found_shares["alexnet"] - 89) <= 1)
    page.add("m-28", "shares of features by type", "conv, act, bn, pool above 90 %; fc, softmax, dropout below 1 %", "; ".join(found),
             "above 90 % with add, concat and lrn; fc group at most 1.0 %", good)


def totals(page):
    entries, networks = plans(["vgg-16"], 256, "shared", *ROOM)
    parameters = 8 * networks["vgg-16"]["parameters"]  # and their gradients
    vgg = (entries["vgg-16", "shared"]["peak_bytes"] + parameters) / GIB
    fast = (plan("vgg-16", 256, "shared", "--convolution", "performance", *ROOM)["peak_bytes"] + parameters) / GIB
    inception = plan("inception-v4", 128, "none", *ROOM)["peak_bytes"] / GIB
    page.add("m-1", "VGG-16 at 256; Inception-v4", "28 GB; 45 GB",
             f"shared and parameters {vgg:.1f} GiB, with the largest workspace {fast:.1f}; none at 128: {inception:.1f} GiB", "28 between the two; 10 %",
             vgg < 28 < fast and abs(inception / 45 - 1) <= 0.1)
    none = {name: plan(name, 32, "none", *ROOM)["peak_bytes"] / MIB for name in ("resnet-50?stride=1x1", "resnet-50")}
    liveness = plan("resnet-50", 32, "liveness", *ROOM)["peak_bytes"] / MIB
    saved = liveness / none["resnet-50"] - 1
    page.add("m-c", "CROSSBOW, section 4.5: ResNet-50 at 32", "7.5 GB; plans save up to 50 %",
             f"none {none['resnet-50?stride=1x1']:,.0f} (stride 1x1), {none['resnet-50']:,.0f} MiB; liveness {percent(saved)}", "5 %",
             between(0.95 * 7500, none["resnet-50?stride=1x1"], 1.05 * 7500) and between(-0.57, saved, -0.45))
