"""The commands that judge results, as `hetsgd COMMAND` starts them. commands.json declares them, for the program's --help as well.

A command is a function `command(options, operands)` of its module that returns the exit code. `options` has an attribute for each
declared option: a text ("" without a default), a list, a number or None, a flag."""

import argparse
import importlib
import json
import os
import pathlib
import signal
import sys

from . import __version__, _errors, _text

MODULE = {"compare": "_compare", "report": "_report", "score": "_score", "validate": "_validate", "replay": "_replay", "fit": "_fit"}
LETTERS = {"output": "-o"}


def declared() -> list[dict]:
    """The declarations of commands.json."""
    return json.loads(pathlib.Path(__file__).with_name("commands.json").read_text(encoding="utf-8"))


def parser_of(commands: list[dict]) -> argparse.ArgumentParser:
    """The parser of all commands, made from their declarations."""
    parser = argparse.ArgumentParser(prog="hetsgd", allow_abbrev=False)
    chosen = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in commands:
        each = chosen.add_parser(command["name"], help=command["summary"], allow_abbrev=False,
                                 epilog="examples: " + "; ".join(command["examples"]).replace("%", "%%"))
        for option in command["options"]:
            add_option(each, option)
        operands = command["operands"]
        count = "*" if operands.startswith("[") and "..." in operands else "?" if operands.startswith("[") else "+" if "..." in operands else 1
        each.add_argument("operands", nargs=count, metavar=operands.strip("[].") or "OPERAND")
    return parser


def add_option(parser: argparse.ArgumentParser, option: dict) -> None:
    """Adds one declared option to a command's parser."""
    names = [f"--{option['name'].replace('_', '-')}", *([LETTERS[option["name"]]] if option["name"] in LETTERS else [])]
    help_text = option["help"].replace("%", "%%")
    if option["type"] == "flag":
        parser.add_argument(*names, action=argparse.BooleanOptionalAction, default=False, help=help_text)
    elif option["type"] == "choice":
        parser.add_argument(*names, choices=option["choices"], default=option["choices"][0], help=help_text)
    elif option["type"] in ("texts", "numbers"):
        convert = str if option["type"] == "texts" else lambda text: [number(option, part) for part in text.split(",")]
        action = "append" if option["type"] == "texts" else "extend"
        parser.add_argument(*names, action=action, type=convert, default=[], help=help_text)
    elif option["type"] == "number":
        parser.add_argument(*names, type=lambda text: None if text == option.get("absent") else number(option, text), help=help_text)
    else:
        parser.add_argument(*names, default=option.get("default", ""), help=help_text)


def number(option: dict, text: str) -> float:
    """A number within the declared range. Raises argparse.ArgumentTypeError."""
    low, high = option.get("minimum", float("-inf")), option.get("maximum", float("inf"))
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise argparse.ArgumentTypeError(f'found "{text}", expected a number from {low:g} to {high:g}')
    return value


def run(arguments: list[str]) -> int:
    """Runs a command. Returns its exit code; messages of errors go to stderr."""
    try:
        wanted = os.environ.get("HETSGD_VERSION", __version__)
        if wanted != __version__:
            raise _errors.Error(f"{pathlib.Path(__file__).parent}: found version {__version__}, expected {wanted}, the version of the program",
                                _errors.RUNTIME, "install both from one source")
        options = parser_of(declared()).parse_args(arguments)
        operands = options.operands if isinstance(options.operands, list) else [options.operands] if options.operands else []
        code = importlib.import_module(f".{MODULE[options.command]}", __package__).command(options, operands)
        sys.stdout.flush()
        return code
    except _errors.Error as error:
        _text.log("error", str(error) + (f"\nhint: {error.hint}" if error.hint else ""))
        return error.code
    except ModuleNotFoundError as error:
        _text.log("error", f"Python ({sys.executable}) has no module {error.name}: {sys.executable} -m pip install {error.name}, or apt-get "
                  f"install python3-{error.name}; HETSGD_PYTHON names another Python")
        return _errors.RUNTIME
    except MemoryError:
        _text.log("error", "out of memory")
        return _errors.RUNTIME


def main() -> None:
    """The entry of `python3 -m hetsgd` and of the program. Signals and a closed pipe end it as they end the program."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    sys.stderr.reconfigure(encoding="utf-8", errors="surrogateescape")
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    except OSError as error:
        _text.log("error", f"{error.filename or 'stdout'}: {error.strerror}")
        code = _errors.RUNTIME
    try:
        sys.stdout.flush()
    except OSError:
        code = code or _errors.RUNTIME
    os._exit(code)  # pandas takes 50 ms to leave
