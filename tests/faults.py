"""Faults of a disk, injected: the n-th write below a folder fails, whatever kind of write it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


class Writes:
    """Counts the writes below a folder; the one numbered `failing` (from 1) raises an OSError.

    A write is any step on the way of new content to a name: opening for writing, writing (half of
    it comes to the disk), fsync, the change of a name, a removal, a new folder.
    """

    def __init__(self, folder: Path, failing: int, number: int) -> None:
        self.folder, self.failing, self.number = folder, failing, number
        self.count = 0
        self.failed: str | None = None

    def one(self, what: str, path: Path) -> bool:
        """Count a write; whether it is the one that fails."""
        if self.failed is not None or self.folder not in (path, *path.parents):
            return False
        self.count += 1
        if self.count == self.failing:
            self.failed = f"{what} {path.name}"
        return self.count == self.failing

    def error(self, path: Path) -> OSError:
        """What the system would raise."""
        return OSError(self.number, os.strerror(self.number), str(path))


@contextmanager
def faulty(folder: Path, failing: int, number: int) -> Iterator[Writes]:
    """Within, the `failing`-th write below `folder` fails with that errno, once."""
    writes = Writes(folder, failing, number)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("write_bytes", "write_text"):
            patch.setattr(Path, name, _halved(name, getattr(Path, name), writes))
        for name in ("replace", "unlink", "mkdir"):
            patch.setattr(Path, name, _refused(name, getattr(Path, name), writes))
        patch.setattr(Path, "open", _opened(Path.open, writes))
        patch.setattr(os, "fsync", _synced(os.fsync, writes))
        yield writes


def _halved(name: str, real: Callable[..., Any], writes: Writes) -> Callable[..., Any]:
    def write(self: Path, content: Any, *given: Any, **named: Any) -> Any:
        if writes.one(name, self):
            real(self, content[: len(content) // 2], *given, **named)
            raise writes.error(self)
        return real(self, content, *given, **named)

    return write


def _refused(name: str, real: Callable[..., Any], writes: Writes) -> Callable[..., Any]:
    def change(self: Path, *given: Any, **named: Any) -> Any:
        there = name != "unlink" or self.exists()  # what is not there isn't removed
        if there and writes.one(name, self):
            raise writes.error(self)
        return real(self, *given, **named)

    return change


def _opened(real: Callable[..., Any], writes: Writes) -> Callable[..., Any]:
    def opened(self: Path, mode: str = "r", *given: Any, **named: Any) -> Any:
        writing = mode[0] in "wax"  # write_bytes opens by itself, and is counted there
        if writing and writes.one("open", self):
            raise writes.error(self)
        return real(self, mode, *given, **named)

    return opened


def _synced(real: Callable[[int], None], writes: Writes) -> Callable[[int], None]:
    def fsync(number: int) -> None:
        path = Path(f"/proc/self/fd/{number}").readlink()
        if writes.one("fsync", path):
            raise writes.error(path)
        real(number)

    return fsync
