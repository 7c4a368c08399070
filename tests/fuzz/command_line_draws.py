"""Random command lines of hetsgd and mutated files for them (command_lines.py runs and judges them).

Commands and options come from the program's own --help, so that a new one takes part by itself.
"""

import copy
import json
import math
import re

HOSTILE_TEXTS = ["", " ", "-", "--", "nan", "inf", "-inf", "-1", "0", "1", "1e308", "1e-308", "18446744073709551616", "9223372036854775807",
                 "-9223372036854775808", "0x10", "1,,2", ",", "1K", "1.5", "auto", "none", "null", "true", "a" * 5000, "ü\u202e\u0007", "%s%n",
                 "../x", "/", ".", "..", "/dev/null", "/dev/full", "kept.txt", "result.json", "a=b", "kind=", "generate:", "generate:?", "[1]", "{}"]
HOSTILE_VALUES = [None, True, False, 0, -1, 1, 2.5, 1e308, -1e308, 2 ** 31, 2 ** 63, 2 ** 64, -2 ** 63, "", "x", "nan", "..", "\u0000", "\u001b[31m",
                  "a" * 3000, [], [[]], [None], {}, {"": {}}, [1, "x"], ["ssgd"], {"rank": 0}]
SAMPLES = {  # of options whose values are texts
    "straggler": ["kind=constant,factor=3", "kind=uniform,max=4ms", "kind=lognormal,median=1ms", "kind=pareto,scale=1ms", "kind=pause,at=1ms,duration=2ms",
                  "kind=periodic,period=20ms,duration=10ms,factor=4", "kind=burst,on=10ms,off=20ms,factor=3", "kind=trace,file=trace.csv"],
    "target": ["p1>=0.1", "test_loss<=1", "auc>=0.5", "accuracy>=0.9"],
    "network": ["ideal", "pcie3", "ethernet-1g", "network.json"], "profile": ["v100", "cpu", "profile.json", "v100*2,cpu"],
    "server-profile": ["cpu", "profile.json"], "charge": ["amazon670k", "resnet-50"], "speed": ["1,0.5", "2", "1,1e-6"],
    "devices": ["cpu:1", "cpu:auto", "cuda:0", "cpu:1,cuda:0"], "config": ["config.json", "result.json"], "plugin": ["kept.txt"],
    "test": ["generate:tiny?scale=0.05", "tail:1/7", "data.txt", "data.svm", "manifest.json"], "image": ["1x28x28", "1x1x1"],
    "train": ["generate:tiny?scale=0.05", "data.txt", "data.svm", "manifest.json"], "cluster": ["sim", "threads", "mpi"],
    "algorithms": ["ssgd,asgd", "adaptive"], "grid": ["0.1,0.3", "0.1:1:3"], "tune-seeds": ["1", "1:2"], "shard": ["0/2", "1/2"],
    "goal": ["time_to_target", "maximize", "minimize"], "policy": ["none,dymem", "liveness"], "memory": ["minimum", "device", "64M"],
    "reference": ["ssgd", "other.json"], "runs": ["."], "op": ["sum", "max,adasum"], "from": ["."], "device": ["cpu:1"],
    "resume-from": ["run.ck", "new.ck", "link.ck", "kept.txt", "."], "replay": ["record.jsonl", "steps.csv", "kept.txt"],
    "checkpoint": ["new.ck", "new.ck", "link.ck", "nowhere.ck", "data", "kept.txt", "in", "-"], "checkpoint-at": ["40", "20,60"],
    "tuned": ["tuning.json", "config.json"]}
# Links that lie in the folder of a command line: to a file, to one that is not there yet, to a folder. `in.1` and `kept.ck.1` lie where
# generations of the checkpoints `in` and `kept.ck` would.
LINKS = {"link.json": "kept.json", "link.ck": "real.ck", "nowhere.ck": "no/such/file", "folder.json": "."}
# Options that come together.
GROUPS = {
    "checkpoint": lambda draw: ["--checkpoint", draw.choice(SAMPLES["checkpoint"] + ["kept.ck"]), "--checkpoint-every", draw.choice("0112"),
                                *draw.choice([[], [], ["--checkpoint-keep", draw.choice("0135")], ["--checkpoint-at", "40"]])],
    "resume": lambda draw: ["--checkpoint", draw.choice(["run.ck", "new.ck"]), "--resume-from", draw.choice(SAMPLES["resume-from"])],
    "record": lambda draw: ["--record-timeline", draw.choice(["new.jsonl", "new.jsonl.zst", "link.json", "kept.txt", "kept.ck.1"])],
    "failures": lambda draw: ["--straggler", draw.choice(["kind=fail,worker=0,at=1ms", "kind=churn,mtbf=10ms,mttr=2ms", "kind=fail,worker=1,at=1ms,mode=stopped"]),
                              "--on-loss", draw.choice(["continue", "restart", "abort"]), "--detect", draw.choice(["0s", "1ms"])],
    "replay": lambda draw: ["--replay", draw.choice(SAMPLES["replay"]), *draw.choice([[], ["--replay-by", "time"]])],
    "overwrite": lambda draw: ["--overwrite"],
    "links": lambda draw: [draw.choice(["--trace", "--mllog", "--dump-parameters"]), draw.choice([*LINKS])]}
TEXTS = ["--format", "text", "--train", "text.txt"]
# Data for the models that are quick to train.
CLICKS = "generate:ctr-tiny?scale=0.02"
DATA_OF = {"mlp": "generate:tiny?scale=0.1", "linear": "generate:tiny?scale=0.1", "deepfm": CLICKS, "wide_deep": CLICKS, "dcn": CLICKS, "fm": "generate:tiny?scale=0.1",
           "net.json": "generate:images?size=8&channels=1&classes=3&rows_train=40&rows_test=8",
           "lenet-5": "generate:images?size=28&channels=1&classes=10&rows_train=40&rows_test=8",
           "resnet-20?size=8": "generate:images?size=8&channels=3&classes=10&rows_train=24&rows_test=8"}
# Options that a random command line of train has already; they seldom come a second time.
SETTLED = {"algorithm", "model", "train", "test", "validation", "image", "plugin", "output", "max-samples", "tables", "table-exchange", "cluster",
           "devices", "print-config", "epochs", "config", "vocabulary", "format"}
WRITTEN = {"output", "trace", "mllog", "dump-parameters", "dump-initial-parameters", "tensorboard", "log-dir", "record-timeline",
           "checkpoint", "trace-csv"}  # options that name outputs
# Limits for options whose cost grows with their value: beyond them it is a test of patience.
MOST = 50
LARGE = {"point-time", "progress-every", "peer-timeout", "time-limit", "max-wall"}
BASE = {  # what keeps a command short
    "train": ["--hidden", "4", "--batch-size", "16", "--mega-batch", "4", "--epochs", "1", "--time-limit", "5s", "--quiet"],
    "tune": ["--hidden", "4", "--batch-size", "16", "--mega-batch", "4", "--epochs", "1", "--validation", "0.2", "--grid", "0.1,1", "--tune-seeds", "1",
             "--quiet"],
    "sweep": ["--max-wall", "5s", "--quiet"], "bench": ["-b", "4K", "-e", "8K", "-n", "1", "-w", "0", "--workers", "2"],
    "bench lookup": ["--rows", "1000", "--batch-size", "16", "--iterations", "1", "--warmup", "0"], "rerun": ["--time-limit", "5s", "--quiet"],
    "calibrate": ["--point-time", "1ms", "--batch-size", "8", "--hidden", "4"],
    "calibrate network": ["--point-time", "1ms", "--sizes", "4K", "--workers", "2"], "memory": ["--batch", "4"], "data generate": ["--scale", "0.01"]}
# The run whose checkpoint is run.ck, without its outputs.
RESUMED = ["--train", "generate:tiny?scale=0.1", "--test", "generate:tiny?scale=0.1", "--hidden", "4", "--batch-size", "16", "--mega-batch", "4", "--epochs", "1",
           "--algorithm", "adaptive", "--workers", "2"]
OPERANDS = {
    "sweep": ["spec.toml"], "rerun": ["result.json"], "compare": ["result.json", "other.json"], "report": ["result.json", "other.json"],
    "validate": ["result.json"], "score": ["spec.toml"], "memory": ["net.json"], "data info": ["data.txt"], "data verify": ["data.svm"],
    "data convert": ["data.txt", "out.hsgd"], "data generate": ["tiny", "made"], "data fetch": ["manifest.json"], "algorithms": [], "models": ["mlp"],
    "replay": ["steps.csv"], "fit": ["steps.csv"], "retime": ["steps.csv"], "stragglers": [], "devices": ["v100"], "completion": ["bash"], "help": ["stragglers"]}
# Commands that read a mutated file, with {} for it; the kinds of files are the fixtures' names.
READERS = {
    "result.json": [["validate", "{}"], ["compare", "{}", "other.json"], ["report", "{}", "other.json", "-o", "page.html"],
                    ["rerun", "{}", "-o", "again.json"], ["train", "--config", "{}", "-o", "again.json"], ["report", "."],
                    ["compare", "other.json", "{}", "--format", "json"], ["tune", "--config", "{}", "--grid", "0.1,1", "-o", "tuned.json"]],
    "tuning.json": [["validate", "{}"], ["train", "--tuned", "{}", "-o", "again.json"]],
    "spec.toml": [["sweep", "{}", "-o", "out"], ["sweep", "{}", "-o", "out", "--dry-run"], ["validate", "{}"], ["sweep", "{}", "--print-commands"]],
    "net.json": [["memory", "{}"], ["train", "--model", "{}", "--train", "generate:images?size=8&channels=1&classes=3&rows_train=40&rows_test=8",
                                    "-o", "again.json"], ["memory", "{}", "--policy", "none,dymem", "-o", "plan.json"]],
    "config.json": [["train", "--config", "{}", "-o", "again.json"], ["train", "--config", "{}", "--print-config"],
                    ["train", "--config", "{}", "--dry-run"]],
    "manifest.json": [["data", "fetch", "{}", "--from", "."], ["data", "info", "{}"], ["data", "fetch", "{}", "--from", ".", "--overwrite"]],
    "profile.json": [["train", "--profile", "{}", "-o", "again.json"], ["memory", "net.json", "--profile", "{}"]],
    "network.json": [["train", "--network", "{}", "--workers", "2", "-o", "again.json"], ["bench", "all_reduce", "--cluster", "sim", "--network", "{}"]],
    "steps.csv": [["replay", "{}"], ["replay", "{}", "--without", "worker=1", "--json"], ["fit", "{}", "-o", "scenario.json", "--trace-csv", "t.csv"],
                  ["train", "--replay", "{}", "--workers", "2", "-o", "again.json"]],
    "trace.csv": [["train", "--straggler", "kind=trace,file={}", "--workers", "2", "-o", "again.json"]],
    "record.jsonl": [["replay", "{}"], ["replay", "{}", "--without", "stragglers", "--json"], ["fit", "{}", "-o", "scenario.json", "--trace-csv", "t.csv"],
                     ["train", "--replay", "{}", "--workers", "2", "-o", "again.json"], ["train", "--replay", "{}", "--replay-by", "time", "--workers", "2",
                                                                                        "-o", "again.json"]],
    "run.ck": [["train", *RESUMED, "--resume-from", "{}", "--checkpoint", "new.ck", "-o", "again.json"]],
    "text.txt": [["data", "info", "--format", "text", "{}"], ["data", "info", "--format", "text", "--rows", "lines", "--block", "8", "{}"],
                 ["train", "--format", "text", "--train", "{}", "--model", "gpt-micro?layers=1&width=16&block=8", "--block", "8", "--batch-size", "4",
                  "--max-samples", "8", "-o", "again.json"]],
    "data.txt": [["data", "info", "{}"], ["data", "verify", "{}"], ["data", "convert", "{}", "out.hsgd"], ["train", "--train", "{}", "-o", "again.json"]],
    "data.svm": [["data", "info", "{}"], ["data", "convert", "{}", "out.txt"], ["train", "--train", "{}", "-o", "again.json"]]}


def commands_of(help_text):
    """The names of all commands, from hetsgd --help, which lists them in groups behind its usage."""
    listed = help_text.split("\nUsage: ")[1]
    return [match[1] for match in re.finditer(r"^  ([a-z][\w-]*(?: [a-z][\w-]*)?)(?:  |$)", listed, re.M)]


def options_of(help_text):
    """[{name, type, choices, low, high}] from the --help of a command."""
    options = []
    for line in help_text.splitlines():
        match = re.match(r"^  (?:-\w, |    )--([\w-]+)(?: (\S+))?(?:\s{2,}(.*))?$", line)
        if match:
            options.append({"name": match[1], "type": match[2] or "", "text": match[3] or ""})
        elif options and line.startswith(" " * 30):
            options[-1]["text"] += " " + line.strip()
    for option in options:
        choices = re.search(r"[Cc]hoices: ([^\s;]+)", option["text"])
        option["choices"] = choices[1].split("|") if choices and option["type"] == "NAME" else []
        bounds = re.search(r"[Rr]ange: [\[(]([^\s,]+), ([^\s\])]+)[\])]", option["text"])
        option["low"], option["high"] = (float(bounds[1]), float(bounds[2])) if bounds else (-math.inf, math.inf)
    return [option for option in options if option["name"] not in ("help", "log-level")]


def number_of(draw, option, whole):
    low = max(option["low"], 0)
    high = min(option["high"], MOST)
    if low >= high:
        return f"{option['low']:g}"
    return str(draw.randint(math.ceil(low), math.floor(high))) if whole and high - low >= 1 else f"{draw.uniform(low, high):.4g}"


def edge_of(draw, option):
    ends = [end for end in (option["low"], option["high"]) if math.isfinite(end)]
    if not ends:
        return draw.choice(HOSTILE_TEXTS)
    end = draw.choice(ends)
    if option["name"] in LARGE and end > 1:
        return "1ms"
    return f"{draw.choice([end, end - 1, end + 1, -end, end * 10]):.17g}"


def value_of(draw, option):
    """A value for the option: valid, at an end of its range, or nonsense."""
    kind = draw.random()
    if kind < 0.03:
        return draw.choice(HOSTILE_TEXTS)
    if option["name"] in WRITTEN:
        return draw.choice(["new.json", "new.json", "new2.json", "no/such/folder", "kept.txt", "-", "data.txt", "net.json", "config.json"])
    if option["name"] in SAMPLES:
        return draw.choice(SAMPLES[option["name"]])
    if kind < 0.09:
        return edge_of(draw, option)
    if option["choices"]:
        return draw.choice(option["choices"])
    if option["type"].endswith("|auto") and kind < 0.3:
        return "auto"
    if option["type"].startswith("TIME"):
        return draw.choice(["1ms", "20ms", "0.1s", "1s"])
    if option["type"].startswith("NUMBER,"):
        return ",".join(number_of(draw, option, False) for _ in range(draw.randint(1, 3)))
    if option["type"].startswith(("INTEGER", "COUNT", "NUMBER")):
        return number_of(draw, option, not option["type"].startswith("NUMBER"))
    return draw.choice(HOSTILE_TEXTS)


def some_options(draw, options, most):
    words = []
    for option in draw.sample(options, min(len(options), draw.randint(0, most))):
        if option["name"] in ("retry", "yes"):
            continue
        if option["type"]:
            words += [f"--{option['name']}", value_of(draw, option)]
        else:
            words.append(draw.choice([f"--{option['name']}", f"--{option['name']}", f"--no-{option['name']}"]))
    return words


def mutated_json(draw, text):
    document = json.loads(text)
    for _ in range(draw.choice([1, 1, 1, 2, 5])):
        places = []
        todo = [document]
        while todo:
            at = todo.pop()
            for key in (list(at) if isinstance(at, dict) else range(len(at))):
                places.append((at, key))
                if isinstance(at[key], (dict, list)):
                    todo.append(at[key])
        if not places:
            break
        at, key = draw.choice(places)
        way = draw.random()
        if way < 0.55:
            at[key] = copy.deepcopy(draw.choice(HOSTILE_VALUES))
        elif way < 0.7:
            del at[key]
        elif way < 0.8 and isinstance(at[key], (int, float)) and not isinstance(at[key], bool):
            at[key] = draw.choice([-at[key], at[key] * 1e6, at[key] + 1, 0, str(at[key])])
        elif way < 0.9:
            other, other_key = draw.choice(places)
            at[key] = copy.deepcopy(other[other_key])
        elif isinstance(at, dict):
            at[draw.choice(HOSTILE_TEXTS)] = at[key]
        else:
            at.append(copy.deepcopy(at[key]))
    return json.dumps(document)


def mutated_lines(draw, text):
    lines = text.splitlines()
    for _ in range(draw.choice([1, 1, 2, 4])):
        at = draw.randrange(len(lines))
        way = draw.random()
        if way < 0.5 and "=" in lines[at]:
            value = draw.choice(HOSTILE_VALUES + [[], [0.1, []], [[]], "1:3", "3:1", "1:100000"])
            lines[at] = f"{lines[at].split('=')[0]}= {json.dumps(value) if value is not None else '{}'}"
        elif way < 0.65:
            lines.insert(at, draw.choice(lines))
        elif way < 0.8:
            del lines[at]
            lines = lines or [""]
        elif way < 0.9:
            lines[at] = draw.choice(["[" * 300, "[[cases]]", "a.b.c = 1", "x" * 3000, "[tuning]", "0,1,nan", "-1,1,1e308", "1:1 2:x"])
        else:
            words = lines[at].split(" ")
            words[draw.randrange(len(words))] = draw.choice(HOSTILE_TEXTS)
            lines[at] = " ".join(words)
    return "\n".join(lines) + "\n"


def mutated_record(draw, text):
    """A file of JSON values, one a line, of which a few are mutated."""
    lines = text.splitlines()
    for _ in range(draw.choice([1, 1, 2, 4])):
        at = draw.choice([0, draw.randrange(len(lines))])
        lines[at] = mutated_json(draw, lines[at])
    return "\n".join(lines) + "\n"


def mutated_bytes(draw, content):
    content = bytearray(content)
    for _ in range(draw.choice([1, 2, 8])):
        at = draw.randrange(len(content))
        content[at:at + draw.choice([0, 1, 1, 8])] = draw.choice([b"", b"\0", b"\xff" * 8, bytes([draw.randrange(256)])])
    return bytes(content[:draw.randrange(len(content))] if draw.random() < 0.1 else content)


def mutated(draw, name, text):
    if isinstance(text, bytes):
        return mutated_bytes(draw, text)
    way = draw.random()
    if way < 0.06:
        return text[:draw.randrange(len(text) + 1)]
    if way < 0.12:
        characters = list(text)
        for _ in range(draw.choice([1, 3, 20])):
            characters[draw.randrange(len(characters))] = draw.choice(["\0", '"', "\n", "9", "-", "{", "]", "\\", "\x7f"])
        return "".join(characters)
    if name.endswith(".jsonl"):
        return mutated_record(draw, text)
    return mutated_json(draw, text) if name.endswith(".json") else mutated_lines(draw, text)


class Draws:
    """`ask(arguments)` gives the standard output of the program, `fixtures` the contents of the files that each command finds. `mutate`: only
    commands that read a mutated one of these files; empty: all commands."""

    def __init__(self, ask, fixtures, mutate=()):
        self.ask = ask
        self.mutate = list(mutate)
        self.fixtures = fixtures
        self.commands = [name for name in commands_of(ask(["--help"])) if name != "doctor"]
        self.algorithms = json.loads(ask(["algorithms", "--format", "json"]))
        self.models = [each["name"] for each in json.loads(ask(["models", "--format", "json"]))]
        self.known = {}

    def options(self, arguments):
        key = tuple(arguments)
        if key not in self.known:
            self.known[key] = options_of(self.ask([*arguments, "--help-all"]))
        return self.known[key]

    def base(self, command):
        return BASE.get(command, BASE["bench"] if command.startswith("bench ") else [])

    def train(self, draw):
        algorithm = draw.choice(self.algorithms)
        pipeline = bool(algorithm["sharded_tables_only"])
        model = draw.choice(["deepfm", "wide_deep", "dcn"] if pipeline else [*DATA_OF, "mlp", "mlp", "deepfm", draw.choice(self.models)])
        chosen = ["train", "--algorithm", algorithm["name"], "--model", model]
        data = DATA_OF.get(model, "generate:images?size=32&channels=3&classes=10&rows_train=40&rows_test=8")
        text = draw.random() < 0.1 and not pipeline
        if text:
            chosen[-1] = draw.choice(["gpt-micro?layers=1&width=16&block=8", "bert-micro?layers=1&width=16&block=8"])
        options = self.options(chosen)
        known = {option["name"] for option in options}
        words = [*chosen, "--train", data, *([] if draw.random() < 0.3 else ["--test", data])]
        if text:
            words = [*chosen, *TEXTS, "--block", "8", "--tokens", draw.choice(["characters", "bytes", "words"]), "--rows", draw.choice(["blocks", "lines"]),
                     *draw.choice([[], ["--test", "tail:1/4"], ["--test", "text.txt"], ["--validation", "0.2"]])]
        if draw.random() < 0.4:
            words += ["--cluster", "threads", "--devices", "cpu:1"]
        words += ["--workers", str(min(draw.choice([1, 2, 2, 3, 4, 5]), algorithm["max_workers"])), "-o", "new.json"]
        words += self.base("train") if "hidden" in known else self.base("train")[2:]
        for name in draw.sample(list(GROUPS), draw.choice([0, 0, 0, 1, 1, 2])):
            words += GROUPS[name](draw)
        if DATA_OF.get(model) == CLICKS and (pipeline or (not algorithm["replicated_tables_only"] and draw.random() < 0.6)):
            words += ["--tables", "sharded", *(["--table-exchange", "served"] if not pipeline and draw.random() < 0.5 else [])]
        if draw.random() < 0.3:
            words += ["--trace", "new_trace.json"]
        if draw.random() < 0.3:
            words += ["--target", draw.choice(SAMPLES["target"])]
        elif draw.random() < 0.9:
            known -= {"stop-at-target", "require-target"}
        if draw.random() < 0.9:
            known -= SETTLED
        return [*words, *some_options(draw, [each for each in options if each["name"] in known], 3)], {}

    def other(self, draw):
        command = draw.choice([name for name in self.commands if name != "train"])
        words = command.split(" ")
        if command == "tune":
            words += ["--train", "generate:tiny?scale=0.1", "--algorithms", "ssgd"]
        operands = OPERANDS.get(command, [])
        if draw.random() < 0.15:
            operands = [draw.choice([*operands, *self.fixtures, *HOSTILE_TEXTS]) for _ in range(draw.randint(0, 3))]
        return [*words, *operands, *self.base(command), *some_options(draw, self.options(words), 4)], {}

    def with_mutated_file(self, draw):
        name = draw.choice(self.mutate or list(READERS))
        words = [word.replace("{}", name) for word in draw.choice(READERS[name])]
        reads = words[0] if words[0] not in ("data", "bench") else " ".join(words[:2])
        if words[0] in ("train", "rerun"):
            words += ["--time-limit", "5s", "--quiet"]
            if "--train" not in words and "--config" not in words and words[0] == "train":
                words += ["--train", "generate:tiny?scale=0.1", "--hidden", "4", "--epochs", "1"]
        elif reads == "sweep":
            words += ["--max-wall", "5s", "--quiet"]
        return words, {name: mutated(draw, name, self.fixtures[name])}

    def draw(self, draw):
        """(the command line, {name: text} of the files that are other than the fixtures)."""
        if self.mutate:
            return self.with_mutated_file(draw)
        way = draw.random()
        if way < 0.5:
            return self.train(draw)
        return self.other(draw) if way < 0.7 else self.with_mutated_file(draw)


def outputs_of(words):
    """The names that a command line gives to files which it writes. The checkpoint before (FILE.1, ...) replaces checkpoints alone, which no fixture is."""
    names = set()
    for flag, value in zip(words, words[1:]):
        if flag in ("-o", *(f"--{name}" for name in WRITTEN)):
            names.add(LINKS.get(value, value))
    return names
