#!/usr/bin/env python3
"""Compiles every source of lib/ and apps/ alone, as the default build does, with g++ and clang++-14: syntax only, warnings are errors.

    compile_alone.py [--full] [--compilers g++,clang++-14] [BUILD...]

  BUILD...  configured builds of these sources, with or without HETSGD_UNITY (default: build/release); sources are compiled with the
            definitions and include folders of all of them together. Code for GPUs is left out unless one of them has it, emulated or not
  --full    each source parses all of its headers by itself, which takes about ten times as long

Without --full, headers are parsed once for many sources: sources are grouped by what they include, and a group's precompiled header
holds only what each source of the group includes anyway, directly or through others. So a source that lacks an include is found; one
whose own header lacks an include is found by --full alone if the source includes the missing header itself. And g++ stops at the end of
a source, where it would instantiate the templates of all that is precompiled (four fifths of its time): clang++ instantiates them.

The exit code is 1 if a source does not compile.
"""

import argparse
import collections
import concurrent.futures
import functools
import heapq
import itertools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
FLAGS = re.compile(r"-(D|I|isystem|W|m|std)")
# Every source reads its group's precompiled header, which costs as much as parsing so many bytes.
LOAD = 200_000
# A header that does not exist, and so ends the compilation.
END = "end_of_source"
ENDS = re.compile(rf"^[^\n]*fatal error: {END}: [^\n]*\n.*?compilation terminated\.\n", re.MULTILINE | re.DOTALL)


def flags_of(builds):
    """The flags that the builds give their sources of lib/ and apps/, each once, in the order of its first place. A build that
    defines a name otherwise than one before it, as the emulated runtime does where the first has CUDA, adds nothing. A name that
    targets of one build define differently, as the kernel sets do, has its first value."""
    flags = {}
    for build in builds:
        own, names = {}, {}
        path = ROOT / build / "compile_commands.json"
        if not path.is_file():
            sys.exit(f"compile_alone.py: found no {path}, expected a build: cmake --preset release")
        for entry in json.loads(path.read_text(encoding="utf-8")):
            if not re.search(r" -o (lib|apps)/", entry["command"]) or entry["file"].endswith(".cu"):
                continue
            words = iter(shlex.split(entry["command"]))
            for word in words:
                if FLAGS.match(word) and word != "-Wno-subobject-linkage" and not word.endswith("_EXPORTS") and (
                        not word.startswith("-D") or names.setdefault(word.partition("=")[0], word) == word):
                    own[(word, next(words)) if word == "-isystem" else (word,)] = None
        defined = dict(flag[0].split("=", 1) for flag in flags if "=" in flag[0] and flag[0].startswith("-D"))
        if not any(defined.get(name, value) != value for name, _, value in (flag[0].partition("=") for flag in own)):
            flags.update(own)
    return [word for flag in flags for word in flag]


class Headers:
    """Which headers a source includes, directly and through others, whatever the conditions around them."""

    def __init__(self, compiler, flags):
        asked = subprocess.run([compiler, *flags, "-E", "-v", "-x", "c++", "/dev/null"], capture_output=True, text=True, check=True).stderr
        self.folders = [line.strip() for line in asked.split("search starts here:")[-1].split("End of search")[0].splitlines()]
        self.folders += [line.strip() for line in asked.split("search starts here:")[-2].splitlines() if line.startswith(" ")]
        self.spelled = collections.defaultdict(set)  # by path: how sources of ours name it

    @functools.lru_cache(None)
    def text(self, path):
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace")

    @functools.lru_cache(None)
    def direct(self, path):
        found = []
        for kind, name in INCLUDE.findall(self.text(path)):
            beside = [os.path.dirname(path)] if kind == '"' else []
            known = next((full for folder in beside + self.folders if os.path.isfile(full := os.path.normpath(f"{folder}/{name}"))), None)
            if known:
                found.append(known)
                if path.startswith(f"{ROOT}/") and "/tests/" not in path:
                    self.spelled[known].add(f"<{name}>")
        return found

    def all_of(self, path):
        seen, todo = set(), [path]
        while todo:
            if (header := todo.pop()) not in seen:
                seen.add(header)
                todo += self.direct(header)
        return frozenset(seen - {path})

    def size(self, headers):
        return sum(len(self.text(header)) for header in headers)


def grouped(sources, headers):
    """[(headers that all of the group include, sources of the group)]: two groups become one as long as less is parsed so."""
    groups = {number: (headers.all_of(source), [source]) for number, source in enumerate(sources)}
    names = itertools.count(len(groups))
    size = functools.lru_cache(None)(headers.size)

    def saved(common, count):
        return (count - 1) * size(common) - count * LOAD if count > 1 else 0

    def gain(a, b):
        (common_a, of_a), (common_b, of_b) = groups[a], groups[b]
        return saved(common_a & common_b, len(of_a) + len(of_b)) - saved(common_a, len(of_a)) - saved(common_b, len(of_b))

    pairs = [(-gain(a, b), a, b) for a, b in itertools.combinations(groups, 2)]
    heapq.heapify(pairs)
    while pairs:
        negative, a, b = heapq.heappop(pairs)
        if a in groups and b in groups and negative < 0:
            (common_a, of_a), (common_b, of_b) = groups[a], groups[b]
            new = next(names)
            groups[new] = (common_a & common_b, of_a + of_b)
            del groups[a], groups[b]
            for other in groups:
                if other != new:
                    heapq.heappush(pairs, (-gain(other, new), other, new))
    return list(groups.values())


class Gcc:
    def __init__(self, name, flags, full):
        self.name, self.full = name, full
        self.command = [name, *flags, "-Werror", "-Winvalid-pch"]

    def precompile(self, header):
        """The options with which a source uses the precompiled header."""
        subprocess.run([*self.command, "-x", "c++-header", header, "-o", f"{header}.gch"], check=True)
        return ["-include", header]

    def errors(self, source, options):
        if self.full:
            return self.run(source, [])
        found = self.run("-", [*options, "-x", "c++"], f'#include "{source}"\n#include "{END}"\n')
        rest, ended = ENDS.subn("", found)
        return rest if ended else found

    def run(self, source, options, text=""):
        return subprocess.run([*self.command, *options, "-fsyntax-only", source], input=text, capture_output=True, text=True,
                              check=False).stderr


class Clang(Gcc):
    def __init__(self, name, flags, full):
        super().__init__(name, flags, full)
        # It does not know all options and pragmas that g++ is given, and its -Wconversion asks more of C++ than that of g++.
        self.command = [name, *flags, "-Werror", "-Wno-unknown-warning-option", "-Wno-unused-command-line-argument",
                        "-Wno-unknown-pragmas", "-Wno-sign-conversion", "-Wno-string-conversion"]

    def precompile(self, header):
        compiled = f"{header}.pch"
        subprocess.run([*self.command, "-fpch-instantiate-templates", "-x", "c++-header", header, "-o", compiled], check=True)
        return ["-include-pch", compiled]

    def errors(self, source, options):
        return self.run(source, options)


def check_group(pool, compilers, common, sources, headers):
    """How many sources of the group fail; each one's errors are printed."""
    failed = 0
    with tempfile.TemporaryDirectory(prefix="compile_alone.", dir=ROOT / "build") as folder:
        header = pathlib.Path(folder) / "common.hpp"
        header.write_text("".join(sorted(f"#include {name}\n" for each in common for name in headers.spelled[each])), encoding="utf-8")
        prepared = [pool.submit(compiler.precompile, str(header)) if len(sources) > 1 else [] for compiler in compilers]
        options = [each if isinstance(each, list) else each.result() for each in prepared]
        jobs = {pool.submit(compiler.errors, source, option): (compiler, source)
                for compiler, option in zip(compilers, options) for source in sources}
        for job in concurrent.futures.as_completed(jobs):
            if job.result():
                failed += 1
                compiler, source = jobs[job]
                print(f"{os.path.relpath(source, ROOT)} does not compile alone with {compiler.name}:\n{job.result()}", flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", nargs="*", default=["build/release"])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--compilers", default="g++,clang++-14")
    arguments = parser.parse_args()
    flags = flags_of(arguments.builds)
    names = arguments.compilers.split(",")
    sources = sorted(str(path) for top in ("lib", "apps") for path in (ROOT / top).rglob("*.cpp"))
    if not any(flag.startswith("-DHETSGD_CUDA_ARCHITECTURES") for flag in flags):
        sources = [source for source in sources if "/cuda/" not in source]
        print("code for GPUs is left out: none of the builds has it")
    headers = Headers(names[0], flags)
    groups = [(frozenset(), [source]) for source in sources] if arguments.full else grouped(sources, headers)
    compilers = [(Clang if name.startswith("clang") else Gcc)(name, flags, arguments.full) for name in names]
    failed, start = 0, time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for common, members in groups:
            failed += check_group(pool, compilers, common, members, headers)
    print(f"{len(sources)} sources alone, with {' and '.join(names)}: {failed} fail ({time.monotonic() - start:.0f} s)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
