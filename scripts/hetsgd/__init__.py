"""Results of hetsgd, read and judged in Python.

  import hetsgd
  data = hetsgd.load("runs")                                   # files, folders, sweeps: pandas frames
  data.compare(reference="ssgd", target="p1>=0.6")             # a row per group and target

`load` says what the frames are."""

import importlib

__version__ = "0.1.0"  # the program's (CMakeLists.txt): a test compares them

# The public names and their modules, which are imported when a name is first used: `hetsgd compare` needs no pandas.
EXPORTS = {"load": "_results", "Results": "_results", "ResultError": "_results", "per_worker": "_results", "interval": "_results",
           "summarise": "_results", "run": "_program", "sweep": "_program"}
__all__ = list(EXPORTS)


def __getattr__(name: str) -> object:
    if name not in EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{EXPORTS[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *EXPORTS])
