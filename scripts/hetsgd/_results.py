"""Results of `hetsgd train` and folders of `hetsgd sweep`: found, read and checked, put into groups, and as pandas frames.

  import hetsgd
  data = hetsgd.load("runs/fair")     # a folder, a sweep's folder or index, files
  data.targets.groupby("group").time_s.median()

The frames of a Results, all with the columns `run`, `group`, `algorithm`, `seed`:

  runs        a row per run: options, summary, `final_METRIC`, `best_METRIC`, and what a sweep's index says
  curve       a row per evaluation: `point`, time_s, samples_count, epoch_num, updates, losses, metrics
  events      a row per event: `event`, type, time_s; what has an entry per worker is a list (see per_worker)
  workers     a row per worker: rank, device, compute_s, communicate_s, wait_s, bytes ...
  targets     a row per run and target: `reached`, time_s, samples_count, updates, first_crossing_s, `resolution_s`
  histograms  a row per counted value: name, value, count

A target is reached when it is held: at the first evaluation that reaches it and whose median with the next four does, too.
Units end the columns' names (_s seconds, _bytes bytes, _per_s per second). A missed target is infinity in all its columns, never
NaN, so that a median over seeds counts it; NaN is what was not measured.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import os
import pathlib
import re
import select
import stat
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import _text
from ._errors import DATA, Error, did_you_mean, quote, refusal, usage_error

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

ResultError = Error
Json = Any  # what json reads

INDEX = ".index.jsonl"
METRICS = ("p1", "p3", "p5", "accuracy", "auc", "calibration", "perplexity", "bits_per_byte", "test_loss", "train_loss")
HIGHER_IS_BETTER = ("p1", "p3", "p5", "accuracy", "auc")  # all of them are shares
DONE = ("completed", "target_reached", "diverged")
STATUSES = (*DONE, "running", "aborted", "failed", "time_limit")
CLOCKS = ("training", "algoperf", "mlperf", "dawnbench")
# Options that tell no groups apart: the seed, paths (hashes of the content do), and what changes no result.
UNGROUPED = ("seed", "train", "test", "plugin", "cache", "cache_directory", "host_threads")
MOST_BYTES, MOST_LEVELS = 1 << 30, 100
SURROGATE = re.compile("[\ud800-\udfff]")  # of bytes that are no UTF-8 (paths)
# Evaluations that decide whether a target is held, and the fewest that suffice at the end of a run (lib/training/target.hpp).
HOLD_EVALUATIONS, FEWEST_HOLD_EVALUATIONS = 5, 3


# --- files and JSON ------------------------------------------------------------------------------

FOREIGN = {b"\x1f\x8b": "a gzip stream", b"BZh": "a bzip2 stream", b"\xfd7zXZ": "an xz stream (xz -d)",
           b"\x28\xb5\x2f\xfd": "a zstd stream", b"PK\x03\x04": "a zip archive (.zip, .npz, .pt; unzip)",
           b"\x93NUMPY": "a NumPy array (.npy)", b"\x7fELF": "a program (ELF)",
           b"\xff\xfe": "text in UTF-16 (iconv -f UTF-16 -t UTF-8)", b"\xfe\xff": "text in UTF-16 (iconv -f UTF-16 -t UTF-8)"}


def read_text(path: str, noun: str = "file") -> str:
    """The text of a file, without its byte order mark. Raises Error for what is no file, too large or no text."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)  # a pipe is judged before it blocks
    except (OSError, ValueError) as error:
        hint = "check the file's permissions" if isinstance(error, PermissionError) else ""
        raise Error(f"{path}: cannot open the {noun}: {getattr(error, 'strerror', error)}", DATA, hint) from error
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        os.close(descriptor)
        raise refusal(path, "a directory", f"a {noun}", code=DATA)
    with os.fdopen(descriptor, "rb") as file:
        if stat.S_ISBLK(mode) or stat.S_ISCHR(mode) and not os.isatty(descriptor):
            raise refusal(path, "a device", f"a {noun}", code=DATA)
        if stat.S_ISFIFO(mode):
            select.select([descriptor], [], [], 1)  # a user who starts both ends at once need not start the writer first
        os.set_blocking(descriptor, True)
        try:
            content = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise Error(f"{path}: cannot read the {noun}: {error.strerror}") from error
    if stat.S_ISFIFO(mode) and not content:
        raise refusal(path, "a pipe to which nobody writes", f"a {noun}", "start the program that writes to it first", DATA)
    if len(content) > MOST_BYTES:
        raise refusal(path, "1 GiB or more", f"a {noun} of at most 1 GiB", code=DATA)
    for mark, what in FOREIGN.items():
        if content.startswith(mark):
            raise refusal(path, what, f"a {noun}", "unpack it, or convert it to text", DATA)
    try:
        return content.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError as error:
        before = content[:error.start].decode("utf-8", "replace")
        found = error.object[error.start:error.start + 1].decode("utf-8", "surrogateescape")
        raise refusal(_place(path, before, len(before)), quote(found), "text in UTF-8", code=DATA) from error


def _place(path: str, text: str, at: int) -> str:
    return f"{path}:{text.count(chr(10), 0, at) + 1}:{at - text.rfind(chr(10), 0, at)}"


def parse_json(text: str, place: str) -> Json:
    """The JSON document in a text; `place` opens the messages. Raises Error, for a key that an object has twice as well."""
    def once(pairs: list) -> dict:
        found = dict(pairs)
        if len(found) != len(pairs):
            keys = [key for key, _ in pairs]
            raise refusal(place, f"key {quote(next(key for key in keys if keys.count(key) > 1))} again", "it once", code=DATA)
        return found

    def foreign(word: str) -> None:
        raise refusal(place, quote(word), "JSON", code=DATA)

    large = refusal(place, "a number too large for a double", "JSON", code=DATA)
    try:
        document = json.loads(text, object_pairs_hook=once, parse_constant=foreign)
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip(" \t\r\n")):
            raise Error(f"{_place(place, text, error.pos)}: found the end of the file, expected more JSON") from error
        raise refusal(_place(place, text, error.pos), quote(text[error.pos]), "JSON", code=DATA) from error
    except ValueError as error:  # thousands of digits
        raise large from error
    except RecursionError as error:
        raise _too_deep(text, place) from error
    if re.search(r"\d{309}", text) or re.search(r"\d[eE]\+?\d{3}", text) and "Infinity" in json.dumps(document):
        raise large
    level, depth = [document], 0
    while level := [each for each in level if isinstance(each, (dict, list))]:
        if (depth := depth + 1) > MOST_LEVELS:
            raise _too_deep(text, place)
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]
    if re.search(r"\\u[dD][89a-fA-F]", text) and SURROGATE.search(json.dumps(document, ensure_ascii=False)):
        raise refusal(place, "half of a surrogate pair", "text in UTF-8", code=DATA)
    return document


def _too_deep(text: str, place: str) -> Error:
    depth = 0
    for mark in re.finditer(r'"(?:\\.|[^"\\])*"|[][{}]', text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(mark[0], 0)
        if depth > MOST_LEVELS:
            place = _place(place, text, mark.start())
            break
    return refusal(place, f"objects and lists nested more than {MOST_LEVELS} levels deep", f"at most {MOST_LEVELS} levels", code=DATA)


def read_json(path: str) -> Json:
    """The JSON document in a file. Raises Error."""
    return parse_json(read_text(path), path)


def dump(value: Json) -> str:
    """A value as JSON in one line, as the program writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def json_bytes(text: str) -> str:
    """The text as JSON can hold it: a text with bytes that are not UTF-8 (names of files) becomes "bytes:" and the text, with such
    bytes and "%" as %E9."""
    if not SURROGATE.search(text):
        return text
    return "bytes:" + SURROGATE.sub(lambda found: f"%{ord(found[0]) & 0xFF:02X}", text.replace("%", "%25"))


def json_text(document: Json, indent: int | None = None) -> str:
    """The document as JSON with sorted keys: numbers that are not finite as null with their reason, bytes as in json_bytes()."""
    text = json.dumps(explain_nonfinite(document), sort_keys=True, ensure_ascii=False, allow_nan=False, indent=indent,
                      separators=(",", ":" if indent is None else ": "))
    if not SURROGATE.search(text):
        return text
    return re.sub(r'"((?:[^"\\]|\\.)*)"', lambda found: f'"{json_bytes(found[1])}"', text)


def print_json(document: Json) -> None:
    """Prints json_text() to stdout, indented."""
    sys.stdout.write(json_text(document, 2) + "\n")


def explain_nonfinite(value: Json) -> Json:
    """A copy for JSON: numbers that are not finite are null, with "nan", "inf" or "-inf" as KEY_reason beside it or beside its list."""
    return _explained(value)[0]


def _explained(value: Json) -> tuple[Json, str]:
    if isinstance(value, float) and not math.isfinite(value):
        return None, "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, (list, tuple)):
        pairs = [_explained(each) for each in value]
        return [each for each, _ in pairs], next((reason for _, reason in pairs if reason), "")
    if isinstance(value, dict):
        pairs = {key: _explained(each) for key, each in value.items()}
        reasons = {f"{key}_reason": reason for key, (_, reason) in pairs.items() if reason}
        return {**{key: each for key, (each, _) in pairs.items()}, **reasons}, ""
    return value, ""


def hashable(value: Json) -> Any:
    """A key that is equal for equal JSON: 1 is 1.0, and true is no number."""
    if isinstance(value, dict):
        return ("{}", *((key, hashable(value[key])) for key in sorted(value)))
    if isinstance(value, list):
        return ("[]", *map(hashable, value))
    return (str(value),) if isinstance(value, bool) else value


# --- the fields of a result that are taken --------------------------------------------------------

def _is_number(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


KINDS: dict[str, Callable[[Json], bool]] = {
    "a number": _is_number,
    "a number from 0 on": lambda value: _is_number(value) and value >= 0,
    "a count": lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
    "a text": lambda value: isinstance(value, str),
    "true or false": lambda value: isinstance(value, bool),
    "an object": lambda value: isinstance(value, dict),
    "a list": lambda value: isinstance(value, list)}
SECONDS, COUNT, TEXT, FLAG = "a number from 0 on", "a count", "a text", "true or false"
_DATA = (None, {"name": TEXT, "rows": COUNT, "content_hash": TEXT})
_METRICS = {f"{metric}?": (None, "a number") for metric in METRICS}
# A dict is an object ("*": all of its values), a list the kind of all entries, (None, kind) may be null; "?" ends a key that may be
# absent.
SHAPE: Json = {
    "schema_version?": TEXT, "status": TEXT, "config": {"algorithm": TEXT, "seed": COUNT, "stop_at_target?": (None, FLAG)},
    "dataset?": {"train": _DATA, "test": _DATA},
    "cluster": {"virtual_time": FLAG}, "environment?": {"load?": (None, {"start": SECONDS, "end": (None, SECONDS), "idle_cores": SECONDS})},
    "curve": [{"time_s": SECONDS, "samples_count": COUNT, "updates": COUNT, "prepare_s?": (None, SECONDS), "wall_s?": (None, SECONDS),
               **_METRICS}],
    "workers": [{"samples": SECONDS, "steps?": SECONDS}], "events": [{"type": TEXT}],
    "time_to_accuracy": [{"metric": TEXT, "at_least": FLAG, "value": "a number"}],
    "summary": {"samples_per_s?": (None, SECONDS), "final?": (None, "an object"), "best?": {"*": {"value": "a number"}}},
    "wall?": {"load_s": SECONDS, "init_s": SECONDS},
    "histograms?": {"*": {"*": COUNT}}, "plugins?": [{"name": TEXT, "file_hash": TEXT}],
    "tuning?": (None, {"grid": ["a number"], "trials": COUNT, "goal": TEXT, "validation_rows": COUNT, "learning_rate": "a number",
                       "edge_of_grid": FLAG, "differs": [TEXT], "train_s": SECONDS})}

LINE = {"id": TEXT, "status": TEXT, "stage": TEXT, "setup": TEXT, "case": TEXT, "file": (None, TEXT), "seed": COUNT,
        "parameters?": "an object", "tuning?": TEXT, "summary?": "an object"}  # of a sweep's index


def _mistake(value: Json, shape: Json, place: str) -> str:
    """The first place at which a value has not its shape, with what was found; "" if there is none."""
    if isinstance(shape, tuple):
        return "" if value is None else _mistake(value, shape[1], place)
    if not KINDS[_kind_of(shape)](value):
        return f"{place or '/'}: found {dump(value)[:60]}, expected {_kind_of(shape)}"
    if isinstance(shape, list):
        return next(filter(None, (_mistake(each, shape[0], f"{place}/{i}") for i, each in enumerate(value))), "")
    if isinstance(shape, dict) and "*" in shape:
        shape = dict.fromkeys(value, shape["*"])
    for key, inner in shape.items() if isinstance(shape, dict) else ():
        name = key.removesuffix("?")
        if name in value:
            if mistake := _mistake(value[name], inner, f"{place}/{name}"):
                return mistake
        elif name == key:
            return f"{place}/{name}: found nothing, expected {_kind_of(inner)}"
    return ""


def _kind_of(shape: Json) -> str:
    shape = shape[1] if isinstance(shape, tuple) else shape
    return shape if isinstance(shape, str) else "a list" if isinstance(shape, list) else "an object"


def _mistake_of_result(document: Json) -> str:
    if mistake := _mistake(document, SHAPE, ""):
        return mistake
    if not document.get("schema_version", "1.0").startswith("1."):
        return f"/schema_version: found {quote(document['schema_version'])}, expected 1.x"
    if document["status"] not in STATUSES:
        return f"/status: found {quote(document['status'])}, expected one of {', '.join(STATUSES)}"
    for i, (before, now) in enumerate(itertools.pairwise(document["curve"]), 1):
        for key in ("time_s", "samples_count", "updates"):
            if now[key] < before[key]:
                return f"/curve/{i}/{key}: found {now[key]} after {before[key]}, expected no decrease"
    for i, event in enumerate(document["events"]):
        if event["type"] == "merge" and (mistake := _mistake(event.get("batch_size", []), ["a number"], f"/events/{i}/batch_size")):
            return mistake
    for i, target in enumerate(document["time_to_accuracy"]):
        if target["metric"] not in METRICS:
            return f"/time_to_accuracy/{i}/metric: found {quote(target['metric'])}, expected one of {', '.join(METRICS)}"
    return ""


def other_kind(document: Json) -> str:
    """The other kind of hetsgd file that a document is ("tuning", "trace" ...); "" for a result, whole or broken, or an unknown file."""
    if not isinstance(document, dict) or "curve" in document:
        return ""
    if isinstance(document.get("kind"), str):
        return document["kind"]
    return next((kind for key, kind in _file_kinds() if key in document), "")


@functools.cache
def _file_kinds() -> list[tuple[str, str]]:
    """Other files of ours: a key that they have, and their kind. The program reads the same file."""
    return sorted(json.loads(pathlib.Path(__file__).with_name("file_kinds.json").read_text(encoding="utf-8")).items())


def check_result(document: Json, path: str) -> None:
    """Raises Error for the first mistake in the fields of a result that are taken here (`hetsgd validate` checks all)."""
    if kind := other_kind(document):
        raise Error(f"{path}: found a {kind}, expected a result of hetsgd train")
    if mistake := _mistake_of_result(document):
        raise Error(f"{path}: not a valid result: {mistake}", DATA, f"hetsgd validate {path} lists all findings")


# --- operands ------------------------------------------------------------------------------------

@dataclass
class Loaded:
    """A result with its path as it was named, and the names of its setup and case in a sweep ("": none)."""
    path: str
    document: dict
    setup: str = ""
    case: str = ""
    listed: dict = field(default_factory=dict)  # its line of a sweep's index


@dataclass
class Inputs:
    """All results of some operands. `title` and `about` are those of the only sweep that has all runs, else ""."""
    loaded: list[Loaded]
    notes: list[str]  # files in folders that are broken results or unknown
    title: str = ""
    about: str = ""
    skipped: list[str] = field(default_factory=list)  # other files of hetsgd, with their kinds


def _files_below(folder: str, ending: str) -> list[str]:
    def fail(error: OSError) -> None:
        raise Error(f"{folder}: cannot read the folder: {error.strerror}") from error

    files = [os.path.join(place, name) for place, _, names in os.walk(folder, onerror=fail) for name in names if name.endswith(ending)]
    return sorted(filter(os.path.isfile, files))


def _indexes_in(folder: str) -> list[str]:
    try:
        return sorted(entry.path for entry in os.scandir(folder) if entry.name.endswith(INDEX) and entry.is_file())
    except OSError:
        return []


def index_lines(path: str) -> list[dict]:
    """The lines of a sweep's index, with `file` as a path from here, without a last one that a kill has cut off. A run has several if
    cases share it or if it was repeated. Raises Error for a line that is no run."""
    lines = []
    for number, text in enumerate(read_text(path, "index").split("\n")[:-1], 1):
        try:
            line = parse_json(text, path)
        except Error:
            line = None
        if _mistake(line, LINE, ""):
            raise refusal(f"{path}:{number}", quote(text), "a run as a JSON object", "remove the index: it is made again from the results",
                          DATA)
        lines.append({**line, "file": os.path.join(os.path.dirname(path), line["file"] or f"runs/{line['id']}.json")})
    return lines


def read_index(path: str) -> list[dict]:
    """The last line of each run (index_lines), in the order of these lines."""
    lines: dict[str, dict] = {}
    for line in index_lines(path):
        lines.pop(line["id"], None)
        lines[line["id"]] = line
    return list(lines.values())


def _places_of(operands: Sequence[str]) -> dict[str, tuple[int, str, dict]]:
    """The runs of all indexes around the operands by the canonical paths of their files: (number, index, line)."""
    places: dict[str, tuple[int, str, dict]] = {}
    seen = set()
    for operand in operands:
        if operand.endswith(INDEX):
            indexes = [operand]
        elif os.path.isdir(operand):
            indexes = _files_below(operand, INDEX)
        else:  # a result's index lies in its folder or above it
            folder = os.path.dirname(os.path.abspath(operand))
            indexes = [] if folder in seen else _indexes_in(folder) + _indexes_in(os.path.dirname(folder))
            seen.add(folder)
        for index in indexes:
            for line in read_index(index):
                places[os.path.realpath(line["file"])] = (len(places), index, line)
    return places


def _without_files_of_sweeps(folder: str, files: list[str], trials: bool) -> list[str]:
    """Leaves out what belongs to a sweep and not to the experiment: its specification, tunings, and (but for `trials`) their trials."""
    for index in _files_below(folder, INDEX):
        stem, place = index.removesuffix(INDEX), os.path.dirname(index)
        inner = tuple(os.path.join(place, name, "") for name in ["tunings"] + ["trials"] * (not trials))
        files = [file for file in files if not file.startswith(inner) and file not in (f"{stem}.sweep.json", f"{stem}.tuning.json")]
    return files


def result_files(operands: Sequence[str], trials: bool = False) -> list[str]:
    """The files that operands name. A file names itself, a folder every *.json below it, sorted, without the trials of a sweep's
    folder (one with *.index.jsonl), and such an index its final runs. `trials`: those of tunings, too. Raises Error."""
    files = []
    for operand in operands:
        if operand.endswith(INDEX):
            files += [line["file"] for line in read_index(operand) if trials or line["stage"] != "tuning"]
        elif os.path.isdir(operand):
            files += _without_files_of_sweeps(operand, _files_below(operand, ".json"), trials)
        else:
            files.append(operand)
    return files


def _sort_listed(results: list[tuple[Loaded, int | None]]) -> list[Loaded]:
    """Each sequence of adjacent listed runs in the order of their index, since file names are hashes."""
    ordered: list[Loaded] = []
    for listed, run in itertools.groupby(results, lambda each: each[1] is not None):
        ordered += [loaded for loaded, _ in (sorted(run, key=lambda each: each[1] or 0) if listed else run)]
    return ordered


def _texts_of_sweep(index: str) -> tuple[str, str]:
    path = index.removesuffix(INDEX) + ".sweep.json"
    document = read_json(path) if os.path.exists(path) else None
    if not isinstance(document, dict) or document.get("kind") != "sweep" or not isinstance(document.get("specification"), dict):
        return "", ""
    name, about = (document["specification"].get(key) for key in ("name", "about"))
    return name if isinstance(name, str) else "", about if isinstance(about, str) else ""


def read_inputs(operands: Sequence[str], log: bool = True, trials: bool = False,
                keep: Callable[[dict], dict] = lambda document: document) -> Inputs:
    """Reads all results of the operands. Other hetsgd files are skipped; a file that is no result is an error if it was named, and a
    note if it comes from a folder or an index. `log`: both are told on stderr. `keep` reduces a document once it is checked."""
    operands = [os.fspath(operand) for operand in operands]
    places = _places_of(operands)
    inputs, results, indexes = Inputs([], []), [], set()
    for path in result_files(operands, trials):
        try:
            document = read_json(path)
            if kind := other_kind(document):
                inputs.skipped.append(f"{path}: skipped, because it is a {kind} and not a result")
                if log:
                    _text.log("", inputs.skipped[-1])
                continue
            check_result(document, path)
        except Error as error:
            if path in operands:
                raise
            inputs.notes.append(str(error))
            if log:
                _text.warn(f"left out: {error}")
            continue
        number, index, line = places.get(os.path.realpath(path), (None, "", {}))
        indexes.add(index)
        results.append((Loaded(path, keep(document), line.get("setup", ""), line.get("case", ""), line), number))
    inputs.loaded = _sort_listed(results)
    if len(indexes) == 1 and indexes != {""}:
        inputs.title, inputs.about = _texts_of_sweep(*indexes)
    return inputs


# --- targets and clocks ---------------------------------------------------------------------------

@dataclass(frozen=True)
class Target:
    """A value that a metric has to reach: p1>=0.6, test_loss<=2."""
    text: str
    metric: str
    at_least: bool
    value: float

    def reached(self, value: float) -> bool:
        """Whether one value reaches it, bounds included. NaN reaches nothing."""
        return value >= self.value if self.at_least else value <= self.value


def shortest(value: float) -> str:
    """The shortest decimal that is this number, without ".0"."""
    return repr(float(value)).removesuffix(".0")


def make_target(metric: str, at_least: bool, value: float) -> Target:
    """The target with its text."""
    return Target(f"{metric}{'>=' if at_least else '<='}{shortest(value)}", metric, at_least, value)


def parse_target(text: str, place: str) -> Target:
    """The target in a text such as "p1>=0.6". Raises a usage error that begins with `place`."""
    match = re.fullmatch(r"([^<>]*)([<>])=(.*)", text, re.DOTALL)
    if not match:
        raise refusal(place, quote(text), "METRIC>=VALUE or METRIC<=VALUE", "quote it, because the shell redirects at > and <")
    metric, number = match[1].strip(" \t\r\n"), match[3].strip(" \t\r\n")
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", number) or math.isinf(float(number)):
        raise refusal(place, quote(number), "a number")
    target = make_target(metric, match[2] == ">", float(number))
    if metric not in METRICS:
        raise refusal(place, f"the metric {quote(metric)}", f"one of {', '.join(METRICS)}", did_you_mean(metric, METRICS))
    if metric in HIGHER_IS_BETTER and not 0 <= target.value <= 1:
        hint = f"shares, not percent: {target.value / 100:.6g}?" if 1 < target.value <= 100 else ""
        raise refusal(place, quote(target.text), f"{metric} from 0 to 1", hint)
    return target


def targets_of(documents: Iterable[dict]) -> list[Target]:
    """Every target that a result names, once, in the order of the results."""
    found = (make_target(each["metric"], each["at_least"], each["value"])
             for document in documents for each in document["time_to_accuracy"])
    return list({target.text: target for target in found}.values())


def crossings(reaching: Sequence[bool]) -> tuple[int | None, int | None]:
    """(the place of the first value that reaches a target, that from which on it is held), each None if there is none; the rule of
    lib/training/target.hpp. `reaching`: whether each evaluation does."""
    first = next((place for place, each in enumerate(reaching) if each), None)
    for place, each in enumerate(reaching):
        window = reaching[place:place + HOLD_EVALUATIONS]
        if each and len(window) >= FEWEST_HOLD_EVALUATIONS and 2 * sum(window) > len(window):
            return first, place
    return first, None


def evaluations(document: dict, metric: str) -> tuple[list[dict], list[float]]:
    """The points of the curve that measured the metric, and its values; NaN for one that is not finite."""
    points = [point for point in document["curve"] if metric in point]
    return points, [float(point[metric]) if _is_number(point[metric]) else math.nan for point in points]


def time_on(clock: str, point: dict, document: dict) -> float | None:
    """The seconds of an evaluation on a clock (CLOCKS; `hetsgd compare --help` says what they are). None: the run has no such clock."""
    if clock == "training":
        return float(point["time_s"])
    if clock == "algoperf":
        return None if point.get("prepare_s") is None else float(point["time_s"] + point["prepare_s"])
    if clock == "mlperf" or point.get("wall_s") is None:
        return None if point.get("wall_s") is None else float(point["wall_s"])
    wall = document.get("wall")
    return float(wall["load_s"] + wall["init_s"] + point["time_s"]) if wall else None


def no_time_reason(document: dict) -> str:
    """Why a run has no such clock."""
    return "simulated: its time is not the host's" if document["cluster"]["virtual_time"] else "written before results had this clock"


# --- groups --------------------------------------------------------------------------------------

def telling_options(document: dict) -> dict:
    """The options that tell groups of runs apart: all that have a value (neither null nor none: results of earlier programs lack those
    that came since) but the seed, paths and what changes no result. Plugins count by their content."""
    config = {key: value for key, value in document["config"].items() if value is not None and value != "none" and key not in UNGROUPED}
    if document["config"].get("stop_at_target") is not True:  # targets that do not end a run are read off its curve
        config.pop("target", None)
    plugins = [f"{plugin['name']} {plugin['file_hash']}" for plugin in document.get("plugins", [])]
    return {**config, "plugin": plugins} if plugins else config


def option_text(value: Json) -> str:
    """An option's value in a label."""
    return value if isinstance(value, str) else dump(value)


def data_of(document: dict) -> tuple[str, str]:
    """The hashes of a run's data, training and test; "" for data that are not known."""
    train, test = (((document.get("dataset") or {}).get(part) or {}).get("content_hash", "") for part in ("train", "test"))
    return train, test


def places_by_key(keys: Iterable[Any]) -> list[list[int]]:
    """The places of equal keys (hashable), in the order of their first ones."""
    places: dict[Any, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    return list(places.values())


def groups_of(loaded: Sequence[Loaded]) -> list[list[int]]:
    """The places of runs that differ in their seed alone, a list per group, in the order of their first runs."""
    return places_by_key((hashable(telling_options(each.document)), data_of(each.document)) for each in loaded)


@dataclass
class GroupNames:
    """The rule for labels. A label is a name (the case in a sweep, else the algorithm; before it the setup, if the results of one
    comparison have several) and the options in which groups of this name differ: "ssgd", "ssp (staleness=4)"."""
    cases: bool = False  # the results have different cases
    options: dict[str, set[str]] = field(default_factory=dict)  # by name; none: the name suffices


def common_name(loaded: Sequence[Loaded], member: str) -> str:
    """The setup or case that all results have; "" if they differ."""
    names = {getattr(each, member) for each in loaded}
    return names.pop() if len(names) == 1 else ""


def _plain_name(loaded: Sequence[Loaded], runs: Sequence[int], cases: bool) -> str:
    own = [loaded[run] for run in runs]
    setups = len({each.setup for each in loaded}) > 1
    parts = [common_name(own, "setup") if setups else "", common_name(own, "case") if cases else ""]
    return ", ".join(filter(None, parts)) or own[0].document["config"]["algorithm"]


def names_of(comparisons: Sequence[Sequence[Loaded]]) -> GroupNames:
    """The rule for comparisons that are shown together, so that a method has the same label in all."""
    names = GroupNames(len({each.case for loaded in comparisons for each in loaded}) > 1)
    for loaded in comparisons:
        first: dict[str, dict] = {}
        for runs in groups_of(loaded):
            name = _plain_name(loaded, runs, names.cases)
            config = telling_options(loaded[runs[0]].document)
            other = first.setdefault(name, config)
            differing = {key for key in {**config, **other} if key not in config or key not in other
                         or hashable(config[key]) != hashable(other[key])}
            names.options.setdefault(name, set()).update(differing)
    return names


def group_names(loaded: Sequence[Loaded], groups: Sequence[Sequence[int]], names: GroupNames) -> list[tuple[str, str, str]]:
    """(name, options, label) of each group. Groups that differ in their data alone are numbered: "ssgd, data 2"."""
    found = []
    for runs in groups:
        name = _plain_name(loaded, runs, names.cases)
        config = telling_options(loaded[runs[0]].document)
        options = ", ".join(f"{key}={option_text(config[key])}" for key in sorted(names.options.get(name, ())) if key in config)
        found.append((name, options, f"{name} ({options})" if options else name))
    numbered, labels = [], [label for *_, label in found]
    for place, (name, options, label) in enumerate(found):
        number = f", data {labels[:place].count(label) + 1}" if labels.count(label) > 1 else ""
        numbered.append((name, options, label + number))
    return numbered


# --- frames --------------------------------------------------------------------------------------

KEYS = ["run", "group", "algorithm", "seed"]
# The columns that a frame has even without a row.
COLUMNS = {"runs": [], "curve": ["point", "time_s", "samples_count", "epoch_num", "updates", "train_loss", "test_loss"],
           "events": ["event", "type", "time_s"], "workers": ["rank", "device", "compute_s", "communicate_s", "wait_s"],
           "targets": ["target", "metric", "at_least", "value", "reached", "time_s", "samples_count", "updates",
                       "first_crossing_s", "resolution_s"],
           "histograms": ["name", "value", "count"]}


@dataclass
class Results:
    """The frames (see the module), and what they were made from."""
    runs: pd.DataFrame
    curve: pd.DataFrame
    events: pd.DataFrame
    workers: pd.DataFrame
    targets: pd.DataFrame
    histograms: pd.DataFrame
    loaded: dict[str, Loaded]  # by run
    parameters: list[str]  # columns of `runs` that a sweep's index brought
    notes: list[str]  # what was skipped and why

    @property
    def documents(self) -> dict[str, dict]:
        """The JSON of each run's result file."""
        return {name: each.document for name, each in self.loaded.items()}

    @property
    def listed(self) -> dict[str, dict]:
        """Each run's line of a sweep's index, with its file's path as `file`."""
        return {name: each.listed or {"file": each.path} for name, each in self.loaded.items()}

    def varying(self) -> list[str]:
        """The options and parameters in which those groups differ that have them, by name; `algorithm` first."""
        frame = self.runs.drop_duplicates("group")
        names = {key for each in self.loaded.values() for key in telling_options(each.document)} | set(self.parameters)
        differing = [name for name in sorted(names) if name in frame and frame[name].dropna().map(str).nunique() > 1]
        return sorted(differing, key=lambda name: name != "algorithm")

    def select(self, mask: pd.Series) -> Results:
        """The Results of the runs for which the mask over `runs` holds."""
        return assemble({name: self.loaded[name] for name in self.runs.run[mask]}, self.notes)

    def compare(self, reference: str | None = None, target: str | Sequence[str] | None = None, clock: str = "training") -> pd.DataFrame:
        """The groups beside the reference, as `hetsgd compare` has them: a row per group and target with medians, ends of 95 %
        intervals, ratios, p-values. Times are seconds, a missed target is infinite. Tuning runs of a sweep are left out.

        reference: a group's label, case, algorithm or file; None: the first group that reached the targets. target: one or several,
        "p1>=0.6"; None: those of the results. clock: one of CLOCKS. Raises Error (an unknown reference, target or clock)."""
        from . import _compare
        if clock not in CLOCKS:
            raise refusal("clock", quote(clock), f"one of {', '.join(CLOCKS)}")
        targets = [parse_target(text, "target") for text in ([target] if isinstance(target, str) else target or [])]
        final = [each for each in self.loaded.values() if each.listed.get("stage") != "tuning"] or list(self.loaded.values())
        return _compare.groups_frame(_compare.compare(final, targets, reference or "", clock=clock))

    def plot(self, output: str | None = None, **options: Any) -> dict[str, Figure]:
        """The pictures of the runs by name: a metric over time and samples, times to targets, batch sizes, utilisation, losses. `output`:
        a folder for files; None: a notebook shows them. _plot.plot() has the options, and what is raised. Needs Matplotlib."""
        from . import _plot
        return _plot.plot(self, output, **options)


def number(row: dict, key: str) -> float:
    """A value of the file; null is what its reason says, NaN without one."""
    value = row.get(key)
    return {"inf": math.inf, "-inf": -math.inf}.get(str(row.get(f"{key}_reason")), math.nan) if value is None else value


def numbers(row: dict) -> dict:
    """All values of one object; `KEY_reason` goes into KEY."""
    return {key: number(row, key) for key in row if not key.endswith("_reason")}


def _cell(value: Json) -> Json:
    """An option's value as a cell: lists and objects as JSON text, so that rows can be grouped by it."""
    return json.dumps(value) if isinstance(value, (list, dict)) else value


def _run_row(loaded: Loaded) -> dict:
    result, listed = loaded.document, loaded.listed
    summary = result["summary"]
    row = {**{key: _cell(value) for key, value in result["config"].items()}, "file": loaded.path, "stage": listed.get("stage", "final"),
           **{key: listed[key] for key in ("setup", "case") if key in listed},
           **{key: _cell(value) for key, value in listed.get("parameters", {}).items()}, "status": result["status"]}
    row.update({key: number(summary, key) for key in summary if key not in ("final", "best") and not key.endswith("_reason")})
    row.update({f"final_{key}": value for key, value in numbers(summary.get("final") or {}).items()})
    row.update({f"best_{metric}": best["value"] for metric, best in (summary.get("best") or {}).items()})
    return {**row, "tuned": bool(result.get("tuning"))}


def target_rows(result: dict) -> list[dict]:
    """A row per target of a result's document, read off the curve, so that results of all versions have one meaning."""
    rows = []
    for target in targets_of([result]):
        points, values = evaluations(result, target.metric)
        first, held = crossings([target.reached(value) for value in values])
        rows.append({"target": target.text, "metric": target.metric, "at_least": target.at_least, "value": target.value,
                     "reached": held is not None,
                     **{key: math.inf if held is None else points[held][key] for key in ("time_s", "samples_count", "updates")},
                     "first_crossing_s": math.inf if first is None else points[first]["time_s"],
                     "resolution_s": points[held]["time_s"] - points[held - 1]["time_s"] if held else math.nan})
    return rows


def _worker_row(worker: dict) -> dict:
    row = {}
    for key, value in worker.items():
        kinds = value if isinstance(value, dict) else {}
        row.update({f"{key.removesuffix('_by_kind')}_{part}": count for part, count in kinds.items()} if kinds else {key: value})
    return row


def assemble(loaded: dict[str, Loaded], notes: list[str]) -> Results:
    """The frames of results by their names."""
    import pandas as pd
    results = list(loaded.values())
    groups = groups_of(results)
    labels = {run: label for runs, (*_, label) in zip(groups, group_names(results, groups, names_of([results]))) for run in runs}
    rows: dict[str, list] = {name: [] for name in COLUMNS}
    for place, (name, each) in enumerate(loaded.items()):
        result = each.document
        keys = {"run": name, "group": labels[place], "algorithm": result["config"]["algorithm"], "seed": result["config"]["seed"]}
        rows["runs"].append({**keys, **_run_row(each)})
        rows["curve"] += [{**keys, "point": i, **numbers(point)} for i, point in enumerate(result["curve"])]
        rows["events"] += [{**keys, "event": i, **event} for i, event in enumerate(result["events"])]
        rows["workers"] += [{**keys, **_worker_row(worker)} for worker in result["workers"]]
        rows["targets"] += [{**keys, **row} for row in target_rows(result)]
        rows["histograms"] += [{**keys, "name": histogram, "value": int(value) if value.lstrip("-").isdecimal() else value, "count": count}
                               for histogram, counts in result.get("histograms", {}).items() for value, count in counts.items()]
    frames = {name: pd.DataFrame(each) if each else pd.DataFrame(columns=KEYS + COLUMNS[name]) for name, each in rows.items()}
    parameters = [key for key in ("setup", "case") if key in frames["runs"]]
    parameters += sorted({key for each in results for key in each.listed.get("parameters", {})})
    return Results(**frames, loaded=loaded, parameters=parameters, notes=notes)


def load(*sources: str | os.PathLike) -> Results:
    """The Results of files, folders of results (everything below them), sweeps' folders or indexes; tuning runs of a sweep are there
    too (`stage`). A run's name is its id in a sweep, else its path. Raises Error for a file that is no result and for no result at
    all; what was left out otherwise stands in `notes`."""
    inputs = read_inputs([os.fspath(source) for source in sources], log=False, trials=True)
    notes, loaded = inputs.skipped + inputs.notes, {}
    for each in inputs.loaded:
        name = each.listed.get("id", each.path)
        if name in loaded:
            notes.append(f"{name}: named more than once, but used once")
        loaded.setdefault(name, each)
    if not loaded:
        raise usage_error(f"{', '.join(map(str, sources))}: found no result, expected at least one")
    return assemble(loaded, notes)


def per_worker(events: pd.DataFrame) -> pd.DataFrame:
    """A row per event and worker of events whose lists have an entry per worker, such as merges: `rank` and the entries."""
    import pandas as pd
    merges = events[events["type"] == "merge"].dropna(axis="columns", how="all")
    lists = [name for name in merges if merges[name].map(lambda value: isinstance(value, list)).all()]
    if merges.empty or not lists:
        return pd.DataFrame(columns=[*KEYS, "rank"])
    if "workers" in lists:
        lists.remove("workers")
    flat = merges.explode(lists, ignore_index=True).infer_objects()
    rank = flat.groupby(["run", "event"]).cumcount()
    if "workers" in flat:  # of a merge in which some workers took no part
        rank = [who[place] if isinstance(who, list) else place for who, place in zip(flat.pop("workers"), rank)]
    flat.insert(len(KEYS), "rank", rank)
    return flat.astype(dict.fromkeys(lists, float))


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """(median, low, high): the median with its 95 % bootstrap interval, as `hetsgd compare` computes it. The ends are order
    statistics, so that they may be infinite. NaN if a value is, and without a value."""
    from . import _stats
    values = [float(value) for value in values]
    return tuple(_stats.bootstrap_median(values)) if values else (math.nan,) * 3


def summarise(frame: pd.DataFrame, value: str, by: Sequence[str] = ("group",)) -> pd.DataFrame:
    """A row per group: n, and median, low and high of the column `value` over its rows (interval). `by`: columns."""
    import pandas as pd
    grouped = frame.groupby(list(by), sort=False, dropna=False)[value]
    rows = [(*(key if isinstance(key, tuple) else (key,)), len(group), *interval(group)) for key, group in grouped]
    return pd.DataFrame(rows, columns=[*by, "n", "median", "low", "high"])
