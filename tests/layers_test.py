#!/usr/bin/env python3
"""Reads every #include of lib/ and apps/ and enforces the layers; files have at most 600 lines.

A folder of lib/ may include itself and folders of a smaller layer; folders of one layer do not include each
other. apps/ may include everything. Nobody includes tests/ or apps/ from lib/. The kernels of linalg/cpu/ are compiled for
several processors: only they include its headers. Above cluster/ nobody names one
of the clusters: what matters of them is asked of their kind and of their group of processes.
"""

import os
import re
import sys
import tempfile
import unittest

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
LAYER = {"core": 0, "graph": 1, "linalg": 1, "data": 2, "memory": 2, "model": 3, "optimizer": 3, "cluster": 3, "collective": 4,
         "table": 5, "algorithm": 6, "training": 7, "result": 8, "experiment": 9}
APPS = 10
# Folders of lib/ whose modules (a header with its source) include each other in one direction.
ONE_WAY = ("algorithm", "collective", "data", "graph", "optimizer", "result", "table")
SOURCE = (".hpp", ".cpp", ".h", ".cu", ".cuh")
MOST_LINES = 600  # a class that is one subject may be long; what is longer is two
CLUSTERS = "sim|threads|mpi"  # the kinds, each with a folder of its own
NAMES_CLUSTER = re.compile(rf'[=!]=\s*"({CLUSTERS})"|"({CLUSTERS})"\s*[=!]='
                           rf'|\b(make_cluster|cluster_kind|processes_of|runs_together)\("({CLUSTERS})"')
CLUSTER_FOLDER = re.compile(rf"cluster/({CLUSTERS}|realtime|no_mpi)/")
KERNELS = "linalg/cpu/"
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def sources(root):
    for top in ("lib", "apps"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if name.endswith(SOURCE):
                    yield os.path.relpath(os.path.join(folder, name), root)


def layer_of(path):
    """(layer, folder) of a file below the root; None for a folder of lib/ that is not in the table."""
    parts = path.split("/")
    if parts[0] == "apps":
        return APPS, "apps"
    return (LAYER[parts[1]], parts[1]) if parts[1] in LAYER else None


def problem_of_include(root, path, target):
    """Why `path` must not include "target"; None if it may."""
    layer, folder = layer_of(path)
    if folder == "apps" and os.path.exists(os.path.join(root, os.path.dirname(path), target)):
        return None  # the program's own headers
    first = target.split("/")[0]
    if first not in LAYER:
        return f'found "{target}", expected a path below lib/ such as "core/error.hpp"'
    if not os.path.exists(os.path.join(root, "lib", target)):
        return f'found "{target}", which does not exist in lib/'
    if target.startswith(KERNELS) and not path.startswith(f"lib/{KERNELS}"):
        return f'found "{target}", code of one kernel set, expected a header of linalg/ itself or of linalg/cores/'
    if layer > LAYER["cluster"] and CLUSTER_FOLDER.match(target):
        return f'found "{target}", the inside of one cluster, expected a header of cluster/ itself'
    other = CLUSTER_FOLDER.match(target)
    own = CLUSTER_FOLDER.match(path.removeprefix("lib/"))
    if other and own and other.group(1) not in (own.group(1), "realtime"):
        return f'found "{target}", the inside of another cluster, expected realtime/ for what clusters share'
    if first == folder or LAYER[first] < layer:
        return None
    return f'found "{target}" (layer {LAYER[first]}), expected below layer {layer} of {folder}/, or {folder}/ itself'


def tangles(root):
    """Modules of the folders ONE_WAY that include each other in a circle."""
    includes = {}
    for path in sources(root):
        module = os.path.splitext(path.removeprefix("lib/"))[0]
        if module.split("/")[0] in ONE_WAY:
            with open(os.path.join(root, path), encoding="utf-8") as file:
                targets = {os.path.splitext(match.group(1))[0] for match in map(INCLUDE.match, file) if match}
            includes.setdefault(module, set()).update(targets - {module})
    while True:  # a module that includes none of those left is in no circle
        left = {module: targets & includes.keys() for module, targets in includes.items()}
        includes = {module: targets for module, targets in left.items() if targets}
        if len(includes) == len(left):
            return sorted(includes)


def problems(root):
    found = [f"{module}: found in or above a circle of includes, expected one direction" for module in tangles(root)]
    for path in sources(root):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            lines = file.read().splitlines()
        if len(lines) > MOST_LINES:
            found.append(f"{path}: found {len(lines)} lines, expected at most {MOST_LINES}")
        if layer_of(path) is None:
            found.append(f"{path}: found a folder of lib/ without a layer, expected one of {', '.join(LAYER)}")
            continue
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            problem = match and problem_of_include(root, path, match.group(1))
            if problem:
                found.append(f"{path}:{number}: {problem}")
            if layer_of(path)[0] > LAYER["cluster"] and NAMES_CLUSTER.search(line):
                found.append(f"{path}:{number}: found a cluster by its name, expected its ClusterKind or ProcessGroup")
    return found


class Layers(unittest.TestCase):
    def test_the_project_follows_them(self):
        paths = list(sources(ROOT))
        self.assertGreater(len(paths), 50)
        self.assertIn("lib/core/error.hpp", paths)
        self.assertEqual(problems(ROOT), [])

    # A file, its text, and how many problems it has beside the headers below.
    CASES = (
        ("lib/model/mlp.cpp", '#include <vector>\n#include "core/error.hpp"\n#include "data/batch.hpp"\n#include "model/model.hpp"', 0),
        ("apps/hetsgd/main.cpp", '#include "model/model.hpp"\n#include "commands.hpp"', 0),
        ("lib/core/bad.hpp", '// x\n#include "data/batch.hpp"', 1),  # a larger layer
        ("lib/model/bad.cpp", '#include "cluster/comm.hpp"', 1),  # the same layer
        ("lib/cluster/sim/bad.cpp", '  #  include "model/model.hpp"', 1),
        *(("lib/core/bad.cpp", f'#include "{target}"', 1) for target in
          ("error.hpp", "../core/error.hpp", "core/none.hpp", "apps/hetsgd/commands.hpp", "tests/x.hpp")),
        # One of the clusters by its name, above cluster/ alone.
        *((path, line, path != "lib/cluster/good.cpp") for path in ("lib/training/bad.cpp", "apps/hetsgd/bad.cpp", "lib/cluster/good.cpp")
          for line in ('if (options.cluster == "mpi") {', 'x = "sim" != cluster.name();', 'make_cluster("threads", o);',
                       '#include "cluster/mpi/world.hpp"')),
        *(("lib/training/good.cpp", line, 0) for line in
          ('add("threads", options.threads);', '{"mpi", AllReduce::mpi},', 'kind == "mpi_all_reduce"')),
        # One cluster in another.
        *((f"lib/cluster/{folder}/a.cpp", f'#include "cluster/{target}/world.hpp"', count) for folder, target, count in
          (("mpi", "threads", 1), ("threads", "mpi", 1), ("realtime", "threads", 1), ("sim", "mpi", 1), ("mpi", "realtime", 0), ("mpi", "mpi", 0))),
        # Kernels outside of their folder.
        *((path, '#include "linalg/cpu/simd.hpp"', count) for path, count in
          (("lib/model/a.cpp", 1), ("apps/hetsgd/a.cpp", 1), ("lib/linalg/a.cpp", 1), ("lib/linalg/cuda/a.cpp", 1), ("lib/linalg/cpu/a.cpp", 0))),
        # A circle of two modules, in which both are.
        ("lib/data/batch.cpp", '#include "data/circle.hpp"', 2), ("lib/data/batch.cpp", '#include "data/way.hpp"', 0),
        ("lib/misc/a.cpp", "", 1), ("lib/core/long.cpp", "\n" * 599, 0), ("lib/core/long.cpp", "\n" * 600, 1))

    def test_what_breaks_them_is_found(self):
        headers = ["lib/data/circle.hpp", "lib/data/way.hpp", "lib/core/error.hpp", "lib/data/batch.hpp", "lib/model/model.hpp", "lib/cluster/comm.hpp", "lib/linalg/cpu/simd.hpp", "apps/hetsgd/commands.hpp",
                   *(f"lib/cluster/{folder}/world.hpp" for folder in ("mpi", "threads", "sim", "realtime"))]
        with tempfile.TemporaryDirectory() as root:
            def write(path, text):
                path = os.path.join(root, path)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text + "\n")

            for header in headers:
                write(header, '#include "data/batch.hpp"' if header.endswith("circle.hpp") else "#pragma once")
            for path, text, count in self.CASES:
                write(path, text)
                self.assertEqual(len(problems(root)), count, (path, text[:60]))
                os.remove(os.path.join(root, path))


if __name__ == "__main__":
    sys.exit(unittest.main())
