"""Output files of commands, which appear complete or not at all."""

import errno
import json
import os
import sys
import time
from collections.abc import Mapping

from . import _errors, _program

READER_TRIES, READER_PAUSE_S = 100, 0.01  # how long to wait for a reader of a pipe
MOST_LINKS = 40  # as the system's own limit
HINTS = {errno.EPIPE: "the program that reads from this pipe has ended",
         errno.ENXIO: "nobody reads from this pipe: start the program that reads it first",
         errno.EFBIG: "a limit on the size of files stops the writing (ulimit -f)",
         errno.ENOSPC: "free some space or choose another place", errno.EDQUOT: "free some space or choose another place",
         errno.ENOENT: "create the folder first", errno.EACCES: "choose another place", errno.EROFS: "choose another place"}


def tool() -> dict:
    """{name, version, git_revision, git_dirty} of the program, which every document has. Raises Error."""
    said = json.loads(_program.ask("--version", "--json"))
    return {"name": "hetsgd", **{key: said[key] for key in ("version", "git_revision", "git_dirty")}}


def _descriptor_of(path: str) -> int | None:
    """The open descriptor that a path names: "-" is stdout, /dev/stdout, /dev/fd/3 and links to them. Else None."""
    if path == "-":
        return 1
    own = os.path.realpath("/proc/self/fd")
    for _ in range(MOST_LINKS):
        folder, name = os.path.split(path)
        if os.path.realpath(folder or ".") == own:
            return int(name) if name.isdecimal() else None
        if not os.path.islink(path):
            return None
        path = os.path.join(folder, os.readlink(path))
    return None


def _failure(path: str, what: str, error: OSError, code: int) -> _errors.Error:
    name = "stdout" if path == "-" else path
    return _errors.Error(f"{name}: cannot write {what}: {error.strerror}", code, HINTS.get(error.errno or 0, ""))


class Output:
    """An output file of an option, "-" for stdout. `what` names it in messages: "the report"."""

    def __init__(self, option: str, path: str, what: str):
        self.option, self.path, self.what = option, path, what
        self.descriptor = _descriptor_of(path)
        self.stream = self.descriptor is not None or os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)

    def check(self, overwrite: bool, inputs: Mapping[str, str]) -> None:
        """Checks before any work that the file may be written. `inputs`: paths that are read, with what reads them. Raises usage
        errors: a file that is read, one that exists without `overwrite`, a place where nothing can be written."""
        regular = os.path.isfile(self.path) and self.descriptor is None
        for path, reader in inputs.items():
            if regular and os.path.exists(path) and os.path.samefile(path, self.path):
                raise _errors.refusal(self.option, f"{self.path}, which {reader} reads as {path}", "another file",
                                      "no input is ever replaced, not even with --overwrite")
        if regular and not overwrite:
            raise _errors.usage_error(f"{self.path}: the file exists", "--overwrite replaces it")
        if self.stream:
            return
        try:
            if os.path.isdir(self.path):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            temporary = self._temporary()
            os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
            os.unlink(temporary)
        except OSError as error:
            raise _failure(self.path, self.what, error, _errors.USAGE) from error

    def _temporary(self) -> str:
        return f"{os.path.realpath(self.path)}.{os.getpid()}.tmp"  # beside the target of a link, which stays a link

    def write(self, text: str) -> None:
        """Writes the file. A failure leaves an earlier file whole."""
        try:
            if self.path == "-":
                sys.stdout.write(text)
                sys.stdout.flush()
            elif self.stream:
                with os.fdopen(self._opened(), "w", encoding="utf-8", errors="surrogateescape") as file:
                    file.write(text)
            else:
                self._replace(text)
        except OSError as error:
            raise _failure(self.path, self.what, error, _errors.RUNTIME) from error

    def _opened(self) -> int:
        if self.descriptor is not None:
            sys.stdout.flush()
            return os.dup(self.descriptor)  # its place in the file is the owner's
        for _ in range(READER_TRIES):  # both ends of a pipe may be started at once
            try:
                descriptor = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
                os.set_blocking(descriptor, True)
                return descriptor
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                time.sleep(READER_PAUSE_S)
        raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))

    def _replace(self, text: str) -> None:
        temporary = self._temporary()
        try:
            with open(temporary, "x", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)
            os.replace(temporary, os.path.realpath(self.path))
        except OSError:
            if os.path.exists(temporary):
                os.unlink(temporary)
            raise
