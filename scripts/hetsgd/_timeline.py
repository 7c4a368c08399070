"""Records of runs, which the program reads (`hetsgd retime`): what calls took, and how long a run takes if they take other times."""

import json
import subprocess
import tempfile

from . import _program, _text


class _Process:
    """`hetsgd retime` with a record, while it runs."""

    def __init__(self, path: str, columns: str, *more: str):
        self._arguments = [_program.program(), "retime", path, *(["--columns", columns] if columns else []), *more]
        self._log = tempfile.TemporaryFile()

    def __enter__(self) -> "_Process":
        self._process = subprocess.Popen(self._arguments, env=_program.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log)
        return self

    def __exit__(self, *error: object) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                pipe.close()
            except BrokenPipeError:
                pass
        self._process.wait()
        self._log.close()

    def line(self, asked: dict | None = None) -> dict:
        """The line that the program prints next, after it was given this one."""
        try:
            if asked is not None:
                self._process.stdin.write(json.dumps(asked).encode() + b"\n")
                self._process.stdin.flush()
            text = self._process.stdout.readline()
        except BrokenPipeError:
            text = b""
        self._log.seek(0)
        log = self._log.read().decode(errors="surrogateescape")
        self._log.truncate(0)
        if not text:
            self.__exit__()
            raise _program.error_of(log, max(self._process.returncode, 1))
        for warning in log.splitlines():
            _text.warn(warning.removeprefix("warning: "))
        return json.loads(text)


def steps_of(path: str, columns: str = "") -> dict:
    """The steps of a record, or of a CSV file with the columns that `columns` names, as `hetsgd retime --steps` prints them: `path`,
    `workers`, `cut`, `virtual` and `of_hetsgd` (false for another tool's times). `steps` has a dict for each worker: lists, by step,
    of `begin_s`, `own_s` (without delays and waits), `delay_s` (injected), and `work_s`, the time of the work on an undisturbed
    device, 1 where nothing is known of it. Raises Error as the program does."""
    with _Process(path, columns, "--steps") as process:
        return process.line()


class Record(_Process):
    """A recorded run, which can be timed again. To be used by `with`; an error of the program is an Error.

    facts: path, algorithm, cluster, workers, elapsed_s, cut, negative_gaps. signatures: what calls have in common, a dict each:
    category, name, relation, bytes, members. Lists by call, of process after process: `signature` (its number), `rank`, `own_s`,
    the part of the call's time that is its own, `delay_s`, the injected part of a computation, `unit_s`, the time of a
    computation's work on an undisturbed device (lib/experiment/replay/retiming.hpp)."""

    def __init__(self, path: str, columns: str = "", network: str = ""):
        super().__init__(path, columns, *(["--network", network] if network else []))

    def __enter__(self) -> "Record":
        super().__enter__()
        self.facts: dict = self.line()
        self.signatures: list[dict] = self.facts.pop("signatures")
        self.calls: dict[str, list] = self.facts.pop("calls")
        return self

    def run(self, base: str = "recorded", **changes: object) -> dict:
        """The run with the durations of the set `base`: `total_s` and `gap_share`, the share of the longest path that lies between
        calls. Changes: calls=[numbers] take own_s=[seconds], or those that they have in the set from_set="name"; rank=3 or
        signatures=[numbers] choose calls in place of their numbers; name="..." keeps the set under a name; times=True adds begin_s and
        end_s of every call."""
        asked = {"from" if key == "from_set" else key: value for key, value in changes.items()}
        return self.line({"base": base, **asked})

    def runs(self, sets: list[dict]) -> list[dict]:
        """The runs of several sets, as run() has them; the keys are those of apps/hetsgd/retime.cpp. They use several cores."""
        return self.line({"sets": sets})["runs"]
