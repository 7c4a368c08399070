"""Texts about results: an interval in a finding is that of a number on its page, and one in the pages that sum up is on a page that its
paragraph links, or on some page if it links none.

Texts are by hand and pages are not, so that runs which are made again leave old figures behind. A text rounds; it may give a share
or what is missing from 1 in percent, a fall as a positive number, and a ratio the other way round."""
import math
import pathlib
import re
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"
CELL = re.compile(r"(?:-?[\d.,]+(?:e[+-]\d+)?|never) \[(-?[\d.,]+(?:e[+-]\d+)?|never), (-?[\d.,]+(?:e[+-]\d+)?|never)\]")
TEXT = re.compile(r"[(\[](?:95 % (?:confidence )?interval )?([\d.,]+)(?: to |, )([\d.]+|never)(?: %)?[,;)\]]")
LINK = re.compile(r"\]\(([\w/.-]+/)(?:README\.md|[\w-]+\.\w+)?\)")  # to a page's folder, or a picture in it
PAGES = {path: path.read_text(encoding="utf-8") for path in RESULTS.rglob("*.md")}


def number(text):
    return math.inf if text == "never" else float(text.replace(",", ""))


def intervals(page):
    """The intervals in the tables of a page, as (low, high) and in the other ways that a text may give them."""
    found = set()
    for line in page.splitlines():
        for low, high in CELL.findall(line) if line.startswith("|") else ():
            low, high = number(low), number(high)
            found |= {(low, high), (100 * low, 100 * high), (100 - 100 * high, 100 - 100 * low), (-high, -low)}
            if low >= 0:
                found.add((1 / high if high else math.inf, 1 / low if low else math.inf))
    return found


def is_rounded(value, text):
    """Whether a text may say so of a value that the page has rounded to three digits."""
    if math.isinf(value) or text == "never":
        return value == number(text)
    step = 10.0 ** -len(text.partition(".")[2])
    return abs(value - number(text)) <= 0.5001 * step + 0.005 * abs(value)


def without_tables(text):
    return re.sub(r"(?ms)^```.*?^```|^\|.*?$|<!--.*?-->", " ", text)


def strangers(text, known):
    """The intervals of a text that are not among those of a page."""
    text = " ".join(text.split())
    return [found[0] for found in TEXT.finditer(text)
            if not any(is_rounded(low, found[1]) and is_rounded(high, found[2]) for low, high in known)]


class Findings(unittest.TestCase):
    def test_intervals_of_a_finding_are_on_its_page(self):
        seen = 0
        for path in sorted((ROOT / "experiments").glob("*.toml")):
            figure = tomllib.loads(path.read_text(encoding="utf-8"))["figure"]
            text = figure["finding"] + " ".join(figure.get("exceptions", []))
            with self.subTest(specification=path.name):
                self.assertEqual(strangers(text, intervals(PAGES[RESULTS / path.stem / "README.md"])), [])
            seen += len(TEXT.findall(text))
        self.assertGreater(seen, 50)

    def test_intervals_of_what_sums_up_are_on_a_page(self):
        of_pages = {path.parent: intervals(text) for path, text in PAGES.items() if path.name == "README.md"}
        for path in (ROOT / "README.md", RESULTS / "README.md", RESULTS / "fidelity.md"):
            for part in re.split(r"\n\n|\n(?=- |\d+\. )", without_tables(path.read_text(encoding="utf-8"))):
                linked = [of_pages[folder] for link in LINK.findall(part) if (folder := (path.parent / link)) in of_pages]
                with self.subTest(page=path.name, part=part[:60]):
                    self.assertEqual(strangers(part, set().union(*(linked or of_pages.values()))), [])

    def test_an_interval_of_older_runs_is_found(self):
        page = "| a | 0.694 [0.509, 0.92], p 0.08 |\n| b | 0.157 [0.1, 0.2] | -0.12 [-0.136, -0.0679] | never [1.53, never] |\n"
        known = intervals(page)
        self.assertEqual(strangers("0.69 (95 % interval 0.51 to 0.92, p = 0.08), 16 % (10 to 20 %), falls by 0.12 (0.07 to 0.14), (1.53 to "
                                   "never; the paper: 2), 1.44 times as slow (1.09 to 1.96)", known), [])
        self.assertEqual(strangers("0.61 (0.50 to 0.80; r3) and [0.51, 0.93]", known), ["(0.50 to 0.80;", "[0.51, 0.93]"])
