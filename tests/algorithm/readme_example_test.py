"""The example algorithm of lib/algorithm/README.md compiles without a warning, as a file of its folder does.

    readme_example_test.py BUILD_FOLDER
"""
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def command_of_layer(build):
    """How the build compiles a file of lib/algorithm, up to the names of the object and of the source."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        if any("/hetsgd_algorithm.dir/" in word for word in words):
            del words[words.index("-o"):words.index("-o") + 2]
            del words[words.index("-c"):words.index("-c") + 2]
            return words, entry["directory"]
    sys.exit(f"{build}/compile_commands.json: no file of hetsgd_algorithm")


def main():
    build = pathlib.Path(sys.argv[1])
    examples = re.findall(r"```cpp\n(.*?)```", (ROOT / "lib/algorithm/README.md").read_text(), re.DOTALL)
    if len(examples) != 1:
        sys.exit(f"lib/algorithm/README.md: found {len(examples)} blocks of C++, expected 1")
    command, folder = command_of_layer(build)
    with tempfile.TemporaryDirectory() as temporary:
        example = pathlib.Path(temporary, "averaging.cpp")
        example.write_text(examples[0])
        done = subprocess.run([*command, "-Werror", "-fsyntax-only", example], cwd=folder)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
