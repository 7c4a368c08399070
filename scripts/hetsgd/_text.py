"""Texts for people: the log on stderr, tables, times. The forms are those of the program (lib/core/text.hpp, lib/core/logging.hpp)."""

import math
import os
import re
import sys
from collections.abc import Iterable, Sequence

# Control characters and lone surrogates (bytes that are not UTF-8), with the text that a terminal shows in their place.
ESCAPES = {**{code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F)}, **{code: f"\\u{code:04x}" for code in range(0x80, 0xA0)},
           **{0xDC00 + byte: f"\\x{byte:02x}" for byte in range(0x80, 0x100)}, **str.maketrans({"\n": "\\n", "\t": "\\t", "\r": "\\r"})}
LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", ">=": r"$\geq$", "<=": r"$\leq$", "<": "$<$",
         ">": "$>$", **{mark: "\\" + mark for mark in "&%$#_{}"}}


def printable(text: str, keep_lines: bool = False) -> str:
    """The text in a form that a terminal shows and does not obey: control characters and lone surrogates (bytes that are not
    UTF-8) as \\n, \\t, \\r, \\x1b, \\xe9 or \\u009b. `keep_lines` keeps newlines and tabs."""
    if text.isprintable():
        return text
    return text.translate({**ESCAPES, **str.maketrans("\n\t", "\n\t")} if keep_lines else ESCAPES)


def say(text: str) -> None:
    """Data for people or programs on stdout. The text ends with its newline."""
    sys.stdout.write(printable(text, keep_lines=True))


def log(word: str, text: str) -> None:
    """A line on stderr: "warning: text", "error: text", or the text alone if `word` is empty."""
    if word and sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR"):
        word = f"\033[1;{31 if word == 'error' else 33}m{word}:\033[0m "
    elif word:
        word += ": "
    sys.stdout.flush()
    sys.stderr.write(word + printable(text, keep_lines=True) + "\n")


def warn(text: str) -> None:
    """A warning on stderr."""
    log("warning", text)


def format_seconds(seconds: float) -> str:
    """A time as people read it: "12.3 us", "4.56 s", "2m 05s", "3h 20m", "5d 07h"."""
    size = abs(seconds)
    if not math.isfinite(seconds):
        return f"{seconds} s"
    if size == 0:
        return "0 s"
    for bound, factor, unit in ((0.9995e-6, 1e9, "ns"), (0.9995e-3, 1e6, "us"), (0.9995, 1e3, "ms"), (99.95, 1, "s")):
        if size < bound:
            return f"{seconds * factor:.3g} {unit}"
    if size >= 1e15:
        return f"{seconds:.3g} s"
    sign, whole = "-" if seconds < 0 else "", _rounded(size)
    if whole < 3600:
        return f"{sign}{whole // 60}m {whole % 60:02}s"
    minutes, hours = _rounded(size / 60), _rounded(size / 3600)
    return f"{sign}{minutes // 60}h {minutes % 60:02}m" if minutes < 48 * 60 else f"{sign}{hours // 24}d {hours % 24:02}h"


def _rounded(value: float) -> int:
    return math.floor(value + 0.5)


def is_numeric(cell: str) -> bool:
    """Whether a cell counts as a number: also "-", "inf", "inf [1, inf]" and an empty one do."""
    return cell in ("", "inf", "nan") or cell.startswith("inf [") or cell[0] in "0123456789-<>~("


def table(header: Sequence[str], rows: Iterable[Sequence[str]], kind: str) -> str:
    """Rows of texts below a header as "text", "markdown", "latex" (booktabs) or "csv" (RFC 4180, bare newlines; "-" is empty). Columns of
    numbers are right-aligned, but the first. Ends with a newline."""
    rows = [[printable(cell) for cell in row] for row in rows]
    if kind == "csv":
        return "".join(",".join(map(_csv_cell, row)) + "\n" for row in [header, *rows])
    numeric = [place > 0 and all(is_numeric(row[place]) for row in rows) for place in range(len(header))]
    return _latex([header, *rows], numeric) if kind == "latex" else _aligned([header, *rows], numeric, kind == "markdown")


def _latex(rows: Sequence[Sequence[str]], numeric: Sequence[bool]) -> str:
    head, *rest = (" & ".join(map(_latex_cell, row)) + " \\\\\n" for row in rows)
    columns = "".join("r" if each else "l" for each in numeric)
    return f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{head}\\midrule\n{''.join(rest)}\\bottomrule\n\\end{{tabular}}\n"


def _aligned(rows: Sequence[Sequence[str]], right: Sequence[bool], markdown: bool) -> str:
    width = [max(3 if markdown else 1, *map(len, column)) for column in zip(*rows)]

    def line(cells: Iterable[str]) -> str:
        return "".join(f"| {cell} " for cell in cells) + "|\n" if markdown else "  ".join(cells).rstrip(" ") + "\n"

    rule = line("-" * (size - (markdown and each)) + ":" * (markdown and each) for size, each in zip(width, right))
    head, *rest = (line(cell.rjust(size) if each else cell.ljust(size) for cell, size, each in zip(row, width, right)) for row in rows)
    return head + rule + "".join(rest)


def _csv_cell(cell: str) -> str:
    if cell == "-":
        return ""
    return '"' + cell.replace('"', '""') + '"' if any(mark in cell for mark in ',"\n\r') else cell


def _latex_cell(cell: str) -> str:
    text = re.sub(">=|<=|.", lambda mark: LATEX.get(mark[0], mark[0]), cell)
    return text.replace("inf", r"$\infty$") if is_numeric(cell) else text
