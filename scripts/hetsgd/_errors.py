"""Errors that the world caused, with the exit codes of the program (lib/core/error.hpp)."""

import difflib
from collections.abc import Iterable

RUNTIME, USAGE, TARGET_MISSED, DATA, REGRESSION, DIVERGED = 1, 2, 3, 4, 7, 8


class Error(Exception):
    """A sentence for the user: the message without its hint, the hint ("" for none) and the exit code."""

    def __init__(self, message: str, code: int = DATA, hint: str = ""):
        super().__init__(message)
        self.code, self.hint = code, hint


def usage_error(message: str, hint: str = "") -> Error:
    """A wrong option or a wrong configuration."""
    return Error(message, USAGE, hint)


def refusal(place: str, found: str, expected: str, hint: str = "", code: int = USAGE) -> Error:
    """The usual form, "PLACE: found FOUND, expected EXPECTED". `place` names an option, or file, line and key."""
    return Error(f"{place}: found {found}, expected {expected}", code, hint)


def quote(text: str) -> str:
    """The text in quotes, as messages show what somebody wrote."""
    return f'"{text}"'


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint with the nearest known word, or ""."""
    near = difflib.get_close_matches(word, known, 1)
    return f"did you mean {quote(near[0])}?" if near else ""
