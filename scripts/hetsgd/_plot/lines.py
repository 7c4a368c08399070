"""Which runs make one line of a picture, what the line is called, and how many lines a panel has."""

import re
from dataclasses import dataclass, field

from .._results import option_text, telling_options
from .style import MOST_LINES, MOST_PANELS, PlotError

MOST_OPTIONS = 3  # in a full name
NAMES = ("algorithm", "setup", "case")  # whose values need no key


@dataclass
class Line:
    """Runs that differ in their seed alone. parts: {option: value} that tell it from other lines, `algorithm` first."""
    parts: dict
    runs: list = field(default_factory=list)  # ids
    usual: dict = field(default_factory=dict)  # option -> value as text, that needs no mention

    def name(self, without=()):
        """"ssp, staleness=4"; without these options."""
        parts = {key: value for key, value in self.parts.items() if key not in without and text(value) != self.usual.get(key)}
        words = [named(key, value) for key, value in parts.items()]
        return ", ".join(words) or text(self.parts.get("algorithm", "runs"))


def text(value):
    """An option's value for people: without a list's brackets; 1 for 1.0, which whole numbers become where a run lacks one."""
    if isinstance(value, float):
        return f"{value:g}"
    words = option_text(value.item() if hasattr(value, "item") else value)
    return re.sub(r'[\[\]"]', "", words) or "none" if words.startswith("[") else words


def named(key, value):
    """"staleness=4"; names need no key."""
    return text(value) if key in NAMES else f"{key}={text(value)}"


def order(value):
    """Sorts by the numbers in a text, also with units, and by its words; numbers alone come first."""
    parts = re.split(r"(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)", text(value))
    key = [(0, float(part), "") if i % 2 else (1, 0.0, part) for i, part in enumerate(parts)]
    try:
        return [(0, float(text(value)), "")]
    except ValueError:
        return key


def telling_columns(data, group_by=()):
    """run -> the options that tell its line from others: those named; else what a sweep varies; else, as `hetsgd compare` has
    it, the options in which the groups of one algorithm differ."""
    if group_by:
        return lambda row: ["algorithm", *group_by]
    if data.parameters:
        varied = [key for key in data.parameters if data.runs[key].map(str).nunique() > 1]
        named = [] if "case" in varied else ["algorithm"]
        return lambda row: list(dict.fromkeys(named + varied))
    differing = {}
    for algorithm, rows in data.runs.groupby("algorithm"):
        configs = [telling_options(data.documents[run]) for run in rows.drop_duplicates("group").run]
        keys = {key for config in configs for key in config if config[key] != configs[0].get(key)}
        differing[algorithm] = ["algorithm", *sorted(keys)]
    return lambda row: differing[row.algorithm]


def shorten(lines):
    """Where names would have many options, only what is unusual for the algorithm is named; a note for each."""
    notes = []
    for algorithm in dict.fromkeys(line.parts.get("algorithm") for line in lines):
        members = [line for line in lines if line.parts.get("algorithm") == algorithm]
        keys = dict.fromkeys(key for line in members for key in line.parts if key not in NAMES)
        if len(keys) <= MOST_OPTIONS:
            continue
        usual = {}
        for key in keys:
            values = [text(line.parts[key]) for line in members if key in line.parts]
            usual[key] = max(values, key=values.count)
        for line in members:
            line.usual = usual
        notes.append(f"{algorithm}: unless a name says otherwise "
                     + ", ".join(f"{key}={value}" for key, value in usual.items()))
    return notes


def lines_of(data, group_by=()):
    """(lines in the order of their algorithms' appearance, then of their values; notes)."""
    columns = telling_columns(data, group_by)
    lines = {}
    for _, row in data.runs.iterrows():
        keys = [key for key in columns(row) if key in row and row[key] == row[key]]
        parts = {key: row[key] for key in keys}
        lines.setdefault(tuple((key, text(value)) for key, value in parts.items()), Line(parts)).runs.append(row.run)
    seeds = data.runs.set_index("run").seed
    notes = [f"{line.name()}: found the same seed more than once; if these runs differ in an option, name it with --group-by"
             for line in lines.values() if seeds[line.runs].duplicated().any()]
    notes += shorten(list(lines.values()))
    algorithms = list(dict.fromkeys(data.runs.algorithm))
    place = {run: algorithms.index(algorithm) for run, algorithm in zip(data.runs.run, data.runs.algorithm)}

    def rank(line):
        values = [order(value) for key, value in line.parts.items() if key != "algorithm"]
        return place[line.runs[0]] if "algorithm" in line.parts else 0, values

    return sorted(lines.values(), key=rank), notes


def panels_of(lines, by=None):
    """({title: lines}, the options that the titles name): one panel where a reader can tell all lines apart; else one for each
    value of the option that is asked for, or of the first one that makes few enough. Raises PlotError where none does."""
    if by is None and len(lines) <= MOST_LINES:
        return {"": lines}, ()
    keys = list(dict.fromkeys(key for line in lines for key in line.parts))
    if by is not None and by not in keys:
        raise PlotError(f"--panels: found {by}, expected one of {', '.join(keys)}")
    for key in [by] if by else keys:
        panels = {}
        for line in sorted(lines, key=lambda line: order(line.parts.get(key, "none")) if key != "algorithm" else []):
            panels.setdefault(named(key, line.parts.get(key, "none")), []).append(line)
        if len(panels) <= MOST_PANELS and max(map(len, panels.values())) <= MOST_LINES:
            return panels, (key,)
    raise PlotError(f"found {len(lines)} lines, expected at most {MOST_LINES} in a panel and {MOST_PANELS} panels; --over OPTION "
                    "draws over one of their options, --panels OPTION chooses the panels, and fewer files give fewer lines")


def looks_of(panels, without):
    """({(title, line's place): number of its look}, whether lines that are called the same in several panels look the same)."""
    names = list(dict.fromkeys(line.name(without) for lines in panels.values() for line in lines))
    alike = len(names) <= MOST_LINES
    return {(title, i): names.index(line.name(without)) if alike else i
            for title, lines in panels.items() for i, line in enumerate(lines)}, alike
