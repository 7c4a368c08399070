"""Shared by the parts of dymem.py: plans of hetsgd memory, rows of the page, pictures."""
import json
import sys
import tempfile
from pathlib import Path

import common

sys.path.insert(0, str(common.ROOT / "scripts"))
from hetsgd._plot.style import DEFAULT_WIDTH_IN, plt, save, style  # noqa: E402

MIB = 2 ** 20
GIB = 2 ** 30
ORDERS = range(1, 26)
MANY_ORDERS = range(1, 301)
INCEPTION, RESNET32 = "inception-v4?bn=0", "resnet-32?bn=0&size=224"
PICTURES = {2: "dymem", 1: "dymem-window-1"}  # the prefetch window of a page, and the folder of its pictures
FITTED = {"m-t41": "the rates of the profile come from two of the table's three times"}
HEADLINES = ("memory in MiB, Inception-v4 without batch normalisation, batch 128", "memory in MiB, ResNet-50, 101 and 152, batch 100",
             "images/s over vDNN")  # by which the chapter stands
RESNETS = ("resnet-50", "resnet-101", "resnet-152")


def written(networks, batch, policies, *options, option="-o"):
    """The document that `hetsgd memory` writes to the file of this option."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.json"
        common.hetsgd("memory", [*networks, "--batch", batch, "--policy", policies, "--no-largest-batch", option, path, *options])
        return json.loads(path.read_text())


def plans(networks, batch, policies, *options):
    """{(network, policy): entry} of `hetsgd memory`, and the networks' parts by name."""
    document = written(networks, batch, policies, *options)
    entries = {(name, entry["policy"]): entry
               for name, one in zip(networks, document["networks"]) for entry in one["policies"]}
    return entries, {name: one["network"] for name, one in zip(networks, document["networks"])}


def plan(network, batch, policy, *options):
    return plans([network], batch, policy, *options)[0][network, policy]


def mib(size):
    return f"{size / MIB:,.0f}"


def percent(ratio):
    return f"{100 * ratio:+.0f} %"


def between(low, value, high):
    return low <= value <= high


def verdict(agrees, in_direction):
    """For Page.add: what was found agrees, or has the paper's sign alone, or neither."""
    return bool(agrees) or ("direction" if in_direction else False)


class Page:
    """Rows of the table, in the order of the paper, all with one prefetch window (--prefetch-convs)."""

    def __init__(self, window):
        self.window = window
        self.rows = []

    def dymem(self):
        """Options of Dymem's plans on this page."""
        return ("--prefetch-convs", self.window)

    def draw(self, name, make, found):
        folder = common.ROOT / "results" / PICTURES[self.window]
        folder.mkdir(parents=True, exist_ok=True)
        with plt.rc_context(style(DEFAULT_WIDTH_IN)):
            picture = make(found)
            save(picture, str(folder), name, ["svg"])

    def add(self, name, what, paper, found, agreement, holds, note=""):
        """holds: True, False, or "direction"."""
        verdict = {True: "holds", False: "does not hold", "direction": "in direction"}[holds]
        self.rows.append((name, what, paper, found, agreement, verdict, note))
        print(f"window {self.window}: {name}: {what}: {verdict}: {found}", flush=True)

    def records(self):
        """The rows as scripts/reproduce.py takes them for results/fidelity.md. A plan has no seeds, so its numbers stand as text; the
        page has the causes."""
        keys = ("figure", "claim", "expected", "found_text", "asked", "verdict")
        records = [{"paper": "CROSSBOW" if row[0] == "m-c" else "Dymem", "id": "dymem", "page": f"{PICTURES[self.window]}.md",
                    **dict(zip(keys, row)), **({"headline": True} if row[1] in HEADLINES else {})} for row in self.rows]
        return [each | {"fitted": FITTED[each["figure"]], "verdict": f"fitted ({each['verdict']})"} if each["figure"] in FITTED else each
                for each in records]

    def lines(self):
        lines = ["| id | what | the paper | found | agreement | verdict |", "|---|---|---|---|---|---|"]
        lines += [f"| {' | '.join(row[:6])} |" for row in self.rows]
        return [*lines, "", "## Causes", "", *(f"- **{row[0]}, {row[1]}**: {row[6]}" for row in self.rows if row[6])]

