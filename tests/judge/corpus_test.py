#!/usr/bin/env python3
"""The commands that judge say of a stored corpus what the C++ judges said of it.

  corpus_test.py [-k NAME]            NAME: a case, or a part of its name, e.g. -k held/compare-json or -k report
  corpus_test.py --program PROGRAM    all cases through that program, a process each; without it they run in this process, and where
                                      HETSGD_BINARY names the program a few run through it as well

HETSGD_CORPUS may name a folder into which the corpus was unpacked. Numbers of JSON are equal to 12 digits; ends of bootstrap intervals
may differ by END_SHARE of the interval, least effects by 1e-9. CSV is compared cell by cell. Texts have the same rows and labels, and
numbers that differ by at most one unit of their last digit. Of a message of an error only the place counts, and of a warning the text.
"""

import contextlib
import csv
import fnmatch
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest

import package  # noqa: F401  # finds the package

HERE = pathlib.Path(__file__).resolve().parent
os.environ.setdefault("HETSGD_PYTHON", sys.executable)  # of the program

DIGITS = 1e-12
LEAST_EFFECT = 1e-9
SHARE = 1e-12  # of a whole, which may be a difference of two equal sums
# Another generator draws other resamples, and an end of a few seeds is one of few values: by how much it may differ, as a share of
# the interval's width.
END_SHARE = 0.25
ENDS = {f"{name}{end}": (f"{name}low", f"{name}high") for name in ("", "score_", "rank_") for end in ("low", "high")}
# Places that speak of the program that writes, not of the results.
FOREIGN = {"report": ("/program",), "score": ("/tool",)}
# Differences that are meant: (case, place, why); patterns of fnmatch. Places are paths in JSON, "code", "out" and "err". Those from
# the C++ that were meant when it went are in the corpus.
EXPECTED_DIFFERENCES = [
    ("tuned/validate", "*", "A tuning of schema version 1 is refused, with the command that makes it again."),
    ("broken/validate-schema", "out", "A result's environment may have topology and products, which the corpus is older than."),
]
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
INTERVAL = re.compile(r"\[(-?[\d.]+(?:e[+-]?\d+)?), (-?[\d.]+(?:e[+-]?\d+)?)\]")
FOLDER = None  # with results and expected
PROGRAM = ""
__unittest = True  # tracebacks do not show the frames of this file


def close(expected, found, share=DIGITS):
    return expected == found or abs(expected - found) <= share * max(abs(expected), abs(found))


def close_end(expected, found, ends):
    """Whether an end of an interval is about where it was. ends: those that are expected."""
    numbers = [end for end in ends if isinstance(end, (int, float))]
    width = max(numbers) - min(numbers) if len(numbers) == 2 else 0
    whole = all(isinstance(each, int) for each in (expected, found))  # a rank
    return close(expected, found) or abs(expected - found) <= max(END_SHARE * width, 1 if whole else 0)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def differences(expected, found, path=""):
    """The differences of two documents: (path, text)."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in {**expected, **found}:
            place = f"{path}/{key}"
            if key not in found:
                yield place, f"expected {shown(expected[key])}, found no such key"
            elif key not in expected:
                yield place, f"expected no such key, found {shown(found[key])}"
            elif key in ENDS and is_number(expected[key]) and is_number(found[key]):
                if not close_end(expected[key], found[key], [expected[end] for end in ENDS[key]]):
                    yield place, f"expected an end at about {expected[key]!r}, found {found[key]!r}"
            elif key in ("share", "gap_share") and is_number(expected[key]) and is_number(found[key]):
                if abs(expected[key] - found[key]) > SHARE:
                    yield place, f"expected {expected[key]!r}, found {found[key]!r}"
            elif key == "least_effect" and is_number(expected[key]) and is_number(found[key]):
                if not close(expected[key], found[key], LEAST_EFFECT):
                    yield place, f"expected {expected[key]!r}, found {found[key]!r}"
            else:
                yield from differences(expected[key], found[key], place)
    elif isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            yield path, f"expected {len(expected)} elements, found {len(found)}: {shown(expected)} and {shown(found)}"
        for place, pair in enumerate(zip(expected, found)):
            yield from differences(*pair, f"{path}/{place}")
    elif is_number(expected) and is_number(found):
        if not close(expected, found):
            yield path, f"expected {expected!r}, found {found!r}"
    elif isinstance(expected, str) and isinstance(found, str):
        text = text_difference(expected, found)
        if text:
            yield path, text
    elif expected != found or isinstance(expected, bool) != isinstance(found, bool):
        yield path, f"expected {shown(expected)}, found {shown(found)}"


def shown(value):
    text = json.dumps(value)
    return text if len(text) < 200 else text[:200] + "..."


def unit(text):
    """One unit of the last digit that is written, a little more for the arithmetic."""
    digits, _, power = text.partition("e")
    return 1.01 * 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))


def alike(expected, found):
    """Whether two written numbers differ by at most one unit of the last digit."""
    return expected == found or abs(float(expected) - float(found)) <= min(unit(expected), unit(found))


def alike_ends(expected, found):
    """Whether two written intervals, each of two texts, are about the same."""
    low, high = map(float, expected)
    return all(alike(a, b) or abs(float(a) - float(b)) <= END_SHARE * (high - low) for a, b in zip(expected, found))


def normal(text):
    """The text without the widths of columns."""
    return re.sub(r"-{3,}:?", "---", re.sub(r"\s+", " ", text)).strip()


def text_difference(expected, found):
    """Why two lines differ in more than last digits and ends of intervals; "" if they do not."""
    if expected == found:
        return ""
    expected, found = normal(expected), normal(found)
    pairs = [INTERVAL.findall(text) for text in (expected, found)]
    bare = [INTERVAL.sub("[]", text) for text in (expected, found)]
    numbers = [NUMBER.findall(text) for text in bare]
    same = (NUMBER.sub("0", bare[0]) == NUMBER.sub("0", bare[1]) and len(pairs[0]) == len(pairs[1]) and
            all(map(alike, *numbers)) and all(map(alike_ends, *pairs)))
    return "" if same else f"expected {expected!r}, found {found!r}"


def line_differences(expected, found, place):
    expected, found = expected.splitlines(), found.splitlines()
    if len(expected) != len(found):
        first = next((pair for pair in zip(expected, found) if text_difference(*pair)), (expected[len(found):], found[len(expected):]))
        yield place, f"expected {len(expected)} lines, found {len(found)}; the first that differ: {shown(first)}"
        return
    for number, pair in enumerate(zip(expected, found), 1):
        text = text_difference(*pair)
        if text:
            yield f"{place}:{number}", text


def csv_differences(expected, found):
    """Cell by cell; the header of a table stands in its first line, and after a line of a workload's name."""
    rows = [list(csv.reader(io.StringIO(text))) for text in (expected, found)]
    if [len(row) for row in rows[0]] != [len(row) for row in rows[1]]:
        yield from line_differences(expected, found, "out")
        return
    header = []
    for number, (old, new) in enumerate(zip(*rows), 1):
        if "algorithm" in old or "method" in old:
            header = old
        cells = dict(zip(header, old))
        for column, (a, b) in enumerate(zip(old, new)):
            name = header[column] if column < len(header) else ""
            stem = name.removesuffix("_low").removesuffix("_high")
            ends = [cells.get(f"{stem}_{end}", "") for end in ("low", "high")]
            numeric = all(map(NUMBER.fullmatch, (a, b, *ends)))
            if stem != name and numeric and alike_ends(ends, [b if a == end else end for end in ends]):
                continue
            if text_difference(a, b):
                yield f"out:{number}:{name}", f"expected {a!r}, found {b!r}"


def findings_of(text):
    """{file: pointers that were found wrong, or "valid"} of the output of validate."""
    files = {}
    for line in text.splitlines():
        file, _, rest = line.partition(": ")
        files.setdefault(file, set()).add(rest if rest.startswith("valid") else rest.partition(": ")[0] if rest.startswith("/") else "")
    return files


def validate_differences(expected, found):
    """Each file is as valid as it was, and what is deepest of its wrong values is named. The words are the library's."""
    old, new = findings_of(expected), findings_of(found)
    if list(old) != list(new):
        yield "out", f"expected findings of {list(old)}, found {list(new)}"
        return
    for file, places in old.items():
        deepest = {place for place in places if not any(other != place and other.startswith(place.rstrip("/") + "/") for other in places)}
        if not deepest <= new[file]:
            yield f"out:{file}", f"expected {sorted(deepest)}, found {sorted(new[file])}"


def messages(text):
    """The lines of stderr that say something: of an error its place, of a file that was left out its name."""
    lines = []
    for line in text.splitlines():
        error = re.search(r"^(?:hetsgd.*: )?error: (?:argument )?([^\s:,]*)", line)
        if error:
            lines.append(f"error: {error.group(1)}")
        elif line.startswith("warning: left out: "):
            lines.append(":".join(line.split(":")[:3]))
        elif line.startswith("warning: "):
            lines.append(line)
    return "\n".join(lines)


def place_of_part(part):
    """The order of a replay's parts: by their shares, and where these are the same or only rounding, by their names."""
    return -round(part["share"] or 0, 9), str(part.get("kind", part.get("rank")))


def all_differences(case, expected, found):
    """expected, found: (exit code, stdout, stderr)."""
    if expected[0] != found[0]:
        yield "code", f"expected {expected[0]}, found {found[0]}: {found[2][-500:]}"
        return
    if found[2].startswith("usage: "):  # argparse's own words; the program checks options itself
        return
    command = case["arguments"][0]
    if command == "validate" and "--schema" not in case["arguments"]:
        yield from validate_differences(expected[1], found[1])
    elif case["kind"] == "json" and expected[1]:
        try:
            documents = json.loads(expected[1]), json.loads(found[1])
        except ValueError as error:
            yield "out", f"expected JSON: {error}"
            return
        if command == "report":  # a note on a file that is left out: the words are those of who reads it
            for document in documents:
                document["notes"] = [note.partition(": ")[0] for note in document["notes"]]
        if command == "replay":
            for document in documents:
                for parts in (document["workers"], document["kinds"]):
                    parts.sort(key=place_of_part)
        yield from ((path, text) for path, text in differences(*documents) if not path.startswith(FOREIGN.get(command, ("?",))))
    elif case["kind"] == "csv":
        yield from csv_differences(expected[1], found[1])
    elif command == "replay":
        yield from line_differences(*("\n".join(sorted(text.splitlines())) for text in (expected[1], found[1])), "out")
    else:
        yield from line_differences(expected[1], found[1], "out")
    yield from line_differences(messages(expected[2]), messages(found[2]), "err")


def run_here(arguments):
    """The command in this process: (exit code, stdout, stderr)."""
    from hetsgd import cli
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="surrogateescape") for _ in range(2)]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        try:
            code = cli.run(arguments)
        except SystemExit as end:  # argparse's
            code = end.code or 0
    said = []
    for stream in streams:
        stream.flush()
        said.append(stream.buffer.getvalue().decode("utf-8", "surrogateescape"))
    return code, *said


def run_program(program, arguments):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HETSGD_") or name == "HETSGD_PYTHON"}
    done = subprocess.run([program, *arguments], env=kept, capture_output=True, check=False)
    return done.returncode, *(stream.decode("utf-8", "surrogateescape") for stream in (done.stdout, done.stderr))


def expected_of(case):
    path = FOLDER / "expected" / case["name"]
    return case["code"], *(path.with_name(path.name + end).read_bytes().decode("utf-8", "surrogateescape") for end in (".out", ".err"))


def unexpected(case, found):
    """The differences of a case that EXPECTED_DIFFERENCES does not name."""
    meant = [place for name, place, _ in EXPECTED_DIFFERENCES if fnmatch.fnmatchcase(case["name"], name)]
    return [(place, text) for place, text in all_differences(case, expected_of(case), found)
            if not any(fnmatch.fnmatchcase(place, each) for each in meant)]


class Checked(unittest.TestCase):
    def check(self, case, found):
        differing = unexpected(case, found)
        rows = "\n".join(f"  {place}: {text}" for place, text in differing[:5])
        if differing:
            self.fail(f"\nhetsgd {' '.join(case['arguments'])}\n{len(differing)} differences, the first of them:\n{rows}")


class Corpus(Checked):
    """A test for each case (prepare)."""

    def run_case(self, case):
        if PROGRAM:
            self.check(case, run_program(PROGRAM, case["arguments"]))
            return
        if case["arguments"][0] in ("replay", "fit") and not os.environ.get("HETSGD_BINARY"):
            self.skipTest("HETSGD_BINARY names no program, which reads records")
        self.check(case, run_here(case["arguments"]))


class Comparing(unittest.TestCase):
    """Cases of what counts as a difference, and what does not."""

    def places(self, expected, found):
        return [place for place, _ in differences(expected, found)]

    def test_numbers_of_json_have_twelve_digits(self):
        self.assertEqual(self.places({"a": [1, 2.0]}, {"a": [1.0, 2 + 1e-13]}), [])
        self.assertEqual(self.places({"a": [1, 2.0]}, {"a": [True, 2 + 1e-11]}), ["/a/0", "/a/1"])
        self.assertEqual(self.places({"a": None, "a_reason": "inf"}, {"a": 1, "b": 2}), ["/a", "/a_reason", "/b"])
        self.assertEqual(self.places([1, 2], [1]), [""])
        self.assertEqual(self.places({"least_effect": 2}, {"least_effect": 2 + 1e-9}), [])
        self.assertEqual(self.places({"least_effect": 2}, {"least_effect": 2 + 1e-8}), ["/least_effect"])

    def test_ends_of_intervals_may_move_a_little(self):
        interval = {"median": 2.0, "low": 1.0, "high": 3.0}
        self.assertEqual(self.places(interval, {"median": 2.0, "low": 1.4, "high": 2.6}), [])
        self.assertEqual(self.places(interval, {"median": 2.1, "low": 1.6, "high": 2.4}), ["/median", "/low", "/high"])
        self.assertEqual(self.places({"low": 1.0, "high": 1.0}, {"low": 1.0, "high": 1.1}), ["/high"])
        self.assertEqual(self.places({"low": None, "low_reason": "inf"}, {"low": 1.0}), ["/low", "/low_reason"])
        self.assertEqual(self.places({"low": [1.0, 2.0], "high": [3.0, 4.0]}, {"low": [1.0, 2.1], "high": [3.0, 4.0]}), ["/low/1"])
        self.assertEqual(self.places({"rank_low": 1, "rank_high": 2}, {"rank_low": 2, "rank_high": 4}), ["/rank_high"])

    def test_texts_have_the_same_words_and_about_the_same_digits(self):
        row = "ssgd   7/7  1.35 [0.90, 1.70]  inf"
        self.assertEqual(text_difference(row, "ssgd  7/7  1.36 [0.91,  1.70]   inf".replace(",  ", ", ")), "")
        for other in ("asgd 7/7 1.35 [0.90, 1.70] inf", "ssgd 6/7 1.37 [0.90, 1.70] inf", "ssgd 7/7 1.35 [0.50, 1.70] inf",
                      "ssgd 7/7 1.35 [0.90, 1.70] 3", "ssgd 7/7 1.35 [0.90, inf] inf"):
            self.assertTrue(text_difference(row, other), other)
        self.assertEqual(list(line_differences("a\n-----  ---\n", "a\n------  ---\n", "out")), [])
        self.assertEqual([place for place, _ in line_differences("a\nb\n", "a\nc\n", "out")], ["out:2"])
        self.assertEqual([place for place, _ in line_differences("a\nb\n", "a\n", "out")], ["out"])

    def test_cells_of_csv(self):
        header = "group,algorithm,time_s,time_s_low,time_s_high\n"
        self.assertEqual(list(csv_differences(header + "a,a,2,1,3\n", header + "a,a,2,1.2,2.9\n")), [])
        self.assertEqual([place for place, _ in csv_differences(header + "a,a,2.0,1,3\n", header + "a,a,2.3,1.9,\n")],
                         ["out:2:time_s", "out:2:time_s_low", "out:2:time_s_high"])

    def test_findings_and_messages(self):
        old = "a.json: /curve/2/time_s: x\na.json: /curve: y\nb.json: valid\n"
        self.assertEqual(list(validate_differences(old, "a.json: /curve/2/time_s: found -1\nb.json: valid\n")), [])
        self.assertEqual([place for place, _ in validate_differences(old, "a.json: /curve: z\nb.json: valid\n")], ["out:a.json"])
        self.assertEqual([place for place, _ in validate_differences(old, "a.json: valid\nb.json: valid\n")], ["out:a.json"])
        self.assertEqual(messages("note\nerror: a.json:1:2: found x\nhint: y\nwarning: left out: b.json: bad\nwarning: few\n"),
                         "error: a.json\nwarning: left out: b.json\nwarning: few")


class Program(Checked):
    """One case of each command and kind of output through the program."""

    def test_the_program_starts_the_package(self):
        program = os.environ.get("HETSGD_BINARY")
        if not program or PROGRAM:
            self.skipTest("HETSGD_BINARY names no program")
        seen = {}
        for case in cases():
            seen.setdefault((case["arguments"][0], case["kind"], case["code"]), case)
        for case in seen.values():
            with self.subTest(case["name"]):
                self.check(case, run_program(program, case["arguments"]))


def cases():
    return json.loads((FOLDER / "expected" / "cases.json").read_text())["cases"]


def prepare(temporary):
    """Unpacks the corpus and makes its tests. The working folder becomes that of the results."""
    global FOLDER
    given = os.environ.get("HETSGD_CORPUS")
    FOLDER = pathlib.Path(given or temporary).resolve()
    if not given:
        for name in ("results", "expected"):
            with tarfile.open(HERE / "corpus" / f"{name}.tar.xz") as archive:
                archive.extractall(FOLDER)
    os.chdir(FOLDER / "results")
    for case in cases():
        setattr(Corpus, f"test {case['name']}", lambda self, case=case: self.run_case(case))


if __name__ == "__main__":
    if "--program" in sys.argv:
        place = sys.argv.index("--program")
        PROGRAM = str(pathlib.Path(sys.argv[place + 1]).resolve())
        del sys.argv[place:place + 2]
    with tempfile.TemporaryDirectory(prefix="hetsgd-corpus-") as temporary:
        prepare(temporary)
        failed = not unittest.main(exit=False).result.wasSuccessful()
        os.chdir("/")
    sys.exit(failed)
