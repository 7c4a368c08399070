"""Results of `hetsgd train` and folders of `hetsgd sweep` as pandas data frames.

  import hetsgd_results                       # with scripts/ in PYTHONPATH
  data = hetsgd_results.load("runs/fair")     # a folder, a sweep's folder or index, files
  data.targets.groupby("group").time_s.median()

scripts/results.md has a page of examples. The frames of a Results, all with the columns `run`, `group`, `algorithm`, `seed`:

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

import functools
import json
import pathlib
import sys
from dataclasses import dataclass

import numpy as np
import pandas as pd

RESULT_FOLDER = pathlib.Path(__file__).resolve().parent.parent / "lib" / "result"
KEYS = ["run", "group", "algorithm", "seed"]
# The columns that a frame has even without a row.
COLUMNS = {"runs": [], "curve": ["point", "time_s", "samples_count", "epoch_num", "updates", "train_loss", "test_loss"],
           "events": ["event", "type", "time_s"], "workers": ["rank", "device", "compute_s", "communicate_s", "wait_s"],
           "targets": ["target", "metric", "at_least", "value", "reached", "time_s", "samples_count", "updates",
                       "first_crossing_s", "resolution_s"],
           "histograms": ["name", "value", "count"]}
INDEX = ".index.jsonl"
RESAMPLES = 10000  # as `hetsgd compare`
HOLD_EVALUATIONS, FEWEST_HOLD_EVALUATIONS = 5, 3  # as lib/training/target.hpp


class ResultError(Exception):
    """A file that is not what it should be."""


@dataclass
class Results:
    """The frames, and what they were made from."""
    runs: pd.DataFrame
    curve: pd.DataFrame
    events: pd.DataFrame
    workers: pd.DataFrame
    targets: pd.DataFrame
    histograms: pd.DataFrame
    documents: dict   # run -> the result file's JSON
    listed: dict      # run -> its line of the sweep's index; of files alone {"file": path}
    parameters: list  # columns of `runs` that a sweep's index brought
    notes: list       # what was skipped and why

    def varying(self):
        """The options and parameters in which those groups differ that have them, by name; `algorithm` first."""
        frame = self.runs.drop_duplicates("group")
        names = {key for result in self.documents.values() for key in telling_options(result)} | set(self.parameters)
        differing = [name for name in sorted(names) if frame[name].dropna().map(str).nunique() > 1]
        return sorted(differing, key=lambda name: name != "algorithm")

    def select(self, mask):
        """The Results of the runs for which the mask over `runs` holds."""
        return assemble([(run, self.documents[run], self.listed[run]) for run in self.runs.run[mask]], self.notes)


def other_kind(document):
    """The other kind of hetsgd file that a JSON document is ("tuning", "trace" ...). None: a result, whole or broken, or an unknown file."""
    if not isinstance(document, dict) or "curve" in document:
        return None
    if isinstance(document.get("kind"), str):
        return document["kind"]
    return next((kind for key, kind in table("file_kinds.json").items() if key in document), None)


def read(path):
    """The result in `path`, its main parts checked. Raises ResultError, with the kind of another file of ours in `kind`."""
    try:
        result = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ResultError(f"{path}: {error.strerror}, expected a result of hetsgd train") from error
    except ValueError as error:
        raise ResultError(f"{path}: not JSON ({error}), expected a result of hetsgd train") from error
    kind = other_kind(result)
    if kind:
        error = ResultError(f"{path}: found a {kind}, expected a result of hetsgd train")
        error.kind = kind
        raise error
    for key, type_ in (("config", dict), ("curve", list), ("workers", list), ("events", list)):
        if not isinstance(result, dict) or not isinstance(result.get(key), type_):
            raise ResultError(f'{path}: found no "{key}", expected a result of hetsgd train')
    if "algorithm" not in result["config"]:
        raise ResultError(f'{path}: found no "config.algorithm", expected a result of hetsgd train')
    return result


def number(row, key):
    """A value of the file; null is what its reason says, NaN without one."""
    value = row.get(key)
    if value is None:
        return {"inf": np.inf, "-inf": -np.inf}.get(row.get(f"{key}_reason"), np.nan)
    return value


def numbers(row):
    """All values of one object; `KEY_reason` goes into KEY."""
    return {key: number(row, key) for key in row if not key.endswith("_reason")}


def cell(value):
    """An option's value as a cell: lists and objects as JSON text, so that rows can be grouped by it."""
    return json.dumps(value) if isinstance(value, (list, dict)) else value


@functools.cache
def table(name):
    """A JSON file of lib/result, which the program reads too."""
    return json.loads((RESULT_FOLDER / name).read_text(encoding="utf-8"))


def telling_options(result):
    """The options that tell groups of runs apart: as for `hetsgd compare`, all that have a value but the seed, paths and what changes
    no result. Results of earlier programs lack options that came since."""
    config = {key: value for key, value in result["config"].items() if value not in (None, "none") and
              key not in table("ungrouped_options.json")}
    if not config.get("stop_at_target"):  # targets that do not end a run are read off its curve
        config.pop("target", None)
    plugins = [f"{plugin['name']} {plugin['file_hash']}" for plugin in result.get("plugins", [])]
    return {**config, "plugin": plugins} if plugins else config


def content_hashes(result):
    data = result.get("dataset") or {}
    return [(data.get(part) or {}).get("content_hash") for part in ("train", "test")]


def group_labels(results):
    """A label for each result, "algorithm (option=value, ...)": equal for runs that differ in their seed alone. The options are
    those in which the groups of one algorithm differ; groups that differ in their data alone are numbered."""
    configs = [telling_options(result) for result in results]
    first, differing, numbers_of = {}, {}, {}
    for config in configs:
        algorithm = config["algorithm"]
        base = first.setdefault(algorithm, config)
        differing.setdefault(algorithm, set()).update(key for key in config if key not in base or config[key] != base[key])
    labels = []
    for config, result in zip(configs, results):
        keys = [key for key in sorted(differing[config["algorithm"]]) if key in config]
        label = config["algorithm"] + (f" ({', '.join(f'{key}={shown(config[key])}' for key in keys)})" if keys else "")
        data = numbers_of.setdefault(label, [])
        if content_hashes(result) not in data:
            data.append(content_hashes(result))
        labels.append((label, data.index(content_hashes(result))))
    return [f"{label}, data {place + 1}" if len(numbers_of[label]) > 1 else label for label, place in labels]


def shown(value):
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def run_row(name, result, listed):
    config = {key: cell(value) for key, value in result["config"].items()}
    summary = result.get("summary") or {}
    row = {"run": name, **config, "file": listed.get("file", name), "stage": listed.get("stage", "final"),
           **{key: listed.get(key) for key in ("setup", "case") if key in listed},
           **{key: cell(value) for key, value in listed.get("parameters", {}).items()},
           "status": result.get("status")}
    row.update({key: number(summary, key) for key in summary if key not in ("final", "best") and not key.endswith("_reason")})
    final = summary.get("final") or {}
    row.update({f"final_{key}": value for key, value in numbers(final).items()})
    for metric, best in (summary.get("best") or {}).items():
        row[f"best_{metric}"] = best["value"]
    row["tuned"] = bool(result.get("tuning"))
    return row


def crossings(reaching):
    """(the place of the first value that reaches a target, that from which on it is held), each None if there is none; the rule of
    lib/training/target.hpp. reaching: whether each evaluation does."""
    first = next((place for place, each in enumerate(reaching) if each), None)
    for place, each in enumerate(reaching):
        window = reaching[place:place + HOLD_EVALUATIONS]
        if each and len(window) >= FEWEST_HOLD_EVALUATIONS and 2 * sum(window) > len(window):
            return first, place
    return first, None


def target_rows(result):
    """A row per target, read off the curve, so that results of all versions have one meaning."""
    for target in result.get("time_to_accuracy", []):
        points = [point for point in result["curve"] if target["metric"] in point]
        values = [number(point, target["metric"]) for point in points]
        bound, sign = target["value"], 1 if target["at_least"] else -1
        first, held = crossings([sign * value >= sign * bound for value in values])
        found = {key: np.inf if held is None else points[held][key] for key in ("time_s", "samples_count", "updates")}
        yield {"target": target["target"], "metric": target["metric"], "at_least": target["at_least"], "value": bound,
               "reached": held is not None, **found,
               "first_crossing_s": np.inf if first is None else points[first]["time_s"],
               "resolution_s": points[held]["time_s"] - points[held - 1]["time_s"] if held else np.nan}


def worker_row(worker):
    row = {}
    for key, value in worker.items():
        if isinstance(value, dict):
            row.update({f"{key.removesuffix('_by_kind')}_{part}": count for part, count in value.items()})
        else:
            row[key] = value
    return row


def assemble(loaded, notes):
    """Results of [(name, document, its line of the sweep's index or {})]."""
    labels = group_labels([document for _, document, _ in loaded])
    rows = {name: [] for name in COLUMNS}
    for (name, result, listed), label in zip(loaded, labels):
        config = result["config"]
        keys = {"run": name, "group": label, "algorithm": config["algorithm"], "seed": config.get("seed")}
        rows["runs"].append({**keys, **run_row(name, result, listed)})
        rows["curve"] += [{**keys, "point": i, **numbers(point)} for i, point in enumerate(result["curve"])]
        rows["events"] += [{**keys, "event": i, **event} for i, event in enumerate(result["events"])]
        rows["workers"] += [{**keys, **worker_row(worker)} for worker in result["workers"]]
        rows["targets"] += [{**keys, **row} for row in target_rows(result)]
        rows["histograms"] += [{**keys, "name": histogram, "value": int(value), "count": count}
                               for histogram, counts in result.get("histograms", {}).items() for value, count in counts.items()]
    frames = {name: pd.DataFrame(each) if each else pd.DataFrame(columns=KEYS + COLUMNS[name]) for name, each in rows.items()}
    parameters = [key for key in ("setup", "case") if key in frames["runs"]]
    parameters += sorted({key for _, _, listed in loaded for key in listed.get("parameters", {})})
    return Results(**frames, documents={name: document for name, document, _ in loaded},
                   listed={name: listed for name, _, listed in loaded}, parameters=parameters, notes=notes)


def read_index(path, notes):
    """{id: line} of a sweep's index; the last line of an id counts, as does a last line that was cut off: not at all."""
    lines = {}
    for count, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            line = json.loads(text)
            lines[str(line["id"])] = line
        except (ValueError, KeyError, TypeError):
            notes.append(f"{path}:{count}: skipped, because it is not a line of an index with an id")
    return lines


def from_sweep(index, notes):
    """[(id, document, line)] of the runs that a sweep's index lists; runs without a result are noted."""
    folder, loaded = index.parent, []
    for name, line in read_index(index, notes).items():
        path = folder / (line.get("file") or f"runs/{name}.json")
        if path.exists():
            loaded.append((name, read(path), {**line, "file": str(path)}))
        else:
            notes.append(f"{path}: no result (status {line.get('status', 'unknown')}), left out")
    return loaded


def from_files(paths, notes):
    """[(name, document, {"file": path})]; other files of ours are noted. The name is the path as it was given."""
    loaded = []
    for path in paths:
        try:
            loaded.append((str(path), read(path), {"file": str(path)}))
        except ResultError as error:
            if not hasattr(error, "kind"):
                raise
            notes.append(f"{path}: skipped, because it is a {error.kind} and not a result")
    return loaded


def gather(source, notes):
    path = pathlib.Path(source)
    if path.name.endswith(INDEX):
        return from_sweep(path, notes)
    if not path.is_dir():
        return from_files([path], notes)
    indexes = sorted(path.glob(f"*{INDEX}"))
    if len(indexes) > 1:
        raise ResultError(f"{path}: found {len(indexes)} sweeps, expected one; name its index: "
                          + ", ".join(str(each) for each in indexes))
    if indexes:
        return from_sweep(indexes[0], notes)
    return from_files(sorted(path.glob("*.json")) or sorted((path / "runs").glob("*.json")), notes)


def load(*sources):
    """The Results of files, folders of results, sweep folders (DIR/NAME.index.jsonl beside DIR/runs) or indexes. A folder's own
    .json files count, those of its sub-folders do not. Raises ResultError."""
    notes = []
    loaded = {}
    for source in sources:
        for name, document, listed in gather(source, notes):
            if name in loaded:
                notes.append(f"{name}: named more than once, but used once")
            loaded.setdefault(name, (name, document, listed))
    if not loaded:
        raise ResultError(f"{', '.join(map(str, sources))}: found no result, expected at least one")
    return assemble(list(loaded.values()), notes)


def per_worker(events):
    """A row per event and worker of events whose lists have an entry per worker, such as merges: `rank` and the entries."""
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
    return flat.astype({name: float for name in lists})


def interval(values, resamples=RESAMPLES):
    """(median, low, high): the median with its 95 % percentile bootstrap interval, as `hetsgd compare` computes it. The ends are
    order statistics, so that they may be infinite. NaN if a value is."""
    values = np.asarray(values, float)
    if not len(values) or np.isnan(values).any():
        return np.nan, np.nan, np.nan
    drawn = np.random.default_rng(1).integers(len(values), size=(resamples, len(values)))
    medians = np.sort(np.median(values[drawn], axis=1))
    return float(np.median(values)), float(medians[int(0.025 * resamples)]), float(medians[int(0.975 * resamples) - 1])


def summarise(frame, value, by=("group",)):
    """A row per group: n, and median, low and high of `value` over its rows (interval). `by`: columns."""
    grouped = frame.groupby(list(by), sort=False, dropna=False)[value]
    rows = [(*(key if isinstance(key, tuple) else (key,)), len(group), *interval(group)) for key, group in grouped]
    return pd.DataFrame(rows, columns=[*by, "n", "median", "low", "high"])


if __name__ == "__main__":
    sys.exit("hetsgd_results.py: this is a module to import; scripts/results.md has examples")
