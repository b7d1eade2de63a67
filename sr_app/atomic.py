"""Files that are either the old one or the whole new one, also after a power cut."""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path in the same folder; it becomes `path` when the block ends without an error.

    The content is on the disk (fsync) before the name changes, so that `path` is never half
    written. On an error the temporary file is removed and `path` is left as it was. The temporary
    name keeps the ending, by which writers choose their format. A link stays one: what it leads to
    is replaced. Raises OSError, before the block, for what is there and no regular file.
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.stat().st_mode):  # replacing /dev/null would harm the system
            raise OSError(errno.EINVAL, "is not a regular file", str(path))
    path = path.resolve()
    stem, suffix = _first_bytes(path.stem), _first_bytes(path.suffix)
    temporary = path.with_name(f".{stem}.{secrets.token_hex(4)}.part{suffix}")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        temporary.unlink(missing_ok=True)


def _first_bytes(name: str) -> str:
    """As much of a name as 64 bytes hold: file systems count bytes, and mostly allow 255."""
    return os.fsencode(name)[:64].decode(errors="ignore")
