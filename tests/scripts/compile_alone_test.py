"""compile_alone.py finds the sources that the includes of others hide, though it parses what many include but once."""

import contextlib
import io
import json
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import compile_alone

COMPILERS = [name for name in ("g++", "clang++-14") if shutil.which(name)]
COMMON = '#include "a/common.hpp"\n'
SOURCES = {
    "common.hpp": "#pragma once\n#include <algorithm>\n#include <string>\n",
    "log.hpp": "#pragma once\ninline void warn(int) {}\n",
    "good.cpp": COMMON + '#include <map>\n#include "a/log.hpp"\nstd::map<int, int> good() { warn(1); return {}; }\n',
    "good_too.cpp": COMMON + '#include "a/log.hpp"\nvoid good_too() { warn(std::max(1, 2)); }\n',
    "lacks_ours.cpp": COMMON + "void lacks_ours() { warn(1); }\n",
    "lacks_map.cpp": COMMON + '#include "a/log.hpp"\nvoid lacks_map() { std::map<int, int> map; warn(map[1]); }\n',
    "warns.cpp": COMMON + "void warns() { int unused = 1; }\n"}


class CompileAlone(unittest.TestCase):
    def setUp(self):
        root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="hetsgd-alone-"))).resolve()
        self.addCleanup(setattr, compile_alone, "ROOT", compile_alone.ROOT)
        compile_alone.ROOT = root
        (root / "lib/a").mkdir(parents=True)
        (root / "build/release").mkdir(parents=True)
        for name, text in SOURCES.items():
            (root / "lib/a" / name).write_text(text, encoding="utf-8")
        command = f"g++ -I{root}/lib -Wall -Wextra -std=c++20 -o lib/a.o -c {root}/lib/a/unity.cxx"
        entries = [{"command": command, "file": f"{root}/lib/a/unity.cxx"}, {"command": "nvcc -isystem=/none -o lib/a.o", "file": "a.cu"}]
        (root / "build/release/compile_commands.json").write_text(json.dumps(entries), encoding="utf-8")

    def failing(self, *arguments):
        """The sources that fail with all compilers, by name."""
        self.addCleanup(setattr, sys, "argv", sys.argv)
        sys.argv = ["compile_alone.py", "--compilers", ",".join(COMPILERS), *arguments]
        with contextlib.redirect_stdout(io.StringIO()) as said:
            code = compile_alone.main()
        names = {name for name in SOURCES for compiler in COMPILERS
                 if f"lib/a/{name} does not compile alone with {compiler}:" in said.getvalue()}
        self.assertEqual(code, 1 if names else 0, said.getvalue())
        return names

    def test_sources_that_lack_an_include_or_warn(self):
        for arguments in ((), ("--full",)):
            self.assertEqual(self.failing(*arguments), {"lacks_ours.cpp", "lacks_map.cpp", "warns.cpp"}, arguments)

    def test_right_sources(self):
        for name in ("lacks_ours.cpp", "lacks_map.cpp", "warns.cpp"):
            (compile_alone.ROOT / "lib/a" / name).unlink()
        self.assertEqual(self.failing(), set())
