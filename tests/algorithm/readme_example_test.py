"""The examples of lib/FOLDER/README.md compile without a warning, as files of that folder do.

    readme_example_test.py BUILD_FOLDER FOLDER
"""
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def command_of_layer(build, layer):
    """How the build compiles a file of lib/LAYER, up to the names of the object and of the source."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        if any(f"/hetsgd_{layer}.dir/" in word for word in words):
            del words[words.index("-o"):words.index("-o") + 2]
            del words[words.index("-c"):words.index("-c") + 2]
            return words, entry["directory"]
    sys.exit(f"{build}/compile_commands.json: no file of hetsgd_{layer}")


def main():
    build, layer = pathlib.Path(sys.argv[1]), sys.argv[2]
    readme = f"lib/{layer}/README.md"
    examples = re.findall(r"```cpp\n(.*?)```", (ROOT / readme).read_text(), re.DOTALL)
    if not examples:
        sys.exit(f"{readme}: found no block of C++")
    command, folder = command_of_layer(build, layer)
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        for number, text in enumerate(examples):
            example = pathlib.Path(temporary, f"example_{number}.cpp")
            example.write_text(text)
            failed |= subprocess.run([*command, "-Werror", "-fsyntax-only", example], cwd=folder).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
