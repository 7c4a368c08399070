#!/usr/bin/env python3
"""Writes specifications and the plot of the benchmark of record. scripts/benchmark.sh calls it and runs the benchmark.

    scripts/benchmark.py entry SPEC -o FILE [--name NAME] [--plugin FILE] ALGORITHM [--OPTION VALUE ...]
    scripts/benchmark.py tiny SPEC -o FILE               # SPEC with tiny synthetic data, whose numbers mean nothing
    scripts/benchmark.py plot STANDING.json -o FILE.svg  # performance profiles, from hetsgd score --format json

`entry` writes the specification of an entry as JSON: the rules of SPEC with one case. It runs nothing.
"""
import argparse
import json
import pathlib
import re
import sys
import tomllib

MOST_PROFILES = 8  # lines of one picture
OF_OTHER_MODELS = {"charge", "embedding_dim", "order"}


def read_spec(path):
    text = pathlib.Path(path).read_text()
    return tomllib.loads(text) if str(path).endswith(".toml") else json.loads(text)


def write(path, document):
    pathlib.Path(path).write_text(json.dumps(document, indent=1) + "\n")


def value_of(text):
    """A number or a truth value as such, anything else as text: as options in a specification stand."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return text
    return value if isinstance(value, (bool, int, float)) else text


def settings_of(words):
    """{option: value} of --option value, --option=value and --flag."""
    settings, key = {}, None
    for word in words:
        if word.startswith("--"):
            key, given, text = word[2:].partition("=")
            key = key.replace("-", "_")
            settings[key] = value_of(text) if given else True
        elif key is None:
            sys.exit(f'benchmark.py: found "{word}", expected --OPTION VALUE after the algorithm')
        else:
            settings[key], key = value_of(word), None
    return settings


def entry(arguments, words):
    if not words or words[0].startswith("-"):
        sys.exit(f"benchmark.py: found {words[0] if words else 'nothing'}, expected the name of an algorithm, and then its options")
    spec, settings = read_spec(arguments.spec), settings_of(words[1:])
    name = arguments.name or " ".join([words[0], *(f"{key}={value}" for key, value in settings.items())])
    if name in {case["name"] for case in spec["cases"]}:
        sys.exit(f'benchmark.py: "{name}" is a method of record; --name gives this one another name')
    slug = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
    spec.update(name=f"{spec['name']}-{slug}", cases=[{"name": name, "settings": {"algorithm": words[0], **settings}}])
    if arguments.plugin:
        spec["settings"]["plugin"] = [str(pathlib.Path(file).resolve()) for file in arguments.plugin]
    write(arguments.output, spec)


def tiny(arguments):
    spec = read_spec(arguments.spec)
    small = {"model": "mlp", "hidden": 8, "epochs": 2, "batch_size": 16, "mega_batch": 4, "evaluate_every": 80}
    spec.update(seeds=[1, 2], metric={"name": "p1", "goal": "time_to_target", "target": 0.2})
    spec["settings"].update(small)
    for number, setup in enumerate(spec["setups"]):
        setup.pop("metric", None)
        setup.pop("tuning", None)
        # Other data for each: equal runs would be one.
        data = f"generate:tiny?rows_train={600 + number}"
        settings = {key: value for key, value in setup["settings"].items() if key not in OF_OTHER_MODELS}
        setup["settings"] = {**settings, **small, "train": data, "test": data}
    spec["tuning"] = {"seeds": [101], "validation": 0.2, "parameters": {"learning_rate": {"values": [0.5, 2]}}}
    write(arguments.output, spec)


def plot(arguments):
    import matplotlib  # which the others do without
    matplotlib.use("Agg")
    from hetsgd._plot.style import STYLE, look, plt
    standing = json.loads(pathlib.Path(arguments.spec).read_text())
    end, problems = standing["profile_end"], len(standing["problems"])
    # The best, and every entry.
    shown = [method for i, method in enumerate(standing["methods"]) if i < MOST_PROFILES or method["is_entry"]]
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(6.2, 3.6))
        for i, method in enumerate(shown):
            steps = sorted(ratio for ratio in method["ratio"] if ratio is not None and ratio <= end)
            x = [1, *steps, end]
            y = [0, *((j + 1) / problems for j in range(len(steps))), len(steps) / problems]
            kept = {key: value for key, value in look(i).items() if key != "marker"}
            axes.step(x, y, where="post", label=f"{method['name']} {method['score']:.2f}", **kept)
        axes.set(xlabel="Time to the target over the best", ylabel="Share of problems", xlim=(1, end), ylim=(0, 1.02))
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
        figure.savefig(arguments.output, metadata={"Date": None})
        plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    parser.add_argument("action", choices=["entry", "tiny", "plot"])
    parser.add_argument("spec", help="specification of the benchmark; for plot, JSON of hetsgd score")
    parser.add_argument("-o", "--output", required=True, help="file to write")
    parser.add_argument("--name", help="name of the entry (default: the algorithm with its options)")
    parser.add_argument("--plugin", action="append", help="shared library with the algorithm; repeat the option for several")
    arguments, words = parser.parse_known_args()
    if arguments.action == "entry":
        return entry(arguments, words)
    if words:
        parser.error(f"found {words[0]}, expected no further argument")
    return (tiny if arguments.action == "tiny" else plot)(arguments)


if __name__ == "__main__":
    main()
