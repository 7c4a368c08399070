"""Imported first by the tests of the package: puts it into the search path. Where Python lacks a module that the package needs, the test
is skipped; an error in the package itself is none of that."""

import importlib.util
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
MISSING = [name for name in ("jsonschema", "numpy", "pandas", "scipy") if importlib.util.find_spec(name) is None]
if MISSING:
    print(f"skipped: found no {', '.join(MISSING)}; scripts/setup-debian.sh plots installs them")
    sys.exit(77)
